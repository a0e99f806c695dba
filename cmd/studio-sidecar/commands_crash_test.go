package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

// hammer sends commands to a sidecar that is killed again and again.
type hammer struct {
	t       *testing.T
	current atomic.Pointer[process]
	bell    chan struct{} // an answer came

	asked, unanswered, replayed atomic.Int64
}

// command sends one command until it is answered, with its key each time.
func (h *hammer) command(ctx context.Context, key, body string) answer {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		p := h.current.Load()
		a, err := h.once(ctx, p, key, body)
		if err == nil {
			h.bell <- struct{}{}
			return a
		}
		h.unanswered.Add(1)
		for h.current.Load() == p {
			select {
			case <-tick.C:
			case <-ctx.Done():
				h.t.Errorf("command %s was never answered: %v", key, err)
				return answer{}
			}
		}
	}
}

func (h *hammer) once(ctx context.Context, p *process, key, body string) (answer, error) {
	h.asked.Add(1)
	req, err := http.NewRequestWithContext(ctx, "POST", p.url+"/contracts/painting/default/run", strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("X-ComfyGit-Studio-Session", "me")
	req.Header.Set(keyHeader, key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err == nil && resp.Header.Get("Idempotent-Replayed") == "true" {
		h.replayed.Add(1)
	}
	return answer{resp.StatusCode, raw}, err
}

// all sends every command from three clients at once, some commands at a time.
func (h *hammer) all(ctx context.Context, commands int) [][3]answer {
	answers := make([][3]answer, commands)
	slots := make(chan struct{}, 10)
	var all sync.WaitGroup
	for i := range answers {
		slots <- struct{}{}
		body := fmt.Sprintf(`{"inputs": {"seed": %d, "steps": 1, "width": 64, "height": 64}, "wait": %v}`, i, i%4 == 0)
		var one sync.WaitGroup
		for j := range answers[i] {
			one.Go(func() { answers[i][j] = h.command(ctx, fmt.Sprintf("key-%d", i), body) })
		}
		all.Go(func() {
			one.Wait()
			<-slots
		})
	}
	all.Wait()
	return answers
}

// kill kills the sidecar after every few answers until there are no more, and
// returns how often.
func (h *hammer) kill(restart func() *process) (kills int) {
	for {
		for range 1 + rand.IntN(24) {
			if _, more := <-h.bell; !more {
				return kills
			}
		}
		h.current.Load().end(syscall.SIGKILL)
		kills++
		h.current.Store(restart())
	}
}

// TestCommandsKilled: each command is sent from three clients at once, which
// repeat what is not answered, while the sidecar is killed again and again. It
// is carried out once, and everybody is told the same.
func TestCommandsKilled(t *testing.T) {
	commands := 60
	if os.Getenv("STUDIO_FULL") != "" {
		commands = 1000
	}
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	fake, comfy := startFake(t, comfyfake.Options{StepDelay: time.Millisecond})
	dir := t.TempDir()
	env, err := layDemo(dir)
	if err != nil {
		t.Fatal(err)
	}
	restart := func() *process {
		return start(t, env.Dir, comfy, "--state", "local", "--state-db", filepath.Join(dir, "state.sqlite"), "--artifact-dir", filepath.Join(dir, "artifacts"))
	}
	h := &hammer{t: t, bell: make(chan struct{}, 3*commands)}
	h.current.Store(restart())
	var answers [][3]answer
	var sent sync.WaitGroup
	sent.Go(func() {
		defer close(h.bell)
		answers = h.all(ctx, commands)
	})
	kills := h.kill(restart)
	sent.Wait()
	different := 0
	for i, a := range answers {
		if a[0].status != 200 || !bytes.Equal(a[0].body, a[1].body) || !bytes.Equal(a[0].body, a[2].body) || a[1].status != 200 || a[2].status != 200 {
			different++
			t.Errorf("command %d: %d %s\n%d %s\n%d %s", i, a[0].status, a[0].body, a[1].status, a[1].body, a[2].status, a[2].body)
		}
	}
	h.count(fake, commands)
	t.Logf("%d commands, asked %d times, %d kills, %d times no answer, %d replays, %d answered differently",
		commands, h.asked.Load(), kills, h.unanswered.Load(), h.replayed.Load(), different)
	if kills < 5 || h.unanswered.Load() < int64(kills) {
		t.Errorf("%d kills hit %d requests: the test did not test much", kills, h.unanswered.Load())
	}
}

// count holds runs, receipts and prompts to the number of commands.
func (h *hammer) count(fake *comfyfake.Server, commands int) {
	t, p := h.t, h.current.Load()
	var runs struct{ Runs []any }
	eventually(t, time.Minute, "all runs end", func() bool {
		p.must("GET", "/runs?active=true", "").decode(t, &runs)
		return len(runs.Runs) == 0
	})
	p.must("GET", "/runs", "").decode(t, &runs)
	receipts, after := 0, int64(0)
	for more := true; more; {
		var page struct {
			Commands []any
			Next     int64 `json:"next_after"`
			More     bool  `json:"has_more"`
		}
		p.must("GET", fmt.Sprintf("/commands?after=%d", after), "").decode(t, &page)
		receipts, after, more = receipts+len(page.Commands), page.Next, page.More
	}
	prompts, graphs := fake.Submissions().ByPrompt, fake.Submissions().ByGraph
	twice := 0
	for id, n := range prompts {
		if n.Queued != 1 {
			twice++
			t.Errorf("prompt %s was queued %d times", id, n.Queued)
		}
	}
	t.Logf("%d runs, %d receipts, %d prompts, %d graphs, %d prompts twice", len(runs.Runs), receipts, len(prompts), len(graphs), twice)
	if len(runs.Runs) != commands || receipts != commands || len(prompts) != commands {
		t.Errorf("%d commands had these effects", commands)
	}
}
