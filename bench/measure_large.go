package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"
)

const (
	// largeRows is how many runs and gallery items one session has.
	largeRows = 300_000
	// deepPages is how many pages from either end are asked for: more than a
	// server might keep rendered.
	deepPages = 2000
	// largeStarts is how often a server is started on the large file.
	largeStarts = 5
)

// measureLarge lists a session of many rows: pages that nobody asked for
// lately, the same page again and again, and the ends of the list.
func measureLarge(ctx context.Context, l *lab) ([]row, error) {
	started := blank("large", "start to first answer, 300,000 items", "ms", atMost(value, 150))
	all := running{}
	defer func() { all.stop() }()
	for _, c := range l.contenders() {
		database, err := l.large(ctx, c)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.role, err)
		}
		var took []float64
		for range largeStarts {
			if p := all[c.role]; p != nil {
				p.stop()
			}
			if all[c.role], err = c.start(ctx, l.back.url(), database); err != nil {
				delete(all, c.role)
				return nil, fmt.Errorf("%s: %w", c.role, err)
			}
			took = append(took, milliseconds(all[c.role].took))
		}
		started.set(c.role, median(took))
		l.say("%s: start with %d rows %s ms", c.role, largeRows, figure(median(took)))
	}
	rows, err := l.largePages(ctx, all)
	return append(rows, started), err
}

// large makes a server's file with a single run and multiplies that.
func (l *lab) large(ctx context.Context, c *contender) (string, error) {
	database := l.newDatabase()
	p, err := c.start(ctx, l.back.url(), database)
	if err != nil {
		return "", err
	}
	_, err = once(ctx, p.addr, launchRun(p.addr, fullSession, 1, true))
	p.stop()
	if err != nil {
		return "", fmt.Errorf("make a run: %w", err)
	}
	start := time.Now()
	if err := multiply(ctx, database, largeRows); err != nil {
		return "", err
	}
	l.say("%s: %d rows in %v", c.role, largeRows, time.Since(start).Round(time.Second))
	return database, nil
}

// pageAfter is the target of the page behind row k of the large session.
func pageAfter(list string, limit, k int) string {
	id := itemID
	if list == "/runs" {
		id = runID
	}
	cursor, err := json.Marshal(map[string]any{ //nolint:errchkjson // texts and a number
		"created_at": time.Unix(bornAt+int64(k), 0).UTC().Format("2006-01-02T15:04:05.000Z"),
		"item_id":    fmt.Sprintf(id, k), "v": 1,
	})
	if err != nil {
		return list
	}
	return fmt.Sprintf("%s?limit=%d&cursor=%s", list, limit, base64.RawURLEncoding.EncodeToString(cursor))
}

// pages are targets of pages, from behind row first on, step rows apart.
func pages(list string, limit, first, step, count int) []string {
	targets := make([]string, count)
	for i := range targets {
		targets[i] = pageAfter(list, limit, first-i*step)
	}
	return targets
}

func (l *lab) largePages(ctx context.Context, all running) ([]row, error) {
	var rows []row
	for _, a := range []struct {
		measure string
		targets []string
		goal    goal
	}{
		{"pages of 50 items, each a new one", pages("/gallery", 50, largeRows-1, 50, largeRows/50-1), atLeast(overPeer, 6)},
		{"pages of 200 items, each a new one", pages("/gallery", 200, largeRows-1, 200, largeRows/200-1), atLeast(overPeer, 12)},
		{"the first 50 items", []string{"/gallery?limit=50"}, atLeast(overPeer, 20)},
		{"the first 200 items", []string{"/gallery?limit=200"}, atLeast(overPeer, 30)},
	} {
		out := blank("large", a.measure, "/s", a.goal)
		if err := l.turns(ctx, all, &out, a.targets); err != nil {
			return rows, fmt.Errorf("%s: %w", a.measure, err)
		}
		rows = append(rows, out)
	}
	for _, list := range []string{"/gallery", "/runs"} {
		out := blank("large", "GET "+list+", time of the deepest pages over the first", "", atMost(value, 2))
		if err := l.depth(ctx, all, &out, list); err != nil {
			return rows, fmt.Errorf("%s: %w", out.measure, err)
		}
		rows = append(rows, out)
	}
	return rows, nil
}

// turns measures how often per second each server gives the targets, one after
// the other and from the beginning.
func (l *lab) turns(ctx context.Context, all running, out *row, targets []string) error {
	figures := map[role][]float64{}
	for turn := range turns + 1 {
		for who, p := range all {
			traffic := l.pageLoad(p.addr, targets, rateConns)
			if turn == 0 {
				traffic.time = warmUp
			}
			t, err := traffic.run(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", who, err)
			}
			if turn > 0 {
				figures[who] = append(figures[who], t.rate)
			}
		}
	}
	for who, f := range figures {
		out.set(who, median(f))
	}
	l.say("%s: sidecar %s, reference %s", out.measure, figure(out.sidecar), figure(out.reference))
	return nil
}

func (l *lab) pageLoad(addr string, targets []string, conns int) load {
	traffic := load{addr: addr, conns: conns, time: l.seconds / turns}
	for _, target := range targets {
		traffic.requests = append(traffic.requests, request("GET", addr, target, fullSession, nil))
	}
	return traffic
}

// depth compares the rates of new pages at both ends of a list, over a single
// connection.
func (l *lab) depth(ctx context.Context, all running, out *row, list string) error {
	for who, p := range all {
		if list == "/runs" && who == referenceRole {
			continue // it has no pages of runs
		}
		var rates [2][]float64
		for range turns {
			for i, first := range []int{largeRows - 1, deepPages + 50} {
				t, err := l.pageLoad(p.addr, pages(list, 50, first, 1, deepPages), 1).run(ctx)
				if err != nil {
					return fmt.Errorf("%s: %w", who, err)
				}
				rates[i] = append(rates[i], t.rate)
			}
		}
		out.set(who, median(rates[0])/median(rates[1]))
		l.say("%s, %s: first pages %s/s, deepest %s/s", who, list, figure(median(rates[0])), figure(median(rates[1])))
	}
	return nil
}
