//go:build unix

package sqlite_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/comfygit-ai/studio-sidecar/internal/need"
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

func BenchmarkPlace(b *testing.B) {
	store := fresh(b)
	for b.Loop() {
		if err := store.Trouble(); err != nil {
			b.Fatal(err)
		}
	}
}
