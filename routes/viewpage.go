package routes

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// pageRun shows a window of what belongs to a run.
func (c *call) pageRun() error {
	v := c.session()
	kind := sidecar.PageKind(c.path("kind"))
	switch kind {
	case sidecar.PageEvents, sidecar.PageNodes, sidecar.PageSlots:
	default:
		return &fault{code: sidecar.CodeNotFound, message: "There are no such pages of a run.", hint: "There are pages of events, nodes and slots."}
	}
	cursor, err := readCount(c.r.URL.Query().Get("cursor"), "cursor", -1)
	if err != nil {
		return err
	}
	page, err := c.studio.Page(c.r.Context(), v.Scope, sidecar.RunID(c.path("run_id")), kind, int(min(cursor, 1<<31)))
	if err != nil {
		return err
	}
	s, t := c.shape(), text{}
	t.open('{')
	t.str("run_id", string(page.Run.ID))
	t.int("revision", page.Run.Revision)
	t.int("start", int64(page.Start))
	t.int("total", int64(page.Total))
	switch kind {
	case sidecar.PageEvents:
		eventList(&t, page.Events)
	case sidecar.PageNodes:
		nodeRuns(&t, page.Run.Nodes)
	case sidecar.PageSlots:
		s.slots(&t, page.Run)
	}
	t.close('}')
	c.remember(v)
	c.json(200, t.b)
	return nil
}

// readCount reads a number of a query; otherwise when none is given.
func readCount(given, name string, otherwise int64) (int64, error) {
	if given == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(given, 10, 64)
	if err != nil || strings.Trim(given, "0123456789") != "" {
		return 0, badRequest("'"+name+"' is not a number.", "Give it in decimal digits.")
	}
	return n, nil
}

// runDeltas shows how a run moved on from a revision: for each revision since,
// a JSON Patch of {"revision":N,"targets":{…}}, which /view shows when asked.
func (c *call) runDeltas() error {
	v := c.session()
	after, err := readCount(c.r.URL.Query().Get("after"), "after", 0)
	if err != nil {
		return err
	}
	d, err := c.studio.Deltas(c.r.Context(), v.Scope, sidecar.RunID(c.path("run_id")), after)
	trimmed := errors.Is(err, sidecar.ErrTrimmed)
	if err != nil && !trimmed {
		return err
	}
	t := text{}
	t.open('{')
	t.int("revision", d.Revision)
	t.int("retained_from", d.RetainedFrom)
	t.bool("snapshot_required", trimmed)
	t.key("deltas")
	t.open('[')
	if !trimmed {
		for i := range d.Events {
			if err := delta(&t, &d.Events[i]); err != nil {
				return err
			}
		}
	}
	t.close(']')
	t.close('}')
	c.remember(v)
	c.json(200, t.b)
	return nil
}

// delta writes an event as a patch of the revision before it.
func delta(t *text, e *sidecar.Event) error {
	var targets map[string]json.RawMessage
	if err := json.Unmarshal(e.Targets, &targets); err != nil {
		return internal(err)
	}
	t.open('{')
	t.int("revision", e.Revision)
	t.int("seq", int64(e.Seq))
	t.key("patch")
	t.open('[')
	patch(t, "replace", "/revision", strconv.AppendInt(nil, e.Revision, 10))
	for _, name := range slices.Sorted(maps.Keys(targets)) {
		path := "/targets/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
		if value := targets[name]; bytes.Equal(value, []byte("null")) {
			patch(t, "remove", path, nil)
		} else {
			patch(t, "add", path, value)
		}
	}
	t.close(']')
	t.close('}')
	return nil
}

func patch(t *text, op, path string, value []byte) {
	t.open('{')
	t.str("op", op)
	t.str("path", path)
	if value != nil {
		t.raw("value", value)
	}
	t.close('}')
}
