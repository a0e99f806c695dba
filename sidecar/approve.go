package sidecar

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Codes of what is asked of a run that waits, or does not.
const (
	// CodeRunRejected is the code of a run that was held and will not be run.
	CodeRunRejected Code = "run_rejected"
	CodeNotWaiting  Code = "run_not_waiting"
)

// Approve lets a scope's run go that waits for approval, and returns it as it
// then is. Approving it again changes nothing. Errors: *Error with
// CodeNotWaiting for a run that does not wait for approval, CodeNotFound.
func (s *Studio) Approve(ctx context.Context, scope Scope, id RunID) (*Run, error) {
	run, moved, err := s.decide(ctx, scope, id, Signal{Kind: SignalApproved})
	switch {
	case err != nil:
		return nil, err
	case !moved && !run.approved():
		return nil, notWaiting(run, "approval")
	}
	return run, nil
}

// Reject ends a scope's run that waits for approval as rejected. Rejecting it
// again changes nothing. Errors are as those of Approve.
func (s *Studio) Reject(ctx context.Context, scope Scope, id RunID) (*Run, error) {
	run, moved, err := s.decide(ctx, scope, id, Signal{Kind: SignalRejected, Failure: &Failure{
		Code: string(CodeRunRejected), Message: "The run was not approved.", Outcome: OutcomeRejected,
	}})
	switch {
	case err != nil:
		return nil, err
	case !moved && (run.Code != string(CodeRunRejected) || run.Hold == nil || !run.Hold.Approval || run.approved()):
		return nil, notWaiting(run, "approval")
	}
	return run, nil
}

// approved tells that a run needed approval and got it.
func (r *Run) approved() bool {
	return r.Hold != nil && r.Hold.Approval && !slices.Contains(r.Hold.Pending, WaitApproval)
}

// decide moves a run that waits for approval.
func (s *Studio) decide(ctx context.Context, scope Scope, id RunID, sig Signal) (run *Run, moved bool, err error) {
	if _, err := s.Lookup(ctx, scope, id); err != nil {
		return nil, false, err
	}
	ctx = context.WithoutCancel(ctx)
	run, err = s.store.Update(ctx, id, func(r *Run) ([]Event, error) {
		moved = false
		if !r.Awaits(WaitApproval) {
			return nil, nil
		}
		events := r.Apply(sig, time.Now())
		moved = len(events) > 0
		return events, nil
	})
	if err != nil {
		return nil, false, storageError(err)
	}
	s.decided.ring(id)
	_, _ = s.arrange(ctx, id) // told there, and tried again
	return run, moved, nil
}

// Front makes a scope's run the first of all that wait for a turn. Errors:
// *Error with CodeNotWaiting for a run that waits for no turn, CodeNotFound.
func (s *Studio) Front(ctx context.Context, scope Scope, id RunID) (*Run, error) {
	if _, err := s.Lookup(ctx, scope, id); err != nil {
		return nil, err
	}
	moved := false
	run, err := s.store.Update(context.WithoutCancel(ctx), id, func(r *Run) ([]Event, error) {
		events := r.Apply(Signal{Kind: SignalFront}, time.Now())
		moved = len(events) > 0
		return events, nil
	})
	switch {
	case err != nil:
		return nil, storageError(err)
	case !moved:
		return nil, notWaiting(run, "its turn")
	}
	s.queue.moveToFront(run) // else it has got its turn just now
	return run, nil
}

func notWaiting(run *Run, what string) *Error {
	return &Error{
		Code: CodeNotWaiting, Message: fmt.Sprintf("Run '%s' does not wait for %s.", run.ID, what),
		Hint: "Look at /queue for what waits, and for what.", Run: run,
	}
}

// Children lists the runs of a scope that came from one of its runs, newest
// first. An unknown one is an *Error with CodeNotFound.
func (s *Studio) Children(ctx context.Context, scope Scope, id RunID) (RunPage, error) {
	if _, err := s.Lookup(ctx, scope, id); err != nil {
		return RunPage{}, err
	}
	page, err := s.store.Children(ctx, scope, id)
	if err != nil {
		return page, storageError(err)
	}
	return page, nil
}

// Queue is the dispatcher as a scope sees it.
func (s *Studio) Queue(scope Scope) QueueView { return s.queue.view(scope) }

// PauseQueue keeps runs from being handed over, or lets them again, until it is
// told otherwise, also by a later life. Runs are accepted meanwhile, and those
// in flight go on.
func (s *Studio) PauseQueue(ctx context.Context, paused bool) error {
	s.arranging.Lock()
	defer s.arranging.Unlock()
	event := Event{Type: EventQueueChanged, At: time.Now(), Targets: mustJSON(map[string]any{"queue": queueTarget{paused}})}
	if err := s.store.PauseQueue(context.WithoutCancel(ctx), paused, event); err != nil {
		return storageError(err)
	}
	s.queue.pause(paused)
	return nil
}

type queueTarget struct {
	Paused bool `json:"paused"`
}

// recoverPause takes up whether the queue is paused.
func (s *Studio) recoverPause(ctx context.Context) error {
	s.arranging.Lock()
	defer s.arranging.Unlock()
	paused, err := retry(ctx, s.log, "read whether the queue is paused", func() (bool, error) { return s.store.QueuePaused(ctx) })
	if err != nil {
		return fmt.Errorf("read whether the queue is paused: %w", err)
	}
	s.queue.pause(paused)
	return nil
}
