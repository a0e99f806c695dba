package sqlite

import (
	"context"
	"sync/atomic"
	"time"
)

// request is a function that waits for the writer.
type request struct {
	change func(*Tx) error
	err    error
	// settled is set when err holds whatever becomes of the group.
	settled bool
	frees   bool          // removes more than it writes
	taken   atomic.Bool   // by the writer, or back by who asked
	done    chan struct{} // closed when err is final
}

// Do runs change in a transaction of the writer and returns when that is
// durable. It is the only way to write. When ctx ends while change waits for
// its turn or shares a transaction with others, Do returns its error; but a
// change that has begun goes on. change may be run again, with others, before Do
// returns; an error of change, or a panic, undoes what it wrote and nothing
// else. An error of the storage is a *sidecar.Error. change uses the Tx alone: a
// call of the Store would wait for itself.
func (s *Store) Do(ctx context.Context, change func(*Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	req := &request{change: change, done: make(chan struct{}), frees: ctx.Value(freeingKey{}) != nil}
	if s.closed() {
		return ErrClosed
	}
	if s.alone(req) {
		return req.err
	}
	select {
	case s.queue <- req:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closing:
		return ErrClosed
	}
	select {
	case <-req.done:
		return req.err
	case <-ctx.Done():
		req.taken.Store(true)
		return ctx.Err()
	}
}

// alone commits a change where it was asked for, if nobody else is writing: to
// wake the writer's goroutine, and then the caller's, takes as long as some
// statements.
func (s *Store) alone(req *request) (done bool) {
	select {
	case s.turn <- struct{}{}:
	default:
		return false
	}
	defer func() { <-s.turn }()
	if s.trouble.Load() != nil {
		return false // the loop alone ends it
	}
	s.writer.settle([]*request{req})
	if s.trouble.Load() != nil {
		select {
		case s.troubled <- struct{}{}:
		default: // the loop is about to see it
		}
	}
	return true
}

// loop takes what waits and commits it, until the store is closed.
func (w *writer) loop() {
	defer func() {
		w.turn <- struct{}{} // nobody gets it any more
		w.end()
	}()
	for {
		var probe <-chan time.Time
		var timer *time.Timer
		if t := w.trouble.Load(); t != nil && !t.lasting {
			timer = time.NewTimer(time.Until(w.probeAt))
			probe = timer.C
		}
		select {
		case first := <-w.queue:
			w.turn <- struct{}{}
			if group := w.gather(first); len(group) > 0 {
				w.settle(group)
			}
			<-w.turn
		case <-probe:
			w.turn <- struct{}{}
			w.probe()
			<-w.turn
		case <-w.troubled:
		case <-w.closing:
			return
		}
		if timer != nil {
			timer.Stop()
		}
	}
}

func (w *writer) end() {
	if w.session == nil {
		return
	}
	if err := w.session.close(); err != nil {
		w.log.Warn("the writer's connection was not closed cleanly", "error", err)
	}
}

// gather takes what waits just now, first among it; it waits for nobody.
func (w *writer) gather(first *request) (group []*request) {
	for req := first; ; {
		if req.taken.CompareAndSwap(false, true) {
			group = append(group, req)
		}
		if len(group) == maxGroup {
			return group
		}
		select {
		case req = <-w.queue:
		default:
			return group
		}
	}
}
