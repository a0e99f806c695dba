package sidecar

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"
)

// follower takes one run from its turn to its end. It is the only one that
// hands the run over, and works step by step, so that no two calls about one
// prompt race.
type follower struct {
	studio   *Studio
	id       RunID
	box      *mailbox
	log      *slog.Logger
	run      *Run // as last committed
	job      Job
	beat     *heartbeat
	ending   bool // the backend said that it is ending the run
	silent   bool // the backend did not answer when it was last asked
	handing  bool // it is noted as being handed over, and the backend heard nothing
	attended bool // it was accepted and not ended when it began to be followed
	released bool
	moved    bool // the latest signals changed the run
	gone     bool // the run can be read and written no more
}

// follow returns when the run is finished, or when ctx ends.
func (f *follower) follow(ctx context.Context) {
	if !f.load(ctx) {
		return
	}
	defer f.studio.live.forget(f.id)
	f.handOver(ctx)
	f.attend(ctx)
	f.release()
	if f.run.Status.Terminal() && f.run.Phase != PhaseFinished {
		f.settle(ctx)
	}
}

// goesOn reports whether there is anything left to do before the run's end.
func (f *follower) goesOn(ctx context.Context) bool {
	return !f.gone && !f.run.Status.Terminal() && ctx.Err() == nil
}

func (f *follower) overdue() bool {
	return !f.run.DueAt.IsZero() && !time.Now().Before(f.run.DueAt)
}

// release gives the run's turn back, once. A cancelled run does so before
// ComfyUI lets go of it, so that a node that does not stop blocks nobody.
func (f *follower) release() {
	if !f.released {
		f.released = true
		f.studio.queue.release()
	}
}

func (f *follower) load(ctx context.Context) bool {
	run, err := retry(ctx, f.log, "read run", func() (*Run, error) { return f.studio.store.Run(ctx, f.id) })
	if err != nil {
		if ctx.Err() == nil {
			f.log.Error("cannot read run", "err", err)
		}
		return false
	}
	f.run = run
	job, err := retry(ctx, f.log, "read what to run", func() (Job, error) { return f.studio.jobOf(ctx, run) })
	if ctx.Err() != nil {
		return false
	}
	if err != nil {
		f.log.Error("cannot take up run", "err", err)
		f.apply(ctx, Signal{Kind: SignalFailed, Failure: recoveryFailure(err)})
		return false
	}
	f.job = job
	if run.ContractRef == "" {
		f.apply(ctx, Signal{Kind: SignalAdopted, Outputs: job.Outputs})
	}
	f.studio.live.follow(f.id, run.Scope)
	f.studio.boxes.address(job.Prompt, f.box)
	return true
}

// apply commits signals and takes the run as it then is. It keeps trying while
// the store cannot write: what was heard must not be forgotten. A run that can
// never take them ends, so that nobody waits for it for ever.
func (f *follower) apply(ctx context.Context, signals ...Signal) bool {
	err := f.commit(ctx, signals...)
	if err != nil && ctx.Err() == nil && !errors.Is(err, ErrNotFound) {
		f.log.Error("cannot take in what was heard of a run", "err", err)
		err = f.commit(ctx, Signal{Kind: SignalFailed, Failure: recoveryFailure(err)})
	}
	if err != nil {
		if ctx.Err() == nil {
			f.log.Error("give a run up until the next start", "err", err)
		}
		f.gone = true
		return false
	}
	return true
}

func (f *follower) commit(ctx context.Context, signals ...Signal) error {
	run, err := retry(ctx, f.log, "commit signals", func() (run *Run, err error) {
		run, f.moved, err = f.studio.move(ctx, f.id, signals...)
		return run, err
	})
	if err != nil {
		return err
	}
	f.run = run
	f.readdress()
	return nil
}

// apply moves a run by signals in one transaction and wakes who waits for it.
func (s *Studio) apply(ctx context.Context, id RunID, signals ...Signal) (*Run, error) {
	run, _, err := s.move(ctx, id, signals...)
	return run, err
}

// move is apply that tells whether the run moved.
func (s *Studio) move(ctx context.Context, id RunID, signals ...Signal) (*Run, bool, error) {
	moved := false // not to be read when ctx ended: the change goes on
	run, err := s.store.Update(ctx, id, func(r *Run) ([]Event, error) {
		var events []Event
		for _, sig := range signals {
			events = append(events, r.Apply(sig, time.Now())...)
		}
		moved = len(events) > 0
		return events, nil
	})
	if err != nil {
		return nil, false, err
	}
	s.decided.ring(id)
	return run, moved, nil
}

// retry calls do until it works, ctx ends, or trying again does not help.
func retry[T any](ctx context.Context, log *slog.Logger, what string, do func() (T, error)) (T, error) {
	for pause := lookPause; ; pause = min(2*pause, lookPauseMax) {
		got, err := do()
		if err == nil || !passing(err) || ctx.Err() != nil {
			return got, err
		}
		log.Error(what, "err", err)
		if !sleep(ctx, pause) {
			return got, ctx.Err()
		}
	}
}

// passing tells that an error of the store may not come again: its disk is full
// or busy, or a wait was too short.
func passing(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return true
	}
	var told *Error
	return errors.As(err, &told) && told.Code == CodeStorage && !errors.Is(err, ErrLasting)
}

// sleep waits for d; false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// attend follows an accepted run until it ends.
func (f *follower) attend(ctx context.Context) {
	f.attended = f.goesOn(ctx)
	f.beat = newHeartbeat(f.run.DueAt)
	defer f.beat.stop()
	for f.goesOn(ctx) {
		look := false
		select {
		case <-ctx.Done():
			return
		case <-f.box.ready:
			look = f.read(ctx)
		case <-f.beat.timer.C:
			look = true
		}
		if look && f.goesOn(ctx) {
			f.look(ctx)
			f.beat.looked()
		}
		if f.goesOn(ctx) && f.overdue() {
			f.apply(ctx, Signal{Kind: SignalTimedOut})
		}
		f.beat.reset()
	}
}

// read takes the news in and says whether to look at once.
func (f *follower) read(ctx context.Context) (look bool) {
	news, poked := f.box.take()
	if poked {
		f.reread(ctx)
	}
	var signals []Signal
	for _, n := range news {
		switch n.Kind {
		case NewsStarted:
			signals = append(signals, Signal{Kind: SignalStarted})
		case NewsCached:
			signals = append(signals, Signal{Kind: SignalCached, Nodes: n.Nodes})
		case NewsNode:
			signals = append(signals, Signal{Kind: SignalNodeStarted, Node: n.Node})
		case NewsNodeDone:
			signals = append(signals, Signal{Kind: SignalNodeFinished, Node: n.Node})
		case NewsEnding:
			look, f.ending = true, true
			f.beat.hurry()
		case NewsConnected:
			look = true
		case NewsQueue:
			look = look || f.bell()
		}
	}
	if len(signals) > 0 {
		f.apply(ctx, signals...)
	}
	return look
}

// bell: a run whose messages do not reach us takes any movement of the queue
// for its bell, and a waiting one for a step forward. Looks are kept apart.
func (f *follower) bell() (look bool) {
	if f.run.Phase == PhaseExecuting && f.studio.live.hears(f.id) {
		return false
	}
	if time.Since(f.beat.last) >= bellPause {
		return true
	}
	f.beat.within(bellPause)
	return false
}

// readdress takes the id that a backend told before it answered the submit.
func (f *follower) readdress() {
	f.job.Accepted = f.run.Accepted
	if f.run.Accepted && f.run.PromptID != f.job.Prompt {
		f.job.Prompt = f.run.PromptID
		f.studio.boxes.address(f.job.Prompt, f.box)
	}
}

func (f *follower) reread(ctx context.Context) {
	if run, err := f.studio.store.Run(ctx, f.id); err == nil {
		f.run = run
		f.readdress()
	} else {
		f.log.Error("read run", "err", err)
	}
}

// look asks where the prompt is and draws the consequence.
func (f *follower) look(ctx context.Context) {
	seen, err := f.find(ctx)
	if err != nil {
		f.unreachable(ctx, err)
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
		f.apply(ctx, Signal{Kind: SignalLost})
	}
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

// settle makes sure that the backend lets go of a run that was cancelled.
func (f *follower) settle(ctx context.Context) {
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
