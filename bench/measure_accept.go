package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// acceptMost bounds the runs that one measurement piles up.
const acceptMost = 20000

// measureAccept launches runs as fast as they are taken, while none is handed
// over, or ComfyUI ends none. An accepted run is on disk, so that one client
// alone cannot get more answers than the disk takes syncs; many share theirs.
func measureAccept(ctx context.Context, l *lab) ([]row, error) {
	l.back.fake.Hold()
	defer l.back.fake.Release()
	syncs, err := fsyncs(ctx, filepath.Join(l.dir, "fsync"), l.seconds)
	if err != nil {
		return nil, err
	}
	l.say("the disk takes %s syncs/s", figure(syncs))
	var rows []row
	for _, a := range []struct {
		conns int
		goal  goal
	}{{1, atLeast(overRaw, 0.25)}, {16, atLeast(overPeer, 10)}, {64, atLeast(overRaw, 1)}} {
		out := blank("accept", fmt.Sprintf("runs accepted, connections: %d", a.conns), "/s", a.goal)
		out.raw = syncs
		for _, c := range l.contenders() {
			rate, err := l.accept(ctx, c, a.conns)
			if err != nil {
				return rows, fmt.Errorf("%s, %d connections: %w", c.role, a.conns, err)
			}
			out.set(c.role, rate)
		}
		l.say("%d connections: sidecar %s, reference %s", a.conns, figure(out.sidecar), figure(out.reference))
		rows = append(rows, out)
	}
	alone := blank("accept", "graphs that ComfyUI itself takes, connections: 16", "/s", goal{})
	if alone.raw, err = l.acceptDirectly(ctx, 16); err != nil {
		return rows, fmt.Errorf("built-in ComfyUI: %w", err)
	}
	return append(rows, alone), nil
}

func (l *lab) accept(ctx context.Context, c *contender, conns int) (float64, error) {
	l.back.forget()
	p, err := l.start(ctx, c)
	if err != nil {
		return 0, err
	}
	defer l.back.forget()
	defer p.stop()
	if c.role == sidecarRole { // the reference cannot
		if err := pauseQueue(ctx, p.addr); err != nil {
			return 0, err
		}
	}
	t, err := load{addr: p.addr, requests: [][]byte{launchRun(p.addr, fullSession, 1, false)}, conns: conns, time: l.seconds, most: acceptMost}.run(ctx)
	return t.rate, err
}

// pauseQueue keeps a sidecar from handing anything over.
func pauseQueue(ctx context.Context, addr string) error {
	k, err := dial(ctx, addr)
	if err != nil {
		return err
	}
	defer k.close()
	answer, err := k.send(request("POST", addr, "/queue/pause", fullSession, []byte("{}")))
	if err == nil && answer.status != http.StatusOK {
		err = fmt.Errorf("status %d", answer.status)
	}
	if err != nil {
		return fmt.Errorf("pause the queue: %w", err)
	}
	return nil
}

// acceptDirectly hands the same graph to ComfyUI itself.
func (l *lab) acceptDirectly(ctx context.Context, conns int) (float64, error) {
	defer l.back.forget()
	graph, err := environmentFiles.ReadFile("environment/workflow_api/solid.api.json")
	if err != nil {
		return 0, fmt.Errorf("read the example graph: %w", err)
	}
	body := append(append([]byte(`{"prompt":`), graph...), '}')
	t, err := load{addr: l.back.addr, requests: [][]byte{request("POST", l.back.addr, "/prompt", "", body)}, conns: conns, time: l.seconds, most: acceptMost}.run(ctx)
	return t.rate, err
}

// fsyncs is how often per second the disk under path takes 1 KiB for good: what
// one durable answer after the other could reach at best.
func fsyncs(ctx context.Context, path string, d time.Duration) (rate float64, err error) {
	f, err := os.Create(path)
	if err != nil {
		return 0, fmt.Errorf("sync rate: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	block := make([]byte, 1<<10)
	start := time.Now()
	n := 0
	for ; time.Since(start) < d && ctx.Err() == nil; n++ {
		if _, err := f.Write(block); err != nil {
			return 0, fmt.Errorf("sync rate: %w", err)
		}
		if err := f.Sync(); err != nil {
			return 0, fmt.Errorf("sync rate: %w", err)
		}
	}
	return float64(n) / time.Since(start).Seconds(), ctx.Err()
}
