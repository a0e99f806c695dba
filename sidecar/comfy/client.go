package comfy

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/backend"
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
		api:    backend.NewClient(o.DialContext, apiConns, apiConns),
		files:  backend.NewClient(o.DialContext, fileConns, apiConns),
		socket: backend.NewClient(o.DialContext, 0, apiConns),
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
type answer struct{ backend.Answer }

// call makes an exchange. Its error is a *backend.CallError.
func (c *client) call(ctx context.Context, x exchange) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(x.within, c.timeout))
	defer cancel()
	req, err := newRequest(ctx, x.method, c.base+x.path, x.body)
	if err != nil {
		return answer{}, &backend.CallError{Err: err}
	}
	a, err := backend.Exchange(c.api, req, cmp.Or(x.limit, answerLimit))
	return answer{a}, err
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

// broke reports whether a connection ended in the middle of an exchange.
func broke(err error) bool {
	var timeout net.Error
	return backend.Reached(err) && !(errors.As(err, &timeout) && timeout.Timeout()) && !errors.Is(err, context.Canceled) && !errors.Is(err, backend.ErrTooLarge)
}

// isJSON reports whether the answer says that it is JSON.
func (a answer) isJSON() bool {
	kind, _, err := mime.ParseMediaType(a.Header.Get("Content-Type"))
	return err == nil && strings.Contains(kind, "json")
}

// unreachable is the error of a question that brings nothing about in ComfyUI
// and got no answer.
func (c *client) unreachable(err error) error {
	return &sidecar.UnreachableError{Failure: c.unavailable(err), Err: err}
}

// unheard is the error of an order that got no answer: unreachable only when
// ComfyUI cannot have heard it.
func (c *client) unheard(err error) error {
	if backend.Reached(err) {
		return &sidecar.UnsureError{Failure: c.unavailable(err), Err: err}
	}
	return c.unreachable(err)
}
