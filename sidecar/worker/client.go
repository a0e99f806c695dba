package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
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
}

func newClient(o Options) *client {
	return &client{base: strings.TrimRight(o.URL, "/"), shown: o.URL, token: o.Token, timeout: o.CallTimeout, api: newHTTP(o, conns), files: newHTTP(o, 0)}
}

func newHTTP(o Options, most int) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext:         o.DialContext,
			DisableCompression:  true,
			MaxConnsPerHost:     most,
			MaxIdleConnsPerHost: conns,
			IdleConnTimeout:     60 * time.Second,
			TLSHandshakeTimeout: 5 * time.Second,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (c *client) close() {
	c.api.CloseIdleConnections()
	c.files.CloseIdleConnections()
}

// answer is what a worker said, whatever its status.
type answer struct {
	status int
	url    string
	header http.Header
	body   []byte
}

func (a answer) ok() bool { return a.status >= 200 && a.status < 300 }

// callError is a question without an answer. reached tells whether the worker
// may have heard it.
type callError struct {
	reached bool
	err     error
}

func (e *callError) Error() string { return e.err.Error() }
func (e *callError) Unwrap() error { return e.err }

var errTooLarge = errors.New("the answer is too large")

// ask makes a short exchange. Its error is a *callError.
func (c *client) ask(ctx context.Context, method, path string) (answer, error) {
	ctx, stop := context.WithTimeout(ctx, c.timeout)
	defer stop()
	req, err := c.request(ctx, method, path, nil)
	if err != nil {
		return answer{}, &callError{err: err}
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
	var reached atomic.Bool
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { reached.Store(true) },
	}))
	a, err := exchange(via, req)
	if err != nil {
		return a, &callError{reached: reached.Load(), err: fmt.Errorf("%s %s: %w", req.Method, req.URL.Path, err)}
	}
	return a, nil
}

func exchange(via *http.Client, req *http.Request) (a answer, err error) {
	resp, err := via.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, answerLimit+1))
	if err == nil && len(body) > answerLimit {
		err = errTooLarge
	}
	return answer{status: resp.StatusCode, url: req.URL.String(), header: resp.Header, body: body}, err
}

// unreachable is the error of a question that brings nothing about.
func (c *client) unreachable(err error) error {
	return &sidecar.UnreachableError{Failure: c.unavailable(err), Err: err}
}

// unheard is the error of an order: unreachable only when the worker cannot
// have heard it.
func (c *client) unheard(err error) error {
	var call *callError
	if errors.As(err, &call) && call.reached {
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
	case errors.Is(err, errTooLarge):
		message, hint = "The worker's answer is too large.", ""
	case errors.Is(err, errNotWorker):
		message, hint = "What answers at the worker's address is no worker.", "Check --proxy-url."
	}
	return sidecar.Failure{Code: CodeUnavailable, Message: message, Hint: hint, URL: c.shown, Proxy: true}
}
