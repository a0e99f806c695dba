//go:build linux

package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite"
)

// halfRestored is a wreck whose restore was killed when it had moved what has
// these suffixes.
func halfRestored(t *testing.T, files map[string]string, moved ...string) string {
	t.Helper()
	path := lay(t, files)
	for _, suffix := range moved {
		if err := os.Rename(path+suffix, path+".replaced-1"+suffix); err != nil {
			t.Fatal(err)
		}
	}
	write(t, path+".restoring", []byte(files["state.db.backup"]))
	return path
}

// TestRestoreGoesOn: one that was broken off ends under the name that it took,
// or leaves what no start takes for an empty place.
func TestRestoreGoesOn(t *testing.T) {
	ctx := context.Background()
	files := wreck(t)
	t.Run("and_fails", func(t *testing.T) {
		path := halfRestored(t, files, "-wal", "")
		if err := os.MkdirAll(path+"-shm/folder", 0o755); err != nil {
			t.Fatal(err)
		}
		if _, err := sqlite.Restore(ctx, path+".backup", path); err == nil {
			t.Fatal("a folder in the way of -shm did not matter")
		}
		if err := os.RemoveAll(path + "-shm"); err != nil {
			t.Fatal(err)
		}
		if runs, refusal := opens(t, path); !strings.Contains(refusal, path+".restoring is still there") {
			t.Errorf("a start took the empty place: %d runs, %q", runs, refusal)
		}
		restored, err := sqlite.Restore(ctx, path+".backup", path)
		if err != nil || restored.Replaced != path+".replaced-1" || runsOf(t, restored.Replaced) != sinceMet {
			t.Errorf("got %+v, %v", restored, err)
		}
	})
	t.Run("with_the_log_that_it_moved", func(t *testing.T) {
		path := halfRestored(t, files, "-wal")
		write(t, path+".replaced-0", []byte("an older one"))
		restored, err := sqlite.Restore(ctx, path+".backup", path)
		if err != nil || restored.Replaced != path+".replaced-1" || runsOf(t, restored.Replaced) != sinceMet {
			t.Errorf("got %+v, %v", restored, err)
		}
	})
	t.Run("above_a_gap", func(t *testing.T) {
		path := halfRestored(t, files)
		write(t, path+".replaced-2-wal", []byte("of one that was removed"))
		write(t, path+".replaced-3", []byte("an older one"))
		if err := os.Remove(path + "-wal"); err != nil {
			t.Fatal(err)
		}
		restored, err := sqlite.Restore(ctx, path+".backup", path)
		if err != nil || restored.Replaced != path+".replaced-4" {
			t.Errorf("got %+v, %v", restored, err)
		}
	})
}

// TestReplacedHasItsOwnLog: nothing is kept aside beside a log that stayed of
// something else.
func TestReplacedHasItsOwnLog(t *testing.T) {
	ctx := context.Background()
	path := lay(t, wreck(t))
	if _, err := sqlite.Restore(ctx, path+".backup", path); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path + ".replaced-1"); err != nil {
		t.Fatal(err)
	}
	store := open(t, path)
	endedRun(t, store, "alice", 20)
	closeStore(t, store) // leaves no log
	restored, err := sqlite.Restore(ctx, path+".backup", path)
	if err != nil || restored.Replaced != path+".replaced-2" {
		t.Fatalf("got %+v, %v", restored, err)
	}
	if n := runsOf(t, restored.Replaced); n != backedUp+1 {
		t.Errorf("%d runs were kept aside", n)
	}
}

// TestUnknownRestoreIsNone: where nobody can tell whether one was broken off,
// no start goes on. With its suffix such a name is too long to look for.
func TestUnknownRestoreIsNone(t *testing.T) {
	path := filepath.Join(t.TempDir(), strings.Repeat("n", 247))
	if runs, refusal := opens(t, path); !strings.Contains(refusal, "whether bringing a backup back was broken off is not known") {
		t.Errorf("%d runs, %q", runs, refusal)
	}
	diff(t, []string(nil), names(t, filepath.Dir(path)))
}

// TestRestoreTwice: numbers of events go on, so that nobody takes the one past
// for the other.
func TestRestoreTwice(t *testing.T) {
	ctx := context.Background()
	for name, files := range map[string]map[string]string{
		"of_this_version": wreck(t),
		"of_version_7":    {"state.db.backup": string(readFile(t, versionFile(t, 7)))},
	} {
		t.Run(name, func(t *testing.T) {
			path := lay(t, files)
			var last sidecar.Seq
			for n := range 3 {
				done, err := sqlite.Restore(ctx, path+".backup", path)
				if err != nil || len(done.Faults) > 0 {
					t.Fatalf("%+v, %v", done, err)
				}
				if name == "of_version_7" {
					begunBySQLite(t, path)
				}
				store := open(t, path)
				if head := store.Head(); head <= last || head > 1<<53 {
					t.Errorf("head %d, before it was %d", head, last)
				}
				if _, err := store.Events(ctx, "alice", "", last, 0); !errors.Is(err, sidecar.ErrTrimmed) {
					t.Errorf("who had read up to %d: %v", last, err)
				}
				create(t, store, newRun("alice", 20+n))
				last = store.Head()
				sound(t, store)
				closeStore(t, store)
			}
		})
	}
}

// begunBySQLite looks whether a program of version 7 would begin where readers
// begin anew.
func begunBySQLite(t *testing.T, path string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	var number, trimmed int64
	err = db.QueryRow("SELECT (SELECT seq FROM sqlite_sequence WHERE name = 'events'), (SELECT value FROM sidecar_meta WHERE key = 'trimmed_to')").Scan(&number, &trimmed)
	if err := errors.Join(err, db.Close()); err != nil || number != trimmed {
		t.Errorf("it begins at %d, readers at %d: %v", number, trimmed, err)
	}
}
