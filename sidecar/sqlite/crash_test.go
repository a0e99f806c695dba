//go:build unix

package sqlite_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/comfygit-ai/studio-sidecar/internal/need"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite"
)

var (
	kills = flag.Int("kills", 20, "how often TestKilled kills a writing process")
	cuts  = flag.Int("cuts", 60, "how often TestPowerCut cuts the log")
	flips = flag.Int("flips", 40, "how many bits TestFlippedBits flips")
	seed  = flag.Uint64("seed", 1, "seed of the tests that choose at random")
)

func random() *rand.Rand { return rand.New(rand.NewPCG(*seed, 2)) }

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

func TestPowerCut(t *testing.T) {
	choose := random()
	source := filepath.Join(t.TempDir(), "state.db")
	writer := start(t, "one", source)
	var lengths []int64 // of the log, after each acknowledged run
	for len(lengths) < 100 && writer.lines.Scan() {
		var n int
		var length int64
		if _, err := fmt.Sscan(writer.lines.Text(), &n, &length); err != nil {
			t.Fatal(writer.lines.Text(), err)
		}
		lengths = append(lengths, length)
	}
	writer.kill(t)
	file, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(source + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	garbage := make([]byte, 8192)
	for i := range garbage {
		garbage[i] = byte(choose.Uint32())
	}
	for i := range *cuts {
		at := lengths[choose.IntN(len(lengths))]
		switch i % 4 {
		case 0: // right after a commit
		case 1: // anywhere
			at = choose.Int64N(int64(len(log)) + 1)
		case 2: // within the last frame
			at -= 1 + choose.Int64N(4096)
		case 3: // within the first frame of the next commit
			at = min(at+1+choose.Int64N(4096), int64(len(log)))
		}
		tail := [][]byte{nil, garbage[:1+choose.IntN(8191)], make([]byte, 4096)}[choose.IntN(3)]
		acknowledged := 0
		for acknowledged < len(lengths) && lengths[acknowledged] <= at {
			acknowledged++
		}
		path := filepath.Join(t.TempDir(), "state.db")
		write(t, path, file)
		write(t, path+"-wal", bytes.Join([][]byte{log[:at], tail}, nil))
		store := open(t, path)
		history(t, store)
		runs := count(t, store, "SELECT count(*) FROM runs")
		if int(store.Head()) != runs || runs < acknowledged {
			t.Errorf("cut at %d: %d runs, %d events, %d were acknowledged", at, runs, store.Head(), acknowledged)
		}
		for n := max(1, runs-2); n <= runs; n++ {
			read(t, store, newRun("alice", n).ID)
		}
		closeStore(t, store)
	}
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

func TestVerifyEndsWithItsContext(t *testing.T) {
	store := fresh(t)
	create(t, store, newRun("alice", 1))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := store.Verify(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestFullDisk(t *testing.T) {
	need.That(t, os.Getuid() == 0, "root, to mount a small disk")
	disk := t.TempDir()
	mount := func(options string) error {
		return exec.Command("mount", "-t", "tmpfs", "-o", options, "tmpfs", disk).Run()
	}
	need.That(t, mount("size=4m") == nil, "the right to mount a small disk")
	t.Cleanup(func() {
		if err := exec.Command("umount", disk).Run(); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(disk, "state.db")
	store := open(t, path)
	made, err := fill(store, 1)
	refused(t, err, path)
	if store.Trouble() == nil {
		t.Error("there is no trouble")
	}
	if _, runs := runIDs(t, store, sidecar.RunFilter{Scope: "alice"}); len(runs) != made {
		t.Errorf("%d runs are read, %d were made", len(runs), made)
	}
	if err := mount("remount,size=32m"); err != nil {
		t.Fatal(err)
	}
	until(t, "the trouble ends by itself", func() bool { return store.Trouble() == nil })
	create(t, store, newRun("alice", 1_000_000))
	history(t, store)
}

func refused(t *testing.T, err error, path string) {
	t.Helper()
	var told *sidecar.Error
	if !errors.As(err, &told) || told.Code != sidecar.CodeStorage || !strings.Contains(told.Message, path) || !strings.Contains(told.Message, "space") {
		t.Errorf("got %v", err)
	}
}

func TestLimitedFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	lines := start(t, "starved", path).rest(t)
	if len(lines) != 3 {
		t.Fatalf("got %q", lines)
	}
	var made int
	if _, err := fmt.Sscanf(lines[0], "made %d", &made); err != nil || made == 0 {
		t.Errorf("got %q", lines[0])
	}
	if !strings.Contains(lines[1], path) || !strings.Contains(lines[1], "no space left") {
		t.Errorf("got %q", lines[1])
	}
	diff(t, "read 1 <nil>", lines[2])
	store := open(t, path)
	if n := count(t, store, "SELECT count(*) FROM runs"); n != made+1 {
		t.Errorf("%d runs, %d were acknowledged", n, made+1)
	}
	history(t, store)
}

func TestFailedSync(t *testing.T) {
	tracer := need.Command(t, "strace")
	for _, when := range []int{12, 20} {
		path := filepath.Join(t.TempDir(), "state.db")
		lines := start(t, "fsync", path, tracer, "-f", "-qq", "-o", os.DevNull,
			"-e", fmt.Sprintf("inject=fsync,fdatasync:error=EIO:when=%d", when)).rest(t)
		if len(lines) < 3 {
			t.Fatalf("got %q", lines)
		}
		made := len(lines) - 2
		if !strings.HasPrefix(lines[made], fmt.Sprintf("refused %d ", made+1)) || !strings.Contains(lines[made], "may or may not") {
			t.Errorf("got %q", lines[made])
		}
		diff(t, "again false true", lines[made+1])
		store := open(t, path)
		if n := count(t, store, "SELECT count(*) FROM runs"); n != made && n != made+1 {
			t.Errorf("%d runs, %d were acknowledged", n, made)
		}
		history(t, store)
	}
}
