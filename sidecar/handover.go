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
	// lateRequest is how long a request may still be under way whose caller gave
	// up waiting: something between us holds it, and lets go of it later.
	lateRequest = 10 * time.Second
	// submitAttempts is how often a prompt whose answers got lost is handed
	// over before the run is given up, each time proven absent before.
	submitAttempts = 2
)

// handOver brings the prompt into the backend, or ends the run. What may have
// been handed over before is looked for first, and never handed over twice.
func (f *follower) handOver(ctx context.Context) {
	var lost *UnsureError // the latest try whose outcome was not told
	for tries := 0; f.goesOn(ctx) && !f.run.Accepted; {
		if f.job.Resumed {
			seen, err := f.find(ctx)
			switch {
			case err != nil:
				f.waitFor(ctx, err)
				continue
			case len(seen.Dropped) > 0:
				f.refuse(ctx, seen.Dropped)
				return
			case seen.Place != PlaceAbsent && seen.Place != PlaceUnknown:
				f.apply(ctx, Signal{Kind: SignalAccepted, PromptID: f.job.Prompt})
				return
			case seen.Place == PlaceUnknown:
				f.misses(ctx, lost)
				return
			case lost != nil && f.givesUp(tries, lost):
				f.fail(ctx, f.explained(ctx, rejection(lost.Failure)))
				return
			}
		}
		if f.awaitResume(ctx) {
			continue
		}
		if f.overdue() {
			f.apply(ctx, Signal{Kind: SignalTimedOut})
			return
		}
		err := f.submit(ctx)
		var away *UnreachableError
		switch {
		case err == nil || !f.goesOn(ctx):
		case errors.As(err, &lost):
			tries++
			f.job.Resumed, f.held = true, errors.Is(err, context.DeadlineExceeded)
		case errors.As(err, &away) && f.run.mayBeHeld():
			f.apply(ctx, Signal{Kind: SignalHeld})
		case errors.As(err, &away) && f.studio.queue.isAnswered(f.id):
			f.waitFor(ctx, err)
		default:
			f.fail(ctx, f.explained(ctx, failureOf(err)))
		}
	}
}

// givesUp: a client that waits is told of a 5xx at once.
func (f *follower) givesUp(tries int, lost *UnsureError) bool {
	return tries >= submitAttempts || lost.Failure.Status >= 500 && !f.studio.queue.isAnswered(f.id)
}

func (f *follower) fail(ctx context.Context, why *Failure) {
	f.apply(ctx, Signal{Kind: SignalFailed, Failure: why})
}

// misses ends a run that the backend may have under an id that nobody knows.
func (f *follower) misses(ctx context.Context, lost *UnsureError) {
	why := Failure{Code: string(CodeLost), Message: "The answer to this run was lost, and its backend cannot be asked for it.", Hint: "Run it again."}
	if lost != nil {
		why = lost.Failure
	}
	why.Outcome = OutcomeLost
	f.fail(ctx, &why)
}

// submit hands on the files that the prompt names, commits that the prompt is
// being handed over, then does it.
func (f *follower) submit(ctx context.Context) error {
	if f.awaitsBackend(ctx) {
		return nil
	}
	job, err := f.studio.stage(ctx, f.run, f.job)
	if err != nil {
		f.notHandedOver(ctx, "hand files on", err)
		return err
	}
	if !f.noteHanding(ctx) || !f.goesOn(ctx) {
		return nil
	}
	f.studio.live.handedOver(f.id)
	yes, err := f.studio.exec.Submit(ctx, job)
	var away *UnreachableError
	f.handing = errors.As(err, &away)
	if err != nil {
		f.notHandedOver(ctx, "hand over", err)
		return err
	}
	f.silent = false
	if yes.PromptID != f.job.Prompt {
		f.job.Prompt = yes.PromptID
		f.studio.boxes.address(yes.PromptID, f.box)
	}
	f.apply(ctx, Signal{Kind: SignalAccepted, PromptID: yes.PromptID, Warnings: yes.Warnings, Issues: yes.Issues})
	return nil
}

// noteHanding commits that the prompt is being handed over, once for all tries
// that a backend cannot have heard of: one that is away leaves no rows.
func (f *follower) noteHanding(ctx context.Context) bool {
	if f.handing {
		f.reread(ctx)
		return true
	}
	return f.apply(ctx, Signal{Kind: SignalHanding})
}

// notHandedOver logs why; of a backend that is away, waitFor tells.
func (f *follower) notHandedOver(ctx context.Context, what string, err error) {
	var away *UnreachableError
	if !f.silent || !errors.As(err, &away) {
		f.warn(ctx, what, err)
	}
}

// find looks for a prompt. Absence counts only when it lasts for as long as a
// late answer, or a late record, may take; for an ended run that was accepted it
// counts at once.
func (f *follower) find(ctx context.Context) (Sighting, error) {
	var until time.Time
	for pause := lookPause; ; pause *= 2 {
		seen, err := f.studio.exec.Look(ctx, f.job)
		if err != nil || seen.Place != PlaceAbsent || f.run.Accepted && f.run.Status.Terminal() {
			return seen, err
		}
		// From the first answer on: a backend that was busy before has only now
		// come to the prompt.
		if until.IsZero() {
			until = time.Now().Add(f.lateness())
		}
		if !time.Now().Before(until) {
			return seen, nil
		}
		if !sleep(ctx, min(pause, time.Until(until))) {
			return Sighting{}, ctx.Err()
		}
	}
}

// lateness is for how long a prompt that is nowhere may still turn up.
func (f *follower) lateness() time.Duration {
	if f.held && !f.run.Accepted {
		return lateRequest
	}
	return lateAnswer
}

// waitFor passes the time until the backend may answer again, and times out a
// run that waits for longer than it may take.
func (f *follower) waitFor(ctx context.Context, err error) {
	f.unreachable(ctx, err)
	if !f.pause(ctx, lookPauseMax/2) {
		return
	}
	f.reread(ctx)
	if f.goesOn(ctx) && f.overdue() {
		f.apply(ctx, Signal{Kind: SignalTimedOut})
	}
}

// awaitResume waits while the queue is paused, until the run ends or its time
// is up; false when there was nothing to wait for.
func (f *follower) awaitResume(ctx context.Context) (waited bool) {
	for f.goesOn(ctx) && !f.overdue() {
		wake := f.studio.queue.bell.Wait()
		if !f.studio.queue.isPaused() {
			break
		}
		waited = true
		f.idle(ctx, wake)
	}
	return waited
}

// idle waits for wake, for somebody who changes the run, or for its time to be
// up.
func (f *follower) idle(ctx context.Context, wake <-chan struct{}) {
	var due <-chan time.Time
	if !f.run.DueAt.IsZero() {
		timer := time.NewTimer(time.Until(f.run.DueAt))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-wake:
	case <-due:
	case <-f.box.ready:
		if _, poked := f.box.take(); poked {
			f.reread(ctx)
		}
	case <-ctx.Done():
	}
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

// rejection: a backend that could not be asked has not said no.
func rejection(f Failure) *Failure {
	if f.Outcome == "" && f.Code != string(CodeUnavailable) {
		f.Outcome = OutcomeRejected
	}
	return &f
}

// recoveryFailure: causes that are no sentence for people stay in the log.
func recoveryFailure(err error) *Failure {
	why := &Failure{
		Code: string(CodeRecovery), Message: "What is stored of this run cannot be used.",
		Hint: "Run it again.", Outcome: OutcomeFailed,
	}
	var told recoveryError
	if errors.As(err, &told) {
		why.Message, why.Hint = told.Error(), ""
	}
	return why
}
