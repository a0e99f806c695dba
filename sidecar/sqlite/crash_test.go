//go:build linux

package sqlite_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite"
)

var (
	kills = flag.Int("kills", fully(20, 200), "how often TestKilled kills a writing process")
	flips = flag.Int("flips", fully(40, 100), "how many bits TestFlippedBits flips")
)

// history checks that numbers have no gap and chains are whole.
func history(t *testing.T, store *sqlite.Store) {
	t.Helper()
	sound(t, store)
	n := count(t, store, "SELECT count(*) FROM events")
	newest := count(t, store, "SELECT coalesce(max(seq), 0) FROM events")
	if n != newest || sidecar.Seq(newest) != store.Head() {
		t.Errorf("%d events, the newest is %d, the head %d", n, newest, store.Head())
	}
}

func TestKilled(t *testing.T) {
	choose := random()
	path := filepath.Join(t.TempDir(), "state.db")
	acknowledged := map[sidecar.RunID]int64{}
	hear := func(line string) {
		var id sidecar.RunID
		var revision int64
		// The last line may have been cut off.
		if n, err := fmt.Sscan(line, &id, &revision); n == 2 && err == nil {
			acknowledged[id] = max(acknowledged[id], revision)
		}
	}
	for range *kills {
		writer := start(t, "many", path)
		for range 20 + choose.IntN(100) {
			if !writer.lines.Scan() {
				break
			}
			hear(writer.lines.Text())
		}
		for _, line := range writer.kill(t) {
			hear(line)
		}
	}
	store := open(t, path)
	for id, revision := range acknowledged {
		if run := read(t, store, id); run.Revision < revision {
			t.Errorf("run %s has revision %d, %d was acknowledged", id, run.Revision, revision)
		}
	}
	history(t, store)
	if len(acknowledged) < 5**kills {
		t.Errorf("only %d runs were acknowledged", len(acknowledged))
	}
	t.Logf("%d kills, %d runs acknowledged, %d events", *kills, len(acknowledged), store.Head())
}

func TestFlippedBits(t *testing.T) {
	choose := random()
	source := filepath.Join(t.TempDir(), "state.db")
	store := open(t, source)
	marker := strings.Repeat("0123456789", 8)
	run := create(t, store, newRun("alice", 1))
	for n := range 40 {
		e := told(run, sidecar.EventRunProgress)
		e.Targets = fmt.Appendf(nil, `{"marker":"%s%02d"}`, marker, n)
		appendAll(t, store, e)
	}
	blob := []byte(strings.Repeat("blobblob", 20))
	if err := store.Create(context.Background(), newRun("alice", 2), nil, append(blobsOfRuns(), sidecar.NewBlob(blob))...); err != nil {
		t.Fatal(err)
	}
	sound(t, store)
	closeStore(t, store)
	raw(t, source, "PRAGMA secure_delete = ON; VACUUM") // leaves no old copies, which nobody misses
	file, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	var places []int
	for _, text := range [][]byte{[]byte(marker), blob} {
		for from := 0; ; {
			i := bytes.Index(file[from:], text)
			if i < 0 {
				break
			}
			for n := range text {
				places = append(places, from+i+n)
			}
			from += i + len(text)
		}
	}
	for range *flips {
		damaged := bytes.Clone(file)
		place := places[choose.IntN(len(places))]
		damaged[place] ^= 1 << choose.IntN(8)
		path := filepath.Join(t.TempDir(), "state.db")
		write(t, path, damaged)
		store := open(t, path)
		if report := verify(t, store); len(report.Faults) == 0 {
			t.Errorf("the bit flipped at %d was not found", place)
		}
		closeStore(t, store)
	}
}

func TestVerifyFinds(t *testing.T) {
	for name, damage := range map[string]string{
		"an_event_that_is_gone":           "DELETE FROM events WHERE seq = 2",
		"the_newest_event_that_is_gone":   "DELETE FROM events WHERE seq = 5",
		"an_event_of_nobody_that_is_gone": "DELETE FROM events WHERE seq = 4",
		"another_time":                    "UPDATE events SET at = '2020-01-01T00:00:00.000Z' WHERE seq = 2",
		"a_time_that_is_none":             "UPDATE events SET at = 'x' WHERE seq = 2",
		"another_type":                    "UPDATE events SET type = 'x' WHERE seq = 1",
		"another_scope":                   "UPDATE events SET scope = 'x' WHERE seq = 1",
		"another_run":                     "UPDATE events SET run_id = 'x' WHERE seq = 1",
		"another_revision":                "UPDATE events SET revision = 9 WHERE seq = 1",
		"targets_that_are_none":           "UPDATE events SET targets = '{' WHERE seq = 1",
		"another_hash":                    "UPDATE events SET hash = x'00' WHERE seq = 5",
		"another_head":                    "UPDATE run_state SET head_hash = x'00'",
		"another_blob":                    "UPDATE blobs SET data = x'00'",
		"a_blob_that_is_gone":             "DELETE FROM blobs WHERE sha256 = (SELECT graph FROM run_state)",
	} {
		t.Run(name, func(t *testing.T) {
			store := fresh(t)
			run := create(t, store, newRun("alice", 1))
			appendAll(t, store, told(run, sidecar.EventRunProgress), told(run, sidecar.EventRunProgress), health("", 4),
				told(run, sidecar.EventRunProgress))
			report := verify(t, store)
			if len(report.Faults) != 0 || report.Events != 5 || report.Blobs != 2 {
				t.Fatalf("got %+v", report)
			}
			row(t, store, damage)
			if report := verify(t, store); len(report.Faults) == 0 {
				t.Error("it was not found")
			}
		})
	}
}

// TestVerifyFindsALostTail: what was there at the last start cannot vanish whole.
func TestVerifyFindsALostTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	store := open(t, path)
	for n := range 2 {
		create(t, store, newRun("alice", n))
	}
	head := store.Head()
	closeStore(t, store)
	store = open(t, path)
	for _, table := range []string{"events", "run_state", "output_slots", "runs"} {
		row(t, store, "DELETE FROM "+table+" WHERE run_id = ?", string(newRun("alice", 1).ID))
	}
	for range 2 {
		report := verify(t, store)
		if len(report.Faults) != 1 || !strings.Contains(report.Faults[0].Message, "missing") {
			t.Errorf("found %+v", report.Faults)
		}
		closeStore(t, store)
		if store = open(t, path); store.Head() != head {
			t.Errorf("head %d, before it was %d", store.Head(), head)
		}
	}
	create(t, store, newRun("alice", 3))
	if report := verify(t, store); len(report.Faults) != 1 {
		t.Errorf("with a newer run: %+v", report.Faults)
	}
}

func TestVerifyEndsWithItsContext(t *testing.T) {
	store := fresh(t)
	create(t, store, newRun("alice", 1))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := store.Verify(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
