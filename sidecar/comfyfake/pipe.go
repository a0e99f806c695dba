package comfyfake

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// pipeBuffer is how much one direction of a Pipe connection holds before
// writes block: about what a loopback socket takes.
const pipeBuffer = 256 << 10

// Pipe returns an in-memory listener and the function that dials it, whatever
// address is asked for. Both block only in ways that testing/synctest counts
// as durable, so a client and a server may share a bubble.
func Pipe() (net.Listener, func(ctx context.Context, network, address string) (net.Conn, error)) {
	l := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
	return l, l.dial
}

type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

// Accept waits for the next dial.
func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close refuses later dials; connections stay open.
func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

// Addr is a name only.
func (l *pipeListener) Addr() net.Addr { return pipeAddr{} }

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	a, b := newPipeHalf(), newPipeHalf()
	select {
	case l.conns <- &pipeConn{in: a, out: b}:
		return &pipeConn{in: b, out: a}, nil
	case <-l.done:
		return nil, &net.OpError{Op: "dial", Net: "pipe", Addr: pipeAddr{}, Err: net.ErrClosed}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "127.0.0.1:8188" }

// pipeHalf is one direction of a connection.
type pipeHalf struct {
	mu     sync.Mutex
	change *sync.Cond
	buf    bytes.Buffer
	closed bool
}

func newPipeHalf() *pipeHalf {
	h := &pipeHalf{}
	h.change = sync.NewCond(&h.mu)
	return h
}

func (h *pipeHalf) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	h.change.Broadcast()
}

func (h *pipeHalf) wake() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.change.Broadcast()
}

type pipeConn struct {
	in, out *pipeHalf

	mu           sync.Mutex
	closed       bool
	read, write  time.Time
	readT, writT *time.Timer
}

// Read waits for bytes, the far end's close, or the deadline.
func (c *pipeConn) Read(p []byte) (int, error) {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	for {
		if err := c.err(false); err != nil {
			return 0, err
		}
		if c.in.buf.Len() > 0 {
			n, err := c.in.buf.Read(p)
			c.in.change.Broadcast()
			return n, err
		}
		if c.in.closed {
			return 0, io.EOF
		}
		c.in.change.Wait()
	}
}

// Write blocks while the far end has a full buffer unread.
func (c *pipeConn) Write(p []byte) (int, error) {
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	done := 0
	for {
		if err := c.err(true); err != nil {
			return done, err
		}
		if c.out.closed {
			return done, io.ErrClosedPipe
		}
		if room := pipeBuffer - c.out.buf.Len(); room > 0 {
			n := min(room, len(p)-done)
			c.out.buf.Write(p[done : done+n])
			done += n
			c.out.change.Broadcast()
		}
		if done == len(p) {
			return done, nil
		}
		c.out.change.Wait()
	}
}

func (c *pipeConn) err(writing bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	deadline := c.read
	if writing {
		deadline = c.write
	}
	switch {
	case c.closed:
		return net.ErrClosed
	case !deadline.IsZero() && !time.Now().Before(deadline):
		return os.ErrDeadlineExceeded
	}
	return nil
}

// Close ends both directions at once; bytes already written stay readable.
func (c *pipeConn) Close() error {
	c.mu.Lock()
	c.closed = true
	stopTimer(c.readT)
	stopTimer(c.writT)
	c.mu.Unlock()
	c.out.close()
	c.in.close()
	return nil
}

func stopTimer(t *time.Timer) {
	if t != nil {
		t.Stop()
	}
}

func (c *pipeConn) LocalAddr() net.Addr  { return pipeAddr{} }
func (c *pipeConn) RemoteAddr() net.Addr { return pipeAddr{} }

func (c *pipeConn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

func (c *pipeConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	c.read = t
	stopTimer(c.readT)
	c.readT = c.alarm(t, c.in)
	c.mu.Unlock()
	c.in.wake()
	return nil
}

func (c *pipeConn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	c.write = t
	stopTimer(c.writT)
	c.writT = c.alarm(t, c.out)
	c.mu.Unlock()
	c.out.wake()
	return nil
}

// alarm wakes those who wait on h at t, so that they see the deadline.
func (c *pipeConn) alarm(t time.Time, h *pipeHalf) *time.Timer {
	if t.IsZero() || c.closed {
		return nil
	}
	return time.AfterFunc(time.Until(t), h.wake)
}
