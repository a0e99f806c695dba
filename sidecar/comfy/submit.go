package comfy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// Submit hands a job over once, under the client id of the socket that Watch
// keeps, so that its news come in.
func (e *Executor) Submit(ctx context.Context, job sidecar.Job) (sidecar.Acceptance, error) {
	// A graph may hold NaN, which ComfyUI reads and JSON forbids.
	if job.Prompt == "" || !bytes.HasPrefix(job.Graph, []byte("{")) {
		return sidecar.Acceptance{}, fmt.Errorf("submit %s: the job has no prompt id or no graph", job.Run)
	}
	e.jobs.remember(job)
	client := e.link.clientID(ctx, e.opts.CallTimeout/10)
	if err := e.greet(ctx, job); err != nil {
		return sidecar.Acceptance{}, err
	}
	before := time.Now()
	a, err := e.http.call(ctx, exchange{method: http.MethodPost, path: "/prompt", body: promptBody(job, client)})
	if err != nil {
		return sidecar.Acceptance{}, e.http.unheard(fmt.Errorf("submit %s: %w", job.Run, err))
	}
	if !a.OK() {
		return sidecar.Acceptance{}, refusedPrompt(job, a)
	}
	e.link.expect(before)
	return e.accepted(ctx, job, a)
}

// greet asks a harmless question while there is no socket. A forwarder may take
// connections for a ComfyUI that is away; an order given to it would leave
// unknown what became of it. What answers two such questions well and never as
// ComfyUI does gets no order either.
func (e *Executor) greet(ctx context.Context, job sidecar.Job) error {
	if e.link.connected() {
		return nil
	}
	for _, path := range []string{"/features", "/queue"} {
		a, err := e.http.call(ctx, exchange{method: http.MethodGet, path: path})
		if broke(err) { // with the socket, perhaps
			a, err = e.http.call(ctx, exchange{method: http.MethodGet, path: path})
		}
		if err != nil {
			return e.http.unreachable(fmt.Errorf("submit %s: %w", job.Run, err))
		}
		if !a.OK() || isObject(a.Body) {
			return nil
		}
	}
	return e.http.unreachable(fmt.Errorf("submit %s: %w", job.Run, errNotComfy))
}

// promptBody keeps the graph byte for byte: its numbers are the caller's.
func promptBody(job sidecar.Job, client string) []byte {
	var b bytes.Buffer
	b.Grow(len(job.Graph) + 256)
	b.WriteString(`{"prompt":`)
	b.Write(job.Graph)
	b.WriteString(`,"client_id":`)
	b.Write(quote(client))
	b.WriteString(`,"prompt_id":`)
	b.Write(quote(string(job.Prompt)))
	b.WriteString(`,"extra_data":{"studio_run":`)
	b.Write(quote(string(job.Run)))
	b.WriteString(`}}`)
	return b.Bytes()
}

// refusedPrompt tells a no from a perhaps: a 5xx or 408 may come after the
// prompt went into the queue, or from a proxy that gave up waiting.
func refusedPrompt(job sidecar.Job, a answer) error {
	f := rejected(sidecar.CodeRejected, a)
	if a.Status >= 500 || a.Status == http.StatusRequestTimeout {
		return &sidecar.UnsureError{Failure: f, Err: fmt.Errorf("submit %s: HTTP %d", job.Run, a.Status)}
	}
	f.Outcome = sidecar.OutcomeRejected
	return &sidecar.RefusedError{Failure: f}
}

func (e *Executor) accepted(ctx context.Context, job sidecar.Job, a answer) (sidecar.Acceptance, error) {
	var yes struct {
		Prompt json.RawMessage `json:"prompt_id"`
		Nodes  json.RawMessage `json:"node_errors"`
	}
	if err := a.object(&yes); err != nil {
		return sidecar.Acceptance{}, noPromptID(job, a, err)
	}
	id := sidecar.PromptID(plain(yes.Prompt))
	if id == "" {
		return sidecar.Acceptance{}, noPromptID(job, a, errors.New("no prompt_id"))
	}
	e.jobs.adopt(job.Prompt, id)
	job.Prompt = id
	if touches(yes.Nodes, job) {
		e.drop(ctx, job)
		return sidecar.Acceptance{}, &sidecar.RefusedError{Failure: partlyInvalid(a)}
	}
	acceptance := sidecar.Acceptance{PromptID: id}
	if len(members(yes.Nodes)) > 0 {
		acceptance.Warnings = yes.Nodes
	}
	return acceptance, nil
}

func noPromptID(job sidecar.Job, a answer, err error) error {
	return &sidecar.UnsureError{
		Failure: sidecar.Failure{
			Code: string(sidecar.CodeRejected), Message: "ComfyUI did not return a prompt id.",
			Hint: "Check that ComfyUI's address is right.", Status: a.Status, URL: a.URL, Detail: a.detail(),
		},
		Err: fmt.Errorf("submit %s: %w", job.Run, err),
	}
}

// touches reports whether ComfyUI dropped a declared output: each of the
// dependent outputs is one that failed to validate.
func touches(nodes json.RawMessage, job sidecar.Job) bool {
	declared := map[string]bool{}
	for _, out := range job.Outputs {
		declared[out.NodeID] = true
	}
	for id, raw := range members(nodes) {
		if declared[id] {
			return true
		}
		var node nodeError
		if json.Unmarshal(raw, &node) != nil {
			continue
		}
		for _, out := range node.Dependent {
			if declared[string(out)] {
				return true
			}
		}
	}
	return false
}

// partlyInvalid is the refusal of a prompt that ComfyUI would run without a
// declared output. Its status is the 400 that ComfyUI itself gives when no
// output is left.
func partlyInvalid(a answer) sidecar.Failure {
	f := rejected(sidecar.CodeRejected, a)
	f.Message = "Prompt outputs failed validation: " + f.Message
	f.Status, f.Outcome = http.StatusBadRequest, sidecar.OutcomeRejected
	return f
}

// dropTries bounds how often a prompt is looked after that must not run.
const dropTries = 5

// drop takes a prompt out of ComfyUI that it should not have accepted. What
// cannot be dropped runs for nothing, which harms nobody's results.
func (e *Executor) drop(ctx context.Context, job sidecar.Job) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.opts.CallTimeout)
	defer cancel()
	pause := time.NewTimer(0)
	defer pause.Stop()
	for range dropTries {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		err := e.Cancel(ctx, job)
		if err == nil {
			var seen sidecar.Sighting
			if seen, err = e.Look(ctx, job); err == nil && seen.Place != sidecar.PlaceQueued && seen.Place != sidecar.PlaceExecuting {
				return
			}
		}
		e.opts.Logger.Warn("refused prompt is still in ComfyUI", "run", job.Run, "prompt", job.Prompt, "err", err)
		pause.Reset(200 * time.Millisecond)
	}
}
