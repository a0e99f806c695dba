package sqlite_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite"
)

// finishedRuns makes a state file with finished runs, closed.
func finishedRuns(t *testing.T, runs int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state.db")
	store, err := sqlite.Open(context.Background(), sqlite.Options{Path: path, LockWait: -1})
	if err != nil {
		t.Fatal(err)
	}
	for n := range runs {
		run := newRun("alice", n)
		graph := sidecar.NewBlob([]byte(fmt.Sprintf(`{"1":{"class_type":"KSampler","inputs":{"seed":%d,"text":%q}}}`, n, strings.Repeat("a cat ", 100))))
		run.Graph = graph.Digest
		if err := store.Create(context.Background(), run, []sidecar.Event{told(run, sidecar.EventRunStarted)}, graph, sidecar.NewBlob([]byte("contract"))); err != nil {
			t.Fatal(err)
		}
		signals := []sidecar.Signal{{Kind: sidecar.SignalHanding}, accepted()}
		for node := range 8 {
			ref := sidecar.NodeRef{ID: sidecar.NodeID(fmt.Sprint(node)), Class: "KSampler"}
			signals = append(signals, sidecar.Signal{Kind: sidecar.SignalNodeStarted, Node: ref}, sidecar.Signal{Kind: sidecar.SignalNodeFinished, Node: ref})
		}
		apply(t, store, run.ID, append(signals, made())...)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// Of a hundred bits that the disk turns over, Verify, or already Open, notices
// all but one at most.
func TestBitsFlippedAnywhere(t *testing.T) {
	runs, flips := 10, 30
	if os.Getenv("STUDIO_FULL") != "" {
		runs, flips = 60, 100
	}
	whole, err := os.ReadFile(finishedRuns(t, runs))
	if err != nil {
		t.Fatal(err)
	}
	kept, choose, folder := used(whole), random(), t.TempDir()
	missed := 0
	for n := range flips {
		bit := choose.IntN(len(whole) * 8)
		for !kept[bit/8] {
			bit = choose.IntN(len(whole) * 8)
		}
		path := filepath.Join(folder, fmt.Sprintf("%d.db", n))
		data := slices.Clone(whole)
		data[bit/8] ^= 1 << (bit % 8)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if !noticed(t, path) {
			missed++
			t.Logf("bit %d of byte %d of page %d was not noticed", bit%8, bit/8%pageSize, bit/8/pageSize+1)
		}
	}
	t.Logf("%d of %d flipped bits were noticed, in a file of %d KiB", flips-missed, flips, len(whole)>>10)
	if missed > 1 {
		t.Errorf("%d were missed", missed)
	}
}

// pageSize is what SQLite makes of a new file.
const pageSize = 4096

// used tells for each byte of a file whether anything is kept there. The rest is
// room within pages, where what was once there may still stand.
func used(data []byte) []bool {
	kept := slices.Repeat([]bool{true}, len(data))
	for start := 0; start+pageSize <= len(data); start += pageSize {
		page, own := data[start:start+pageSize], kept[start:start+pageSize]
		head := 0
		if start == 0 {
			head = 100
		}
		length := map[byte]int{2: 12, 5: 12, 10: 8, 13: 8}[page[head]]
		if length == 0 { // it goes on with a long row
			clear(own[len(bytes.TrimRight(page, "\x00")):])
			continue
		}
		number := func(at int) int { return int(binary.BigEndian.Uint16(page[at:])) }
		clear(own[head+length+2*number(head+3) : number(head+5)])
		for free := number(head + 1); free != 0; free = number(free) {
			clear(own[free+4 : free+number(free+2)])
		}
	}
	return kept
}

func noticed(t *testing.T, path string) bool {
	t.Helper()
	store, err := sqlite.Open(context.Background(), sqlite.Options{Path: path, LockWait: -1})
	if err != nil {
		return true
	}
	report, err := store.Verify(context.Background())
	// A file as broken as that may fail to close, too.
	return errors.Join(err, store.Close()) != nil || len(report.Faults) > 0
}

// What the reference changes is no damage: digests count until it opens the
// file.
func TestChangedRows(t *testing.T) {
	for name, c := range map[string]struct {
		change string
		faults int
	}{
		"of_the_file_itself":   {"UPDATE gallery_items SET filename = 'other.png' WHERE run_id LIKE '%0001'", 1},
		"gone_without_a_trace": {"DELETE FROM output_slots WHERE run_id LIKE '%0001'", 1},
		"by_the_reference": {`UPDATE serve_state_meta SET value = value WHERE key = 'schema_version';
			DELETE FROM gallery_items WHERE run_id LIKE '%0001'`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			path := finishedRuns(t, 3)
			raw(t, path, c.change)
			store := open(t, path)
			if faults := verify(t, store).Faults; len(faults) != c.faults {
				t.Errorf("%v", faults)
			}
			if c.faults > 0 {
				return
			}
			// A run that is changed again has a digest again.
			item := read(t, store, newRun("alice", 2).ID).Items[0].ID
			if _, err := store.DeleteItem(context.Background(), "alice", item); err != nil {
				t.Fatal(err)
			}
			closeStore(t, store)
			raw(t, path, "UPDATE runs SET inputs_json = '{}' WHERE run_id LIKE '%0002'")
			if faults := verify(t, open(t, path)).Faults; len(faults) != 1 {
				t.Errorf("after another change: %v", faults)
			}
		})
	}
}
