package sqlite_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite"
)

// retitle gives a run another title, and so another revision.
func retitle(title string) func(*sidecar.Run) ([]sidecar.Event, error) {
	return func(r *sidecar.Run) ([]sidecar.Event, error) {
		r.Title = title
		r.Revision++
		return []sidecar.Event{{Run: r.ID, Scope: r.Scope, Revision: r.Revision, Type: sidecar.EventRunProgress, At: birth}}, nil
	}
}

func TestWorking(t *testing.T) {
	ctx := context.Background()

	t.Run("runs_are_kept_until_they_end", func(t *testing.T) {
		store := fresh(t)
		for n := range 3 {
			create(t, store, newRun("alice", n))
		}
		if n := store.Working(); n != 3 {
			t.Fatalf("%d runs are at hand", n)
		}
		id := newRun("alice", 1).ID
		_, err := store.Update(ctx, id, func(r *sidecar.Run) ([]sidecar.Event, error) {
			return r.Apply(sidecar.Signal{Kind: sidecar.SignalFailed, Failure: &sidecar.Failure{Code: "x", Message: "m"}}, birth), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if n := store.Working(); n != 2 {
			t.Errorf("%d runs are at hand after one ended", n)
		}
	})

	t.Run("what_is_large_makes_room", func(t *testing.T) {
		store := fresh(t)
		long, err := json.Marshal(map[string]string{"text": string(bytes.Repeat([]byte("x"), 9<<20))})
		if err != nil {
			t.Fatal(err)
		}
		for n := range 5 {
			run := newRun("alice", n)
			run.Inputs = long
			create(t, store, run)
		}
		if n := store.Working(); n != 3 {
			t.Errorf("%d runs of 9 MiB are at hand, want 3: there is room for 32 MiB", n)
		}
		for n := range 5 {
			if run := read(t, store, newRun("alice", n).ID); !bytes.Equal(run.Inputs, long) {
				t.Errorf("the inputs of run %d are not as they were", n)
			}
		}
	})

	t.Run("what_is_too_large_leaves_the_others", func(t *testing.T) {
		store := fresh(t)
		for n := range 5 {
			create(t, store, newRun("alice", n))
		}
		run := newRun("alice", 9)
		run.Inputs = slices.Concat([]byte(`"`), bytes.Repeat([]byte("x"), 33<<20), []byte(`"`))
		if err := put(store, run); err != nil {
			t.Fatal(err)
		}
		if n := store.Working(); n != 5 {
			t.Errorf("%d runs are at hand", n)
		}
	})

	t.Run("a_read_run_is_the_callers_own", func(t *testing.T) {
		store := fresh(t)
		create(t, store, newRun("alice", 1))
		id := newRun("alice", 1).ID
		mine := read(t, store, id)
		mine.Slots[0].Name, mine.Title = "other", "other"
		unmoved, err := store.Update(ctx, id, func(r *sidecar.Run) ([]sidecar.Event, error) {
			r.Slots[0].Name = "other"
			return nil, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		unmoved.Slots[0].Name = "other"
		if got := read(t, store, id); got.Slots[0].Name != "image" || got.Title != "" {
			t.Errorf("slot %q, title %q", got.Slots[0].Name, got.Title)
		}
	})

	t.Run("what_was_undone_is_not_kept", func(t *testing.T) {
		store := fresh(t)
		create(t, store, newRun("alice", 1))
		id, refuse := newRun("alice", 1).ID, errors.New("no")
		err := store.Do(ctx, func(tx *sqlite.Tx) error {
			if _, err := tx.Update(id, retitle("undone")); err != nil {
				return err
			}
			if run, err := tx.Run(id); err != nil || run.Title != "undone" {
				t.Errorf("within the transaction: %v %v", run, err)
			}
			return refuse
		})
		if !errors.Is(err, refuse) {
			t.Fatal(err)
		}
		if got := read(t, store, id); got.Title != "" || got.Revision != 0 {
			t.Errorf("title %q at revision %d", got.Title, got.Revision)
		}
	})

	t.Run("what_others_wrote_is_seen", func(t *testing.T) {
		store := fresh(t)
		id := create(t, store, newRun("alice", 1)).ID
		row(t, store, "UPDATE runs SET error = 'theirs' WHERE run_id = ?", string(id))
		moved, err := store.Update(ctx, id, retitle("mine"))
		if err != nil || moved.Error != "theirs" || moved.Title != "mine" {
			t.Errorf("%+v %v", moved, err)
		}
	})

	t.Run("who_was_overtaken_reads_what_the_other_wrote", func(t *testing.T) {
		store := fresh(t)
		id := create(t, store, newRun("alice", 1)).ID
		row(t, store, "UPDATE sidecar_meta SET value = value + 1 WHERE key = 'epoch'")
		row(t, store, "UPDATE runs SET error = 'theirs' WHERE run_id = ?", string(id))
		if err := put(store, newRun("alice", 2)); err == nil {
			t.Error("it writes to another's file")
		}
		if run := read(t, store, id); run.Error != "theirs" {
			t.Errorf("error %q", run.Error)
		}
	})
}

// TestWorkingNeverGoesBack: who has seen a run's revision in a list is not shown
// an older one afterwards.
func TestWorkingNeverGoesBack(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	store := fresh(t)
	create(t, store, newRun("alice", 1))
	id := newRun("alice", 1).ID
	ended := make(chan error, 1)
	go func() {
		for n := 0; ; n++ {
			if _, err := store.Update(ctx, id, retitle(fmt.Sprint(n))); err != nil {
				ended <- err
				return
			}
		}
	}()
	for seen := int64(0); seen < 500; {
		page, err := store.Runs(ctx, sidecar.RunFilter{Scope: "alice"})
		if err != nil {
			t.Fatal(err)
		}
		run := read(t, store, id)
		if listed := page.Runs[0].Revision; run.Revision < listed {
			t.Fatalf("revision %d, after a list had %d", run.Revision, listed)
		}
		seen = run.Revision
	}
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
