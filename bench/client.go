package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// client is one keep-alive HTTP/1.1 connection. It knows just enough of the
// protocol to read the answers measured here, and costs little beside the
// servers: the general client of net/http would take a good part of a small
// machine for itself.
type client struct {
	conn net.Conn
	in   *bufio.Reader
	stop func() bool
}

// dial connects; when ctx ends, every read and write of the client fails.
func dial(ctx context.Context, addr string) (*client, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	stop := context.AfterFunc(ctx, func() {
		conn.SetDeadline(time.Unix(1, 0)) //nolint:errcheck // a closed connection needs no deadline
	})
	return &client{conn: conn, in: bufio.NewReaderSize(conn, 256<<10), stop: stop}, nil
}

func (c *client) close() {
	c.stop()
	c.conn.Close() //nolint:errcheck // nothing was promised about it
}

// answer is the head of a response whose body is still to be read.
type answer struct {
	status int
	length int64 // -1: chunked
}

// request renders a request for any number of sends.
func request(method, addr, target, session string, body []byte) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\nAccept: application/json\r\n", method, target, addr)
	if session != "" {
		fmt.Fprintf(&b, "X-ComfyGit-Studio-Session: %s\r\n", session)
	}
	if body != nil {
		fmt.Fprintf(&b, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	b.WriteString("\r\n")
	b.Write(body)
	return b.Bytes()
}

// send writes a request and reads the head of its answer.
func (c *client) send(request []byte) (answer, error) {
	if _, err := c.conn.Write(request); err != nil {
		return answer{}, fmt.Errorf("send request: %w", err)
	}
	return c.head()
}

var errNotHTTP = errors.New("the answer is not HTTP/1.1")

func (c *client) head() (answer, error) {
	line, err := c.line()
	if err != nil {
		return answer{}, err
	}
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.")) {
		return answer{}, errNotHTTP
	}
	a := answer{}
	if a.status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return answer{}, errNotHTTP
	}
	for {
		line, err := c.line()
		if err != nil {
			return answer{}, err
		}
		if len(line) == 0 {
			return a, nil
		}
		if err := a.header(line); err != nil {
			return answer{}, err
		}
	}
}

func (c *client) line() ([]byte, error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	return bytes.TrimRight(line, "\r\n"), nil
}

func (a *answer) header(line []byte) error {
	name, text, _ := bytes.Cut(line, []byte(":"))
	text = bytes.TrimSpace(text)
	switch {
	case bytes.EqualFold(name, []byte("Content-Length")):
		n, err := strconv.ParseInt(string(text), 10, 64)
		if err != nil || n < 0 {
			return errNotHTTP
		}
		a.length = n
	case bytes.EqualFold(name, []byte("Transfer-Encoding")) && bytes.EqualFold(text, []byte("chunked")):
		a.length = -1
	}
	return nil
}

// copyBody reads the answer's body to its end.
func (c *client) copyBody(w io.Writer, a answer) (int64, error) {
	if a.length >= 0 {
		return c.copyN(w, a.length)
	}
	var total int64
	for {
		line, err := c.line()
		if err != nil {
			return total, err
		}
		size, err := strconv.ParseInt(string(line), 16, 64)
		if err != nil || size < 0 {
			return total, errNotHTTP
		}
		n, err := c.copyN(w, size)
		total += n
		if err != nil {
			return total, err
		}
		if _, err := c.line(); err != nil {
			return total, err
		}
		if size == 0 {
			return total, nil
		}
	}
}

// copyN discards without a copy when nobody wants the bytes.
func (c *client) copyN(w io.Writer, n int64) (int64, error) {
	if w != io.Discard {
		n, err := io.CopyN(w, c.in, n)
		if err != nil {
			return n, fmt.Errorf("read body: %w", err)
		}
		return n, nil
	}
	var done int64
	for done < n {
		k, err := c.in.Discard(int(min(n-done, 1<<30)))
		done += int64(k)
		if err != nil {
			return done, fmt.Errorf("read body: %w", err)
		}
	}
	return done, nil
}

// ask sends a request and returns the body of a successful answer.
func (c *client) ask(request []byte) ([]byte, error) {
	a, err := c.send(request)
	if err != nil {
		return nil, err
	}
	var body bytes.Buffer
	if _, err := c.copyBody(&body, a); err != nil {
		return nil, err
	}
	if !a.good() {
		return nil, a.refusal(body.Bytes())
	}
	return body.Bytes(), nil
}

func (a answer) good() bool { return a.status >= 200 && a.status < 300 }

// refusal is the error of an answer that was to be good.
func (a answer) refusal(body []byte) error {
	return fmt.Errorf("status %d: %.200s", a.status, body)
}

// get fetches a body over a connection of its own.
func get(ctx context.Context, addr, target, session string) ([]byte, error) {
	return once(ctx, addr, request("GET", addr, target, session, nil))
}

func once(ctx context.Context, addr string, request []byte) ([]byte, error) {
	c, err := dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	defer c.close()
	return c.ask(request)
}
