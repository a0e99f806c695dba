package comfy

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"sync"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// cancelRounds bounds how often a prompt is followed that moves from the queue
// into execution while it is being cancelled.
const cancelRounds = 3

// abilities are what is known of the ComfyUI that answers now.
type abilities struct {
	mu   sync.Mutex
	jobs ability // POST /api/jobs/{id}/cancel
}

type ability int

const (
	unknown ability = iota
	present
	missing
)

// forget is for when another ComfyUI may stand at the address.
func (a *abilities) forget() { a.setJobs(unknown) }

func (a *abilities) setJobs(to ability) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.jobs = to
}

// canCancelJobs finds out whether there is a route for jobs. A 500 is a yes:
// the list breaks when any job carries odd extra data.
func (e *Executor) canCancelJobs(ctx context.Context) (bool, error) {
	e.abilities.mu.Lock()
	known := e.abilities.jobs
	e.abilities.mu.Unlock()
	if known != unknown {
		return known == present, nil
	}
	a, err := e.http.call(ctx, exchange{method: http.MethodGet, path: "/api/jobs?status=pending&limit=1"})
	if err != nil {
		return false, e.http.unreachable(err)
	}
	found := missing
	if a.Status == http.StatusInternalServerError || a.OK() && isList(members(a.Body)["jobs"]) {
		found = present
	}
	e.abilities.setJobs(found)
	return found == present, nil
}

// Cancel asks ComfyUI to drop or stop one prompt, by the narrowest call that
// it has. A prompt that ComfyUI does not have needs none.
func (e *Executor) Cancel(ctx context.Context, job sidecar.Job) error {
	if job.Prompt == "" {
		return fmt.Errorf("cancel %s: the job has no prompt id", job.Run)
	}
	if err := e.cancel(ctx, job); err != nil {
		return fmt.Errorf("cancel prompt %s: %w", job.Prompt, err)
	}
	return nil
}

func (e *Executor) cancel(ctx context.Context, job sidecar.Job) error {
	able, err := e.canCancelJobs(ctx)
	if err != nil {
		return err
	}
	if able {
		done, err := e.cancelJob(ctx, e.jobs.actual(job.Prompt))
		if done || err != nil {
			return err
		}
	}
	return e.cancelInQueue(ctx, job)
}

// cancelJob is one call without a race: the server finds the prompt wherever
// it is. It reports false when the server knows no such route or no such job.
func (e *Executor) cancelJob(ctx context.Context, id sidecar.PromptID) (bool, error) {
	path := "/api/jobs/" + url.PathEscape(string(id)) + "/cancel"
	a, err := e.http.call(ctx, exchange{method: http.MethodPost, path: path, body: []byte("{}")})
	if err != nil {
		return false, e.http.unheard(err)
	}
	if a.Status == http.StatusNotFound || a.Status == http.StatusMethodNotAllowed {
		e.abilities.setJobs(missing)
		return false, nil
	}
	if !a.OK() {
		return false, refusedCancel(a)
	}
	var doc struct {
		Cancelled bool `json:"cancelled"`
	}
	return a.object(&doc) == nil && doc.Cancelled, nil
}

// cancelInQueue looks before each call. ComfyUIs before 0.3.57 stop whatever
// runs when they are told to interrupt, so an interrupt is sent only while the
// prompt was just seen running.
func (e *Executor) cancelInQueue(ctx context.Context, job sidecar.Job) error {
	for range cancelRounds {
		q, err := e.queue(ctx)
		if err != nil {
			return err
		}
		id := e.resolve(job, e.jobs.actual(job.Prompt), q)
		seen, found := q.find(id)
		if !found {
			return nil
		}
		if seen.Place == sidecar.PlaceExecuting {
			return e.order(ctx, "/interrupt", map[string]any{"prompt_id": id})
		}
		if err := e.order(ctx, "/queue", map[string]any{"delete": []sidecar.PromptID{id}}); err != nil {
			return err
		}
	}
	return nil
}

// order posts a wish that is answered without a body.
func (e *Executor) order(ctx context.Context, path string, wish map[string]any) error {
	body, err := json.Marshal(wish)
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	a, err := e.http.call(ctx, exchange{method: http.MethodPost, path: path, body: body})
	if err != nil {
		return e.http.unheard(err)
	}
	if !a.OK() {
		return refusedCancel(a)
	}
	return nil
}

func refusedCancel(a answer) error {
	return &sidecar.RefusedError{Failure: rejected(sidecar.CodeCancelRejected, a)}
}
