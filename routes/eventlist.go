package routes

import (
	"errors"
	"strings"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// wantsList tells that the client takes events as one JSON document, and no
// stream.
func (c *call) wantsList() bool {
	if format := c.r.URL.Query().Get("format"); format != "" {
		return format == "json"
	}
	accept := c.r.Header.Get("Accept")
	return strings.Contains(accept, "application/json") && !strings.Contains(accept, "text/event-stream")
}

// listEvents answers with the events of a scope, or of one of its runs, behind
// a number: 256 at most, and the number to ask with next. Without a number it
// begins with the first event that is kept.
func (c *call) listEvents(v visitor, run sidecar.RunID) error {
	after, err := c.resumeAt()
	if err != nil {
		return err
	}
	ctx := c.r.Context()
	retained, err := c.studio.RetainedFrom(ctx, v.Scope, run)
	if err != nil {
		return err
	}
	if after == fromHead {
		after = max(retained-1, 0)
	}
	// Read before the events: all up to it are among them.
	head := c.studio.Head()
	records, err := c.studio.Events(ctx, v.Scope, run, after, eventPage)
	reset := ""
	switch {
	case errors.Is(err, sidecar.ErrTrimmed) && after > head:
		reset = "unknown"
	case errors.Is(err, sidecar.ErrTrimmed):
		reset = "trimmed"
	case err != nil:
		return err
	}
	t := text{}
	t.open('{')
	eventList(&t, records)
	t.int("next", int64(nextEvent(after, head, records, reset != "")))
	t.int("head", int64(head))
	t.int("retained_from", int64(retained))
	t.optStr("reset", reset)
	t.close('}')
	c.remember(v)
	c.json(200, t.b)
	return nil
}

func eventList(t *text, records []sidecar.Record) {
	t.key("events")
	t.open('[')
	for i := range records {
		t.open('{')
		t.int("seq", int64(records[i].Seq))
		t.members(records[i].JSON)
		t.close('}')
	}
	t.close(']')
}

// nextEvent is the number up to which a client that has read the records has
// seen everything.
func nextEvent(after, head sidecar.Seq, records []sidecar.Record, reset bool) sidecar.Seq {
	switch {
	case len(records) == eventPage:
		return records[len(records)-1].Seq
	case len(records) > 0:
		return max(head, records[len(records)-1].Seq)
	case reset:
		return head
	}
	return max(after, head)
}
