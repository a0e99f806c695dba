package routes

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

func (c *call) runContract() error {
	err := c.launchContract()
	if err == nil {
		return nil
	}
	f := *c.faultOf(err)
	if f.code == sidecar.CodeTooLarge || f.more != nil {
		return err
	}
	// Clients of a run find lists in every answer, as from the reference.
	f.more = func(t *text) {
		t.raw("output_slots", []byte("[]"))
		t.raw("gallery_items", []byte("[]"))
	}
	return &f
}

func (c *call) launchContract() error {
	v := c.session()
	launch := sidecar.LaunchRequest{Session: v.Session}
	launch.Workflow, launch.Contract = c.contractNames()
	req, err := c.readRun(c.inputNames(launch.Workflow, launch.Contract))
	if err != nil {
		return err
	}
	if err := c.settled(); err != nil {
		return err
	}
	ctx, stop := c.r.Context(), context.CancelFunc(func() {})
	launch.Values, launch.Manner = req.values, sidecar.Manner{Waited: req.wait, Poll: req.poll}
	req.holds.ask(&launch)
	switch {
	case req.wait && req.limit > 0:
		ctx, stop = context.WithTimeout(ctx, req.limit)
	case !req.wait:
		launch.Limit = req.limit
	}
	defer stop()
	run, err := c.launch(ctx, launch)
	if err != nil {
		return launchFault(err)
	}
	if req.wait && !run.Status.Terminal() {
		c.raw = nil // it may be large, and the wait long
		run, err = c.wait(ctx, run)
		if err != nil {
			return err
		}
	}
	return c.answerRun(c.afterCancel(ctx, run), req.wait)
}

// launch launches a run, unless the call's command did so before.
func (c *call) launch(ctx context.Context, req sidecar.LaunchRequest) (*sidecar.Run, error) {
	if c.resumed != nil && c.resumed.Run != "" {
		c.relaunched = true
		return c.studio.Resume(ctx, req.Session.Scope, c.resumed.Run)
	}
	return c.studio.Launch(ctx, req)
}

// wait waits for the run's end. The end of the wait is not the run's, and no
// error: the run is answered as it then is.
func (c *call) wait(ctx context.Context, run *sidecar.Run) (*sidecar.Run, error) {
	if c.turn != nil {
		c.turn.release()
	}
	ended, err := c.studio.Wait(ctx, run.ID)
	if err != nil && ctx.Err() == nil {
		if ended != nil {
			err = c.waitStuck(ended, err)
		}
		return nil, err
	}
	if ended == nil || ended.Workflow == "" {
		return run, nil
	}
	return ended, nil
}

// launchFault says where the manifest is broken, if that is why nothing was
// launched.
func launchFault(err error) error {
	if f := manifestFault(err); f != nil {
		return f
	}
	return err
}

// answerRun answers for a run that was launched, as it is now.
func (c *call) answerRun(run *sidecar.Run, waited bool) error {
	s, t := c.shape(), text{make([]byte, 0, usualAnswer)}
	status := http.StatusOK
	switch {
	case !run.Accepted && run.Status == sidecar.StatusError, waited && run.Status == sidecar.StatusError:
		status = runStatus(run)
		s.outcome(&t, run)
	case run.Status == sidecar.StatusCancelled && (waited || !run.Accepted):
		return cancelled(s, run)
	case !waited:
		s.receipt(&t, run)
	case run.Status == sidecar.StatusCompleted:
		s.outcome(&t, run)
	default:
		return c.waitEnded(s, run)
	}
	c.json(status, t.b)
	return nil
}

// outcome writes the document that an ended run keeps as its result, with the
// run's slots and items beside it.
func (s shape) outcome(t *text, r *sidecar.Run) {
	t.open('{')
	doc := s.rewrite(r.Result)
	t.members(doc)
	if !hasMember(doc, "run_id") {
		t.str("run_id", string(r.ID))
	}
	s.slots(t, r)
	s.items(t, r)
	t.optStr("outcome", string(r.Outcome))
	t.int("revision", r.Revision)
	provenance(t, r)
	t.optRaw("environment_ref", r.EnvironmentRef)
	t.close('}')
}

func hasMember(doc []byte, name string) bool {
	var members map[string]json.RawMessage
	if json.Unmarshal(doc, &members) != nil {
		return false
	}
	_, ok := members[name]
	return ok
}

// runStatus is the HTTP status of a run that failed.
func runStatus(run *sidecar.Run) int {
	if run.Code == string(sidecar.CodeRejected) {
		var doc struct {
			Status int `json:"comfy_status"`
		}
		if json.Unmarshal(run.Result, &doc) == nil && doc.Status == http.StatusBadRequest {
			return http.StatusBadRequest
		}
	}
	return statusOf(sidecar.Code(run.Code))
}

func cancelled(s shape, run *sidecar.Run) *fault {
	return &fault{
		code: sidecar.CodeRunCancelled, message: fmt.Sprintf("Run '%s' was cancelled.", run.ID),
		hint: "Run it again if that was not meant.",
		more: func(t *text) {
			t.str("run_id", string(run.ID))
			s.run(t, "run", run)
			s.slots(t, run)
			s.items(t, run)
		},
	}
}

func (c *call) waitEnded(s shape, run *sidecar.Run) *fault {
	message := "Timed out waiting for " + c.awaited(run)
	hint := fmt.Sprintf("The run goes on; follow it under /runs/%s.", run.ID)
	if c.r.Context().Err() != nil {
		message = "The server stops; it waits no longer for " + c.awaited(run)
		if c.opts.State == "ephemeral" {
			hint = "This server keeps nothing: what it knows of the run ends with it. Start it with --state local to keep runs."
		}
	}
	if err := c.studio.Unkept(run); err != nil {
		hint = fmt.Sprintf("%s. Follow the run under /runs/%s.", c.unkept(err), run.ID)
	}
	return &fault{
		code: sidecar.CodeTimeout, message: message, hint: hint,
		more: func(t *text) {
			t.str("run_id", string(run.ID))
			s.slots(t, run)
			s.items(t, run)
		},
	}
}

// awaited says what a wait for a run is for, in the reference's words where the
// run was handed over.
func (c *call) awaited(run *sidecar.Run) string {
	backend := "ComfyUI"
	if c.opts.ExecutorName == "proxy" {
		backend = "proxy"
	}
	if run.PromptID == "" {
		return fmt.Sprintf("run '%s', which %s does not have yet: it waits for %s.", run.ID, backend, run.WaitsFor())
	}
	return fmt.Sprintf("%s prompt %s", backend, run.PromptID)
}

// unkept says why what becomes of a run is not known.
func (c *call) unkept(err error) string {
	return "What becomes of the run cannot be written now: " + c.faultOf(err).message
}

// waitStuck answers for a run that stands still because nothing can be written.
func (c *call) waitStuck(run *sidecar.Run, err error) error {
	s, f := c.shape(), *c.faultOf(err)
	f.message = c.unkept(err)
	f.hint += fmt.Sprintf(" Then follow the run under /runs/%s.", run.ID)
	f.more = func(t *text) {
		t.str("run_id", string(run.ID))
		s.run(t, "run", run)
		s.slots(t, run)
		s.items(t, run)
	}
	return &f
}

func (c *call) showRun() error {
	v := c.session()
	run, err := c.studio.Lookup(c.r.Context(), v.Scope, sidecar.RunID(c.path("run_id")))
	if err != nil {
		return err
	}
	c.remember(v)
	c.showTagged(run, c.renderRun(v, run))
	return nil
}

// renderRun writes all there is about a run.
func (c *call) renderRun(v visitor, run *sidecar.Run) []byte {
	s, t := c.shape(), text{}
	t.open('{')
	t.str("state", c.opts.State)
	t.str("session_id", string(v.ID))
	s.openRun(&t, "run", run)
	t.optRaw("environment_ref", run.EnvironmentRef)
	if !run.Status.Terminal() {
		c.liveMembers(&t, run)
	}
	t.close('}')
	s.slots(&t, run)
	s.items(&t, run)
	c.timings(&t, run)
	t.close('}')
	return t.b
}

// liveMembers tell how far an unfinished run is.
func (c *call) liveMembers(t *text, run *sidecar.Run) {
	live, followed := c.studio.Live(run.ID)
	if place, waits := c.studio.QueuePlace(run); waits {
		t.int("queue_position", int64(place))
	} else if followed && live.Position >= 0 {
		t.int("queue_position", int64(live.Position))
	}
	if !followed {
		return
	}
	t.bool("live", live.Heard)
	if live.HasProgress {
		t.key("progress")
		t.open('{')
		progressMembers(t, live.Progress)
		t.close('}')
	}
}

// timings lists when the run and its nodes began and ended.
func (c *call) timings(t *text, run *sidecar.Run) {
	t.key("timings")
	t.open('{')
	t.optStr("startedAt", sidecar.FormatTime(run.StartedAt))
	t.optStr("finishedAt", sidecar.FormatTime(run.FinishedAt))
	nodeRuns(t, run.Nodes)
	t.close('}')
}

func (c *call) cancelRun() error {
	v, id := c.session(), sidecar.RunID(c.path("run_id"))
	c.sent = c.cancels.begin(id)
	run, err := c.studio.Cancel(c.r.Context(), v.Scope, id)
	if err != nil {
		return err
	}
	s, t := c.shape(), text{}
	t.open('{')
	t.str("status", string(sidecar.StatusCancelled))
	t.str("run_id", string(run.ID))
	s.run(&t, "run", run)
	s.slots(&t, run)
	s.items(&t, run)
	t.optRaw("remote_cancel", s.rewrite(remoteCancel(run)))
	t.close('}')
	c.json(http.StatusOK, t.b)
	return nil
}

// remoteCancel is what the backend said to the cancel, if it refused.
func remoteCancel(run *sidecar.Run) []byte {
	var doc struct {
		Remote json.RawMessage `json:"remote_cancel"`
	}
	if json.Unmarshal(run.Result, &doc) != nil {
		return nil
	}
	return doc.Remote
}

// preview shows the newest picture of what is being made.
func (c *call) preview() error {
	return c.showPreview(c.session().Scope, sidecar.RunID(c.path("run_id")))
}

func (c *call) showPreview(scope sidecar.Scope, id sidecar.RunID) error {
	picture, version, err := c.studio.Preview(scope, id)
	if err != nil {
		return &fault{
			code: sidecar.CodeNotFound, message: "There is no preview of this run now.",
			hint: "Previews exist while a run executes, if ComfyUI sends them.", cause: err,
		}
	}
	h := c.w.Header()
	etag := fmt.Sprintf(`"v%d"`, version)
	h.Set("ETag", etag)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if matches(c.r.Header.Get("If-None-Match"), etag) {
		c.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	h.Set("Content-Type", picture.Type)
	c.body(http.StatusOK, picture.Data)
	return nil
}
