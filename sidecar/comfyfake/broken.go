package comfyfake

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net"
	"net/http"
	"strconv"
	"time"
)

// answer lets the route answer, or the fault that is armed for the request.
func (s *Server) answer(w http.ResponseWriter, r *http.Request) {
	f := s.faults.pick(r)
	if f == nil {
		s.dispatch(w, r)
		return
	}
	s.opts.Log.Debug("fault", "kind", f.Kind, "path", r.URL.Path)
	switch f.Kind {
	case Delay:
		s.delay(w, r, f.Fault.Delay)
	case Refuse:
		hangUp(w)
	case Answer:
		writeFault(w, f.Fault, http.StatusOK)
	case Cut:
		s.dispatch(&cutWriter{ResponseWriter: w, left: f.Bytes}, r)
		hangUp(w)
	case Hang:
		s.hang(w, r, f)
	default:
		s.act(w, r, f)
	}
}

// delay holds a request and then lets the route act, whether or not the client
// still waits: it has the whole request by then.
func (s *Server) delay(w http.ResponseWriter, r *http.Request, d time.Duration) {
	body, err := io.ReadAll(r.Body)
	if err != nil || sleep(s.ctx, d) != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	s.dispatch(w, r.WithContext(context.WithoutCancel(r.Context())))
}

// hang waits for the fault's release, the client's leave or the server's end.
// The body is drained first: only then does net/http notice that the client
// has left.
func (s *Server) hang(w http.ResponseWriter, r *http.Request, f *armed) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	select {
	case <-f.released:
	case <-r.Context().Done():
	case <-s.ctx.Done():
	}
	hangUp(w)
}

// act lets the route do its work and spoils the answer.
func (s *Server) act(w http.ResponseWriter, r *http.Request, f *armed) {
	kept := &keptAnswer{header: http.Header{}, status: http.StatusOK}
	s.dispatch(kept, r)
	switch f.Kind {
	case ActThenAnswer:
		writeFault(w, f.Fault, http.StatusInternalServerError)
	case ActThenRefuse:
		hangUp(w)
	case BrokenJSON:
		half := kept.body.Bytes()[:kept.body.Len()/2]
		maps.Copy(w.Header(), kept.header)
		w.Header().Set("Content-Length", strconv.Itoa(len(half)))
		w.WriteHeader(kept.status)
		w.Write(half) // the client is gone
	}
}

func writeFault(w http.ResponseWriter, f Fault, status int) {
	if f.Status != 0 {
		status = f.Status
	}
	maps.Copy(w.Header(), f.Header)
	w.WriteHeader(status)
	io.WriteString(w, f.Body) // the client is gone
}

// hangUp closes the connection under the request, on TCP with a reset.
func hangUp(w http.ResponseWriter) {
	rc := http.NewResponseController(w)
	conn, _, err := rc.Hijack()
	if err != nil {
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetLinger(0) // without it the close is only gentler
	}
	conn.Close() // it is to be gone in any case
}

// cutWriter passes the first bytes of a body and then closes the connection.
type cutWriter struct {
	http.ResponseWriter
	left int64
	cut  bool
}

// Unwrap serves http.ResponseController.
func (c *cutWriter) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// Write fails from the cut on.
func (c *cutWriter) Write(p []byte) (int, error) {
	if c.cut {
		return 0, io.ErrClosedPipe
	}
	if int64(len(p)) <= c.left {
		c.left -= int64(len(p))
		return c.ResponseWriter.Write(p)
	}
	n, err := c.ResponseWriter.Write(p[:c.left])
	if err != nil {
		return n, err
	}
	c.cut = true
	rc := http.NewResponseController(c.ResponseWriter)
	if err := rc.Flush(); err != nil {
		return n, err
	}
	conn, _, err := rc.Hijack()
	if err != nil {
		return n, err
	}
	conn.Close() // it is to be gone in any case
	return n, io.ErrClosedPipe
}

// keptAnswer keeps an answer in memory.
type keptAnswer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (k *keptAnswer) Header() http.Header         { return k.header }
func (k *keptAnswer) WriteHeader(status int)      { k.status = status }
func (k *keptAnswer) Write(p []byte) (int, error) { return k.body.Write(p) }
