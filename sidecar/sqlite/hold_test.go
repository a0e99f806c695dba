package sqlite_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// heldRun is the n-th run of a scope, which waits for all that there is.
func heldRun(scope sidecar.Scope, n int, parent sidecar.RunID) *sidecar.Run {
	run := newRun(scope, n)
	run.Phase, run.DueAt, run.Parent, run.Position = sidecar.PhaseHeld, time.Time{}, parent, 7
	run.Hold = &sidecar.Hold{
		Pending: []sidecar.WaitReason{sidecar.WaitApproval, sidecar.WaitParent, sidecar.WaitTime}, Backend: true, Approval: true,
		NotBefore: birth.Add(time.Hour), Limit: time.Minute,
		After: &sidecar.After{Run: parent, Inputs: []sidecar.Feed{{Input: "a", Output: "b"}}, Values: json.RawMessage(`{"seed":18446744073709551615,"cfg":1.0}`)},
	}
	return run
}

func TestHold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	store := open(t, path)
	parent := create(t, store, newRun("alice", 1))
	held := create(t, store, heldRun("alice", 2, parent.ID))
	create(t, store, heldRun("bert", 3, parent.ID)) // another scope's
	diff(t, heldRun("alice", 2, parent.ID).Hold, held.Hold)
	closeStore(t, store)
	store = open(t, path)
	diff(t, held, read(t, store, held.ID))
	if held.Position != 7 || held.Parent != parent.ID {
		t.Errorf("position %d, parent %s", held.Position, held.Parent)
	}
	unfinished, err := store.Unfinished(context.Background())
	if err != nil || len(unfinished) != 3 {
		t.Fatalf("%d unfinished: %v", len(unfinished), err)
	}
	diff(t, held.Hold, unfinished[1].Hold)
	page, err := store.Children(context.Background(), "alice", parent.ID)
	if err != nil || len(page.Runs) != 1 || page.Runs[0].ID != held.ID || page.More {
		t.Errorf("children: %+v %v", page, err)
	}
	t.Run("a_row_that_others_touched_stays_held", func(t *testing.T) {
		closeStore(t, store)
		raw(t, path, "UPDATE runs SET updated_at = '2030-01-01T00:00:00Z' WHERE run_id = '"+string(held.ID)+"'")
		store = open(t, path)
		if got := read(t, store, held.ID); got.Phase != sidecar.PhaseHeld || cmpDiff(held.Hold, got.Hold) != "" {
			t.Errorf("it is %s: %+v", got.Phase, got.Hold)
		}
	})
}

func TestUpdateWith(t *testing.T) {
	ctx := context.Background()
	store := fresh(t)
	run := create(t, store, newRun("alice", 1))
	blob := sidecar.NewBlob([]byte("bound"))
	change := func(kind sidecar.SignalKind) func(*sidecar.Run) ([]sidecar.Event, error) {
		return func(r *sidecar.Run) ([]sidecar.Event, error) {
			return r.Apply(sidecar.Signal{Kind: kind}, r.UpdatedAt.Add(time.Second)), nil
		}
	}
	absent := func(when string) {
		t.Helper()
		if _, err := store.Blob(ctx, blob.Digest); !errors.Is(err, sidecar.ErrNotFound) {
			t.Errorf("%s: %v", when, err)
		}
	}
	if _, err := store.UpdateWith(ctx, run.ID, []sidecar.Blob{blob}, change(sidecar.SignalApproved)); err != nil {
		t.Fatal(err)
	}
	absent("a change that changed nothing")
	bad := sidecar.Blob{Digest: sidecar.DigestOf([]byte("x")), Data: []byte("y")}
	if _, err := store.UpdateWith(ctx, run.ID, []sidecar.Blob{blob, bad}, change(sidecar.SignalHanding)); err == nil {
		t.Error("a false digest was taken")
	}
	absent("a change that failed")
	if got := read(t, store, run.ID); got.Attempt != 0 {
		t.Error("half of a change was committed")
	}
	got, err := store.UpdateWith(ctx, run.ID, []sidecar.Blob{blob}, change(sidecar.SignalHanding))
	if err != nil || got.Attempt != 1 {
		t.Fatal(got, err)
	}
	if data, err := store.Blob(ctx, blob.Digest); err != nil || string(data) != "bound" {
		t.Errorf("%q %v", data, err)
	}
}

func TestPauseQueue(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "state.db")
	store := open(t, path)
	event := sidecar.Event{Type: sidecar.EventQueueChanged, At: birth, Targets: json.RawMessage(`{}`)}
	for i, paused := range []bool{false, true, true, false, true} {
		if err := store.PauseQueue(ctx, paused, event); err != nil {
			t.Fatal(err)
		}
		closeStore(t, store)
		store = open(t, path)
		if got, err := store.QueuePaused(ctx); err != nil || got != paused {
			t.Errorf("%d: paused %v %v", i, got, err)
		}
	}
	if n := len(events(t, store, "alice", "", 0, 0)); n != 3 {
		t.Errorf("%d events tell of three changes", n)
	}
}
