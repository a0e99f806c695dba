//go:build unix

package manifest_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/comfygit-ai/studio-sidecar/manifest"
)

func TestBusy(t *testing.T) {
	dir := write(t, map[string]string{"pyproject.toml": "a = 1"})
	env := open(t, dir).Environment()
	if err := env.Busy(); err != nil {
		t.Errorf("without a lock file: %v", err)
	}
	put(t, dir, ".comfygit.lock", `{"pid": 7, "operation": "sync", "acquired_at": "now"}`)
	if err := env.Busy(); err != nil {
		t.Errorf("with a lock file that nobody holds: %v", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, ".comfygit.lock"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	var busy *manifest.BusyError
	if err := env.Busy(); !errors.As(err, &busy) || len(busy.Owner) == 0 || busy.Error() != "The environment is being changed: sync (process 7)." {
		t.Errorf("while it is held: %v", err)
	}
	put(t, dir, ".comfygit.lock", "x")
	if err := env.Busy(); !errors.As(err, &busy) || busy.Owner != nil {
		t.Errorf("held by someone who wrote no JSON: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := env.Busy(); err != nil {
		t.Errorf("after it was given back: %v", err)
	}
}
