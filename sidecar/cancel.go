package sidecar

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// cancelAnswer is how long a cancel waits for the backend's first word before
// it answers; the cancel itself goes on until the backend has let go.
const cancelAnswer = time.Second

// Cancel ends a scope's run as cancelled, at once and for good, and makes the
// backend drop it. It returns the run as it then is. Cancelling a cancelled
// run changes nothing; a run that ended otherwise is an *Error with
// CodeNotCancellable, an unknown one with CodeNotFound.
func (s *Studio) Cancel(ctx context.Context, scope Scope, id RunID) (*Run, error) {
	run, err := s.Lookup(ctx, scope, id)
	if err != nil {
		return nil, err
	}
	if run.Status == StatusCancelled {
		return run, OrderOf(ctx).Check(run)
	}
	moved := false
	run, err = s.store.Update(context.WithoutCancel(ctx), id, func(r *Run) ([]Event, error) {
		events := r.Apply(Signal{Kind: SignalCancel}, time.Now())
		moved = len(events) > 0
		return events, nil
	})
	switch {
	case err != nil:
		return nil, storageError(err)
	case !moved && run.Status != StatusCancelled:
		return nil, notCancellable(run)
	}
	s.unqueue(id)
	s.decided.ring(id)
	s.queue.ended(id)
	if run.Hold != nil {
		_, _ = s.arrange(ctx, id) // told there, and tried again
	}
	s.boxes.poke(id)
	if run.Phase == PhaseCancelling {
		// The order was for the change above, whether or not it was needed.
		run = s.cancelAtBackend(WithOrder(ctx, nil), run)
	}
	return run, nil
}

// unqueue takes an ended run, which nobody will follow, out of the line.
func (s *Studio) unqueue(id RunID) {
	if s.queue.remove(id) {
		s.manners.take(id)
	}
}

func notCancellable(run *Run) *Error {
	message := fmt.Sprintf("Run '%s' is no longer active.", run.ID)
	if run.Status.known() {
		message = fmt.Sprintf("Run '%s' is already %s.", run.ID, run.Status)
	}
	return &Error{Code: CodeNotCancellable, Message: message, Hint: "There is nothing to cancel any more; look at the run for how it ended.", Run: run}
}

// cancelAtBackend makes the first try to have the prompt dropped and notes a
// refusal. The run's follower goes on trying.
func (s *Studio) cancelAtBackend(ctx context.Context, run *Run) *Run {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), cancelAnswer)
	defer stop()
	err := s.exec.Cancel(ctx, Job{Run: run.ID, Prompt: run.PromptID})
	var refused *RefusedError
	var unreachable *UnreachableError
	var failure *Failure
	switch {
	case errors.As(err, &refused):
		failure = &refused.Failure
	case errors.As(err, &unreachable):
		failure = &unreachable.Failure
	default:
		return run
	}
	noted, err := s.apply(context.WithoutCancel(ctx), run.ID, Signal{Kind: SignalCancelRefused, Failure: failure})
	if err != nil {
		s.log.Error("note a refused cancel", "run", run.ID, "err", err)
		return run
	}
	return noted
}
