package sidecar

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/comfygit-ai/studio-sidecar/manifest"
)

// LaunchRequest asks for a run of a contract.
type LaunchRequest struct {
	Session  Session
	Workflow string
	Contract string
	Values   manifest.Values
	// Limit ends the run as timed out when it takes longer; 0: the Studio's
	// own limit.
	Limit time.Duration
	Manner

	// Hold accepts the run even while the backend is away: it waits then.
	Hold bool
	// NotBefore is when the run may begin; zero: at once.
	NotBefore time.Time
	// NeedsApproval makes the run wait until it is approved.
	NeedsApproval bool
	// After makes the run follow another; nil: none. Its Values are not looked
	// at.
	After *After
}

// holds tells that the run may be held.
func (r *LaunchRequest) holds() bool {
	return r.Hold || r.NeedsApproval || r.After != nil || !r.NotBefore.IsZero()
}

// Launch accepts a run: it is committed before anything else happens. Launch
// then waits up to DecisionWait for the backend's yes or no, so that the run
// it returns is running, or has failed with a reason, or still waits for its
// turn. The run goes on whatever becomes of ctx. Errors are *Error, or ctx's:
// unknown names and an unusable manifest store nothing.
func (s *Studio) Launch(ctx context.Context, req LaunchRequest) (*Run, error) {
	run, err := s.launch(ctx, req)
	return run, launchError(err)
}

// launchError makes an *Error of what no client can do anything about.
func launchError(err error) error {
	var told *Error
	if err == nil || errors.As(err, &told) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &Error{Code: CodeInternal, Message: "The run could not be prepared.", Hint: hintLog, Err: err}
}

func (s *Studio) launch(ctx context.Context, req LaunchRequest) (*Run, error) {
	snap := s.catalog.Snapshot()
	if err := snap.Usable(); err != nil {
		return nil, manifestError(err)
	}
	contract, err := snap.Contract(req.Workflow, req.Contract)
	var unknown *manifest.UnknownError
	switch {
	case errors.As(err, &unknown):
		return nil, &Error{Code: CodeBadRequest, Message: unknown.RunMessage(), Hint: "Look at /contracts for what can be run.", Err: err}
	case err != nil:
		return nil, badRequest(err)
	}
	if err := s.checkAfter(ctx, req, contract); err != nil {
		return nil, err
	}
	leave, err := s.queue.admit(req.Session.ID, req.holds())
	if err != nil {
		return nil, err
	}
	defer leave()
	run, err := s.newRun(ctx, req, snap)
	if err != nil {
		return nil, err
	}
	blobs, failure, err := s.build(ctx, run, req, snap, contract)
	switch {
	case err != nil:
		return nil, err
	case failure != nil:
		return s.reject(ctx, run, failure, blobs...)
	}
	if run.Phase != PhaseHeld {
		s.manners.note(run.ID, req.Manner)
	}
	return s.accept(ctx, run, blobs, leave)
}

// build fills in what is run. A failure is the caller's, and ends the run.
func (s *Studio) build(ctx context.Context, run *Run, req LaunchRequest, snap *manifest.Snapshot, contract *manifest.Contract) ([]Blob, *Failure, error) {
	values, uploads, err := s.resolveMedia(ctx, req.Session, contract, req.Values)
	var refusal *Error
	if errors.As(err, &refusal) {
		return nil, nil, err
	}
	if failure := buildFailure(manifest.Built{}, err); failure != nil {
		return nil, failure, nil
	}
	run.Inputs, run.Uploads = manifest.DisplayInputs(values), uploads
	if req.After != nil {
		blobs, failure, err := run.prepareFollowUp(snap, contract, values)
		if failure == nil && err == nil {
			failure, err = s.hopeless(ctx, run)
		}
		return blobs, failure, err
	}
	built, err := snap.Build(contract, values)
	if failure := buildFailure(built, err); failure != nil {
		return nil, failure, nil
	}
	blobs, err := run.prepare(contract, built)
	return blobs, nil, err
}

func (s *Studio) newRun(ctx context.Context, req LaunchRequest, snap *manifest.Snapshot) (*Run, error) {
	id, err := newRunID()
	if err != nil {
		return nil, err
	}
	prompt, err := newPromptID()
	if err != nil {
		return nil, err
	}
	ref, err := json.Marshal(snap.Ref(ctx))
	if err != nil {
		return nil, fmt.Errorf("encode environment_ref: %w", err)
	}
	now := time.Now().UTC().Truncate(time.Millisecond)
	limit := req.Limit
	if limit <= 0 {
		limit = s.runLimit
	}
	run := &Run{
		ID: id, Session: req.Session.ID, Scope: req.Session.Scope, Workflow: req.Workflow, Contract: req.Contract,
		Status: StatusSubmitted, Inputs: manifest.DisplayInputs(req.Values), CreatedAt: now, UpdatedAt: now,
		State: State{
			Phase: PhaseSubmitting, Prompt: prompt, DueAt: now.Add(limit),
			EnvironmentRef: ref, ManifestRevision: snap.Revision,
		},
	}
	run.hold(newHold(req, limit, now))
	return run, nil
}

// prepare fills in what is run: graph, contract and slots.
func (r *Run) prepare(contract *manifest.Contract, built manifest.Built) ([]Blob, error) {
	var err error
	graph := built.Graph.StampPrefixes(built.Outputs, r.Prompt.Token()).WithMeta().Bytes()
	if r.Issues, err = json.Marshal(built.Issues); err != nil {
		return nil, fmt.Errorf("encode issues: %w", err)
	}
	if len(built.Issues) == 0 {
		r.Issues = nil
	}
	prompt, launched := NewBlob(graph), NewBlob(contract.JSON())
	r.Graph, r.ContractRef, r.PromptDigest = prompt.Digest, launched.Digest, built.Digest
	r.Result = receiptResult(r)
	r.Slots = newSlots(r, built.Outputs)
	return []Blob{prompt, launched}, nil
}

// buildFailure is why a graph could not be built from the values; nil when it
// could.
func buildFailure(built manifest.Built, err error) *Failure {
	var fault *manifest.Fault
	switch {
	case errors.As(err, &fault):
		return &Failure{Code: string(CodeBadRequest), Message: fault.Message, Hint: fault.Hint, Outcome: OutcomeRejected}
	case err != nil:
		return &Failure{Code: string(CodeBadRequest), Message: err.Error(), Outcome: OutcomeRejected}
	case built.HasErrors():
		return &Failure{
			Code:    string(CodeInvalid),
			Message: "Contract inputs could not be applied to the workflow prompt.",
			Issues:  mustJSON(built.Issues),
			Outcome: OutcomeRejected,
		}
	}
	return nil
}

// reject stores a run that cannot be handed over.
func (s *Studio) reject(ctx context.Context, run *Run, f *Failure, blobs ...Blob) (*Run, error) {
	events := run.Apply(Signal{Kind: SignalFailed, Failure: f}, time.Now())
	if err := s.create(ctx, run, events, blobs); err != nil {
		return nil, err
	}
	return run, nil
}

// accept stores a run and lets it wait for its turn; leave is called then.
func (s *Studio) accept(ctx context.Context, run *Run, blobs []Blob, leave func()) (*Run, error) {
	if err := s.create(ctx, run, run.born(), blobs); err != nil {
		s.manners.take(run.ID)
		return nil, err
	}
	if run.Phase == PhaseHeld {
		s.queue.keepHeld(run)         // so that it is known when it cannot be read
		_, _ = s.arrange(ctx, run.ID) // told there, and tried again
		return run, nil
	}
	s.queue.push(run, false)
	leave()
	defer s.queue.answer(run.ID)
	wait, stop := context.WithTimeout(ctx, DecisionWait)
	defer stop()
	latest, err := s.awaitOr(wait, run.ID, &s.queue.filled, s.decidedOn)
	if err != nil {
		// It is committed and will run: who is told otherwise launches it twice.
		s.log.Error("read a launched run", "run", run.ID, "err", err)
		return run, nil
	}
	if latest.Status.Terminal() {
		s.unqueue(run.ID) // its cancel may have come before it was in the line
	}
	return latest, nil
}

func (s *Studio) create(ctx context.Context, run *Run, events []Event, blobs []Blob) error {
	if err := s.Remember(ctx, Session{ID: run.Session, Scope: run.Scope}); err != nil {
		return err
	}
	// A caller that goes away must not leave it open whether its run exists.
	if err := s.store.Create(context.WithoutCancel(ctx), run, events, blobs...); err != nil {
		return storageError(err)
	}
	return nil
}

// born is the event of a run's creation.
func (r *Run) born() []Event {
	t := transition{run: r, now: r.CreatedAt}
	for i := range r.Slots {
		t.targets.slot(&r.Slots[i])
	}
	t.emit(EventRunStarted)
	return t.events
}

// Await reads a run of any scope whenever it moved until it is as wanted, or
// ctx ends; it returns the run as it then is. It changes nothing.
func (s *Studio) Await(ctx context.Context, id RunID, wanted func(*Run) bool) (*Run, error) {
	return s.awaitOr(ctx, id, &Bell{}, wanted)
}

// awaitOr is Await that also reads the run when another bell rang.
func (s *Studio) awaitOr(ctx context.Context, id RunID, also *Bell, wanted func(*Run) bool) (*Run, error) {
	bell := s.decided.open(id)
	defer s.decided.close(id)
	for {
		moved, rang := bell.Wait(), also.Wait()
		latest, err := s.store.Run(context.WithoutCancel(ctx), id)
		if err != nil {
			return nil, storageError(err)
		}
		if wanted(latest) {
			return latest, nil
		}
		select {
		case <-moved:
		case <-rang:
		case <-ctx.Done():
			return latest, nil
		}
	}
}

// Wait returns the run when it has ended, or as it is when ctx ends first, with
// ctx's error, or when what becomes of it cannot be written for long, with that
// *Error. It changes nothing.
func (s *Studio) Wait(ctx context.Context, id RunID) (*Run, error) {
	var still error
	run, err := s.awaitOr(ctx, id, &s.unkept.bell, func(r *Run) bool {
		still = s.unkept.of(r, s.queue.window, true)
		return r.Status.Terminal() || still != nil
	})
	if err != nil || run.Status.Terminal() {
		return run, err
	}
	if still != nil {
		return run, still
	}
	return run, ctx.Err()
}

// storageError is an *Error for what the store could not do.
func storageError(err error) error {
	var own *Error
	if errors.As(err, &own) || errors.Is(err, ErrNotFound) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &Error{Code: CodeInternal, Message: "The state database could not be used.", Hint: hintLog, Err: err}
}
