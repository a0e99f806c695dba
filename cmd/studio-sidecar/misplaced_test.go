package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/comfygit-ai/studio-sidecar/internal/need"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

// refusedServe starts a server that has to refuse its state database, and
// returns what it says.
func refusedServe(t *testing.T, env string, flags ...string) string {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"--env-dir", env, "serve", "--port", "0", "--state", "local"}, flags...)
	out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput()
	if err == nil {
		t.Fatalf("it served\n%s", out)
	}
	return string(out)
}

const smallRun = `{"inputs": {"steps": 1, "width": 64, "height": 64}, "wait": true}`

// TestFilesTakenFromAServer: what was acknowledged before the log was removed
// is there after the server was killed, and a start makes no new database where
// the log of one tells that there was one.
func TestFilesTakenFromAServer(t *testing.T) {
	need.That(t, runtime.GOOS != "windows", "open files that can be removed")
	t.Parallel() // it waits for the lock
	_, comfy := startFake(t, comfyfake.Options{StepDelay: time.Millisecond})
	dir := t.TempDir()
	env, err := layDemo(dir)
	if err != nil {
		t.Fatal(err)
	}
	db := filepath.Join(dir, "state.sqlite")
	flags := []string{"--state", "local", "--state-db", db, "--artifact-dir", filepath.Join(dir, "artifacts")}
	const painting = "/contracts/painting/default/run"
	p := start(t, env.Dir, comfy, flags...)
	if a := p.must("POST", painting, smallRun); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}

	t.Run("a_second_server_by_another_name_is_refused", func(t *testing.T) {
		other := filepath.Join(dir, "other.sqlite")
		if err := os.Link(db, other); err != nil {
			t.Fatal(err)
		}
		if said := refusedServe(t, env.Dir, "--state-db", other); !strings.Contains(said, other) || !strings.Contains(said, "hard links") {
			t.Errorf("it says: %s", said)
		}
		if err := os.Remove(other); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("a_second_server_says_whom_it_waits_for", func(t *testing.T) {
		began := time.Now()
		said := strings.Split(strings.TrimSpace(refusedServe(t, env.Dir, "--state-db", db)), "\n")
		holder := fmt.Sprintf("state database %s: process %d is using it", db, p.cmd.Process.Pid)
		if len(said) != 3 || said[0] != "studio-sidecar: "+holder+"; waiting for it to end" || said[1] != "studio-sidecar: "+holder+": it is held" {
			t.Errorf("after %v it says %q", time.Since(began), said)
		}
	})
	t.Run("what_a_removed_log_held_is_kept", func(t *testing.T) {
		if err := os.Remove(db + "-wal"); err != nil {
			t.Fatal(err)
		}
		if a := p.must("POST", painting, smallRun); a.status != 503 || !strings.Contains(string(a.body), db+"-wal") {
			t.Errorf("%d %s", a.status, a.body)
		}
		p.end(syscall.SIGKILL)
		if said := p.err.String(); !strings.Contains(said, db+"-wal was removed") {
			t.Errorf("the log does not tell: %s", said)
		}
		p = start(t, env.Dir, comfy, flags...)
		var list struct{ Runs []any }
		if p.must("GET", "/runs", "").decode(t, &list); len(list.Runs) != 1 {
			t.Errorf("%d runs", len(list.Runs))
		}
		if a := p.must("POST", painting, smallRun); a.status != 200 {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
	t.Run("a_log_without_its_file_is_no_new_database", func(t *testing.T) {
		p.end(syscall.SIGKILL)
		if err := os.Rename(db, db+".aside"); err != nil {
			t.Fatal(err)
		}
		if said := refusedServe(t, env.Dir, "--state-db", db); !strings.Contains(said, db+"-wal") {
			t.Errorf("it says: %s", said)
		}
		if _, err := os.Lstat(db); err == nil {
			t.Error("a new one was made")
		}
		if err := os.Rename(db+".aside", db); err != nil {
			t.Fatal(err)
		}
		p = start(t, env.Dir, comfy, flags...)
		var list struct{ Runs []any }
		if p.must("GET", "/runs", "").decode(t, &list); len(list.Runs) != 2 {
			t.Errorf("%d runs", len(list.Runs))
		}
	})
}
