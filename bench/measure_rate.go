package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

const (
	emptySession = "bench-empty"
	fullSession  = "bench-full"
	// seedRuns is how many finished runs the full session has.
	seedRuns = 200
	// rateConns is how many connections ask at once.
	rateConns = 8
	// turns is how many times each figure is measured; servers take turns, so
	// that a disturbance of the machine meets all of them.
	turns  = 3
	warmUp = 200 * time.Millisecond
)

// asked is one thing to ask for again and again.
type asked struct {
	measure string
	target  string
	rawPath string // where the raw copy has the same answer
	session string
	goal    goal
}

var askedEmpty = []asked{
	{"GET /health", "/health", "/health", "", atLeast(overPeer, 50)},
	{"GET /contracts", "/contracts", "/contracts", "", atLeast(overPeer, 10)},
	{"GET /runs, none", "/runs", "/runs/none", emptySession, atLeast(overPeer, 10)},
}

var askedFull = []asked{
	{fmt.Sprintf("GET /runs, %d runs", seedRuns), "/runs", "/runs/all", fullSession, atLeast(overPeer, 10)},
	{"GET /gallery?limit=50", "/gallery?limit=50", "/gallery", fullSession, atLeast(overPeer, 4)},
}

func measureRate(ctx context.Context, l *lab) ([]row, error) {
	all, err := l.startAll(ctx)
	defer func() { all.stop() }()
	if err != nil {
		return nil, err
	}
	var rows []row
	for _, a := range askedEmpty {
		r, err := l.rate(ctx, all, a)
		if err != nil {
			return rows, err
		}
		rows = append(rows, r)
	}
	for who, p := range all {
		l.say("%s gets %d runs", who, seedRuns)
		if err := seed(ctx, p.addr); err != nil {
			return rows, fmt.Errorf("%s: %w", who, err)
		}
	}
	for _, a := range askedFull {
		r, err := l.rate(ctx, all, a)
		if err != nil {
			return rows, err
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// rate asks every server and a raw copy of the answer, turn by turn.
func (l *lab) rate(ctx context.Context, all running, a asked) (row, error) {
	out := blank("rate", a.measure, "/s", a.goal)
	raw, err := l.copyOf(ctx, all, a)
	if err != nil {
		return out, err
	}
	defer raw.stop()
	loads := map[role]load{rawRole: {addr: raw.addr, requests: [][]byte{request("GET", raw.addr, a.rawPath, a.session, nil)}, conns: rateConns}}
	for who, p := range all {
		loads[who] = load{addr: p.addr, requests: [][]byte{request("GET", p.addr, a.target, a.session, nil)}, conns: rateConns}
	}
	figures := map[role][]float64{}
	for turn := range turns + 1 {
		for _, who := range []role{sidecarRole, referenceRole, rawRole} {
			traffic, ok := loads[who]
			if !ok {
				continue
			}
			traffic.time = l.seconds / turns
			if turn == 0 {
				traffic.time = warmUp
			}
			t, err := traffic.run(ctx)
			if err != nil {
				return out, fmt.Errorf("%s: %w", who, err)
			}
			if turn > 0 {
				figures[who] = append(figures[who], t.rate)
			}
		}
	}
	for who, f := range figures {
		out.set(who, median(f))
	}
	l.say("%s: sidecar %s, reference %s, raw %s", a.measure, figure(out.sidecar), figure(out.reference), figure(out.raw))
	return out, nil
}

// copyOf starts a raw copy with the answer of the sidecar or, without one, of
// the reference.
func (l *lab) copyOf(ctx context.Context, all running, a asked) (*process, error) {
	from := all[sidecarRole]
	if from == nil {
		from = all[referenceRole]
	}
	body, err := get(ctx, from.addr, a.target, a.session)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.measure, err)
	}
	raw, err := l.newRaw(map[string]string{a.rawPath: string(body)})
	if err != nil {
		return nil, err
	}
	return l.start(ctx, raw)
}

// seed makes the full session's runs and waits for their end.
func seed(ctx context.Context, addr string) error {
	c, err := dial(ctx, addr)
	if err != nil {
		return err
	}
	defer c.close()
	for i := range seedRuns {
		if _, err := c.ask(launchRun(addr, fullSession, i, false)); err != nil {
			return fmt.Errorf("launch run %d: %w", i+1, err)
		}
	}
	if err := settle(ctx, addr, fullSession); err != nil {
		return err
	}
	return seeded(ctx, addr)
}

// seeded says whether the server really shows what it is about to be asked
// for: a fast answer to another question would be worth nothing.
func seeded(ctx context.Context, addr string) error {
	body, err := get(ctx, addr, "/runs", fullSession)
	if err != nil {
		return err
	}
	var answer struct {
		Runs []struct {
			Status string `json:"status"`
		} `json:"runs"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return fmt.Errorf("read /runs: %w", err)
	}
	done := 0
	for _, r := range answer.Runs {
		if r.Status == "completed" {
			done++
		}
	}
	if done != seedRuns {
		return fmt.Errorf("%d of %d runs completed", done, seedRuns)
	}
	return nil
}
