package routes

import (
	"context"
	"errors"
	"io"
	"net"
	"time"
)

// A client that ends its side of the connection after its request may be gone,
// or may wait for the answer: both look alike, and net/http takes both for
// gone. Only a connection that was reset is gone for sure; the keep-alive
// probes of a client that closed its connection bring that about in a minute
// or so.

// lookPause is how often a connection whose client sends no more is looked at.
const lookPause = 100 * time.Millisecond

// line is the connection that a request came by.
type line struct {
	conn net.Conn
	// stopping is the context of the server, which ends when it stops.
	stopping context.Context
}

type lineKey struct{}

func withLine(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, lineKey{}, &line{conn, ctx})
}

// waitOut gives the call a context that goes on when its client ends its side
// of the connection, until the client is gone or the server stops. Call stop at
// the end of the call.
func (c *call) waitOut() (stop func()) {
	given := c.r.Context()
	l, ok := given.Value(lineKey{}).(*line)
	if !ok {
		return func() {}
	}
	before := c.r
	ctx, cancel := context.WithCancel(context.WithoutCancel(given))
	c.r = c.r.WithContext(ctx)
	watched := make(chan struct{})
	unused := context.AfterFunc(given, func() {
		defer close(watched)
		l.watch(ctx)
		cancel()
	})
	return func() {
		cancel()
		if !unused() {
			<-watched
		}
		c.r = before // whose context tells whether the client left
	}
}

// watch returns when ctx ends, the client is gone, or the server stops.
func (l *line) watch(ctx context.Context) {
	tick := time.NewTicker(lookPause)
	defer tick.Stop()
	for l.stopping.Err() == nil && l.half() {
		select {
		case <-tick.C:
		case <-l.stopping.Done():
		case <-ctx.Done():
			return
		}
	}
}

// half reports whether the client has ended its own side alone, as far as can
// be told. Nobody else reads: net/http has given up.
func (l *line) half() bool {
	if _, can := l.conn.(interface{ CloseRead() error }); !can {
		return false // it has no sides
	}
	if err := l.conn.SetReadDeadline(time.Now().Add(lookPause)); err != nil {
		return false
	}
	if _, err := l.conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		return false
	}
	// Reading would say EOF for ever. Writing nothing tells of a reset.
	_, err := l.conn.Write(nil)
	return err == nil
}
