package main

import (
	"context"
	"encoding/json"
	"flag"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

var kills = flag.Int("kills", 10, "how often TestKilled kills the sidecar")

// batch sends n runs at once and kills the process when some were
// acknowledged. It returns the acknowledged run ids.
func batch(t *testing.T, p *process, n, killAfter int) []string {
	t.Helper()
	var mu sync.Mutex
	var acknowledged []string
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			body, err := json.Marshal(map[string]any{"inputs": map[string]any{"seed": rand.Int32(), "steps": 1 + i%4, "width": 64, "height": 64}})
			if err != nil {
				t.Error(err)
				return
			}
			a, err := p.ask(context.Background(), "POST", "/contracts/painting/default/run", string(body))
			if err != nil || a.status != 200 {
				return // the process was killed before it answered
			}
			var run struct {
				ID string `json:"run_id"`
			}
			if json.Unmarshal(a.body, &run) != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if acknowledged = append(acknowledged, run.ID); len(acknowledged) == killAfter {
				p.end(syscall.SIGKILL)
			}
		})
	}
	all.Wait()
	return acknowledged
}

// TestKilled kills the sidecar in the middle of runs, again and again: every
// run that was acknowledged is run, and none is submitted twice.
func TestKilled(t *testing.T) {
	fake, comfy := startFake(t, comfyfake.Options{StepDelay: 5 * time.Millisecond})
	dir := t.TempDir()
	env, err := layDemo(dir)
	if err != nil {
		t.Fatal(err)
	}
	flags := []string{"--state", "local", "--state-db", filepath.Join(dir, "state.sqlite"), "--artifact-dir", filepath.Join(dir, "artifacts")}
	var acknowledged []string
	for range *kills {
		p := start(t, env.Dir, comfy, flags...)
		acknowledged = append(acknowledged, batch(t, p, 20, 1+rand.IntN(18))...)
		p.end(syscall.SIGKILL)
	}
	p := start(t, env.Dir, comfy, flags...)
	eventually(t, time.Minute, "all runs end", func() bool {
		var active struct{ Runs []any }
		p.must("GET", "/runs?active=true", "").decode(t, &active)
		return len(active.Runs) == 0
	})
	for _, id := range acknowledged {
		var got struct {
			Run struct{ Status, Error string }
		}
		a := p.must("GET", "/runs/"+id, "")
		if a.decode(t, &got); a.status != 200 || got.Run.Status != "completed" {
			t.Errorf("acknowledged run %s: %d %+v", id, a.status, got.Run)
		}
	}
	twice := 0
	for id, n := range fake.Submissions().ByPrompt {
		if n.Queued > 1 {
			twice++
			t.Errorf("prompt %s was submitted %d times", id, n.Queued)
		}
	}
	t.Logf("%d kills, %d runs acknowledged, %d prompts submitted, %d twice", *kills, len(acknowledged), len(fake.Submissions().ByPrompt), twice)
	if len(acknowledged) < *kills {
		t.Errorf("only %d runs were acknowledged: the test did not test much", len(acknowledged))
	}
}
