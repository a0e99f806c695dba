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

	"github.com/comfygit-ai/studio-sidecar/internal/need"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite"
)

// What a wreck holds: a backup of so many runs, and more since.
const (
	backedUp = 3
	sinceMet = 5
)

// wreck is a folder with the database of a process that was killed, its log
// beside it, its lock file, and a backup of an earlier moment.
func wreck(t *testing.T) map[string]string {
	t.Helper()
	store := fresh(t)
	for n := range backedUp {
		endedRun(t, store, "alice", n)
	}
	backup := filepath.Join(t.TempDir(), "copy.db")
	beside := start(t, "backup", store.Path()+" "+backup) // closing it here would drop the locks
	if said := beside.rest(t); len(said) != 0 {
		t.Fatal(said)
	}
	for n := backedUp; n < sinceMet; n++ {
		endedRun(t, store, "alice", n)
	}
	return map[string]string{
		"state.db": string(readFile(t, store.Path())), "state.db-wal": string(readFile(t, store.Path()+"-wal")),
		"state.db.lock": string(readFile(t, store.Path()+".lock")), "state.db.backup": string(readFile(t, backup)),
	}
}

// lay writes a wreck into a folder of its own and returns its database.
func lay(t *testing.T, files map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	for name, data := range files {
		write(t, filepath.Join(folder, name), []byte(data))
	}
	return filepath.Join(folder, "state.db")
}

// runsOf counts the runs of a database, with its log.
func runsOf(t *testing.T, path string) int {
	t.Helper()
	r, err := sqlite.OpenReader(context.Background(), path)
	if err != nil {
		t.Errorf("%s: %v", path, err)
		return -1
	}
	report, err := r.Verify(context.Background())
	if err := errors.Join(err, r.Close()); err != nil || len(report.Faults) > 0 {
		t.Errorf("%s: %+v, %v", path, report, err)
	}
	return report.Runs
}

// opens tells how a start with a database ends: the runs that it has, or the
// sentence of its refusal.
func opens(t *testing.T, path string) (runs int, refusal string) {
	t.Helper()
	store, err := sqlite.Open(context.Background(), sqlite.Options{Path: path, LockWait: -1})
	var told *sidecar.Error
	if errors.As(err, &told) {
		return 0, told.Message + " " + told.Hint
	}
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore(t, store)
	sound(t, store)
	return count(t, store, "SELECT count(*) FROM runs"), ""
}

func TestRestore(t *testing.T) {
	ctx := context.Background()
	files := wreck(t)
	t.Run("puts_a_backup_in_its_place_and_keeps_what_stood_there", func(t *testing.T) {
		path := lay(t, files)
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
		write(t, path+"-shm", []byte("stale"))
		restored, err := sqlite.Restore(ctx, path+".backup", path)
		if err != nil || restored.Runs != backedUp || restored.Path != path || restored.Replaced != path+".replaced-1" {
			t.Errorf("got %+v, %v", restored, err)
		}
		diff(t, []string{"state.db", "state.db.backup", "state.db.lock", "state.db.replaced-1", "state.db.replaced-1-wal"}, names(t, filepath.Dir(path)))
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("got %v, %v", info, err)
		}
		if n := runsOf(t, restored.Replaced); n != sinceMet {
			t.Errorf("%d runs are kept aside", n)
		}
		store := open(t, path)
		create(t, store, newRun("alice", 10))
		if n := count(t, store, "SELECT count(*) FROM runs"); n != backedUp+1 {
			t.Errorf("%d runs", n)
		}
		sound(t, store)
		for _, position := range []sidecar.Seq{1, 7, 1000} { // of the file that was replaced
			if _, err := store.Events(ctx, "alice", "", position, 0); !errors.Is(err, sidecar.ErrTrimmed) {
				t.Errorf("position %d: %v", position, err)
			}
		}
		closeStore(t, store)
		restored, err = sqlite.Restore(ctx, restored.Replaced, path)
		if err != nil || restored.Runs != sinceMet || restored.Replaced != path+".replaced-2" {
			t.Errorf("and back: %+v, %v", restored, err)
		}
	})
	t.Run("where_nothing_was", func(t *testing.T) {
		backup := lay(t, files) + ".backup"
		path := filepath.Join(t.TempDir(), "folder", "new.db")
		restored, err := sqlite.Restore(ctx, backup, path)
		if err != nil || restored.Replaced != "" || runsOf(t, path) != backedUp {
			t.Errorf("got %+v, %v", restored, err)
		}
		diff(t, []string{"new.db"}, names(t, filepath.Dir(path)))
	})
	t.Run("through_a_link", func(t *testing.T) {
		path := lay(t, files)
		link := filepath.Join(t.TempDir(), "link.db")
		need.That(t, os.Symlink(path, link) == nil, "links")
		restored, err := sqlite.Restore(ctx, path+".backup", link)
		if err != nil || restored.Path != path || runsOf(t, link) != backedUp {
			t.Errorf("got %+v, %v", restored, err)
		}
		diff(t, []string{"link.db"}, names(t, filepath.Dir(link)))
	})
	t.Run("touches_nothing_when_it_refuses", func(t *testing.T) {
		torn := []byte(files["state.db.backup"])
		torn[bytes.LastIndex(torn, []byte("run_completed"))] ^= 1
		path := lay(t, files)
		write(t, path+".torn", torn)
		write(t, path+".text", []byte("no database"))
		before := folder(t, path)
		for backup, says := range map[string]string{
			".torn": "is not sound", ".text": "not an SQLite file", ".none": "there is none", "": "from itself",
		} {
			_, err := sqlite.Restore(ctx, path+backup, path)
			if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), path+backup) {
				t.Errorf("%q: %v", backup, err)
			}
			diff(t, before, folder(t, path))
		}
		place := t.TempDir()
		if _, err := sqlite.Restore(ctx, path+".backup", place); err == nil || !strings.Contains(err.Error(), place+": it is no file") {
			t.Errorf("got %v", err)
		}
		holder := open(t, path)
		before = folder(t, path)
		if _, err := sqlite.Restore(ctx, path+".backup", path); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("process %d is using it", os.Getpid())) {
			t.Errorf("got %v", err)
		}
		diff(t, before, folder(t, path))
		closeStore(t, holder)
		canceled, stop := context.WithCancel(ctx)
		stop()
		before = folder(t, path)
		if _, err := sqlite.Restore(canceled, path+".backup", path); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		diff(t, before, folder(t, path))
	})
}

// TestRestoreIsBrokenOff kills a restore before each of its steps: what is
// there then is the old database or the new one, whole, or no start uses it;
// and the next restore ends with both.
func TestRestoreIsBrokenOff(t *testing.T) {
	files := wreck(t)
	tracer := need.Command(t, "strace")
	ends := map[string]int{}
	// Before the seventh sync nothing but the copy is there.
	for call, first := range map[string]int{"renameat": 1, "fsync": fully(7, 1)} {
		for step := first; ; step++ {
			path := lay(t, files)
			lines := start(t, "restore", path, tracer, "-f", "-qq", "-o", os.DevNull,
				"-e", "trace="+call, "-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", call, step)).rest(t)
			if len(lines) > 0 {
				diff(t, []string{fmt.Sprintf("%d %s.replaced-1 <nil>", backedUp, path)}, lines)
				break
			}
			ends[brokenOff(t, path)]++
			restored, err := sqlite.Restore(context.Background(), path+".backup", path)
			if err != nil || restored.Runs != backedUp || restored.Replaced == "" {
				t.Errorf("%s %d: %+v, %v", call, step, restored, err)
			}
			if runs, refusal := opens(t, path); runs != backedUp {
				t.Errorf("%s %d: %d runs, %q", call, step, runs, refusal)
			}
			if n := runsOf(t, path+".replaced-1"); n != sinceMet {
				t.Errorf("%s %d: %d runs were kept aside, under %q", call, step, n, restored.Replaced)
			}
		}
	}
	t.Logf("%v", ends)
	if ends["old"] == 0 || ends["refused"] < 4 || ends["new"] == 0 {
		t.Errorf("got %v", ends)
	}
}

// brokenOff looks at a copy of what a killed restore left: a start would move
// the log.
func brokenOff(t *testing.T, left string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state.db")
	if err := os.CopyFS(filepath.Dir(path), os.DirFS(filepath.Dir(left))); err != nil {
		t.Fatal(err)
	}
	switch runs, refusal := opens(t, path); {
	case runs == sinceMet:
		return "old"
	case runs == backedUp:
		return "new"
	case strings.Contains(refusal, path+".restoring") && strings.Contains(refusal, "studio-sidecar restore"):
		return "refused"
	default:
		t.Errorf("%d runs, %q", runs, refusal)
		return "bad"
	}
}

// TestLogOfAnotherFile: a backup that was copied over the file that a log
// belongs to is refused untouched, and so are other files beside it.
func TestLogOfAnotherFile(t *testing.T) {
	files := wreck(t)
	for name, file := range map[string]string{"a_backup": files["state.db.backup"], "another_file": string(readFile(t, filled(t, 2)))} {
		t.Run(name, func(t *testing.T) {
			path := lay(t, files)
			write(t, path, []byte(file)) // in its place, with its inode
			before := folder(t, path)
			if runs, refusal := opens(t, path); !strings.Contains(refusal, path+"-wal belongs to another file") || !strings.Contains(refusal, "studio-sidecar restore") {
				t.Errorf("%d runs, %q", runs, refusal)
			}
			if _, err := sqlite.OpenReader(context.Background(), path); err == nil {
				t.Error("it is read")
			}
			diff(t, before, folder(t, path))
			if _, err := sqlite.Restore(context.Background(), path+".backup", path); err != nil {
				t.Error(err)
			}
			if runs, refusal := opens(t, path); runs != backedUp {
				t.Errorf("%d runs, %q", runs, refusal)
			}
		})
	}
	t.Run("its_own_log_is_taken", func(t *testing.T) {
		if runs, refusal := opens(t, lay(t, files)); runs != sinceMet {
			t.Errorf("%d runs, %q", runs, refusal)
		}
	})
	t.Run("damage_beside_a_log_names_it", func(t *testing.T) {
		path := lay(t, files)
		if err := os.Remove(path + ".lock"); err != nil { // nothing tells whose it is
			t.Fatal(err)
		}
		write(t, path, bytes.Repeat([]byte(files["state.db"][:4096]), 3))
		if _, refusal := opens(t, path); !strings.Contains(refusal, "damaged, or its log "+path+"-wal belongs to another file") {
			t.Errorf("got %q", refusal)
		}
	})
}
