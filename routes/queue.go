package routes

import (
	"context"
	"net/http"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// queuePause is after how many seconds a client may try again whose run found
// no room: some runs have ended by then, on most machines.
const queuePause = "5"

// queueState writes how full the dispatcher is, into an open object.
func queueState(t *text, q sidecar.QueueState) {
	t.int("window", int64(q.Window))
	t.bool("paused", q.Paused)
	t.int("in_flight", int64(q.InFlight))
	t.int("waiting", int64(q.Waiting))
	t.int("held", int64(q.Held))
	t.key("limits")
	t.open('{')
	t.int("waiting", int64(q.Limits.Waiting))
	t.int("waiting_per_session", int64(q.Limits.PerSession))
	t.close('}')
}

// waits tells what a run waits for beside its turn, or waited for.
func waits(t *text, r *sidecar.Run) {
	h := r.Hold
	if h == nil {
		return
	}
	t.key("queue")
	t.open('{')
	t.optStr("wait_reason", string(r.WaitReason()))
	if h.Backend {
		t.bool("hold", true)
	}
	t.optStr("not_before", sidecar.FormatTime(h.NotBefore))
	if h.Approval {
		t.bool("needs_approval", true)
	}
	if h.After != nil {
		t.key("after")
		t.open('{')
		t.str("run_id", string(h.After.Run))
		t.key("inputs")
		t.open('{')
		for _, feed := range h.After.Inputs {
			t.str(feed.Input, feed.Output)
		}
		t.close('}')
		t.close('}')
	}
	t.close('}')
}

func (c *call) showQueue() error {
	v := c.session()
	q := c.studio.Queue(v.Scope)
	t := text{}
	t.open('{')
	t.str("session_id", string(v.ID))
	queueState(&t, q.QueueState)
	t.key("runs")
	t.open('{')
	entries(&t, "in_flight", q.Flying, nil)
	entries(&t, "waiting", q.Waiting, func(e *sidecar.QueueEntry) { t.int("queue_position", int64(e.Position)) })
	entries(&t, "held", q.Held, func(e *sidecar.QueueEntry) {
		t.str("wait_reason", string(e.Reason))
		t.optStr("not_before", sidecar.FormatTime(e.NotBefore))
		t.optStr("after", string(e.After))
	})
	t.close('}')
	t.close('}')
	c.remember(v)
	c.json(http.StatusOK, t.b)
	return nil
}

func entries(t *text, name string, list []sidecar.QueueEntry, more func(*sidecar.QueueEntry)) {
	t.key(name)
	t.open('[')
	for i := range list {
		e := &list[i]
		t.open('{')
		t.str("run_id", string(e.Run))
		t.str("workflow", e.Workflow)
		t.str("contract", e.Contract)
		t.str("createdAt", sidecar.FormatTime(e.CreatedAt))
		if more != nil {
			more(e)
		}
		t.close('}')
	}
	t.close(']')
}

func (c *call) pauseQueue() error  { return c.setPaused(true) }
func (c *call) resumeQueue() error { return c.setPaused(false) }

func (c *call) setPaused(paused bool) error {
	if err := c.studio.PauseQueue(c.r.Context(), paused); err != nil {
		return err
	}
	return c.showQueue()
}

func (c *call) approveRun() error { return c.decide(c.studio.Approve) }
func (c *call) rejectRun() error  { return c.decide(c.studio.Reject) }
func (c *call) frontRun() error   { return c.decide(c.studio.Front) }

// decide moves a run that waits and answers with it.
func (c *call) decide(do func(context.Context, sidecar.Scope, sidecar.RunID) (*sidecar.Run, error)) error {
	v := c.session()
	run, err := do(c.r.Context(), v.Scope, sidecar.RunID(c.path("run_id")))
	if err != nil {
		return err
	}
	s, t := c.shape(), text{}
	t.open('{')
	t.str("status", string(run.Status))
	t.str("run_id", string(run.ID))
	s.openRun(&t, "run", run)
	c.liveMembers(&t, run)
	t.close('}')
	s.slots(&t, run)
	s.items(&t, run)
	t.close('}')
	c.json(http.StatusOK, t.b)
	return nil
}

func (c *call) listChildren() error {
	v := c.session()
	id := sidecar.RunID(c.path("run_id"))
	found, err := c.studio.Children(c.r.Context(), v.Scope, id)
	if err != nil {
		return err
	}
	s, t := c.shape(), text{}
	t.open('{')
	t.str("session_id", string(v.ID))
	t.str("run_id", string(id))
	t.key("runs")
	t.open('[')
	for _, r := range found.Runs {
		s.run(&t, "", r)
	}
	t.close(']')
	t.bool("has_more", found.More)
	t.close('}')
	c.json(http.StatusOK, t.b)
	return nil
}
