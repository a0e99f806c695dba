package comfy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/backend"
)

const (
	// recentRecords bounds how much of history is searched for a run whose
	// prompt id nobody knows.
	recentRecords = 64
	// recordLag is how long a prompt whose end was heard of may be nowhere:
	// the message comes before the record.
	recordLag = 5 * time.Second
)

// Look says where a prompt is. An answer that makes no sense is an
// *UnsureError: nothing can be concluded from it, so ask again.
func (e *Executor) Look(ctx context.Context, job sidecar.Job) (sidecar.Sighting, error) {
	if job.Prompt == "" {
		return sidecar.Sighting{}, fmt.Errorf("look for %s: the job has no prompt id", job.Run)
	}
	e.jobs.remember(job)
	before := time.Now()
	seen, err := e.look(ctx, job)
	if err == nil && job.Resumed && !job.Accepted && seen.Place != sidecar.PlaceAbsent && seen.Place != sidecar.PlaceFailed {
		seen.Dropped, err = e.dropped(ctx, job)
	}
	if err != nil {
		return sidecar.Sighting{}, fmt.Errorf("look for prompt %s: %w", job.Prompt, err)
	}
	if since := e.jobs.moved(job.Prompt, seen.Place, before); !since.IsZero() {
		e.link.expect(since)
	}
	return seen, nil
}

func (e *Executor) look(ctx context.Context, job sidecar.Job) (sidecar.Sighting, error) {
	id := e.jobs.actual(job.Prompt)
	if seen, found, err := e.history(ctx, id); found || err != nil {
		return seen, err
	}
	q, err := e.queue(ctx)
	if err != nil {
		return sidecar.Sighting{}, err
	}
	if seen, found := q.find(e.resolve(job, id, q)); found {
		return seen, nil
	}
	if seen, found, err := e.history(ctx, id); found || err != nil {
		return seen, err
	}
	if t, _ := e.jobs.find(id); time.Since(t.ended) < recordLag {
		return sidecar.Sighting{Place: sidecar.PlaceExecuting}, nil
	}
	if job.Resumed && job.Run != "" {
		return e.recent(ctx, job)
	}
	return sidecar.Sighting{Place: sidecar.PlaceAbsent}, nil
}

// resolve is the id of the job's prompt in the queue. After a submit without
// an answer a server that renames prompts gives it away by the run's id.
func (e *Executor) resolve(job sidecar.Job, id sidecar.PromptID, q queue) sidecar.PromptID {
	if _, found := q.find(id); found || !job.Resumed {
		return id
	}
	renamed := q.ofRun(job.Run)
	if renamed == "" {
		return id
	}
	e.jobs.rename(job.Prompt, renamed)
	return renamed
}

// history asks for the one record of a prompt. The whole of history is never
// asked for: it may hold ten thousand graphs.
func (e *Executor) history(ctx context.Context, id sidecar.PromptID) (sidecar.Sighting, bool, error) {
	records, a, err := e.records(ctx, "/history/"+url.PathEscape(string(id)))
	if errors.Is(err, backend.ErrTooLarge) {
		return sidecar.Sighting{Place: sidecar.PlaceFailed, Failure: e.unreadable()}, true, nil
	}
	if err != nil || len(records) == 0 {
		return sidecar.Sighting{}, false, err
	}
	raw, ok := records[string(id)]
	if !ok || !isObject(raw) {
		return sidecar.Sighting{}, false, e.http.unusable(a, fmt.Errorf("%s: no record: %w", a.URL, errNotComfy))
	}
	seen, err := sightingOf(id, raw)
	if err != nil {
		return sidecar.Sighting{}, false, e.http.unusable(a, err)
	}
	return seen, true, nil
}

// unreadable is the end of a run whose record is more than can be read, however
// often it is asked for: only prompts that have ended have one.
func (e *Executor) unreadable() *sidecar.Failure {
	return &sidecar.Failure{
		Code: string(sidecar.CodeExecution), Outcome: sidecar.OutcomeFailed,
		Message: fmt.Sprintf("The run has ended in ComfyUI, and its record there is larger than %d MiB.", e.http.records>>20),
		Hint:    "Its files are in ComfyUI's output folder. Give large inputs as uploads, not within the graph.",
	}
}

func (e *Executor) records(ctx context.Context, path string) (map[string]json.RawMessage, answer, error) {
	a, err := e.http.call(ctx, exchange{method: http.MethodGet, path: path, limit: e.http.records})
	if err != nil {
		return nil, a, e.http.unreachable(err)
	}
	records, err := objectOf(a)
	if err != nil {
		return nil, a, e.http.unusable(a, err)
	}
	return records, a, nil
}

// recent looks for a run among the latest records.
func (e *Executor) recent(ctx context.Context, job sidecar.Job) (sidecar.Sighting, error) {
	records, a, err := e.latest(ctx)
	if err != nil {
		return sidecar.Sighting{}, err
	}
	for id, raw := range records {
		rec, err := recordOf(raw)
		if err != nil || rec.prompt.run() != job.Run {
			continue
		}
		e.jobs.rename(job.Prompt, sidecar.PromptID(id))
		seen, err := sightingOf(sidecar.PromptID(id), raw)
		if err != nil {
			return sidecar.Sighting{}, e.http.unusable(a, err)
		}
		return seen, nil
	}
	return sidecar.Sighting{Place: sidecar.PlaceAbsent}, nil
}

// latest asks for as many of the latest records as fit into an answer.
func (e *Executor) latest(ctx context.Context) (map[string]json.RawMessage, answer, error) {
	for n := recentRecords; ; n /= 4 {
		records, a, err := e.records(ctx, "/history?max_items="+strconv.Itoa(n))
		if n == 1 || !errors.Is(err, backend.ErrTooLarge) {
			return records, a, err
		}
	}
}

// queue is ComfyUI's queue.
type queue struct{ running, pending []entry }

func (e *Executor) queue(ctx context.Context) (queue, error) {
	a, err := e.http.call(ctx, exchange{method: http.MethodGet, path: "/queue", limit: e.http.records})
	if err != nil {
		return queue{}, e.http.unreachable(err)
	}
	doc, err := objectOf(a)
	running, pending := doc["queue_running"], doc["queue_pending"]
	if err == nil && !(isList(running) && isList(pending)) {
		err = fmt.Errorf("%s: no queue: %w", a.URL, errNotComfy)
	}
	if err != nil {
		return queue{}, e.http.unusable(a, err)
	}
	return queue{entriesOf(elementsOf(running)), entriesOf(elementsOf(pending))}, nil
}

func (q queue) find(id sidecar.PromptID) (sidecar.Sighting, bool) {
	for i := range q.running {
		if q.running[i].prompt() == id {
			return sidecar.Sighting{Place: sidecar.PlaceExecuting}, true
		}
	}
	for i := range q.pending {
		if q.pending[i].prompt() == id {
			return sidecar.Sighting{Place: sidecar.PlaceQueued, Position: q.before(&q.pending[i])}, true
		}
	}
	return sidecar.Sighting{}, false
}

// before counts what runs ahead of a pending entry. The list is a heap: its
// order says nothing, the numbers do.
func (q queue) before(e *entry) int {
	n := len(q.running)
	for _, other := range q.pending {
		if other.number < e.number || other.number == e.number && other.id < e.id {
			n++
		}
	}
	return n
}

// entries are all of the queue, those that run first.
func (q queue) entries() []entry { return append(slices.Clone(q.running), q.pending...) }

func (q queue) ofRun(run sidecar.RunID) sidecar.PromptID {
	if run == "" {
		return ""
	}
	for _, e := range q.entries() {
		if e.run() == run {
			return e.prompt()
		}
	}
	return ""
}
