package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

// commanded runs the program in this process.
func commanded(t *testing.T, args ...string) (code int, out, faults string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = run(t.Context(), args, &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

// demoServer serves the example environment of a folder of its own.
func demoServer(t *testing.T, flags ...string) (p *process, fake *comfyfake.Server, env string) {
	t.Helper()
	fake, comfy := startFake(t, comfyfake.Options{})
	laid, err := layDemo(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return start(t, laid.Dir, comfy, flags...), fake, laid.Dir
}

func rewrite(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestHealthCommandTellsWhatIsWrong: whatever keeps runs from being accepted is
// told, and by the exit code.
func TestHealthCommandTellsWhatIsWrong(t *testing.T) {
	db := filepath.Join(t.TempDir(), "state.sqlite")
	p, _, env := demoServer(t, "--state", "local", "--state-db", db)
	expect := func(want int, says string) {
		t.Helper()
		eventually(t, 10*time.Second, "health says "+says, func() bool {
			code, _, faults := commanded(t, "health", "--url", p.url)
			return code == want && strings.Contains(faults, says)
		})
	}
	expect(exitOK, "")
	manifest := filepath.Join(env, "pyproject.toml")
	good, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	rewrite(t, manifest, []byte("[[["))
	expect(exitFailed, "pyproject.toml line 1")
	rewrite(t, manifest, good)
	expect(exitOK, "")
	if err := os.Rename(db, db+".aside"); err != nil {
		t.Fatal(err)
	}
	expect(exitFailed, db)
}

// TestRunTellsWarnings: a name that no input has is said, where people and where
// programs read.
func TestRunTellsWarnings(t *testing.T) {
	p, _, _ := demoServer(t)
	args := []string{"run", "painting", "--url", p.url, "-i", "sede=9", "-i", "steps=1", "-o", t.TempDir()}
	if code, _, faults := commanded(t, args...); code != exitOK || !strings.Contains(faults, "'sede'") {
		t.Errorf("%d %s", code, faults)
	}
	code, out, _ := commanded(t, append(args, "--json")...)
	var report struct{ Issues []struct{ Code string } }
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != exitOK || len(report.Issues) != 1 || report.Issues[0].Code != "unknown_contract_input" {
		t.Errorf("%d %v %s", code, err, out)
	}
}

// TestRunMakesItsFolderFirst: nothing is computed that could not be written.
func TestRunMakesItsFolderFirst(t *testing.T) {
	p, fake, _ := demoServer(t)
	file := filepath.Join(t.TempDir(), "file")
	rewrite(t, file, nil)
	code, _, faults := commanded(t, "run", "painting", "--url", p.url, "-o", filepath.Join(file, "out"))
	if code != exitFailed || !strings.Contains(faults, file) || len(fake.Submissions().ByPrompt) != 0 {
		t.Errorf("%d %s, %d prompts", code, faults, len(fake.Submissions().ByPrompt))
	}
}

// TestWaitEndsTruthfully: a server that keeps nothing does not promise that a
// run goes on.
func TestWaitEndsTruthfully(t *testing.T) {
	p, _, _ := demoServer(t, "--state", "ephemeral")
	p.must("POST", "/queue/pause", "")
	told := make(chan string, 1)
	go func() {
		resp, err := http.Post(p.url+"/contracts/painting/default/run", "application/json", strings.NewReader(`{"wait": true}`))
		if err != nil {
			told <- err.Error()
			return
		}
		defer resp.Body.Close()
		var doc struct{ Hint string }
		if err := json.NewDecoder(resp.Body).Decode(&doc); err != nil {
			told <- err.Error()
			return
		}
		told <- doc.Hint
	}()
	eventually(t, 10*time.Second, "the run waits", func() bool {
		var queue struct{ Waiting int }
		p.must("GET", "/queue", "").decode(t, &queue)
		return queue.Waiting == 1
	})
	p.end(syscall.SIGTERM)
	if hint := <-told; !strings.Contains(hint, "keeps nothing") {
		t.Errorf("hint %q", hint)
	}
}
