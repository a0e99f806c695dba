package sidecar

import (
	"context"
	"errors"
	"time"
)

// look asks where the prompt is and draws the consequence.
func (f *follower) look(ctx context.Context) {
	seen, err := f.find(ctx)
	if err != nil {
		f.unreachable(ctx, err)
		f.missed = time.Time{} // patience is with what answers
		return
	}
	f.silent = false
	if seen.Place.over() {
		f.catchUp(ctx)
	}
	switch seen.Place {
	case PlaceQueued:
		f.studio.live.position(f.id, seen.Position)
	case PlaceExecuting:
		f.studio.live.position(f.id, -1)
		f.apply(ctx, Signal{Kind: SignalStarted})
	case PlaceDone:
		f.collect(ctx, seen)
	case PlaceFailed:
		f.apply(ctx, Signal{Kind: SignalFailed, Failure: seen.Failure})
	case PlaceStopped:
		f.apply(ctx, Signal{Kind: SignalInterrupted})
	case PlaceAbsent:
		f.lose(ctx)
		return
	}
	f.missed = time.Time{}
}

// catchUp takes in what the socket still has to tell of a run whose end was
// seen before it was heard: history is filled before the last messages are sent.
func (f *follower) catchUp(ctx context.Context) {
	timer := time.NewTimer(lateNews)
	defer timer.Stop()
	for f.goesOn(ctx) && !f.ending && f.studio.live.hears(f.id) {
		select {
		case <-f.box.ready:
			f.read(ctx)
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (f *follower) collect(ctx context.Context, seen Sighting) {
	if !f.apply(ctx, Signal{Kind: SignalCollecting}) || f.run.Status.Terminal() {
		return
	}
	results, err := f.studio.exec.Results(ctx, f.job, seen)
	var gone *RefusedError
	if errors.As(err, &gone) {
		f.fail(ctx, &gone.Failure)
		return
	}
	if err != nil {
		f.unreachable(ctx, err)
		return
	}
	if f.apply(ctx, Signal{Kind: SignalFinished, Results: results, AllCached: seen.AllCached, Issues: seen.Issues}) && !f.moved {
		// It ended otherwise meanwhile: nothing names the copies.
		if err := f.studio.exec.Discard(results); err != nil {
			f.log.Warn("remove unused copies", "err", err)
		}
	}
}

// unreachable notes that the backend did not answer, once until it does again.
// The run is left as it is: it is asked for until the truth is known.
func (f *follower) unreachable(ctx context.Context, err error) {
	f.studio.noteRefusal(err)
	if !f.silent {
		f.warn(ctx, "backend does not answer", err)
	}
	f.silent = true
}

// warn logs an error of the backend with its cause. A no is not the backend's
// fault, and a call that we gave up nobody's.
func (f *follower) warn(ctx context.Context, what string, err error) {
	var refused *RefusedError
	var away *UnreachableError
	var unsure *UnsureError
	switch {
	case ctx.Err() != nil:
	case errors.As(err, &refused):
		f.log.Info(what, "err", err)
	case errors.As(err, &away):
		f.log.Warn(what, "err", err, "cause", away.Err)
	case errors.As(err, &unsure):
		f.log.Warn(what, "err", err, "cause", unsure.Err)
	default:
		f.log.Warn(what, "err", err)
	}
}
