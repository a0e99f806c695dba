package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite"
)

// TestFloors: after a restart those alone begin anew who miss something.
func TestFloors(t *testing.T) {
	ctx := context.Background()
	for name, remove := range map[string]func(*testing.T, *sqlite.Store, *sidecar.Run){
		"a_deleted_run": func(t *testing.T, store *sqlite.Store, run *sidecar.Run) {
			if _, err := store.DeleteRun(ctx, run.Scope, run.ID); err != nil {
				t.Fatal(err)
			}
		},
		"a_pruned_run": func(t *testing.T, store *sqlite.Store, run *sidecar.Run) {
			pruned, err := store.Prune(ctx, sidecar.Retention{Age: time.Minute}, run.FinishedAt.Add(2*time.Minute), func(string) int64 { return 0 })
			if err != nil || pruned.Runs != 1 {
				t.Fatal(pruned, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state.db")
			store := open(t, path)
			kept := create(t, store, newRun("bobby", 1))
			gone := read(t, store, endedRun(t, store, "alice", 2))
			apply(t, store, kept.ID, sidecar.Signal{Kind: sidecar.SignalHanding}, accepted())
			head := store.Head()
			remove(t, store, gone)
			closeStore(t, store)
			store = open(t, path)
			records, err := store.Events(ctx, "bobby", "", 1, 0)
			if err != nil || len(records) == 0 || records[0].Run != kept.ID {
				t.Errorf("bobby misses nothing: %v, %v", records, err)
			}
			if from, err := store.RetainedFrom(ctx, "bobby", ""); from != 1 || err != nil {
				t.Errorf("bobby's events are kept from %d on, %v", from, err)
			}
			if _, err := store.Events(ctx, "alice", "", 1, 0); !errors.Is(err, sidecar.ErrTrimmed) {
				t.Errorf("alice misses something: %v", err)
			}
			if _, err := store.Events(ctx, "alice", "", head, 0); err != nil {
				t.Errorf("alice has seen it: %v", err)
			}
			sound(t, store)
		})
	}
	t.Run("a_file_without_floors_has_one_for_all", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "state.db")
		store := open(t, path)
		create(t, store, newRun("bobby", 1))
		gone := read(t, store, endedRun(t, store, "alice", 2))
		if _, err := store.DeleteRun(ctx, "alice", gone.ID); err != nil {
			t.Fatal(err)
		}
		closeStore(t, store)
		raw(t, path, "DELETE FROM sidecar_meta WHERE key LIKE 'reset_to%'")
		if _, err := open(t, path).Events(ctx, "bobby", "", 1, 0); !errors.Is(err, sidecar.ErrTrimmed) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("too_many_become_one", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "state.db")
		store := open(t, path)
		create(t, store, newRun("bobby", 1))
		err := store.Do(ctx, func(tx *sqlite.Tx) error {
			for n := range sqlite.MaxFloors + 1 {
				if err := tx.Trimmed(sidecar.Scope(fmt.Sprint("s", n)), sidecar.Seq(n+1)); err != nil {
					return err
				}
			}
			return tx.Trimmed("after", 1)
		})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if from, err := store.RetainedFrom(ctx, "bobby", ""); from != sqlite.MaxFloors+2 || err != nil {
				t.Errorf("got %d, %v", from, err)
			}
			if n := count(t, store, "SELECT count(*) FROM sidecar_meta WHERE key LIKE 'reset_to%'"); n != 2 {
				t.Errorf("%d floors", n)
			}
			closeStore(t, store)
			store = open(t, path)
		}
	})
}

// TestNumbersAreNotGivenAgain: not even when the newest events were trimmed and
// the file is opened anew.
func TestNumbersAreNotGivenAgain(t *testing.T) {
	for name, trim := range map[string]func(*testing.T, *sqlite.Store, *sidecar.Run){
		"pruned": func(t *testing.T, store *sqlite.Store, run *sidecar.Run) {
			appendAll(t, store, health("", 1))
			prune(t, store, sidecar.Retention{Age: time.Minute}, run.FinishedAt.Add(2*time.Minute))
		},
		"changed_by_the_reference": func(t *testing.T, store *sqlite.Store, run *sidecar.Run) {
			row(t, store, "UPDATE runs SET updated_at = '2026-03-05T00:00:00.000Z'; UPDATE serve_state_meta SET value = value")
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state.db")
			store := open(t, path)
			run := read(t, store, endedRun(t, store, "alice", 7))
			trim(t, store, run)
			head := store.Head()
			for range 2 {
				closeStore(t, store)
				store = open(t, path)
			}
			if n := count(t, store, "SELECT count(*) FROM events WHERE run_id = '"+string(run.ID)+"'"); n > 0 {
				t.Errorf("%d events of the run are left", n)
			}
			if store.Head() < head {
				t.Errorf("head %d, before it was %d", store.Head(), head)
			}
			sound(t, store)
		})
	}
}
