package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// artifactType is the type of files that a FileQuery names by their id at the
// worker.
const artifactType = "proxy_artifact"

// passedOn are the headers of a reader that the worker gets.
var passedOn = []string{
	"Range", "If-Range", "If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since",
}

// fileStatuses are the answers about a file; others are about the worker.
var fileStatuses = map[int]bool{
	http.StatusOK: true, http.StatusPartialContent: true, http.StatusNotModified: true, http.StatusBadRequest: true,
	http.StatusNotFound: true, http.StatusPreconditionFailed: true, http.StatusRequestedRangeNotSatisfiable: true,
}

var errIdle = fmt.Errorf("the file stood still: %w", os.ErrDeadlineExceeded)

// Fetch opens an artifact that the worker holds, by its id and with
// type=proxy_artifact. A worker shows no other files.
func (e *Executor) Fetch(ctx context.Context, query sidecar.FileQuery) (*sidecar.Content, error) {
	if query.Type != artifactType {
		return &sidecar.Content{Status: http.StatusNotFound, Header: http.Header{}, Body: http.NoBody}, nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	idle := newWatchdog(e.opts.IdleTimeout, cancel)
	resp, err := e.open(ctx, query, idle)
	if err != nil {
		cancel(nil)
		return nil, e.http.unreachable(fmt.Errorf("fetch %q: %w", query.Filename, err))
	}
	if !fileStatuses[resp.StatusCode] {
		defer cancel(nil)
		return nil, errors.Join(e.refusedFile(resp), resp.Body.Close())
	}
	return &sidecar.Content{
		Status: resp.StatusCode, Header: resp.Header, Size: resp.ContentLength,
		Body: &stream{body: resp.Body, ctx: ctx, idle: idle, cancel: cancel},
	}, nil
}

func (e *Executor) open(ctx context.Context, query sidecar.FileQuery, idle *watchdog) (*http.Response, error) {
	req, err := e.http.request(ctx, query.Method, "/proxy/artifacts/"+url.PathEscape(query.Filename), nil)
	if err != nil {
		return nil, err
	}
	for _, name := range passedOn {
		for given, values := range query.Header {
			if strings.EqualFold(given, name) {
				req.Header[name] = append(req.Header[name], values...)
			}
		}
	}
	idle.start()
	defer idle.stop()
	resp, err := e.http.files.Do(req)
	if err != nil && errors.Is(context.Cause(ctx), errIdle) {
		err = errIdle
	}
	return resp, err
}

func (e *Executor) refusedFile(resp *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return e.http.unreachable(err)
	}
	f := rejected(answer{status: resp.StatusCode, url: e.http.base + "/proxy/artifacts", header: resp.Header, body: body})
	if resp.StatusCode >= 500 {
		return &sidecar.UnsureError{Failure: f, Err: fmt.Errorf("fetch: HTTP %d", resp.StatusCode)}
	}
	return &sidecar.RefusedError{Failure: f}
}

// stream is the body of a file. Waiting for the reader costs no time.
type stream struct {
	body   io.ReadCloser
	ctx    context.Context // the request's, for its cause
	idle   *watchdog
	cancel context.CancelCauseFunc
}

// Read gives the worker its time for the next piece.
func (s *stream) Read(p []byte) (int, error) {
	s.idle.start()
	n, err := s.body.Read(p)
	s.idle.stop()
	if err != nil && errors.Is(context.Cause(s.ctx), errIdle) {
		err = errIdle
	}
	return n, err
}

// Close ends the request.
func (s *stream) Close() error {
	s.cancel(nil)
	return s.body.Close()
}

// paced is a body on its way: each piece is a sign of life.
type paced struct {
	io.Reader
	idle *watchdog
}

// Read starts the time for the next piece anew.
func (p *paced) Read(b []byte) (int, error) {
	p.idle.start()
	return p.Reader.Read(b)
}

// watchdog cancels what takes longer than its limit between start and stop.
type watchdog struct {
	limit time.Duration
	timer *time.Timer
	armed atomic.Bool
}

func newWatchdog(limit time.Duration, cancel context.CancelCauseFunc) *watchdog {
	w := &watchdog{limit: limit}
	w.timer = time.AfterFunc(limit, func() {
		if w.armed.Load() {
			cancel(errIdle)
		}
	})
	w.timer.Stop()
	return w
}

func (w *watchdog) start() {
	w.armed.Store(true)
	w.timer.Reset(w.limit)
}

func (w *watchdog) stop() {
	w.armed.Store(false)
	w.timer.Stop()
}
