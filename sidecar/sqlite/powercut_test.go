//go:build linux

package sqlite_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite"
)

// mixedSteps is how many acknowledged writes one round of writeMixed has.
const mixedSteps = 6

// writeMixed writes of each kind in turn, one after the other, and tells after
// each how long the log is: a run with its callback and its command, an
// upload, that it came, two steps of the run, and what is left to tell of it.
func writeMixed(store *sqlite.Store) error {
	ctx := context.Background()
	step := 0
	acknowledge := func(err error) error {
		info, stat := os.Stat(store.Path() + "-wal")
		if err := errors.Join(err, stat); err != nil {
			return err
		}
		fmt.Println(step, info.Size())
		step++
		return nil
	}
	for n := 0; ; n++ {
		run := newRun("alice", n)
		run.Callback = &sidecar.Callback{URL: "http://front.invalid"}
		ordered, _ := ordering(newCommand("alice", n))
		upload := newUpload(n)
		for _, write := range []func() error{
			func() error {
				return store.Create(ordered, run, []sidecar.Event{told(run, sidecar.EventRunStarted)}, blobsOfRuns()...)
			},
			func() error { return store.AddUpload(ctx, upload) },
			func() error {
				_, err := store.UpdateUpload(ctx, upload.ID, func(u *sidecar.Upload) error { u.State, u.Size = sidecar.UploadReady, 77; return nil })
				return err
			},
			func() error { return move(store, run.ID, sidecar.Signal{Kind: sidecar.SignalHanding}) },
			func() error { return move(store, run.ID, accepted()) },
			func() error {
				told, err := store.Deliveries(ctx, int64(n))
				if err != nil || len(told) != 1 {
					return fmt.Errorf("deliveries: %v, %w", told, err)
				}
				told[0].Told = 5
				return store.SaveDelivery(ctx, told[0])
			},
		} {
			if err := acknowledge(write()); err != nil {
				return err
			}
		}
	}
}

func move(store *sqlite.Store, id sidecar.RunID, sig sidecar.Signal) error {
	_, err := store.Update(context.Background(), id, func(r *sidecar.Run) ([]sidecar.Event, error) { return r.Apply(sig, r.UpdatedAt), nil })
	return err
}

// mixedThere lists which steps of writeMixed the file holds, up to one that it
// cannot hold.
func mixedThere(t *testing.T, store *sqlite.Store, rounds int) (there []bool) {
	t.Helper()
	ctx := context.Background()
	has := func(found bool, err error) {
		t.Helper()
		if err != nil && !errors.Is(err, sidecar.ErrNotFound) {
			t.Fatal(err)
		}
		there = append(there, found && err == nil)
	}
	deliveries := map[sidecar.RunID]sidecar.Delivery{}
	found, err := store.Deliveries(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range found {
		deliveries[d.Run] = d
	}
	for n := range rounds {
		run, err := store.Run(ctx, newRun("alice", n).ID)
		_, ordered := store.Command(ctx, "alice", newCommand("alice", n).Key)
		delivery, outbox := deliveries[newRun("alice", n).ID]
		if (err == nil) != (ordered == nil) || (err == nil) != outbox {
			t.Errorf("run %d: %v, its command: %v, its callback: %v", n, err, ordered, outbox)
		}
		has(err == nil, err)
		upload, err := store.Upload(ctx, newUpload(n).ID)
		has(err == nil, err)
		has(err == nil && upload.State == sidecar.UploadReady && upload.Size == 77, nil)
		has(run != nil && run.Attempt == 1, nil)
		has(run != nil && run.Accepted, nil)
		has(outbox && delivery.Told == 5, nil)
	}
	return there
}

// powerCut is a file as a power cut may have left it, and how much of it was
// acknowledged before.
type powerCut struct {
	file, log    []byte
	acknowledged int
	what         string
}

// history is what a writing process left, and when it acknowledged what.
type mixedHistory struct {
	file, log []byte
	moved     []byte  // the file when all of the log was moved into it
	lengths   []int64 // of the log, after each acknowledged step
}

func writeHistory(t *testing.T, steps int) mixedHistory {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state.db")
	writer := start(t, "mixed", path)
	var h mixedHistory
	for len(h.lengths) < steps && writer.lines.Scan() {
		var n int
		var length int64
		if _, err := fmt.Sscan(writer.lines.Text(), &n, &length); err != nil {
			t.Fatal(writer.lines.Text(), err)
		}
		h.lengths = append(h.lengths, length)
	}
	writer.kill(t)
	h.file, h.log = readFile(t, path), readFile(t, path+"-wal")
	if !slices.IsSorted(h.lengths) {
		t.Fatal("the log began anew: it is to be cut within one life")
	}
	db, err := sql.Open("sqlite", path)
	if err == nil {
		_, err = db.Exec("PRAGMA wal_checkpoint(TRUNCATE)")
		err = errors.Join(err, db.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	h.moved = readFile(t, path)
	return h
}

// cut chooses where the power went.
func (h mixedHistory) cut(i int, choose *rand.Rand) powerCut {
	if i%5 == 4 {
		return h.cutWhileMoving(choose)
	}
	at := h.lengths[choose.IntN(len(h.lengths))]
	what := "right after a commit"
	switch i % 5 {
	case 1:
		what, at = "anywhere", choose.Int64N(int64(len(h.log))+1)
	case 2:
		what, at = "within the last frame", at-1-choose.Int64N(4096)
	case 3:
		what, at = "within the next commit", min(at+1+choose.Int64N(4096), int64(len(h.log)))
	}
	garbage := make([]byte, 1+choose.IntN(8191))
	for k := range garbage {
		garbage[k] = byte(choose.Uint32())
	}
	tail := [][]byte{nil, garbage, make([]byte, 4096)}[choose.IntN(3)]
	c := powerCut{file: h.file, log: append(slices.Clone(h.log[:at]), tail...), what: what}
	for c.acknowledged < len(h.lengths) && h.lengths[c.acknowledged] <= at {
		c.acknowledged++
	}
	return c
}

// cutWhileMoving leaves the file half as it was and half as it would have been:
// some sectors were written, the last one that grew it only in part. The log
// is whole, for it was synced before.
func (h mixedHistory) cutWhileMoving(choose *rand.Rand) powerCut {
	const sector = 512
	file := slices.Clone(h.moved[:len(h.file)+choose.IntN(len(h.moved)-len(h.file)+1)])
	for from := 0; from < len(h.file); from += sector {
		if choose.IntN(2) == 0 {
			copy(file[from:], h.file[from:min(from+sector, len(h.file))])
		}
	}
	return powerCut{file: file, log: h.log, acknowledged: len(h.lengths), what: "while the log was moved into the file"}
}

// TestPowerCut cuts files where the power may go: each opens, holds all that
// was acknowledged, and of the rest nothing that came after something missing.
func TestPowerCut(t *testing.T) {
	choose := random()
	cuts, kinds, more := fully(30, 300), map[string]int{}, 0
	const steps = 150
	var h mixedHistory
	for i := range cuts {
		if i%40 == 0 {
			h = writeHistory(t, steps)
		}
		c := h.cut(i, choose)
		path := filepath.Join(t.TempDir(), "state.db")
		write(t, path, c.file)
		write(t, path+"-wal", c.log)
		store := open(t, path)
		sound(t, store)
		there := mixedThere(t, store, steps/mixedSteps+2)
		count := max(0, slices.Index(there, false))
		if slices.Contains(there[count:], true) {
			t.Errorf("cut %s: holes: %v", c.what, there)
		}
		if count < c.acknowledged {
			t.Errorf("cut %s: %d steps are there, %d were acknowledged", c.what, count, c.acknowledged)
		}
		if count > c.acknowledged {
			more++
		}
		kinds[c.what]++
		create(t, store, newRun("bobby", i)) // and it goes on
		closeStore(t, store)
	}
	t.Logf("%d power cuts %v: all opened, no acknowledged step lost, %d kept one that nobody had heard of", cuts, kinds, more)
}

// TestPowerCutAtTheFirstStart: a file that was never acknowledged may be
// anything, and is none of ours then; it is not damaged either.
func TestPowerCutAtTheFirstStart(t *testing.T) {
	source := filepath.Join(t.TempDir(), "state.db")
	writer := start(t, "mixed", source)
	if !writer.lines.Scan() {
		t.Fatal("nothing was written")
	}
	writer.kill(t)
	file, log := readFile(t, source), readFile(t, source+"-wal")
	opened := 0
	choose := random()
	for range fully(10, 40) {
		path := filepath.Join(t.TempDir(), "state.db")
		write(t, path, file)
		write(t, path+"-wal", bytes.Clone(log[:choose.IntN(len(log))]))
		store := open(t, path)
		sound(t, store)
		create(t, store, newRun("alice", 1))
		closeStore(t, store)
		opened++
	}
	t.Logf("%d half made files opened", opened)
}
