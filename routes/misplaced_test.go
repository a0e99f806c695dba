package routes_test

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/comfygit-ai/studio-sidecar/internal/need"
)

// TestStateDatabaseOutOfPlace takes the files of the state database from under
// a server: nothing more is acknowledged, everybody is told, and no new
// database is made. What comes back is written again.
func TestStateDatabaseOutOfPlace(t *testing.T) {
	need.That(t, runtime.GOOS != "windows", "open files that can be removed")
	for _, c := range []struct {
		name, suffix, says string
		back               bool
		take               func(path string) error
	}{
		{"removed", "", "was removed", false, os.Remove},
		{"moved_away_and_back", "", "was removed", true, func(path string) error { return os.Rename(path, path+".aside") }},
		{"another_in_its_place", "", "another file stands in the place of", true, func(path string) error {
			if err := os.Rename(path, path+".aside"); err != nil {
				return err
			}
			return os.WriteFile(path, []byte("other"), 0o644)
		}},
		{"log_removed", "-wal", "was removed", false, os.Remove},
		{"log_moved_away_and_back", "-wal", "was removed", true, func(path string) error { return os.Rename(path, path+".aside") }},
		{"index_removed", "-shm", "was removed", false, os.Remove},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := start(t)
			r.run(`{"wait": true}`)
			path := r.store.Path()
			taken := path + c.suffix
			must(t, c.take(taken))
			// Nobody writes just now.
			if a := r.get("/readyz"); a.status != 503 || !strings.Contains(string(a.body), taken) {
				t.Errorf("readyz: %d %s", a.status, a.body)
			}
			r.refusesToWrite(c.says, taken)
			if a := r.get("/runs"); a.status != 200 || len(a.json(t)["runs"].([]any)) != 1 {
				t.Errorf("runs: %d %s", a.status, a.body)
			}
			if _, err := os.Lstat(taken); err == nil && !strings.Contains(c.name, "another") {
				t.Errorf("%s was made anew", taken)
			}
			if !c.back {
				return
			}
			must(t, os.Rename(taken+".aside", taken))
			eventually(t, "it is written again", func() bool { return r.get("/readyz").status == 200 })
			r.run(`{"wait": true}`)
			if a := r.get("/runs"); len(a.json(t)["runs"].([]any)) != 2 {
				t.Errorf("runs: %s", a.body)
			}
		})
	}
}

// refusesToWrite holds that a command is refused for the state database, that
// the refusal names a file of it, and that health says the same.
func (r *rig) refusesToWrite(says, path string) {
	r.t.Helper()
	a := r.ask("POST", runPath, "{}")
	doc := a.json(r.t)
	message, _ := doc["message"].(string)
	if a.status != 503 || doc["error"] != "storage_unavailable" || doc["hint"] == nil ||
		!strings.Contains(message, says) || !strings.Contains(message, path) {
		r.t.Errorf("run: %d %s", a.status, a.body)
	}
	storage := r.get("/health").json(r.t)["storage"].(map[string]any)
	if told, _ := storage["error"].(string); storage["ok"] != false || !strings.Contains(told, path) || storage["hint"] == nil {
		r.t.Errorf("health: %v", storage)
	}
	far := r.get("/health", "X-Forwarded-For", "192.0.2.7").json(r.t)["storage"].(map[string]any)
	if told, _ := far["error"].(string); far["ok"] != false || told == "" || strings.Contains(told, path) {
		r.t.Errorf("health, from afar: %v", far)
	}
}
