package main

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/internal/need"
)

func startRaw(t *testing.T, bodies map[string]string) *process {
	t.Helper()
	l := &lab{dir: t.TempDir()}
	c, err := l.newRaw(bodies)
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.start(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.stop)
	return p
}

func TestRawCopy_sends_the_bytes_that_it_was_given(t *testing.T) {
	p := startRaw(t, map[string]string{"/gallery?limit=50": `{"items": []}`})
	body, err := get(t.Context(), p.addr, "/gallery?limit=50", "")
	if err != nil || string(body) != `{"items": []}` {
		t.Errorf("body %q, error %v", body, err)
	}
	if _, err := get(t.Context(), p.addr, "/other", ""); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("another target: error %v", err)
	}
}

func TestProcess_is_gone_after_stop(t *testing.T) {
	p := startRaw(t, map[string]string{})
	p.stop()
	if conn, err := net.DialTimeout("tcp", p.addr, time.Second); err == nil {
		conn.Close() //nolint:errcheck // it was not to be there
		t.Errorf("%s still answers", p.addr)
	}
	p.stop() // a second call does nothing
}

func TestProcess_tells_its_memory(t *testing.T) {
	need.That(t, runtime.GOOS == "linux", "the memory of a process in /proc")
	p := startRaw(t, map[string]string{})
	before, err := p.calm()
	if err != nil {
		t.Fatal(err)
	}
	top, err := p.peak()
	if err != nil || before < 1 || before > 200 || top < before/2 {
		t.Errorf("%v MiB, then at most %v MiB, error %v", before, top, err)
	}
}

func TestLaunch_fails_with_the_output_of_a_program_that_ends(t *testing.T) {
	l := &lab{dir: t.TempDir()}
	c, err := l.newRaw(map[string]string{})
	if err != nil {
		t.Fatal(err)
	}
	good := c.command
	c.command = func(p place) []string {
		line := good(p)
		line[len(line)-1] = filepath.Join(l.dir, "missing.json")
		return line
	}
	_, err = c.start(t.Context(), "", "")
	if !errors.Is(err, errEnded) || !strings.Contains(err.Error(), "missing.json") {
		t.Errorf("error %v", err)
	}
}

func TestLaunch_ends_with_its_context(t *testing.T) {
	l := &lab{dir: t.TempDir()}
	c, err := l.newRaw(map[string]string{})
	if err != nil {
		t.Fatal(err)
	}
	// It serves another address than the one that is asked.
	good := c.command
	c.command = func(p place) []string { p.addr = "127.0.0.1:0"; return good(p) }
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := c.start(ctx, "", ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

func TestTail_keeps_the_end(t *testing.T) {
	out := &tail{}
	for range 10 {
		if n, err := out.Write(make([]byte, tailSize/4)); n != tailSize/4 || err != nil {
			t.Fatal(n, err)
		}
	}
	if _, err := out.Write([]byte("the end")); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); len(got) != tailSize || !strings.HasSuffix(got, "the end") {
		t.Errorf("%d bytes that end in %q", len(got), got[len(got)-7:])
	}
}

func TestReference_is_missed_by_name(t *testing.T) {
	_, err := newReference(t.Context(), t.TempDir(), filepath.Join(t.TempDir(), "no-python"), workspace{}, "local", nil)
	if !errors.Is(err, errNoReference) || !strings.Contains(err.Error(), "no-python") {
		t.Errorf("error %v", err)
	}
}

func TestWorkspace_has_what_both_servers_read(t *testing.T) {
	dir := t.TempDir()
	w, err := layWorkspace(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"pyproject.toml", "workflow_api/solid.api.json", "workflow_api/invert.api.json", "workflow_api/enlarge.api.json"} {
		want, err := environmentFiles.ReadFile("environment/" + name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(w.envDir(), ".cec", name))
		if diff := cmp.Diff(string(want), string(got)); err != nil || diff != "" {
			t.Errorf("%s: error %v (-want +got):\n%s", name, err, diff)
		}
	}
	if _, err := os.Stat(filepath.Join(w.root, ".metadata", "workspace.json")); err != nil {
		t.Error(err)
	}
}

func TestMachine_says_where_and_when(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	text := thisMachine(at).String()
	for _, want := range []string{runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, " cores", "2026-01-02T03:04:05Z"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %q", want, text)
		}
	}
}
