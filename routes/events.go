package routes

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

const (
	// eventPage is how many events are read at once.
	eventPage = 256
	// livePause is the shortest time between two rounds of progress: faster
	// than that nobody sees it.
	livePause = 100 * time.Millisecond
	// beatPause is the longest silence; proxies close what is silent longer.
	beatPause = 15 * time.Second
	// retryPause is how soon a browser comes back after a cut, in milliseconds.
	retryPause = 1000
	// writeLimit is how long one write of a stream may take.
	writeLimit = 30 * time.Second
)

func (c *call) scopeEvents() error {
	v := c.session()
	if c.wantsList() {
		return c.listEvents(v, "")
	}
	return c.stream(v, "")
}

func (c *call) runEvents() error {
	v := c.session()
	run, err := c.studio.Lookup(c.r.Context(), v.Scope, sidecar.RunID(c.path("run_id")))
	if err != nil {
		return err
	}
	if c.wantsList() {
		return c.listEvents(v, run.ID)
	}
	return c.stream(v, run.ID)
}

// stream sends the events of a scope, or of one of its runs, until the client
// leaves, reads too slowly, or the server stops.
func (c *call) stream(v visitor, run sidecar.RunID) error {
	if err := c.sameSite(); err != nil {
		return err
	}
	after, err := c.resumeAt()
	if err != nil {
		return err
	}
	c.remember(v)
	h := c.w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	h.Set("X-Content-Type-Options", "nosniff")
	c.w.WriteHeader(http.StatusOK)
	if c.r.Method == http.MethodHead {
		return nil
	}
	st := &stream{call: c, scope: v.Scope, run: run, after: after}
	if err := st.follow(c.r.Context()); err != nil {
		c.log.Debug("stream ended", "err", err, "request_id", c.id)
	}
	return nil
}

// fromHead is the position of a client that has none.
const fromHead sidecar.Seq = -1

// resumeAt is the number of the last event that the client has seen. The
// header of a browser that reconnects is newer than the address it uses.
func (c *call) resumeAt() (sidecar.Seq, error) {
	given := c.r.Header.Get("Last-Event-ID")
	if given == "" {
		given = c.r.URL.Query().Get("after")
	}
	if given == "" {
		return fromHead, nil
	}
	seq, err := strconv.ParseInt(given, 10, 64)
	if err != nil || strings.Trim(given, "0123456789") != "" {
		return 0, badRequest("The number of the last event has to be in decimal digits.",
			"Send the id of the last event as Last-Event-ID or ?after=, or leave it out.")
	}
	return sidecar.Seq(seq), nil
}

// stream is one reader of the log. It holds the number up to which all of its
// events were sent.
type stream struct {
	*call
	scope sidecar.Scope
	run   sidecar.RunID
	after sidecar.Seq

	live     int64 // version of the latest values that were sent
	sentLive time.Time
	previews map[sidecar.RunID]int64
	out      []byte
}

// follow takes the bells before it reads, so that nothing is missed between.
func (st *stream) follow(ctx context.Context) error {
	beat, cool := time.NewTicker(beatPause), time.NewTimer(0)
	defer beat.Stop()
	defer cool.Stop()
	st.greet()
	for {
		changed, moved := st.studio.Changed(), st.studio.LiveChanged()
		if err := st.news(ctx); err != nil {
			return err
		}
		if rest := livePause - time.Since(st.sentLive); rest > 0 {
			moved = nil
			cool.Reset(rest)
		} else {
			st.latest()
		}
		if err := st.flush(); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-moved:
		case <-cool.C:
		case <-beat.C:
			st.out = append(st.out, ":\n\n"...)
		case <-ctx.Done():
			return nil
		}
	}
}

// greet tells the client where it stands, so that one which is cut before its
// first event loses nothing either.
func (st *stream) greet() {
	st.out = append(st.out, "retry: "...)
	st.out = strconv.AppendInt(st.out, retryPause, 10)
	head := st.studio.Head()
	switch {
	case st.after == fromHead:
		st.after = head
		st.out = append(st.out, "\nid: "...)
		st.out = strconv.AppendInt(st.out, int64(head), 10)
		st.out = append(st.out, "\n\n"...)
	case st.after > head:
		st.out = append(st.out, "\n\n"...)
		st.reset(head, "unknown")
	default:
		st.out = append(st.out, "\n\n"...)
	}
}

// reset tells the client that it cannot go on from where it was: it has to
// read everything anew.
func (st *stream) reset(head sidecar.Seq, reason string) {
	t := text{}
	t.open('{')
	t.int("head", int64(head))
	t.str("reason", reason)
	t.close('}')
	st.event("reset", head, t.b)
	st.after = head
}

// news appends what was committed since the held number.
func (st *stream) news(ctx context.Context) error {
	for {
		// Read before the events: all up to it are among them.
		head := st.studio.Head()
		if head <= st.after {
			return nil
		}
		records, err := st.studio.Events(ctx, st.scope, st.run, st.after, eventPage)
		switch {
		case errors.Is(err, sidecar.ErrTrimmed):
			st.reset(head, "trimmed")
			return nil
		case err != nil:
			return err
		}
		for i := range records {
			st.event(string(records[i].Type), records[i].Seq, records[i].JSON)
			st.after = records[i].Seq
		}
		if len(records) < eventPage {
			st.after = max(st.after, head)
			return nil
		}
		if err := st.flush(); err != nil {
			return err
		}
	}
}

func (st *stream) event(name string, seq sidecar.Seq, data []byte) {
	st.out = append(st.out, "id: "...)
	st.out = strconv.AppendInt(st.out, int64(seq), 10)
	st.out = append(st.out, '\n')
	st.message(name, data)
}

// message appends an event without a number: one that is not repeated.
func (st *stream) message(name string, data []byte) {
	st.out = append(st.out, "event: "...)
	st.out = append(st.out, name...)
	st.out = append(st.out, "\ndata: "...)
	st.out = append(st.out, data...)
	st.out = append(st.out, "\n\n"...)
}

// latest appends the newest progress and previews.
func (st *stream) latest() {
	values, version := st.studio.LiveSince(st.scope, st.live)
	st.live = version
	for i := range values {
		if st.run == "" || values[i].Run == st.run {
			st.value(&values[i])
			st.sentLive = time.Now()
		}
	}
}

func (st *stream) value(v *sidecar.Live) {
	t := text{}
	t.open('{')
	t.str("run_id", string(v.Run))
	if v.HasProgress {
		progressMembers(&t, v.Progress)
	}
	if v.Position >= 0 {
		t.int("queue_position", int64(v.Position))
	}
	t.bool("live", v.Heard)
	t.close('}')
	st.message("progress", t.b)
	if v.Preview > st.previews[v.Run] {
		st.seen(v.Run, v.Preview)
		p := text{}
		p.open('{')
		p.str("run_id", string(v.Run))
		p.int("v", v.Preview)
		p.close('}')
		st.message("preview", p.b)
	}
}

// previewsKept bounds what a stream remembers; beyond it a preview may be told
// of again.
const previewsKept = 1000

func (st *stream) seen(run sidecar.RunID, version int64) {
	if st.previews == nil || len(st.previews) >= previewsKept {
		st.previews = map[sidecar.RunID]int64{}
	}
	st.previews[run] = version
}

func progressMembers(t *text, p sidecar.Progress) {
	t.key("node")
	t.open('{')
	t.str("id", string(p.Node.ID))
	t.optStr("class_type", p.Node.Class)
	t.optStr("title", p.Node.Title)
	t.close('}')
	t.number("value", p.Value)
	t.number("max", p.Max)
	t.int("done", int64(p.Done))
	t.int("total", int64(p.Total))
	if len(p.Stepped) > 0 {
		texts(t, "stepped", p.Stepped)
	}
}

// flush writes what was appended. A client that does not take it in time is
// given up.
func (st *stream) flush() error {
	if len(st.out) == 0 {
		return nil
	}
	if err := st.pace(writeLimit); err != nil {
		return err
	}
	if _, err := st.w.Write(st.out); err != nil {
		return err
	}
	st.out = st.out[:0]
	return st.control().Flush()
}
