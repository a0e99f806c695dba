package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite"
)

var kills = flag.Int("kills", 0, "how often TestKilled kills the sidecar; 0: 10 times, 200 with STUDIO_FULL")

// storm are clients that ask for runs without a pause. What is not answered
// they ask for again, by the same key.
type storm struct {
	t        *testing.T
	current  atomic.Pointer[process]
	ended    chan struct{} // closed: ask for no more
	answers  chan struct{} // one for each answer
	accepted atomic.Int64
	repeated atomic.Int64
	refused  atomic.Int64 // 429
}

// client asks for runs until the storm ends.
func (s *storm) client(ctx context.Context, number int) {
	for n := 0; ; n++ {
		select {
		case <-s.ended:
			return
		default:
		}
		if !s.command(ctx, fmt.Sprintf("key-of-client-%d-%d", number, n), fmt.Sprintf("client-%d", number)) {
			return
		}
	}
}

func (s *storm) command(ctx context.Context, key, session string) bool {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for try := 0; ; try++ {
		p := s.current.Load()
		status, body, err := s.ask(ctx, p, key, session)
		switch {
		case err == nil && status == http.StatusOK:
			s.accepted.Add(1)
			select {
			case s.answers <- struct{}{}:
			case <-s.ended:
			}
			return true
		case err == nil && status == http.StatusTooManyRequests:
			s.refused.Add(1)
		case err == nil:
			s.t.Errorf("command %s: %d %s", key, status, body)
			return false
		case err != nil && try == 0:
			s.repeated.Add(1)
		}
		for again := true; again; again = err != nil && s.current.Load() == p {
			select {
			case <-tick.C:
			case <-ctx.Done():
				s.t.Errorf("command %s was never answered: %v", key, err)
				return false
			}
		}
	}
}

func (s *storm) ask(ctx context.Context, p *process, key, session string) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/contracts/painting/default/run",
		strings.NewReader(`{"inputs":{"seed":7,"steps":1,"width":64,"height":64}}`))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("X-ComfyGit-Studio-Session", session)
	req.Header.Set(keyHeader, key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}

// kill kills the sidecar n times, each time after some answers. It returns how
// long each start took until it was ready, and how long the sidecar was up.
func (s *storm) kill(n int, restart func() *process) (starts []time.Duration, up time.Duration) {
	ready := time.Now()
	for range n {
		for range 8 + rand.IntN(16) {
			<-s.answers
		}
		s.current.Load().end(syscall.SIGKILL)
		up += time.Since(ready)
		began := time.Now()
		p := restart()
		eventually(s.t, 20*time.Second, "it is ready", func() bool { return p.must("GET", "/readyz", "").status == http.StatusOK })
		starts = append(starts, time.Since(began))
		ready = time.Now()
		s.current.Store(p)
	}
	return starts, up
}

// TestKilled kills the sidecar again and again under the load of clients that
// repeat what is not answered: nothing that was accepted is lost or run twice,
// and no event is missing.
func TestKilled(t *testing.T) {
	times, slow := *kills, 0.0
	if os.Getenv("STUDIO_FULL") != "" {
		times, slow = cmp.Or(times, 200), 100
	}
	times = cmp.Or(times, 10)
	ctx, stop := context.WithTimeout(t.Context(), 9*time.Minute)
	defer stop()
	fake, comfy := startFake(t, comfyfake.Options{})
	dir := t.TempDir()
	env, err := layDemo(dir)
	if err != nil {
		t.Fatal(err)
	}
	db := filepath.Join(dir, "state.sqlite")
	restart := func() *process {
		return start(t, env.Dir, comfy, "--state", "local", "--gallery", "shared", "--state-db", db, "--artifact-dir", filepath.Join(dir, "artifacts"),
			"--max-waiting", "1000000", "--max-waiting-per-session", "1000000") // no client waits for ComfyUI's work
	}
	s := &storm{t: t, ended: make(chan struct{}), answers: make(chan struct{})}
	s.current.Store(restart())
	var clients sync.WaitGroup
	for i := range 16 {
		clients.Go(func() { s.client(ctx, i) })
	}
	starts, up := s.kill(times, restart)
	underLoad := s.accepted.Load()
	close(s.ended)
	clients.Wait()
	rate := float64(underLoad) / up.Seconds()
	slices.Sort(starts)
	median, slowest := starts[len(starts)/2], starts[len(starts)-1]
	t.Logf("%d kills; %d commands accepted, %.0f a second, %d not answered at first, %d times 429; ready after %v (median), %v (max)",
		times, s.accepted.Load(), rate, s.repeated.Load(), s.refused.Load(), median.Round(time.Millisecond), slowest.Round(time.Millisecond))
	if median > 2*time.Second || s.repeated.Load() < int64(times)/2 {
		t.Errorf("it was ready after %v, and the kills hit %d commands", median, s.repeated.Load())
	}
	if rate < slow || s.refused.Load() > 0 {
		t.Errorf("the load was %.0f commands a second, and %d were put off: the test did not test much", rate, s.refused.Load())
	}
	s.drain(ctx)
	s.account(ctx, db, fake)
}

// drain waits until all runs have ended, and ends the sidecar.
func (s *storm) drain(ctx context.Context) {
	p := s.current.Load()
	began, left := time.Now(), 0
	eventually(s.t, 5*time.Minute, "all runs end", func() bool {
		var active struct{ Runs []any }
		p.must("GET", "/runs?active=true&limit=100", "").decode(s.t, &active)
		left = len(active.Runs)
		return left == 0 || ctx.Err() != nil
	})
	s.t.Logf("what waited ended within %v", time.Since(began).Round(time.Millisecond))
	p.end(syscall.SIGTERM)
}

// account compares what was accepted, what is stored and what ComfyUI was given.
func (s *storm) account(ctx context.Context, db string, fake *comfyfake.Server) {
	store, err := sqlite.Open(ctx, sqlite.Options{Path: db})
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			s.t.Error(err)
		}
	}()
	prompts := fake.Submissions().ByPrompt
	stored, lost, twice, gaps := 0, 0, 0, 0
	for filter, more := (sidecar.RunFilter{Scope: sidecar.SharedScope}), true; more; {
		page, err := store.Runs(ctx, filter)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, run := range page.Runs {
			stored++
			if run.Status != sidecar.StatusCompleted {
				lost++
				s.t.Errorf("run %s is %s, %s: %s", run.ID, run.Status, run.Outcome, run.Error)
			}
			if prompts[string(run.Prompt)].Queued != 1 {
				twice++
				s.t.Errorf("ComfyUI had the prompt of run %s: %+v", run.ID, prompts[string(run.Prompt)])
			}
			gaps += s.gaps(ctx, store, run)
		}
		more = page.More
		if len(page.Runs) > 0 {
			last := page.Runs[len(page.Runs)-1]
			filter.After = sidecar.Cursor{CreatedAt: last.CreatedAt, ID: string(last.ID)}
		}
	}
	report, err := store.Verify(ctx)
	if err != nil || len(report.Faults) > 0 {
		s.t.Errorf("the file is not sound: %v %v", err, report.Faults)
	}
	s.t.Logf("%d runs stored, %d prompts in ComfyUI, %d events: %d lost, %d handed over twice or never, %d gaps in event numbers",
		stored, len(prompts), report.Events, lost, twice, gaps)
	if accepted := int(s.accepted.Load()); stored != accepted || len(prompts) != accepted {
		s.t.Errorf("%d commands were accepted", accepted)
	}
}

// gaps counts the revisions of a run that no event has.
func (s *storm) gaps(ctx context.Context, store *sqlite.Store, run *sidecar.Run) (n int) {
	records, err := store.Events(ctx, run.Scope, run.ID, 0, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	for i, rec := range records {
		var event struct{ Revision int64 }
		if err := json.Unmarshal(rec.JSON, &event); err != nil || event.Revision != int64(i+1) {
			n++
			s.t.Errorf("event %d of run %s has revision %d: %v", i+1, run.ID, event.Revision, err)
		}
	}
	if run.Revision != int64(len(records)) {
		n++
		s.t.Errorf("run %s has revision %d and %d events", run.ID, run.Revision, len(records))
	}
	return n
}
