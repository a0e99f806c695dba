package backend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// ErrIdle is the error of a file that stood still for too long.
var ErrIdle = fmt.Errorf("the file stood still: %w", os.ErrDeadlineExceeded)

// passedOn are the headers of a reader that a backend gets. All others stay
// here: ComfyUI judges requests by Origin, and a cookie is none of its business.
var passedOn = []string{
	"Range", "If-Range", "If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since",
}

// PassOn adds what a reader asks about a file to the request for it.
func PassOn(req *http.Request, asked map[string][]string) {
	for _, name := range passedOn {
		for given, values := range asked {
			if strings.EqualFold(given, name) {
				req.Header[name] = append(req.Header[name], values...)
			}
		}
	}
}

// AboutFile reports whether a status is an answer about a file; others are about
// the backend.
func AboutFile(status int) bool {
	switch status {
	case http.StatusOK, http.StatusPartialContent, http.StatusNotModified, http.StatusBadRequest,
		http.StatusForbidden, http.StatusNotFound, http.StatusPreconditionFailed, http.StatusRequestedRangeNotSatisfiable:
		return true
	}
	return false
}

// Open sends a request whose context the idle watchdog cancels, and gives a body
// that it goes on watching. Closing the body lets go of all.
func Open(via *http.Client, req *http.Request, idle *Watchdog) (*http.Response, error) {
	idle.Start()
	resp, err := via.Do(req)
	idle.Stop()
	if err != nil {
		idle.cancel(nil)
		return nil, idle.told(req.Context(), err)
	}
	resp.Body = &stream{body: resp.Body, ctx: req.Context(), idle: idle}
	return resp, nil
}

// stream is the body of a file. Waiting for the reader costs no time.
type stream struct {
	body io.ReadCloser
	ctx  context.Context // the request's, for its cause
	idle *Watchdog
}

// Read gives the backend its time for the next piece.
func (s *stream) Read(p []byte) (int, error) {
	s.idle.Start()
	n, err := s.body.Read(p)
	s.idle.Stop()
	return n, s.idle.told(s.ctx, err)
}

// Close ends the request.
func (s *stream) Close() error {
	s.idle.cancel(nil)
	return s.body.Close()
}

// Paced is a body on its way out: each piece that leaves is a sign of life.
type Paced struct {
	io.Reader
	Idle *Watchdog
}

// Read starts the time for the next piece anew.
func (p *Paced) Read(b []byte) (int, error) {
	p.Idle.Start()
	return p.Reader.Read(b)
}

// Watchdog cancels a context, with ErrIdle as its cause, when something takes
// longer than its limit between Start and Stop.
type Watchdog struct {
	limit  time.Duration
	cancel context.CancelCauseFunc
	timer  *time.Timer
	armed  atomic.Bool
}

// Watched gives a context and the watchdog that may cancel it; the function lets
// go of both.
func Watched(ctx context.Context, limit time.Duration) (context.Context, *Watchdog, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &Watchdog{limit: limit, cancel: cancel}
	w.timer = time.AfterFunc(limit, func() {
		if w.armed.Load() {
			cancel(ErrIdle)
		}
	})
	w.timer.Stop()
	return ctx, w, func() {
		w.Stop()
		cancel(nil)
	}
}

// Start gives the limit anew.
func (w *Watchdog) Start() {
	w.armed.Store(true)
	w.timer.Reset(w.limit)
}

// Stop takes all the time that it takes.
func (w *Watchdog) Stop() {
	w.armed.Store(false)
	w.timer.Stop()
}

// told puts the watchdog's reason in the place of the error that it caused.
func (w *Watchdog) told(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), ErrIdle) {
		return ErrIdle
	}
	return err
}
