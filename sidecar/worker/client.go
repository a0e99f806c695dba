package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/backend"
	"github.com/comfygit-ai/studio-sidecar/sidecar/protocol"
)

const (
	// conns bounds the connections to a worker; files have their own.
	conns = 8
	// answerLimit bounds an answer; one may hold the texts of many outputs.
	answerLimit = 64 << 20
)

// client makes bounded exchanges with one worker. Redirects are not followed:
// they would carry the token elsewhere.
type client struct {
	base    string
	shown   string // as it was given
	token   string
	timeout time.Duration
	api     *http.Client
	files   *http.Client
	met     acquaintance
}

func newClient(o Options) *client {
	c := &client{base: strings.TrimRight(o.URL, "/"), shown: o.URL, token: o.Token, timeout: o.CallTimeout}
	c.api, c.files = backend.NewClient(o.DialContext, conns, conns), backend.NewClient(o.DialContext, 0, conns)
	for _, via := range []*http.Client{c.api, c.files} {
		via.Transport = &greeting{RoundTripper: via.Transport, met: &c.met}
	}
	return c
}

func (c *client) close() {
	c.api.CloseIdleConnections()
	c.files.CloseIdleConnections()
}

// answer is what a worker said, whatever its status.
type answer struct{ backend.Answer }

// ask makes a short exchange. Its error is a *backend.CallError.
func (c *client) ask(ctx context.Context, method, path string) (answer, error) {
	ctx, stop := context.WithTimeout(ctx, c.timeout)
	defer stop()
	req, err := c.request(ctx, method, path, nil)
	if err != nil {
		return answer{}, &backend.CallError{Err: err}
	}
	return c.send(c.api, req)
}

func (c *client) request(ctx context.Context, method, path string, body io.Reader) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	req.Header.Set("User-Agent", "studio-sidecar")
	if c.token != "" {
		req.Header.Set(protocol.Authorization, protocol.Bearer(c.token))
	}
	return req, nil
}

// send makes an exchange and reads a bounded answer.
func (c *client) send(via *http.Client, req *http.Request) (answer, error) {
	a, err := backend.Exchange(via, req, answerLimit)
	return answer{a}, err
}

// unreachable is the error of a question that brings nothing about.
func (c *client) unreachable(err error) error {
	return &sidecar.UnreachableError{Failure: c.unavailable(err), Err: err}
}

// unheard is the error of an order: unreachable only when the worker cannot
// have heard it.
func (c *client) unheard(err error) error {
	if backend.Reached(err) {
		return &sidecar.UnsureError{Failure: c.unavailable(err), Err: err}
	}
	return c.unreachable(err)
}

// unavailable tells people why the worker gave no answer. The address stays
// out of the sentence.
func (c *client) unavailable(err error) sidecar.Failure {
	message, hint := "The connection to the worker broke.", "Try again; see the worker's log if it stays so."
	var dns *net.DNSError
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, net.ErrClosed):
		message, hint = "The worker does not answer: nothing listens at its address.", "Start the worker, or check --proxy-url."
	case errors.As(err, &dns):
		message, hint = "The worker's host is not known.", "Check --proxy-url."
	case errors.Is(err, context.Canceled):
		message, hint = "The call to the worker was given up.", ""
	case errors.As(err, &timeout) && timeout.Timeout():
		message, hint = "The worker did not answer in time.", "It may be busy, or hang; see its log."
	case errors.Is(err, backend.ErrTooLarge):
		message, hint = "The worker's answer is too large.", ""
	case errors.Is(err, errNotWorker):
		message, hint = "What answers at the worker's address is no worker.", "Check --proxy-url."
	}
	return sidecar.Failure{Code: CodeUnavailable, Message: message, Hint: hint, URL: c.shown, Proxy: true}
}
