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

// load is one kind of traffic: the same request again and again over several
// connections, each of which waits for an answer before it asks anew.
type load struct {
	addr    string
	request []byte
	conns   int
	time    time.Duration
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
		group  sync.WaitGroup
		budget atomic.Int64
		parts  = make([]tally, len(clients))
		errs   = make([]error, len(clients))
		start  = time.Now()
	)
	if budget.Store(l.most); l.most == 0 {
		budget.Store(1 << 62)
	}
	for i, c := range clients {
		group.Go(func() { parts[i], errs[i] = l.ask(c, start, &budget) })
	}
	group.Wait()
	var sum tally
	for _, p := range parts {
		sum.answers += p.answers
		sum.rate += p.rate
	}
	if err := errors.Join(errs...); err != nil {
		return sum, fmt.Errorf("load %s: %w", bytes.TrimSpace(bytes.SplitN(l.request, []byte("\r\n"), 2)[0]), err)
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

func (l load) ask(c *client, start time.Time, budget *atomic.Int64) (tally, error) {
	var n int64
	last := start
	for last.Sub(start) < l.time && budget.Add(-1) >= 0 {
		a, err := c.send(l.request)
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
