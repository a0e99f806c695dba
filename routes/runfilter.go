package routes

import (
	"net/url"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// runAsk is what is asked of a list of runs, beside its window.
type runAsk struct {
	filter sidecar.RunFilter
	counts bool
}

// readRunAsk reads what the reference does not know of: without it a list has
// the reference's runs and members.
func readRunAsk(query url.Values) (runAsk, error) {
	ask := runAsk{counts: yes(query.Get("counts"))}
	f := &ask.filter
	f.Active, f.RootOnly, f.Metrics = yes(query.Get("active")), yes(query.Get("root_only")), yes(query.Get("metrics"))
	f.Workflow, f.Contract = query.Get("workflow"), query.Get("contract")
	f.Parent = sidecar.RunID(query.Get("parent"))
	f.Status = sidecar.Status(query.Get("status"))
	switch f.Status {
	case "", sidecar.StatusSubmitted, sidecar.StatusRunning, sidecar.StatusCompleted, sidecar.StatusError, sidecar.StatusCancelled:
	default:
		return ask, badRequest("'status' is none that a run has.", "It is one of submitted, running, completed, error and cancelled.")
	}
	if f.Contract != "" && f.Workflow == "" {
		return ask, badRequest("'contract' needs 'workflow'.", "Give both: contracts of several workflows share names.")
	}
	var err error
	if f.Since, err = readTime(query, "since"); err != nil {
		return ask, err
	}
	f.Until, err = readTime(query, "until")
	return ask, err
}

func readTime(query url.Values, name string) (time.Time, error) {
	given := query.Get(name)
	if given == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, given)
	if err != nil {
		return at, badRequest("'"+name+"' is not a time.", "Write it as 2026-01-31T12:00:00Z.")
	}
	return at.UTC(), nil
}

// foundRuns are the runs of a list with what was asked for beside them.
type foundRuns struct {
	sidecar.RunPage
	counts map[sidecar.Status]int // nil: not asked for
}

func (c *call) findRuns(ask runAsk) (foundRuns, error) {
	var found foundRuns
	var err error
	if found.RunPage, err = c.studio.Runs(c.r.Context(), ask.filter); err != nil || !ask.counts {
		return found, err
	}
	found.counts, err = c.studio.CountRuns(c.r.Context(), ask.filter)
	return found, err
}

// runCounts writes how many runs have which status; total counts those that
// another program wrote too.
func runCounts(t *text, counts map[sidecar.Status]int) {
	t.key("counts")
	t.open('{')
	total := 0
	for _, status := range []sidecar.Status{
		sidecar.StatusSubmitted, sidecar.StatusRunning, sidecar.StatusCompleted, sidecar.StatusError, sidecar.StatusCancelled,
	} {
		t.int(string(status), int64(counts[status]))
	}
	for _, n := range counts {
		total += n
	}
	t.int("total", int64(total))
	t.close('}')
}
