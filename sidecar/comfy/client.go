package comfy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

const (
	// apiConns and fileConns bound the connections to ComfyUI. Files have
	// their own: slow readers must not stand in the way of questions.
	apiConns  = 8
	fileConns = 64
	// answerLimit bounds an ordinary answer, recordLimit one that holds whole
	// graphs and outputs.
	answerLimit = 8 << 20
	recordLimit = 64 << 20
)

// client makes bounded exchanges with one ComfyUI. Redirects are not followed
// and no header of a browser is ever sent: ComfyUI refuses requests by Origin
// and Sec-Fetch-Site.
type client struct {
	base    string
	timeout time.Duration
	records int64 // recordLimit, less in tests
	api     *http.Client
	files   *http.Client
	socket  *http.Client
}

func newClient(o Options) *client {
	return &client{
		base: o.URL, timeout: o.CallTimeout, records: recordLimit,
		api: newHTTP(o, apiConns), files: newHTTP(o, fileConns), socket: newHTTP(o, 0),
	}
}

func newHTTP(o Options, conns int) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext:         o.DialContext,
			DisableCompression:  true,
			MaxConnsPerHost:     conns,
			MaxIdleConnsPerHost: apiConns,
			IdleConnTimeout:     60 * time.Second,
			TLSHandshakeTimeout: 5 * time.Second,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (c *client) close() {
	c.api.CloseIdleConnections()
	c.files.CloseIdleConnections()
	c.socket.CloseIdleConnections()
}

// exchange is one question to ComfyUI.
type exchange struct {
	method string
	path   string // below base, escaped
	body   []byte
	limit  int64         // of the answer; zero: answerLimit
	within time.Duration // zero: the client's timeout
}

// answer is what ComfyUI said, whatever its status.
type answer struct {
	status int
	url    string
	header http.Header
	body   []byte
}

// callError is a question without an answer. reached tells whether ComfyUI may
// have heard it: once there was a connection, nobody knows.
type callError struct {
	reached bool
	err     error
}

func (e *callError) Error() string { return e.err.Error() }
func (e *callError) Unwrap() error { return e.err }

var errTooLarge = errors.New("the answer is too large")

// call makes an exchange. Its error is a *callError.
func (c *client) call(ctx context.Context, x exchange) (answer, error) {
	if x.within == 0 {
		x.within = c.timeout
	}
	if x.limit == 0 {
		x.limit = answerLimit
	}
	ctx, cancel := context.WithTimeout(ctx, x.within)
	defer cancel()
	var reached atomic.Bool
	a, err := c.exchange(traced(ctx, &reached), x)
	if err != nil {
		err = fmt.Errorf("%s %s: %w", x.method, x.path, err)
		return answer{}, &callError{reached: reached.Load(), err: err}
	}
	return a, nil
}

func traced(ctx context.Context, reached *atomic.Bool) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { reached.Store(true) },
	})
}

func (c *client) exchange(ctx context.Context, x exchange) (a answer, err error) {
	req, err := newRequest(ctx, x.method, c.base+x.path, x.body)
	if err != nil {
		return answer{}, err
	}
	resp, err := c.api.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, x.limit+1))
	if err != nil {
		return answer{}, err
	}
	if int64(len(body)) > x.limit {
		return answer{}, errTooLarge
	}
	return answer{status: resp.StatusCode, url: c.base + bare(x.path), header: resp.Header, body: body}, nil
}

func newRequest(ctx context.Context, method, url string, body []byte) (*http.Request, error) {
	var src io.Reader
	if body != nil {
		src = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, src)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "studio-sidecar")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, nil
}

func bare(path string) string {
	path, _, _ = strings.Cut(path, "?")
	return path
}

// isJSON reports whether the answer says that it is JSON.
func (a answer) isJSON() bool {
	kind, _, err := mime.ParseMediaType(a.header.Get("Content-Type"))
	return err == nil && strings.Contains(kind, "json")
}

// ok reports whether ComfyUI did what was asked.
func (a answer) ok() bool { return a.status >= 200 && a.status < 300 }

// unreachable is the error of a question that brings nothing about in ComfyUI
// and got no answer.
func (c *client) unreachable(err error) error {
	return &sidecar.UnreachableError{Failure: c.unavailable(err), Err: err}
}

// unheard is the error of an order that got no answer: unreachable only when
// ComfyUI cannot have heard it.
func (c *client) unheard(err error) error {
	if reached(err) {
		return &sidecar.UnsureError{Failure: c.unavailable(err), Err: err}
	}
	return c.unreachable(err)
}
