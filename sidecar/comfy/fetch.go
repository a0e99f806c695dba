package comfy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// passedOn are the headers of a reader that ComfyUI gets. All others stay
// here: ComfyUI judges requests by Origin, and a cookie is none of its business.
var passedOn = []string{
	"Range", "If-Range", "If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since",
}

// connectionHeaders concern one connection, not the file.
var connectionHeaders = []string{
	"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade", "Set-Cookie",
}

// fileStatuses are the answers about a file; others are about ComfyUI.
var fileStatuses = map[int]bool{
	http.StatusOK: true, http.StatusPartialContent: true, http.StatusNotModified: true, http.StatusBadRequest: true,
	http.StatusForbidden: true, http.StatusNotFound: true, http.StatusPreconditionFailed: true,
	http.StatusRequestedRangeNotSatisfiable: true,
}

var errIdle = fmt.Errorf("the file stood still: %w", os.ErrDeadlineExceeded)

// Fetch opens a file of ComfyUI's. It may take as long as it likes while bytes
// move. An answer that is not about the file is a *RefusedError.
func (e *Executor) Fetch(ctx context.Context, query sidecar.FileQuery) (*sidecar.Content, error) {
	if query.Method != http.MethodGet && query.Method != http.MethodHead {
		return nil, fmt.Errorf("fetch %q: the method must be GET or HEAD, not %q", query.Filename, query.Method)
	}
	if overridesType(query.Filename) {
		return &sidecar.Content{Status: http.StatusNotFound, Header: http.Header{}, Body: http.NoBody}, nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	idle := newWatchdog(e.opts.IdleTimeout, cancel)
	resp, err := e.view(ctx, query, idle)
	if err != nil {
		cancel(nil)
		return nil, e.http.unreachable(fmt.Errorf("fetch %q: %w", query.Filename, err))
	}
	if !fileStatuses[resp.StatusCode] {
		defer cancel(nil)
		return nil, errors.Join(e.refusedFile(resp), resp.Body.Close())
	}
	return &sidecar.Content{
		Status: resp.StatusCode, Header: fileHeader(resp.Header), Size: resp.ContentLength,
		Body: &stream{body: resp.Body, ctx: ctx, idle: idle, cancel: cancel},
	}, nil
}

// overridesType: ComfyUI lets such an ending of the name win over the type,
// and with it over whoever allowed the type.
func overridesType(name string) bool {
	return strings.HasSuffix(name, "[output]") || strings.HasSuffix(name, "[input]") || strings.HasSuffix(name, "[temp]")
}

func viewPath(query sidecar.FileQuery) string {
	kind := query.Type
	if kind == "" {
		kind = "output"
	}
	return "/view?filename=" + url.QueryEscape(query.Filename) +
		"&subfolder=" + url.QueryEscape(query.Subfolder) + "&type=" + url.QueryEscape(kind)
}

func (e *Executor) view(ctx context.Context, query sidecar.FileQuery, idle *watchdog) (*http.Response, error) {
	req, err := newRequest(ctx, query.Method, e.http.base+viewPath(query), nil)
	if err != nil {
		return nil, err
	}
	for name, values := range query.Header {
		name = textproto.CanonicalMIMEHeaderKey(name)
		for _, passed := range passedOn {
			if name == passed {
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
	a := answer{status: resp.StatusCode, url: e.http.base + "/view", header: resp.Header, body: body}
	return &sidecar.RefusedError{Failure: rejected(sidecar.CodeUnavailable, a)}
}

func fileHeader(from http.Header) http.Header {
	header := from.Clone()
	for _, named := range from.Values("Connection") {
		for name := range strings.SplitSeq(named, ",") {
			header.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range connectionHeaders {
		header.Del(name)
	}
	return header
}

// stream is the body of a file. Waiting for the reader costs no time.
type stream struct {
	body   io.ReadCloser
	ctx    context.Context // the request's, for its cause
	idle   *watchdog
	cancel context.CancelCauseFunc
}

func (s *stream) Read(p []byte) (int, error) {
	s.idle.start()
	n, err := s.body.Read(p)
	s.idle.stop()
	if err != nil && errors.Is(context.Cause(s.ctx), errIdle) {
		err = errIdle
	}
	return n, err
}

func (s *stream) Close() error {
	s.cancel(nil)
	return s.body.Close()
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
