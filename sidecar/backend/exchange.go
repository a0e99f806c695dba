package backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// ErrTooLarge is the error of an answer beyond the limit of its exchange.
var ErrTooLarge = errors.New("the answer is too large")

// Dial opens connections; nil: a net.Dialer does.
type Dial = func(ctx context.Context, network, address string) (net.Conn, error)

// NewClient makes a client with at most conns connections (0: any number) of
// which idle are kept. Redirects are not followed: they would carry a token
// elsewhere.
func NewClient(dial Dial, conns, idle int) *http.Client {
	if dial == nil {
		dial = (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext
	}
	return &http.Client{
		Transport: &http.Transport{
			DialContext:         dial,
			DisableCompression:  true,
			MaxConnsPerHost:     conns,
			MaxIdleConnsPerHost: idle,
			IdleConnTimeout:     60 * time.Second,
			TLSHandshakeTimeout: 5 * time.Second,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Answer is what a backend said, whatever its status.
type Answer struct {
	Status int
	URL    string // that was asked, without its query
	Header http.Header
	Body   []byte
}

// OK reports whether the backend did what was asked.
func (a Answer) OK() bool { return a.Status >= 200 && a.Status < 300 }

// CallError is an exchange without an answer. Reached tells whether the backend
// may have heard it: once there was a connection, nobody knows.
type CallError struct {
	Reached bool
	Err     error
}

func (e *CallError) Error() string { return e.Err.Error() }
func (e *CallError) Unwrap() error { return e.Err }

// Reached reports whether an error is that of an exchange which the backend may
// have heard.
func Reached(err error) bool {
	call, ok := errors.AsType[*CallError](err)
	return ok && call.Reached
}

// Exchange sends a request and reads an answer of at most limit bytes. Its error
// is a *CallError.
func Exchange(via *http.Client, req *http.Request, limit int64) (Answer, error) {
	var reached atomic.Bool
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { reached.Store(true) },
	}))
	a, err := exchange(via, req, limit)
	if err != nil {
		if errors.Is(context.Cause(req.Context()), ErrIdle) {
			err = ErrIdle
		}
		return Answer{}, &CallError{Reached: reached.Load(), Err: fmt.Errorf("%s %s: %w", req.Method, req.URL.Path, err)}
	}
	return a, nil
}

func exchange(via *http.Client, req *http.Request, limit int64) (a Answer, err error) {
	resp, err := via.Do(req)
	if err != nil {
		return Answer{}, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	return Read(resp, limit)
}

// Read reads an answer of at most limit bytes. Its body stays to be closed.
func Read(resp *http.Response, limit int64) (Answer, error) {
	body, err := readAll(io.LimitReader(resp.Body, limit+1), resp.ContentLength)
	if err != nil {
		return Answer{}, err
	}
	if int64(len(body)) > limit {
		return Answer{}, ErrTooLarge
	}
	url := *resp.Request.URL
	url.RawQuery = ""
	return Answer{Status: resp.StatusCode, URL: url.String(), Header: resp.Header, Body: body}, nil
}

// believed is how long a body may be said to be for as much memory to be taken
// at once.
const believed = 64 << 20

// readAll is io.ReadAll for what is said to be of a length, or -1: it is not
// copied while it is read.
func readAll(body io.Reader, length int64) ([]byte, error) {
	var b bytes.Buffer
	if length > 0 && length <= believed {
		b.Grow(int(length) + bytes.MinRead)
	}
	_, err := b.ReadFrom(body)
	return b.Bytes(), err
}
