package sidecar_test

import (
	"context"
	"net/http"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// heldDeeds are what happens to runs that wait for more than their turn, and to
// the queue. What is asked of a run may come at a wrong time, and is refused
// then.
var heldDeeds = []deed{
	asked("approve", (*sidecar.Studio).Approve),
	asked("reject", (*sidecar.Studio).Reject),
	asked("to the front", (*sidecar.Studio).Front),
	{"the queue is paused", func(r *rig, _ *world, n int) {
		if r.studio.PauseQueue(context.Background(), true) == nil {
			r.restsWhilePaused(time.Duration(n%10) * time.Second)
		}
	}},
	{"the queue goes on", func(r *rig, _ *world, _ int) { _ = r.studio.PauseQueue(context.Background(), false) }},
}

// launchWaiting launches a run that waits for ComfyUI, for approval, for a time
// or for another run.
func launchWaiting(r *rig, w *world, n int) {
	w.seed++
	req := r.request([]sidecar.SessionID{anna, bert}[n%2], []string{"picture", "slow", "broken"}[n%3], w.seed)
	req.Hold, req.NeedsApproval = n%5 == 0, n%5 == 1
	if n%5 == 2 {
		req.NotBefore = time.Now().Add(time.Duration(n) * time.Second)
	}
	if parent := w.pick(n); n%5 > 2 && parent != nil && parent.Scope == req.Session.Scope {
		req.After = &sidecar.After{Run: parent.ID}
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Second)
	defer stop()
	if run, err := r.studio.Launch(ctx, req); err == nil {
		w.runs[run.ID] = run
	}
}

// asked asks something of a run.
func asked(name string, what func(*sidecar.Studio, context.Context, sidecar.Scope, sidecar.RunID) (*sidecar.Run, error)) deed {
	return deed{name, func(r *rig, w *world, n int) {
		if run := w.pick(n); run != nil {
			_, _ = what(r.studio, context.Background(), run.Scope, run.ID)
		}
	}}
}

// restsWhilePaused: what is not being handed over when the queue is paused is
// not handed over.
func (r *rig) restsWhilePaused(d time.Duration) {
	r.Helper()
	r.pass(2 * time.Second)
	before := r.posts(http.MethodPost, "/prompt")
	r.pass(d)
	if n := r.posts(http.MethodPost, "/prompt"); n != before {
		r.Errorf("%d prompts were handed over by a paused queue", n-before)
	}
}

// letGo lets all runs go that wait for somebody.
func (r *rig) letGo() {
	r.Helper()
	r.pause(false)
	for _, who := range []sidecar.SessionID{anna, bert} {
		for _, run := range r.runs(who) {
			if r.read(run.ID).Awaits(sidecar.WaitApproval) {
				_, _ = r.studio.Approve(context.Background(), run.Scope, run.ID) // it may be rejected meanwhile, with its parent
			}
		}
	}
}

// waitedRightly: a run began neither before its time nor without what it waited
// for.
func (r *rig) waitedRightly(run *sidecar.Run) {
	r.Helper()
	hold := run.Hold
	if hold == nil {
		return
	}
	if !run.StartedAt.IsZero() && run.StartedAt.Before(hold.NotBefore) {
		r.Errorf("it started at %v, not to before %v", run.StartedAt, hold.NotBefore)
	}
	refused := run.Code == string(sidecar.CodeRunRejected)
	if hold.After != nil {
		parent := r.read(hold.After.Run)
		refused = refused || parent.Status != sidecar.StatusCompleted
		if !run.StartedAt.IsZero() && run.StartedAt.Before(parent.FinishedAt) {
			r.Errorf("it started at %v, before the run that it follows ended at %v", run.StartedAt, parent.FinishedAt)
		}
	}
	if n := r.begun(run); refused && n > 0 {
		r.Errorf("it was begun %d times though it was rejected, or its parent failed", n)
	}
}
