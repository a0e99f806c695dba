package main

import (
	"context"
	"fmt"
	"time"
)

const (
	starts = 20
	// idleStarts is how often memory is looked at, each time in a new process.
	idleStarts = 3
	// idleTime is how long a server rests before its memory is read.
	idleTime = time.Second
)

// measureStart starts each server again and again on the same database.
func measureStart(ctx context.Context, l *lab) ([]row, error) {
	out := blank("start", fmt.Sprintf("start to first answer, %d starts", starts), "ms", atMost(overPeer, 0.1))
	err := l.eachStart(ctx, starts, func(who role, times []float64) { out.set(who, median(times)) },
		func(p *process) (float64, error) { return milliseconds(p.took), nil })
	return []row{out}, err
}

// measureMemory reads what a server holds that has answered a few requests.
func measureMemory(ctx context.Context, l *lab) ([]row, error) {
	out := blank("memory", "idle memory", "MiB", atMost(overPeer, 0.5))
	err := l.eachStart(ctx, idleStarts, func(who role, sizes []float64) { out.set(who, median(sizes)) },
		func(p *process) (float64, error) {
			if err := pause(ctx, idleTime); err != nil {
				return 0, err
			}
			return p.resident()
		})
	return []row{out}, err
}

// eachStart starts every server and a raw copy n times, one process at a time,
// and hands over the figures that look takes.
func (l *lab) eachStart(ctx context.Context, n int, found func(role, []float64), look func(*process) (float64, error)) error {
	raw, err := l.newRaw(map[string]string{})
	if err != nil {
		return err
	}
	for _, c := range append(l.contenders(), raw) {
		database := l.newDatabase()
		var figures []float64
		for range n {
			v, err := l.lookOnce(ctx, c, database, look)
			if err != nil {
				return fmt.Errorf("%s: %w", c.role, err)
			}
			figures = append(figures, v)
		}
		l.say("%s: %s", c.role, figure(median(figures)))
		found(c.role, figures)
	}
	return nil
}

func (l *lab) lookOnce(ctx context.Context, c *contender, database string, look func(*process) (float64, error)) (float64, error) {
	p, err := c.start(ctx, l.back.url(), database)
	if err != nil {
		return 0, err
	}
	defer p.stop()
	return look(p)
}
