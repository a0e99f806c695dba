package sidecar

import (
	"context"
	"errors"
	"slices"
	"time"
)

// settle makes sure that the backend lets go of a run that was cancelled.
func (f *follower) settle(ctx context.Context) {
	defer f.studio.leaving.enter(f.id, f.run.FinishedAt)()
	noted, asked := false, time.Time{}
	if f.attended && f.run.Status == StatusCancelled {
		asked = f.run.FinishedAt // Studio.Cancel asked; what was accepted later it could not name
	}
	for pause := lookPause; ; pause = min(2*pause, lookPauseMax) {
		seen, err := f.find(ctx)
		if err == nil && seen.Place != PlaceQueued && seen.Place != PlaceExecuting {
			f.apply(ctx, Signal{Kind: SignalSettled})
			return
		}
		if err == nil && time.Since(asked) >= cancelAgain {
			err, asked = f.studio.exec.Cancel(ctx, f.job), time.Now()
		}
		var refused *RefusedError
		if errors.As(err, &refused) && !noted {
			noted = f.apply(ctx, Signal{Kind: SignalCancelRefused, Failure: &refused.Failure})
		}
		if !f.pause(ctx, pause) {
			return
		}
	}
}

// cancelAgain is when a cancel is repeated: ComfyUI loses an interrupt that
// comes just before a prompt begins.
const cancelAgain = time.Second

// pause waits for d, or until something was heard that calls for a look at
// once; false when ctx ended. Other news would make it ask without a pause.
func (f *follower) pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return true
		case <-f.box.ready:
			if f.called() {
				return true
			}
		case <-ctx.Done():
			return false
		}
	}
}

func (f *follower) called() bool {
	news, poked := f.box.take()
	return poked || slices.ContainsFunc(news, func(n News) bool {
		return n.Kind == NewsEnding || n.Kind == NewsConnected
	})
}
