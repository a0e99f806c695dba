package sidecar

import (
	"context"
	"errors"
	"time"
)

const (
	// lateAnswer is how long a backend that lost its caller may still be busy
	// queueing the prompt: validation was seen to take up to 0.4 s.
	lateAnswer = 1500 * time.Millisecond
	// submitAttempts is how often a prompt whose answers got lost is handed
	// over before the run is given up, each time proven absent before.
	submitAttempts = 2
)

// handOver brings the prompt into the backend, or ends the run. What may have
// been handed over before is looked for first, and never handed over twice.
func (f *follower) handOver(ctx context.Context) {
	// A run of an earlier life waits for its backend; a new one whose client
	// is waiting is told at once.
	patient := f.run.Attempt > 0 || time.Since(f.run.CreatedAt) > DecisionWait
	var lost *UnsureError
	for attempt := 0; ; {
		if f.job.Resumed {
			seen, err := f.find(ctx)
			switch {
			case err != nil:
				if !f.wait(ctx, err) {
					return
				}
				continue
			case seen.Place != PlaceAbsent:
				f.apply(ctx, Signal{Kind: SignalAccepted, PromptID: f.job.Prompt})
				return
			case lost != nil && (lost.Failure.Status >= 500 || attempt >= submitAttempts):
				f.apply(ctx, Signal{Kind: SignalFailed, Failure: rejection(lost.Failure)})
				return
			}
		}
		attempt++
		err := f.submit(ctx)
		if f.run.Status.Terminal() || f.run.Accepted || ctx.Err() != nil {
			return
		}
		var unreachable *UnreachableError
		switch {
		case errors.As(err, &lost):
			f.job.Resumed = true
		case errors.As(err, &unreachable) && patient:
			if !f.wait(ctx, err) {
				return
			}
		default:
			f.apply(ctx, Signal{Kind: SignalFailed, Failure: failureOf(err)})
			return
		}
	}
}

// submit commits that the prompt is being handed over, then does it.
func (f *follower) submit(ctx context.Context) error {
	if !f.apply(ctx, Signal{Kind: SignalHanding}) || f.run.Status.Terminal() {
		return ctx.Err()
	}
	f.studio.live.handedOver(f.id, f.run.Scope)
	yes, err := f.studio.exec.Submit(ctx, f.job)
	if err != nil {
		f.log.Warn("hand over", "err", err)
		return err
	}
	if yes.PromptID != f.job.Prompt {
		f.job.Prompt = yes.PromptID
		f.studio.boxes.address(yes.PromptID, f.run.Scope, f.box)
	}
	f.apply(ctx, Signal{Kind: SignalAccepted, PromptID: yes.PromptID, Warnings: yes.Warnings})
	return nil
}

// find looks for a prompt that may be there. Where its acceptance is not known
// absence counts only after the time that a late answer may take.
func (f *follower) find(ctx context.Context) (Sighting, error) {
	until := time.Now().Add(lateAnswer)
	for pause := lookPause; ; pause *= 2 {
		seen, err := f.studio.exec.Look(ctx, f.job)
		if err != nil || seen.Place != PlaceAbsent || f.run.Accepted || !time.Now().Before(until) {
			return seen, err
		}
		if !sleep(ctx, min(pause, time.Until(until))) {
			return Sighting{}, ctx.Err()
		}
	}
}

// wait passes the time until the backend may answer again; false when the run
// ended meanwhile, or ctx did.
func (f *follower) wait(ctx context.Context, err error) bool {
	f.unreachable(ctx, err)
	if !f.pause(ctx, lookPauseMax/2) {
		return false
	}
	f.reread(ctx)
	return !f.run.Status.Terminal()
}

// failureOf reads the failure out of an executor's error.
func failureOf(err error) *Failure {
	var refused *RefusedError
	var unreachable *UnreachableError
	switch {
	case errors.As(err, &refused):
		return rejection(refused.Failure)
	case errors.As(err, &unreachable):
		return &unreachable.Failure
	}
	return &Failure{Code: string(CodeInternal), Message: "The run could not be handed over.", Outcome: OutcomeFailed}
}

func rejection(f Failure) *Failure {
	if f.Outcome == "" {
		f.Outcome = OutcomeRejected
	}
	return &f
}

func recoveryFailure(err error) *Failure {
	return &Failure{Code: string(CodeRecovery), Message: err.Error(), Outcome: OutcomeFailed}
}
