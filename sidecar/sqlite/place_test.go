//go:build unix

package sqlite_test

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/comfygit-ai/studio-sidecar/internal/need"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite"
)

// TestLinkedFile: the log of a killed process stands beside the file that a
// link leads to, and is found there.
func TestLinkedFile(t *testing.T) {
	folder := t.TempDir()
	store := fresh(t)
	for n := range 3 {
		create(t, store, newRun("alice", n))
	}
	path := filepath.Join(folder, "state.db")
	for _, suffix := range []string{"", "-wal"} {
		write(t, path+suffix, readFile(t, store.Path()+suffix))
	}
	link := filepath.Join(t.TempDir(), "link.db")
	need.That(t, os.Symlink(path, link) == nil, "links")
	linked := open(t, link)
	if n := count(t, linked, "SELECT count(*) FROM runs"); n != 3 {
		t.Errorf("%d runs", n)
	}
	create(t, linked, newRun("alice", 3))
	if _, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, LockWait: -1}); err == nil {
		t.Error("a second store has it by its other name")
	}
}

// TestPipe: nobody waits for the writer of a pipe.
func TestPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	_, opened := sqlite.Open(t.Context(), sqlite.Options{Path: path, LockWait: -1})
	_, read := sqlite.OpenReader(t.Context(), path)
	_, restored := sqlite.Restore(t.Context(), path, path+".other")
	for _, err := range []error{opened, read, restored} {
		if err == nil || !strings.Contains(err.Error(), path+": it is no file") {
			t.Errorf("got %v", err)
		}
	}
}

// TestFileThatGoesWhileItIsWritten: nobody is told that a change is kept, and
// only a new start says whether it is.
func TestFileThatGoesWhileItIsWritten(t *testing.T) {
	store, ctx := fresh(t), t.Context()
	path, id := store.Path(), newRun("alice", 2).ID
	create(t, store, newRun("alice", 1))
	err := store.Do(ctx, func(tx *sqlite.Tx) error {
		if err := tx.Create(newRun("alice", 2), nil); err != nil {
			return err
		}
		return os.Rename(path, path+".aside")
	})
	if !errors.Is(err, sidecar.ErrLasting) || !strings.Contains(err.Error(), "may or may not be there") {
		t.Errorf("got %v", err)
	}
	if err := os.Rename(path+".aside", path); err != nil {
		t.Fatal(err)
	}
	if err := put(store, newRun("alice", 3)); !errors.Is(err, sidecar.ErrLasting) {
		t.Errorf("written to before a new start: %v", err)
	}
	closeStore(t, store)
	store = open(t, path)
	if run, err := store.Run(ctx, id); err != nil || run.Phase != sidecar.PhaseSubmitting {
		t.Errorf("after the start: %v %v", run, err)
	}
	create(t, store, newRun("alice", 3))
	sound(t, store)
}

// TestLogRemovedBesideAReader: what the log held is moved into the file once
// nobody reads it any more.
func TestLogRemovedBesideAReader(t *testing.T) {
	store := fresh(t)
	create(t, store, newRun("alice", 1))
	db, err := sql.Open("sqlite", store.Path())
	if err != nil {
		t.Fatal(err)
	}
	reading, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var runs int
	if err := reading.QueryRowContext(t.Context(), "SELECT count(*) FROM runs").Scan(&runs); err != nil {
		t.Fatal(err)
	}
	for n := 2; n < 6; n++ {
		create(t, store, newRun("alice", n))
	}
	if err := os.Remove(store.Path() + "-wal"); err != nil {
		t.Fatal(err)
	}
	if err := put(store, newRun("alice", 6)); err == nil {
		t.Error("a run was taken that would be lost")
	}
	if err := errors.Join(reading.Rollback(), db.Close()); err != nil {
		t.Fatal(err)
	}
	// The writer tries each second, and whenever something waits.
	copied := filepath.Join(t.TempDir(), "state.db")
	for deadline := time.Now().Add(10 * time.Second); ; {
		if err := put(store, newRun("alice", 6)); err == nil {
			t.Fatal("a run was taken that would be lost")
		}
		write(t, copied, readFile(t, store.Path()))
		if n, refusal := opens(t, copied); n == 5 {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("%d of 5 acknowledged runs are in the file, %s", n, refusal)
		}
	}
}
