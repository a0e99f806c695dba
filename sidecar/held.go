package sidecar

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// heldRun is what the queue knows of a held run.
type heldRun struct {
	ticket
	look  bool      // it may have got what it waits for
	again time.Time // it is looked at then; zero: not by itself
	busy  bool      // it is being bound
}

// keepHeld notes a held run, or what it waits for now.
func (q *queue) keepHeld(run *Run) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, known := q.known[run.ID]; known {
		return
	}
	h := q.held[run.ID]
	if h != nil && h.Reason == run.WaitReason() {
		return
	}
	h = newHeldRun(run)
	if q.held == nil {
		q.held = map[RunID]*heldRun{}
	}
	q.held[run.ID] = h
}

func newHeldRun(run *Run) *heldRun {
	h := &heldRun{ticket: newTicket(run)}
	h.Reason = run.WaitReason()
	if run.Awaits(WaitTime) {
		h.NotBefore = run.Hold.NotBefore
	}
	if run.Hold != nil && run.Hold.After != nil {
		h.After = run.Hold.After.Run
	}
	switch h.Reason {
	case WaitTime:
		h.again = h.NotBefore
	case WaitParent:
		h.look = true
	}
	return h
}

func (q *queue) dropHeld(id RunID) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, was := q.held[id]
	delete(q.held, id)
	return was
}

// ended makes the runs that follow one that has ended be looked at.
func (q *queue) ended(parent RunID) {
	q.mu.Lock()
	found := false
	for _, h := range q.held {
		if h.Reason == WaitParent && h.After == parent {
			h.look, found = true, true
		}
	}
	q.mu.Unlock()
	if found {
		q.stirred.Ring()
	}
}

// ready lists the held runs to look at now, the oldest first and each once, and
// when to look again; zero: when stirred.
func (q *queue) ready(now time.Time) (ids []RunID, next time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for id, h := range q.held {
		due := !h.again.IsZero() && !now.Before(h.again)
		switch {
		case h.busy:
		case h.look || due:
			h.look, h.again = false, time.Time{}
			ids = append(ids, id)
			if h.Reason == WaitTime && now.Before(h.NotBefore) {
				h.again = h.NotBefore
				next = earlier(next, h.again)
			}
		default:
			next = earlier(next, h.again)
		}
	}
	return q.byAge(ids), next
}

// byAge sorts held runs as they were launched: in that order they wait for
// their turn.
func (q *queue) byAge(ids []RunID) []RunID {
	slices.SortFunc(ids, func(a, b RunID) int {
		return cmp.Or(q.held[a].CreatedAt.Compare(q.held[b].CreatedAt), cmp.Compare(a, b))
	})
	return ids
}

// earlier is the earlier of two times; a zero one is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// lookLater has a held run looked at again at a time.
func (q *queue) lookLater(id RunID, at time.Time) {
	q.mu.Lock()
	if h := q.held[id]; h != nil {
		h.again = at
	}
	q.mu.Unlock()
	q.stirred.Ring()
}

// setBusy marks a run that is being bound; false when it is already.
func (q *queue) setBusy(id RunID, busy bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	h := q.held[id]
	if h == nil || h.busy == busy {
		return false
	}
	h.busy = busy
	if !busy {
		q.stirred.Ring() // it may have been called to look meanwhile
	}
	return true
}

// heldFor lists the runs that wait for a reason first, the oldest first.
func (q *queue) heldFor(reason WaitReason) (ids []RunID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for id, h := range q.held {
		if h.Reason == reason {
			ids = append(ids, id)
		}
	}
	return q.byAge(ids)
}

const (
	// heldAgain is after how long a look that failed is repeated.
	heldAgain = lookPauseMax
	// clockPause is the longest wait for a time of day: the clock may be set.
	clockPause = time.Minute
	// bindersMax is how many follow-ups are bound at once.
	bindersMax = 4
)

// tendHeld releases held runs when what they wait for has come, until ctx
// ends.
func (s *Studio) tendHeld(ctx context.Context) error {
	var binders errgroup.Group
	binders.SetLimit(bindersMax)
	defer func() { _ = binders.Wait() }() // none returns an error
	for {
		wake := s.queue.stirred.Wait()
		ids, next := s.queue.ready(time.Now())
		for _, id := range ids {
			s.lookAtHeld(ctx, &binders, id)
		}
		if latest := time.Now().Add(clockPause); !next.IsZero() && next.After(latest) {
			next = latest
		}
		if !waitUntil(ctx, wake, next) {
			return ctx.Err()
		}
	}
}

func (s *Studio) lookAtHeld(ctx context.Context, binders *errgroup.Group, id RunID) {
	run, err := s.store.Run(ctx, id)
	switch {
	case err != nil || run.Phase != PhaseHeld:
		_, _ = s.arrange(ctx, id) // told there, and tried again
	case run.WaitReason() == WaitTime && time.Now().Before(run.Hold.NotBefore):
		s.queue.lookLater(id, run.Hold.NotBefore)
	case run.WaitReason() == WaitTime:
		s.releaseHeld(ctx, id, Signal{Kind: SignalReleased, Wait: WaitTime})
	case run.WaitReason() == WaitParent && s.queue.setBusy(id, true):
		bound := binders.TryGo(func() error {
			s.bindFollowUp(ctx, id)
			s.queue.setBusy(id, false)
			return nil
		})
		if !bound {
			s.queue.setBusy(id, false)
			s.queue.lookLater(id, time.Now().Add(lookPause))
		}
	}
}

// releaseHeld moves a held run on and puts it where it then belongs.
func (s *Studio) releaseHeld(ctx context.Context, id RunID, sig Signal, blobs ...Blob) {
	_, err := retry(ctx, s.log, "release a held run", func() (run *Run, err error) {
		run, err = s.store.UpdateWith(ctx, id, blobs, func(r *Run) ([]Event, error) { return r.Apply(sig, time.Now()), nil })
		s.unkept.note(id, err)
		return run, err
	})
	s.unkept.note(id, nil) // it is looked at again
	if err != nil && ctx.Err() == nil && !errors.Is(err, ErrNotFound) {
		s.log.Error("release a held run", "run", id, "err", err)
		s.queue.lookLater(id, time.Now().Add(heldAgain))
	}
	s.decided.ring(id)
	_, _ = s.arrange(ctx, id) // told there, and tried again
}

// arrange puts a run that is held, or was, where its row says that it belongs:
// among the held, among the waiting, or nowhere. The row is read while nobody
// else does this, so that the latest counts.
func (s *Studio) arrange(ctx context.Context, id RunID) (*Run, error) {
	s.arranging.Lock()
	defer s.arranging.Unlock()
	run, err := s.store.Run(context.WithoutCancel(ctx), id)
	switch {
	case errors.Is(err, ErrNotFound):
		s.queue.dropHeld(id)
		s.queue.ended(id)
		return nil, err
	case err != nil:
		s.log.Error("read a held run", "run", id, "err", err)
		s.queue.lookLater(id, time.Now().Add(heldAgain))
		return nil, err
	}
	if run.Phase == PhaseHeld {
		s.queue.keepHeld(run)
		s.queue.stirred.Ring()
		return run, nil
	}
	was := s.queue.dropHeld(id)
	if run.Status.Terminal() {
		s.unqueue(id) // its cancel may have come before it was in the line
		s.queue.ended(id)
	} else if was && run.Phase == PhaseSubmitting && !run.Accepted {
		s.queue.push(run, true) // even if it was handed over before: it is looked for first
	}
	return run, nil
}

// awaitBackend releases the runs that wait for the backend when it is back,
// until ctx ends.
func (s *Studio) awaitBackend(ctx context.Context) error {
	for {
		wake, back := s.queue.stirred.Wait(), s.connected.Wait()
		ids := s.queue.heldFor(WaitBackend)
		if len(ids) == 0 {
			if !waitUntil(ctx, wake, time.Time{}) {
				return ctx.Err()
			}
			continue
		}
		if s.askHealth(ctx).takesRuns() {
			for _, id := range ids {
				s.releaseHeld(ctx, id, Signal{Kind: SignalReleased, Wait: WaitBackend})
			}
		}
		if !waitUntil(ctx, back, time.Now().Add(lookPauseMax)) {
			return ctx.Err()
		}
	}
}
