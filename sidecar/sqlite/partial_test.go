//go:build linux

package sqlite_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// copying starts a backup, or a restore, by another process and stops it in the
// middle of the copy. It says where that is; another one is not meant.
func copying(t *testing.T, role, path, pattern, other string) (p *process, partial string) {
	t.Helper()
	p = start(t, role, path)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); <-tick.C {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range found {
			if info, err := os.Stat(name); err != nil || info.Size() == 0 || name == other {
				continue
			}
			if err := p.command.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			return p, name
		}
	}
	t.Fatal("it does not begin")
	return nil, ""
}

// bulky is a database of 12 MiB.
func bulky(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state.db")
	store := open(t, path)
	for n := range 12 {
		run := newRun("alice", n)
		run.Workflow = strings.Repeat("w", 1<<20)
		run.Phase, run.Status, run.FinishedAt = sidecar.PhaseFinished, sidecar.StatusCompleted, run.CreatedAt
		create(t, store, run)
	}
	closeStore(t, store)
	return path
}

// TestKilledBackup: what a killed backup leaves goes with the next one of that
// name, and nothing else does.
func TestKilledBackup(t *testing.T) {
	path, folder := bulky(t), t.TempDir()
	to := filepath.Join(folder, "copy.db")
	killed, left := copying(t, "backup", path+" "+to, to+".partial-*/copy.db", "")
	killed.kill(t)
	alive, living := copying(t, "backup", path+" "+to, to+".partial-*/copy.db", left)
	others := []string{"copy.db.partial-MINEMINE", "copy.db.partial-mine/copy.db", "copy.db.partial-ABCDEFGH/mine", "other.db.partial-ABCDEFGH/copy.lock"}
	for _, name := range others {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(folder, name), []byte("mine"))
	}
	if _, err := reader(t, path).Backup(context.Background(), to); err != nil {
		t.Fatal(err)
	}
	want := append(below(t, filepath.Dir(living)), "copy.db")
	for i, name := range want[:len(want)-1] {
		want[i] = filepath.Join(filepath.Base(filepath.Dir(living)), name)
	}
	want = append(want, others...)
	slices.Sort(want)
	diff(t, want, below(t, folder))
	if err := alive.command.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if said := alive.rest(t); len(said) != 1 || !strings.Contains(said[0], "is there already") {
		t.Errorf("the other one said %q", said)
	}
	want = append(slices.Clone(others), "copy.db")
	slices.Sort(want)
	diff(t, want, below(t, folder))
}

// below lists the files below a folder.
func below(t *testing.T, folder string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files = append(files, strings.TrimPrefix(path, folder+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestKilledRestore: what a restore that was killed before it touched anything
// leaves goes with the next start.
func TestKilledRestore(t *testing.T) {
	path := bulky(t)
	if said := start(t, "backup", path+" "+path+".backup").rest(t); len(said) != 0 {
		t.Fatal(said)
	}
	killed, left := copying(t, "restore", path, path+".restoring.partial", "")
	killed.kill(t)
	if _, err := os.Stat(left); err != nil {
		t.Fatal(err)
	}
	closeStore(t, open(t, path))
	diff(t, []string{"state.db", "state.db.backup", "state.db.lock"}, names(t, filepath.Dir(path)))
}
