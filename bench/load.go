package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// load is one kind of traffic: the same requests again and again over several
// connections, each of which waits for an answer before it asks anew.
type load struct {
	addr     string
	requests [][]byte // in turn, whichever connection asks
	conns    int
	time     time.Duration
	// most bounds the number of requests in all; zero means no bound.
	most int64
}

// tally is what a load came to.
type tally struct {
	answers int64
	rate    float64 // answers per second
}

// run keeps the traffic up and counts good answers. The first other answer,
// and the first failure, ends it with an error.
//
// Each connection's rate is taken over its own time up to its last answer, so
// that a slow server does not lose the requests under way at the end.
func (l load) run(ctx context.Context) (tally, error) {
	clients, err := l.dial(ctx)
	defer func() {
		for _, c := range clients {
			c.close()
		}
	}()
	if err != nil {
		return tally{}, err
	}
	var (
		group sync.WaitGroup
		asked atomic.Int64
		parts = make([]tally, len(clients))
		errs  = make([]error, len(clients))
		start = time.Now()
	)
	for i, c := range clients {
		group.Go(func() { parts[i], errs[i] = l.ask(c, start, &asked) })
	}
	group.Wait()
	var sum tally
	for _, p := range parts {
		sum.answers += p.answers
		sum.rate += p.rate
	}
	if err := errors.Join(errs...); err != nil {
		return sum, fmt.Errorf("load %s: %w", bytes.TrimSpace(bytes.SplitN(l.requests[0], []byte("\r\n"), 2)[0]), err)
	}
	return sum, nil
}

func (l load) dial(ctx context.Context) ([]*client, error) {
	var clients []*client
	for range l.conns {
		c, err := dial(ctx, l.addr)
		if err != nil {
			return clients, err
		}
		clients = append(clients, c)
	}
	return clients, nil
}

func (l load) ask(c *client, start time.Time, asked *atomic.Int64) (tally, error) {
	var n int64
	last := start
	for last.Sub(start) < l.time {
		turn := asked.Add(1) - 1
		if l.most > 0 && turn >= l.most {
			break
		}
		a, err := c.send(l.requests[turn%int64(len(l.requests))])
		if err != nil {
			return tally{}, err
		}
		if !a.good() {
			var body bytes.Buffer
			_, err := c.copyBody(&body, a)
			return tally{}, errors.Join(a.refusal(body.Bytes()), err)
		}
		if _, err := c.copyBody(io.Discard, a); err != nil {
			return tally{}, err
		}
		n++
		last = time.Now()
	}
	if n == 0 {
		return tally{}, nil
	}
	return tally{n, float64(n) / last.Sub(start).Seconds()}, nil
}
