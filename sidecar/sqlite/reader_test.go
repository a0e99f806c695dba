//go:build linux

package sqlite_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite"
)

// filled is a file with runs, closed again.
func filled(t *testing.T, runs int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state.db")
	store := open(t, path)
	for n := range runs {
		endedRun(t, store, "alice", n)
	}
	closeStore(t, store)
	return path
}

// names lists what a folder holds.
func names(t *testing.T, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, entry := range entries {
		all = append(all, entry.Name())
	}
	return all
}

func TestBackup(t *testing.T) {
	ctx := context.Background()
	t.Run("holds_all_and_stands_alone", func(t *testing.T) {
		path, folder := filled(t, 3), t.TempDir()
		to := filepath.Join(folder, "copy.db")
		report, err := reader(t, path).Backup(ctx, to)
		if err != nil || report.Runs != 3 || report.Blobs != 4 {
			t.Errorf("got %+v, %v", report, err)
		}
		diff(t, []string{"copy.db"}, names(t, folder))
		schema, rows := everything(t, path)
		copiedSchema, copiedRows := everything(t, to)
		diff(t, schema, copiedSchema)
		diff(t, rows, copiedRows)
		store := open(t, to)
		create(t, store, newRun("alice", 10))
		consistent(t, store)
	})
	t.Run("holds_what_only_the_log_has", func(t *testing.T) {
		source := filepath.Join(t.TempDir(), "state.db")
		writer := start(t, "one", source)
		for range 7 {
			writer.lines.Scan()
		}
		to := filepath.Join(t.TempDir(), "copy.db")
		report, err := reader(t, source).Backup(ctx, to) // while it writes
		writer.kill(t)
		if err != nil || report.Runs < 7 {
			t.Errorf("got %+v, %v", report, err)
		}
	})
	t.Run("replaces_nothing", func(t *testing.T) {
		path, to := filled(t, 1), filepath.Join(t.TempDir(), "copy.db")
		write(t, to, []byte("mine"))
		if _, err := reader(t, path).Backup(ctx, to); !errors.Is(err, os.ErrExist) {
			t.Errorf("got %v", err)
		}
		diff(t, "mine", string(readFile(t, to)))
	})
	t.Run("of_a_damaged_file_is_not_kept", func(t *testing.T) {
		path, folder := filled(t, 2), t.TempDir()
		data := readFile(t, path)
		data[bytes.LastIndex(data, []byte("run_completed"))] ^= 1
		write(t, path, data)
		_, err := reader(t, path).Backup(ctx, filepath.Join(folder, "copy.db"))
		var unsound *sqlite.UnsoundError
		if !errors.As(err, &unsound) || len(unsound.Faults) == 0 {
			t.Errorf("got %v", err)
		}
		diff(t, []string(nil), names(t, folder))
	})
	t.Run("that_is_given_up_leaves_nothing", func(t *testing.T) {
		path, folder := filled(t, 2), t.TempDir()
		source := reader(t, path)
		given, stop := context.WithCancel(ctx)
		stop()
		if _, err := source.Backup(given, filepath.Join(folder, "copy.db")); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		diff(t, []string(nil), names(t, folder))
	})
	t.Run("of_the_references_file", func(t *testing.T) {
		path, to := filepath.Join(t.TempDir(), "serve.sqlite"), filepath.Join(t.TempDir(), "copy.db")
		raw(t, path, referenceSchema+referenceRows)
		if _, err := reader(t, path).Backup(ctx, to); err != nil {
			t.Error(err)
		}
		diff(t, dump(t, path), dump(t, to))
	})
}

func TestReaderChangesNothing(t *testing.T) {
	for version := 1; version <= sqlite.SchemaVersion; version++ {
		path := versionFile(t, version)
		before := content(t, path)
		r := reader(t, path)
		report, err := r.Verify(context.Background())
		if err != nil || len(report.Faults) > 0 || report.Runs != 3 || report.Blobs != 2 {
			t.Errorf("version %d: %+v, %v", version, report, err)
		}
		_, err = r.Plan(context.Background(), sidecar.Retention{Runs: 1}, time.Now(), sizeOfCopy)
		if (err == nil) != (version == sqlite.SchemaVersion) {
			t.Errorf("plan of version %d: %v", version, err)
		}
		runs, err := r.Runs(context.Background(), true, 5)
		if err != nil || len(runs) != 1 || runs[0].Status != sidecar.StatusRunning || runs[0].Phase != sidecar.PhaseQueued {
			t.Errorf("runs of version %d: %v, %v", version, runs, err)
		}
		after := content(t, path)
		delete(after, "state.db-wal") // empty
		diff(t, before, after)
	}
}

func TestReaderRefuses(t *testing.T) {
	ctx := context.Background()
	folder := t.TempDir()
	t.Run("what_is_not_there", func(t *testing.T) {
		if _, err := sqlite.OpenReader(ctx, filepath.Join(folder, "none.db")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("what_is_empty", func(t *testing.T) {
		path := filepath.Join(folder, "empty.db")
		write(t, path, nil)
		if _, err := sqlite.OpenReader(ctx, path); err == nil || errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "it is empty") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("what_is_damaged", func(t *testing.T) {
		path := filled(t, 1)
		if err := os.Truncate(path, 3*4096); err != nil {
			t.Fatal(err)
		}
		if _, err := sqlite.OpenReader(ctx, path); !errors.Is(err, sidecar.ErrLasting) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a_newer_version", func(t *testing.T) {
		path := filled(t, 1)
		raw(t, path, fmt.Sprintf("PRAGMA user_version = %d", sqlite.SchemaVersion+1))
		if _, err := sqlite.OpenReader(ctx, path); err == nil || errors.Is(err, sidecar.ErrLasting) {
			t.Errorf("got %v", err)
		}
	})
}

// TestPlanIsWhatPruningDoes: to the last blob, whatever the limits.
func TestPlanIsWhatPruningDoes(t *testing.T) {
	choose := random()
	path := filepath.Join(t.TempDir(), "state.db")
	made, removed := 0, sidecar.Pruned{}
	for range fully(4, 40) {
		store := open(t, path)
		for range choose.IntN(10) {
			id := endedRun(t, store, "alice", made)
			made++
			switch choose.IntN(6) {
			case 0:
				pin(t, store, id)
			case 1: // two runs of one graph
				twin := newRun("bobby", made)
				twin.Graph = read(t, store, id).Graph
				if err := store.Create(context.Background(), twin, nil, sidecar.NewBlob([]byte("contract"))); err != nil {
					t.Fatal(err)
				}
				if choose.IntN(2) == 0 {
					apply(t, store, twin.ID, sidecar.Signal{Kind: sidecar.SignalCancel})
				}
			case 2:
				appendAll(t, store, health("", 1))
			}
		}
		closeStore(t, store)
		keep := sidecar.Retention{Runs: 1 + choose.IntN(8)}
		switch choose.IntN(3) {
		case 0:
			keep = sidecar.Retention{Bytes: int64(choose.IntN(8 * copySize))}
		case 1:
			keep = sidecar.Retention{Age: time.Duration(choose.IntN(made+1)) * time.Second}
		}
		now := birth.Add(time.Duration(made) * time.Second)
		plan, err := reader(t, path).Plan(context.Background(), keep, now, sizeOfCopy)
		if err != nil {
			t.Fatal(err)
		}
		store = open(t, path)
		waiting, err := store.Doomed(context.Background(), "", 1000)
		if err != nil {
			t.Fatal(err)
		}
		done := prune(t, store, keep, now)
		done.Copies += len(waiting) // which go with those that join them
		diff(t, plan, done)
		consistent(t, store)
		closeStore(t, store)
		removed.Runs, removed.Blobs = removed.Runs+done.Runs, removed.Blobs+done.Blobs
	}
	t.Logf("%d runs made, %d removed with %d blobs, as planned each time", made, removed.Runs, removed.Blobs)
	if removed.Runs == 0 {
		t.Error("nothing was removed")
	}
}
