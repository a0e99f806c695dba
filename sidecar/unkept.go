package sidecar

import (
	"errors"
	"sync"
	"time"
)

// unkept are the runs that stand still because the store takes nothing of them.
type unkept struct {
	bell     Bell // patience with one of them has ended
	patience time.Duration

	mu   sync.Mutex
	runs map[RunID]*standstill // guarded by mu
}

type standstill struct {
	since time.Time
	err   error
	rung  bool
}

// long reports whether nobody is to wait for a run any more.
func (u *unkept) long(s *standstill) bool {
	return !passing(s.err) || time.Since(s.since) >= u.patience
}

// note takes how an attempt to write what became of a run ended. It is repeated
// while its error is a passing one.
func (u *unkept) note(id RunID, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err == nil || errors.Is(err, ErrNotFound) {
		delete(u.runs, id)
		return
	}
	if u.runs == nil {
		u.runs = map[RunID]*standstill{}
	}
	if u.runs[id] == nil {
		u.runs[id] = &standstill{since: time.Now()}
	}
	s := u.runs[id]
	if s.err = err; u.long(s) && !s.rung {
		s.rung = true
		u.bell.Ring()
	}
}

// of is why a run stands still: it does so itself, or it waits behind others
// that do, in a window full of them; nil when it does not. With long set, it has
// to have done so for longer than anybody waits.
func (u *unkept) of(run *Run, window int, long bool) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	still, first := 0, error(nil)
	for id, s := range u.runs {
		if long && !u.long(s) {
			continue
		}
		if id == run.ID {
			return s.err
		}
		still, first = still+1, s.err
	}
	if still < window || run.Accepted || run.Attempt > 0 {
		return nil
	}
	return first
}

// Unkept is why what becomes of a run cannot be written just now, an *Error of
// the store; nil when it can.
func (s *Studio) Unkept(run *Run) error { return s.unkept.of(run, s.queue.window, false) }
