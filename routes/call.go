package routes

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// call is one request on its way to its answer.
type call struct {
	*Server
	w      *answer
	r      *http.Request
	id     string
	vars   map[string]string
	direct bool // from this machine, through no proxy
	secure bool // the browser came by https
	hop    bool // a proxy that is trusted passed it on

	sent func() // called when the answer is on its way

	// Of a call with a key, see perform.
	raw        []byte           // its body, read whole
	assigned   string           // the session that it is given, when it brings none
	order      *sidecar.Order   // what its change brings along
	turn       *turn            // the other calls with the key wait for it
	resumed    *sidecar.Command // carried out before, not answered
	relaunched bool             // answers for the run that resumed launched
}

// handler answers a call, or returns why not. It returns before it has written
// anything, or nil.
type handler func(*call) error

// answer notes what was written.
type answer struct {
	http.ResponseWriter
	status int
	bytes  int64
}

// WriteHeader notes the final status.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 && status >= 200 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write counts what is written.
func (a *answer) Write(p []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	n, err := a.ResponseWriter.Write(p)
	a.bytes += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// control is for deadlines and flushing.
func (c *call) control() *http.ResponseController { return http.NewResponseController(c.w) }

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{Server: s, w: &answer{ResponseWriter: w}, r: r, id: requestID(r)}
	w.Header().Set("X-Request-ID", c.id)
	began := time.Now()
	if err := c.serve(); err != nil {
		c.fail(err)
	}
	if c.sent != nil {
		c.flush()
		c.sent()
	}
	if s.log.Enabled(r.Context(), slog.LevelDebug) {
		s.log.Debug("answered", "method", r.Method, "path", r.URL.Path, "status", c.w.status,
			"bytes", c.w.bytes, "took", time.Since(began), "request_id", c.id)
	}
}

// panicked is what a handler panicked with.
type panicked struct {
	value any
	stack []byte
}

// Error leaves the value to the log, where it stands beside its stack.
func (p *panicked) Error() string { return "a handler panicked" }

// flush sends what was written of the answer.
func (c *call) flush() {
	if err := c.control().Flush(); err != nil {
		c.log.Debug("flush an answer", "err", err, "request_id", c.id)
	}
}

func (c *call) serve() (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicked{v, debug.Stack()}
		}
	}()
	if err := c.admit(); err != nil {
		return err
	}
	return c.route()
}

// fail answers with what went wrong, unless an answer is under way already:
// that one is cut short, so that nobody takes it for whole.
func (c *call) fail(err error) {
	f := c.faultOf(err)
	status := statusOf(f.code)
	c.note(f, status, err)
	if c.w.status != 0 {
		c.cut()
		return
	}
	t := text{}
	t.open('{')
	t.str("error", string(f.code))
	t.str("message", f.message)
	t.optStr("hint", f.hint)
	if f.more != nil {
		f.more(&t)
	}
	if status >= http.StatusInternalServerError && f.cause != nil {
		t.str("request_id", c.id)
	}
	t.close('}')
	c.json(status, t.b)
}

// cut ends the connection in the middle of an answer.
func (c *call) cut() {
	if err := c.control().SetWriteDeadline(time.Now().Add(-time.Second)); err != nil {
		c.log.Debug("cut an answer", "err", err, "request_id", c.id)
	}
}

// note writes to the log what the client is not told.
func (c *call) note(f *fault, status int, err error) {
	level := slog.LevelDebug
	switch {
	case errors.Is(err, context.Canceled) || c.r.Context().Err() != nil:
		// the client left, or the server stops
	case status == http.StatusInternalServerError:
		level = slog.LevelError
	case status > http.StatusInternalServerError:
		level = slog.LevelWarn
	}
	attrs := []any{
		"method", c.r.Method, "path", c.r.URL.Path, "status", status, "code", f.code, "err", f,
		"request_id", c.id,
	}
	var p *panicked
	if errors.As(err, &p) {
		attrs = append(attrs, "panic", p.value, "stack", string(p.stack))
	}
	c.log.Log(context.WithoutCancel(c.r.Context()), level, "request failed", attrs...)
}

// json answers with a whole JSON text.
func (c *call) json(status int, body []byte) {
	c.jsonHeaders()
	c.body(status, body)
}

func (c *call) jsonHeaders() {
	h := c.w.Header()
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-store")
	}
}

// body writes a whole answer; a HEAD gets its length alone.
func (c *call) body(status int, body []byte) {
	c.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	if c.r.Method == http.MethodHead {
		body = nil
	}
	if err := c.pace(chunkLimit); err != nil {
		c.log.Debug("pace an answer", "err", err, "request_id", c.id)
	}
	c.w.WriteHeader(status)
	for part := range slices.Chunk(body, chunk) {
		if err := c.write(part); err != nil {
			c.log.Debug("the client left", "err", err, "request_id", c.id)
			return
		}
	}
}

// write sends a part of at most chunk. A client that takes none of it is given
// up.
func (c *call) write(part []byte) error {
	if err := c.pace(chunkLimit); err != nil {
		return err
	}
	_, err := c.w.Write(part)
	return err
}

// pace gives the next write its time.
func (c *call) pace(limit time.Duration) error {
	err := c.control().SetWriteDeadline(time.Now().Add(limit))
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("set the write deadline: %w", err)
	}
	return nil
}

// path is a variable of the route, unescaped once.
func (c *call) path(name string) string {
	raw := c.vars[name]
	plain, err := url.PathUnescape(raw)
	if err != nil {
		return raw
	}
	return plain
}

const requestIDLimit = 64

// requestID takes the caller's id when it is a sane one.
func requestID(r *http.Request) string {
	id := r.Header.Get("X-Request-ID")
	if len(id) > requestIDLimit || !sane(id) {
		return rand.Text()[:16]
	}
	return id
}

// sane accepts [A-Za-z0-9_-]+.
func sane(id string) bool {
	for i := range len(id) {
		c := id[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-') {
			return false
		}
	}
	return id != ""
}

// remote is the address of the other end of the connection.
func remote(r *http.Request) netip.Addr {
	if ap, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		return ap.Addr().Unmap()
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	return addr.Unmap()
}
