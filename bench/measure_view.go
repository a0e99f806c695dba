package main

import (
	"context"
	"fmt"
	"io"
	"time"
)

const (
	bigMiB       = 1024
	bigTransfers = 5
	// firstBytes is how many transfers are broken off after their first byte.
	firstBytes = 15
)

// transfer is one download.
type transfer struct {
	first time.Duration // to the first byte of the body
	total time.Duration
	bytes int64
}

func (t transfer) rate() float64 { return float64(t.bytes) / mebibyte / t.total.Seconds() }

// measureView fetches a big output through each server, and from ComfyUI
// itself in turn with it.
func measureView(ctx context.Context, l *lab) ([]row, error) {
	rows := []row{
		blank("view", "GET /outputs/view of 1 GiB, first byte", "ms", atMost(aboveRaw, 20)),
		blank("view", "GET /outputs/view of 1 GiB, throughput", "MiB/s", atLeast(overRaw, 0.6)),
		blank("view", "memory growth meanwhile", "MiB", atMost(value, 16)),
		blank("view", "the same throughput beside a bare copying loop", "MiB/s", atLeast(overRaw, 0.75)),
	}
	if err := l.back.bigFile("big.bin", bigMiB<<20); err != nil {
		return rows, err
	}
	if l.sidecar != nil {
		if err := l.viewSidecar(ctx, rows); err != nil {
			return rows, fmt.Errorf("sidecar: %w", err)
		}
	}
	if l.reference != nil {
		if err := l.viewReference(ctx, rows); err != nil {
			return rows, fmt.Errorf("reference: %w", err)
		}
	}
	return rows, nil
}

func viewRequest(addr, path, name string) []byte {
	return request("GET", addr, path+"?filename="+name+"&subfolder=&type=output", "", nil)
}

func (l *lab) viewSidecar(ctx context.Context, rows []row) error {
	p, err := l.start(ctx, l.sidecar)
	if err != nil {
		return err
	}
	defer p.stop()
	bareLoop, err := newRelay()
	if err != nil {
		return err
	}
	relay, err := l.start(ctx, bareLoop)
	if err != nil {
		return err
	}
	defer relay.stop()
	through, direct := viewRequest(p.addr, "/outputs/view", "big.bin"), viewRequest(l.back.addr, "/view", "big.bin")
	// The first read of the file fills the page cache.
	if _, err := fetch(ctx, l.back.addr, direct, true); err != nil {
		return fmt.Errorf("directly: %w", err)
	}
	before, err := p.calm()
	if err != nil {
		return err
	}
	var ours, raws, bare []transfer
	for range bigTransfers {
		for _, way := range []struct {
			addr    string
			request []byte
			into    *[]transfer
		}{{l.back.addr, direct, &raws}, {relay.addr, viewRequest(relay.addr, "/view", "big.bin"), &bare}, {p.addr, through, &ours}} {
			t, err := fetch(ctx, way.addr, way.request, true)
			if err != nil {
				return fmt.Errorf("from %s: %w", way.addr, err)
			}
			*way.into = append(*way.into, t)
		}
		last := len(ours) - 1
		l.say("1 GiB: %.0f MiB/s through the sidecar, %.0f through a bare loop, %.0f directly", ours[last].rate(), bare[last].rate(), raws[last].rate())
	}
	rows[1].sidecar, rows[1].raw = medianOf(ours, transfer.rate), medianOf(raws, transfer.rate)
	rows[3].sidecar, rows[3].raw = rows[1].sidecar, medianOf(bare, transfer.rate)
	top, err := p.peak()
	if err != nil {
		return err
	}
	rows[2].sidecar = top - before
	return l.firstBytes(ctx, &rows[0], p.addr, through, direct)
}

// firstBytes breaks downloads off after their first byte.
func (l *lab) firstBytes(ctx context.Context, out *row, addr string, through, direct []byte) error {
	var ours, raws []transfer
	for range firstBytes {
		raw, err := fetch(ctx, l.back.addr, direct, false)
		if err != nil {
			return fmt.Errorf("directly: %w", err)
		}
		our, err := fetch(ctx, addr, through, false)
		if err != nil {
			return err
		}
		raws, ours = append(raws, raw), append(ours, our)
	}
	out.sidecar, out.raw = medianOf(ours, firstOf), medianOf(raws, firstOf)
	return nil
}

func (l *lab) viewReference(ctx context.Context, rows []row) error {
	if err := l.back.bigFile("reference.bin", l.referenceMiB<<20); err != nil {
		return err
	}
	if _, err := fetch(ctx, l.back.addr, viewRequest(l.back.addr, "/view", "reference.bin"), true); err != nil {
		return fmt.Errorf("directly: %w", err)
	}
	p, err := l.start(ctx, l.reference)
	if err != nil {
		return err
	}
	defer p.stop()
	before, err := p.calm()
	if err != nil {
		return err
	}
	var list []transfer
	for range bigTransfers {
		t, err := fetch(ctx, p.addr, viewRequest(p.addr, "/outputs/view", "reference.bin"), true)
		if err != nil {
			return err
		}
		l.say("%d MiB: %.0f MiB/s through the reference", l.referenceMiB, t.rate())
		list = append(list, t)
	}
	top, err := p.peak()
	if err != nil {
		return err
	}
	rows[0].reference, rows[1].reference, rows[2].reference = medianOf(list, firstOf), medianOf(list, transfer.rate), top-before
	return nil
}

// calm is the memory before a transfer; the peak is counted from here.
func (p *process) calm() (float64, error) {
	if err := p.forgetPeak(); err != nil {
		return 0, err
	}
	return p.resident()
}

func firstOf(t transfer) float64 { return milliseconds(t.first) }

func medianOf(list []transfer, of func(transfer) float64) float64 {
	var values []float64
	for _, t := range list {
		values = append(values, of(t))
	}
	return median(values)
}

// fetch downloads over a connection of its own, whole or up to the first byte.
func fetch(ctx context.Context, addr string, request []byte, whole bool) (transfer, error) {
	c, err := dial(ctx, addr)
	if err != nil {
		return transfer{}, err
	}
	defer c.close()
	start := time.Now()
	a, err := c.send(request)
	if err != nil {
		return transfer{}, err
	}
	if !a.good() {
		return transfer{}, a.refusal(nil)
	}
	if _, err := c.in.Peek(1); err != nil {
		return transfer{}, fmt.Errorf("read first byte: %w", err)
	}
	t := transfer{first: time.Since(start)}
	if whole {
		t.bytes, err = c.copyBody(io.Discard, a)
	}
	t.total = time.Since(start)
	return t, err
}
