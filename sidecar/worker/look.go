package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/protocol"
)

// lessPatient: once a callback stayed away, the worker is asked more often.
const lessPatient = 3

// Look asks a worker for a run. While a callback is waited for, it says what
// it saw last.
func (e *Executor) Look(ctx context.Context, job sidecar.Job) (sidecar.Sighting, error) {
	if job.Prompt == "" {
		return sidecar.Sighting{}, fmt.Errorf("look for %s: the job has no prompt id", job.Run)
	}
	if seen, ok := e.resting(job.Prompt); ok {
		return seen, nil
	}
	seen, err := e.look(ctx, job)
	if err != nil {
		return sidecar.Sighting{}, fmt.Errorf("look for prompt %s: %w", job.Prompt, err)
	}
	if seen.Place == sidecar.PlaceQueued || seen.Place == sidecar.PlaceExecuting {
		e.await(job, job.Prompt, seen, e.opts.Patience/lessPatient)
	}
	return seen, nil
}

func runPath(prompt sidecar.PromptID) string { return "/proxy/runs/" + url.PathEscape(string(prompt)) }

func (e *Executor) look(ctx context.Context, job sidecar.Job) (sidecar.Sighting, error) {
	a, err := e.http.ask(ctx, http.MethodGet, runPath(job.Prompt))
	switch {
	case err != nil:
		return sidecar.Sighting{}, e.http.unreachable(err)
	case a.Status == http.StatusNotFound && a.says():
		return e.missing(job, a)
	}
	var doc protocol.Run
	if err := a.object(&doc); err != nil {
		// Outputs of a foreign shape do not hide the status.
		var status struct {
			Status string `json:"status"`
		}
		if !a.OK() || json.Unmarshal(a.Body, &status) != nil {
			return sidecar.Sighting{}, e.http.unusable(a, err)
		}
		doc = protocol.Run{Status: status.Status}
	}
	return e.sighting(a, doc, job.Prompt)
}

// missing is where a prompt is that the worker said not to know. A worker of
// ours knows all that it ever took. A reference worker may have it under an id
// of its own, as long as its answer to the submission is not known: then only
// its callback can tell.
func (e *Executor) missing(job sidecar.Job, a answer) (sidecar.Sighting, error) {
	_, ours := protocol.Abilities(a.Header)
	switch {
	case job.Accepted || ours:
		return sidecar.Sighting{Place: sidecar.PlaceAbsent}, nil
	case e.callbackURL(job) != "":
		err := errors.New("the worker keeps ids of its own; its callback is waited for")
		return sidecar.Sighting{}, &sidecar.UnsureError{Failure: e.http.unavailable(err), Err: err}
	}
	return sidecar.Sighting{Place: sidecar.PlaceUnknown}, nil
}

func (e *Executor) sighting(a answer, doc protocol.Run, prompt sidecar.PromptID) (sidecar.Sighting, error) {
	seen := sidecar.Sighting{Detail: a.Body, Issues: doc.Warnings}
	if doc.Done() {
		doc.Status = protocol.StatusCompleted
	}
	switch strings.ToLower(doc.Status) {
	case protocol.StatusSubmitted, protocol.StatusRunning:
		seen.Place = placeOf(doc)
		if doc.QueuePosition != nil {
			seen.Position = *doc.QueuePosition
		}
	case protocol.StatusCompleted:
		seen.Place, seen.AllCached = sidecar.PlaceDone, doc.Outcome == sidecar.OutcomeCached
	case protocol.StatusError, protocol.StatusFailed, protocol.StatusTimeout:
		seen.Place, seen.Failure = sidecar.PlaceFailed, protocol.FailureOfRun(doc, prompt)
	case protocol.StatusCancelled:
		seen.Place = sidecar.PlaceStopped
		if doc.Phase == sidecar.PhaseCancelling {
			seen.Place = sidecar.PlaceExecuting // its ComfyUI has not let go yet
		}
	default:
		return seen, e.http.unusable(a, fmt.Errorf("%s: status %q: %w", a.URL, doc.Status, errNotWorker))
	}
	return seen, nil
}

// placeOf is where a run is that goes on. A reference worker does not say
// whether it waits.
func placeOf(doc protocol.Run) sidecar.Place {
	switch doc.Phase {
	case sidecar.PhaseHeld, sidecar.PhaseSubmitting, sidecar.PhaseQueued:
		return sidecar.PlaceQueued
	}
	return sidecar.PlaceExecuting
}

// Cancel passes the wish to drop a run on.
func (e *Executor) Cancel(ctx context.Context, job sidecar.Job) error {
	e.wake(job.Prompt)
	a, err := e.http.ask(ctx, http.MethodPost, runPath(job.Prompt)+"/cancel")
	switch {
	case err != nil:
		return e.http.unreachable(fmt.Errorf("cancel prompt %s: %w", job.Prompt, err))
	case a.OK() || a.Status == http.StatusConflict: // it has ended already
		return nil
	}
	f := rejected(a)
	if f.Code == CodeRejected {
		f.Code = string(sidecar.CodeCancelRejected)
	}
	return &sidecar.RefusedError{Failure: f}
}
