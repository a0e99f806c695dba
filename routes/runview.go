package routes

import (
	"net/http"
	"strings"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// viewRun shows all that is known of a run, as of one revision.
func (c *call) viewRun() error {
	if c.r.URL.Query().Has("at") {
		return c.viewPast()
	}
	v := c.session()
	parts, err := viewParts(c.r.URL.Query().Get("include"))
	if err != nil {
		return err
	}
	view, err := c.studio.View(c.r.Context(), v.Scope, sidecar.RunID(c.path("run_id")), parts)
	if err != nil {
		return err
	}
	body := c.renderView(v, view)
	c.remember(v)
	c.showTagged(view.Run, body)
	return nil
}

// viewPast shows a run as it was at an earlier revision, in the words of its
// events.
func (c *call) viewPast() error {
	v := c.session()
	at, err := readCount(c.r.URL.Query().Get("at"), "at", 0)
	if err != nil {
		return err
	}
	past, err := c.studio.Past(c.r.Context(), v.Scope, sidecar.RunID(c.path("run_id")), at)
	if err != nil {
		return err
	}
	t := text{}
	t.open('{')
	t.str("state", c.opts.State)
	t.str("session_id", string(v.ID))
	t.str("run_id", string(past.Run))
	t.int("revision", past.Revision)
	t.int("current_revision", past.Current)
	t.raw("targets", past.Targets)
	t.close('}')
	c.remember(v)
	c.json(http.StatusOK, t.b)
	return nil
}

func viewParts(include string) (sidecar.ViewParts, error) {
	var parts sidecar.ViewParts
	for name := range strings.SplitSeq(include, ",") {
		switch strings.TrimSpace(name) {
		case "":
		case "contract":
			parts.Contract = true
		case "graph":
			parts.Graph = true
		case "targets":
			parts.Targets = true
		default:
			return parts, badRequest("'include' does not know '"+strings.TrimSpace(name)+"'.", "It takes contract, graph and targets, with a comma between.")
		}
	}
	return parts, nil
}

func (c *call) renderView(v visitor, view *sidecar.RunView) []byte {
	run, s, t := view.Run, c.shape(), text{}
	t.open('{')
	t.str("state", c.opts.State)
	t.str("session_id", string(v.ID))
	t.int("revision", run.Revision)
	s.openRun(&t, "run", run)
	t.optRaw("environment_ref", run.EnvironmentRef)
	t.close('}')
	attended := c.studio.Attended(run)
	t.bool("live", attended)
	t.bool("possibly_interrupted", run.Phase != sidecar.PhaseFinished && !attended)
	s.slots(&t, run)
	s.items(&t, run)
	nodeRuns(&t, run.Nodes)
	steps(&t, view.Steps)
	family(&t, view)
	viewTimes(&t, run)
	metrics(&t, "totals", run.Metrics())
	launched(&t, view)
	t.int("retained_from", int64(view.RetainedFrom))
	t.int("next", int64(view.Last))
	t.close('}')
	return t.b
}

func nodeRuns(t *text, nodes []sidecar.NodeRun) {
	t.key("nodes")
	t.open('[')
	for i := range nodes {
		nodeRun(t, &nodes[i])
	}
	t.close(']')
}

// steps are the moves from phase to phase.
func steps(t *text, taken []sidecar.Step) {
	t.key("transitions")
	t.open('[')
	for _, step := range taken {
		t.open('{')
		t.optStr("from", string(step.From))
		t.str("to", string(step.To))
		t.str("status", string(step.Status))
		t.int("revision", step.Revision)
		t.int("seq", int64(step.Seq))
		t.str("type", string(step.Type))
		t.str("at", sidecar.FormatTime(step.At))
		t.close('}')
	}
	t.close(']')
}

func family(t *text, view *sidecar.RunView) {
	t.orNull("parent", string(view.Parent))
	texts(t, "children", view.Children)
	if view.MoreChildren {
		t.bool("more_children", true)
	}
}

// viewTimes tell when the run was accepted, began and ended, and how long that
// took, in seconds.
func viewTimes(t *text, run *sidecar.Run) {
	t.key("timings")
	t.open('{')
	t.str("acceptedAt", sidecar.FormatTime(run.CreatedAt))
	t.optStr("startedAt", sidecar.FormatTime(run.StartedAt))
	t.optStr("finishedAt", sidecar.FormatTime(run.FinishedAt))
	began := run.StartedAt
	if began.IsZero() {
		began = run.FinishedAt
	}
	if !began.IsZero() {
		t.number("waitedSeconds", max(began.Sub(run.CreatedAt), 0).Seconds())
	}
	if !run.StartedAt.IsZero() && !run.FinishedAt.IsZero() {
		t.number("executedSeconds", run.Metrics().Took.Seconds())
	}
	t.close('}')
}

func metrics(t *text, name string, m sidecar.Metrics) {
	t.key(name)
	t.open('{')
	t.int("nodes", int64(m.Nodes))
	t.int("cached", int64(m.Cached))
	t.number("seconds", m.Took.Round(time.Millisecond).Seconds())
	t.int("files", int64(m.Files))
	t.int("bytes", m.Bytes)
	t.close('}')
}

// launched names what was launched, and shows what was asked for of it.
func launched(t *text, view *sidecar.RunView) {
	t.optStr("contract_digest", string(view.Run.ContractRef))
	t.optStr("graph_digest", string(view.Run.Graph))
	t.optRaw("contract", view.Contract)
	t.optRaw("graph", view.Graph)
	t.optRaw("targets", view.Targets)
}
