package main

import (
	"bytes"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

// TestRestoredRunsRunOnce: what had not begun when a backup was made, and ran
// since, is found in ComfyUI and not run again.
func TestRestoredRunsRunOnce(t *testing.T) {
	fake, comfy := startFake(t, comfyfake.Options{})
	dir := t.TempDir()
	env, err := layDemo(dir)
	if err != nil {
		t.Fatal(err)
	}
	db, backup := filepath.Join(dir, "state.sqlite"), filepath.Join(dir, "backup.sqlite")
	serve := func() *process {
		return start(t, env.Dir, comfy, "--state", "local", "--gallery", "shared", "--state-db", db, "--artifact-dir", filepath.Join(dir, "artifacts"))
	}
	command := func(args ...string) string {
		t.Helper()
		var out, faults bytes.Buffer
		if code := run(t.Context(), append(args, "--state-db", db), &out, &faults); code != 0 {
			t.Fatalf("%v: %d %s", args, code, faults.String())
		}
		return out.String()
	}
	p := serve()
	completed := func(want int) {
		t.Helper()
		eventually(t, 20*time.Second, "all runs end", func() bool {
			var page struct {
				Runs []struct{ Status sidecar.Status }
			}
			p.must("GET", "/runs?limit=100", "").decode(t, &page)
			n := 0
			for _, r := range page.Runs {
				if r.Status == sidecar.StatusCompleted {
					n++
				}
			}
			return n == want
		})
	}
	p.must("POST", "/queue/pause", "")
	for _, body := range []string{`{}`, `{}`, `{"not_before": "` + time.Now().Add(time.Second).UTC().Format(time.RFC3339) + `"}`} {
		if a := p.must("POST", "/contracts/painting/default/run", body); a.status != http.StatusOK {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	command("backup", backup)
	p.must("POST", "/queue/resume", "")
	completed(3)
	p.end(syscall.SIGTERM)
	if said := command("restore", backup); !strings.Contains(said, "3 runs had not ended") {
		t.Errorf("restore says %q", said)
	}
	p = serve()
	p.must("POST", "/queue/resume", "")
	completed(3)
	prompts := fake.Submissions().ByPrompt
	for id, prompt := range prompts {
		if prompt.Queued != 1 {
			t.Errorf("ComfyUI had prompt %s %d times", id, prompt.Queued)
		}
	}
	if len(prompts) != 3 {
		t.Errorf("%d prompts", len(prompts))
	}
}
