package sidecar_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfy"
	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite"
)

// stall is where a submit of a dying studio stands still.
type stall int32

const (
	nowhere stall = iota
	beforePost
	afterPost
)

// choosy is the real executor, which loses news of prompts and stalls submits
// while it is told to.
type choosy struct {
	*comfy.Executor
	deaf  *atomic.Bool
	stall *atomic.Int32
	lag   *atomic.Int64 // of news, in nanoseconds
	blind *atomic.Bool  // what may have been handed over before cannot be looked for
	limit *atomic.Int64 // of the job that was handed over last, in nanoseconds
	alone *atomic.Bool  // it opens no socket
}

func (e choosy) Look(ctx context.Context, job sidecar.Job) (sidecar.Sighting, error) {
	if e.blind.Load() && job.Resumed && !job.Accepted {
		return sidecar.Sighting{Place: sidecar.PlaceUnknown}, nil
	}
	return e.Executor.Look(ctx, job)
}

func (e choosy) Submit(ctx context.Context, job sidecar.Job) (sidecar.Acceptance, error) {
	e.limit.Store(int64(job.Limit))
	where := stall(e.stall.Load())
	if where == nowhere {
		return e.Executor.Submit(ctx, job)
	}
	if where == afterPost {
		if _, err := e.Executor.Submit(ctx, job); err != nil {
			return sidecar.Acceptance{}, err
		}
	}
	<-ctx.Done()
	return sidecar.Acceptance{}, &sidecar.UnsureError{Err: ctx.Err()}
}

func (e choosy) Watch(ctx context.Context, report func(sidecar.News)) error {
	if e.alone.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	type late struct {
		sidecar.News
		at time.Time
	}
	line := make(chan late, 10000)
	var told sync.WaitGroup
	told.Go(func() {
		for n := range line {
			<-time.After(time.Until(n.at))
			report(n.News)
		}
	})
	defer told.Wait()
	defer close(line)
	return e.Executor.Watch(ctx, func(n sidecar.News) {
		if n.Prompt == "" || !e.deaf.Load() {
			line <- late{n, time.Now().Add(time.Duration(e.lag.Load()))}
		}
	})
}

// network is the way to ComfyUI. While it is down nothing listens there.
type network struct {
	dial func(context.Context, string, string) (net.Conn, error)

	mu       sync.Mutex
	down     bool
	halfOpen bool
	conns    []net.Conn
}

func (n *network) connect(ctx context.Context, kind, address string) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.down {
		return nil, &net.OpError{Op: "dial", Net: kind, Err: syscall.ECONNREFUSED}
	}
	if n.halfOpen {
		far, near := net.Pipe()
		n.conns = append(n.conns, near, far)
		return near, nil
	}
	conn, err := n.dial(ctx, kind, address)
	if err == nil {
		n.conns = append(n.conns, conn)
	}
	return conn, err
}

func (n *network) setDown(down bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = down
	for _, conn := range n.conns {
		if down {
			_ = conn.Close() // it is to be gone in any case
		}
	}
	n.conns = nil
}

// setHalfOpen puts a forwarder in the way that takes connections and passes
// nothing on.
func (n *network) setHalfOpen(on bool) {
	n.mu.Lock()
	changed := n.halfOpen != on
	n.halfOpen = on
	n.mu.Unlock()
	if changed {
		n.cut()
	}
}

func (n *network) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, conn := range n.conns {
		_ = conn.Close() // it is to be gone in any case
	}
	n.conns = nil
}

// flaky is the real store, which fails while it is told to.
type flaky struct {
	*sqlite.Store
	writes, reads, blobs atomic.Bool // fail
	damaged              atomic.Pointer[damage]
	expired              atomic.Pointer[func()] // called between rows and files
	updating             atomic.Pointer[func()] // called before an update that has an order
}

func (s *flaky) Unfinished(ctx context.Context) ([]*sidecar.Run, error) {
	if s.reads.Load() {
		return nil, errDisk
	}
	return s.Store.Unfinished(ctx)
}

func (s *flaky) ExpireUploads(ctx context.Context, now time.Time) ([]*sidecar.Upload, error) {
	gone, err := s.Store.ExpireUploads(ctx, now)
	if call := s.expired.Load(); len(gone) > 0 && call != nil {
		(*call)()
	}
	return gone, err
}

var errDisk = &sidecar.Error{Code: sidecar.CodeStorage, Message: "no space left"}

func (s *flaky) Create(ctx context.Context, run *sidecar.Run, events []sidecar.Event, blobs ...sidecar.Blob) error {
	if s.writes.Load() {
		return errDisk
	}
	return s.Store.Create(ctx, run, events, blobs...)
}

func (s *flaky) Update(ctx context.Context, id sidecar.RunID, change func(*sidecar.Run) ([]sidecar.Event, error)) (*sidecar.Run, error) {
	if s.writes.Load() {
		return nil, errDisk
	}
	if before := s.updating.Load(); before != nil && sidecar.OrderOf(ctx) != nil {
		(*before)()
	}
	return s.Store.Update(ctx, id, change)
}

func (s *flaky) Append(ctx context.Context, events ...sidecar.Event) error {
	if s.writes.Load() {
		return errDisk
	}
	return s.Store.Append(ctx, events...)
}

func (s *flaky) Run(ctx context.Context, id sidecar.RunID) (*sidecar.Run, error) {
	if s.reads.Load() {
		return nil, errDisk
	}
	return s.Store.Run(ctx, id)
}

func (s *flaky) Blob(ctx context.Context, digest sidecar.Digest) ([]byte, error) {
	if s.blobs.Load() {
		return nil, errDisk
	}
	if d := s.damaged.Load(); d != nil && d.Digest == digest {
		if d.text == "" {
			return nil, sidecar.ErrNotFound
		}
		return []byte(d.text), nil
	}
	return s.Store.Blob(ctx, digest)
}

// damage is a blob that is another one, or gone when text is empty.
type damage struct {
	sidecar.Digest
	text string
}
