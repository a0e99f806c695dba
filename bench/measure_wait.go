package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	waitRuns = 200
	// waitSpread is over what time the durations of the sidecar's runs lie.
	waitSpread = 80 * time.Millisecond
	// The reference looks once a second: its fewer runs lie over a whole
	// second, so that its look meets them at every phase.
	referenceWaitRuns   = 20
	referenceWaitSpread = time.Second
	// waitLimit is how long a single run may take.
	waitLimit = 30 * time.Second
)

// measureWait runs contracts with wait: true, one after the other.
func measureWait(ctx context.Context, l *lab) ([]row, error) {
	rows := []row{
		blank("wait", "result in history to answer, median", "ms", atMost(value, 15)),
		blank("wait", "result in history to answer, p95", "ms", atMost(value, 40)),
	}
	for _, c := range l.contenders() {
		n, spread := waitRuns, waitSpread
		if c.role == referenceRole {
			n, spread = referenceWaitRuns, referenceWaitSpread
		}
		lags, err := l.waits(ctx, c, n, spread)
		if err != nil {
			return rows, fmt.Errorf("%s: %w", c.role, err)
		}
		rows[0].set(c.role, median(lags))
		rows[1].set(c.role, percentile(lags, 95))
		l.say("%s, %d runs: median %s ms, p95 %s ms", c.role, n, figure(median(lags)), figure(percentile(lags, 95)))
	}
	floor, err := l.historyTrips(ctx)
	if err != nil {
		return rows, err
	}
	rows[0].set(rawRole, median(floor))
	rows[1].set(rawRole, percentile(floor, 95))
	return rows, nil
}

func (l *lab) waits(ctx context.Context, c *contender, n int, spread time.Duration) ([]float64, error) {
	p, err := l.start(ctx, c)
	if err != nil {
		return nil, err
	}
	defer p.stop()
	l.back.forget()
	defer l.back.fake.Release()
	conn, err := dial(ctx, p.addr)
	if err != nil {
		return nil, err
	}
	defer conn.close()
	var lags []float64
	for i := range n {
		// A stride that shares no factor with n takes every duration once and
		// none beside its neighbour.
		length := spread * time.Duration(i*7%n) / time.Duration(n)
		lag, err := l.waitOnce(ctx, conn, launchRun(p.addr, fullSession, i, true), length)
		if err != nil {
			return nil, fmt.Errorf("run %d: %w", i+1, err)
		}
		lags = append(lags, milliseconds(lag))
	}
	return lags, nil
}

var errSilent = errors.New("the built-in ComfyUI did not hear of the run, or did not end it")

// waitOnce runs one contract that executes for the given time and returns the
// time from the result in history to the answer.
func (l *lab) waitOnce(ctx context.Context, conn *client, launch []byte, length time.Duration) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, waitLimit)
	defer cancel()
	l.back.fake.Hold()
	var (
		asking   sync.WaitGroup
		answered time.Time
		failed   = make(chan error, 1)
	)
	asking.Go(func() {
		_, err := conn.ask(launch)
		answered = time.Now()
		failed <- err
	})
	defer asking.Wait()
	if _, err := l.hear(ctx, l.back.handed, failed); err != nil {
		return 0, err
	}
	if err := pause(ctx, length); err != nil {
		return 0, err
	}
	l.back.fake.Release()
	stored, err := l.hear(ctx, l.back.stored, nil)
	if err != nil {
		return 0, err
	}
	if err := <-failed; err != nil {
		return 0, err
	}
	return answered.Sub(stored), nil
}

// hear waits for news of the backend, or for the call that was to bring them
// to end without.
func (l *lab) hear(ctx context.Context, news <-chan time.Time, failed <-chan error) (time.Time, error) {
	select {
	case at := <-news:
		return at, nil
	case err := <-failed:
		return time.Time{}, errors.Join(errSilent, err)
	case <-ctx.Done():
		return time.Time{}, errors.Join(errSilent, ctx.Err())
	}
}

// historyTrips are the times of single questions for a result to ComfyUI
// itself: no waiting call can answer sooner.
func (l *lab) historyTrips(ctx context.Context) ([]float64, error) {
	conn, err := dial(ctx, l.back.addr)
	if err != nil {
		return nil, err
	}
	defer conn.close()
	ask := request("GET", l.back.addr, "/history?max_items=1", "", nil)
	var trips []float64
	for range waitRuns {
		start := time.Now()
		if _, err := conn.ask(ask); err != nil {
			return nil, fmt.Errorf("ask for history: %w", err)
		}
		trips = append(trips, milliseconds(time.Since(start)))
	}
	return trips, nil
}
