package sidecar

import (
	"context"
	"errors"
	"log/slog"
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
	held     bool // the latest answer was not waited for to its end
	handing  bool // it is noted as being handed over, and the backend heard nothing
	attended bool // it was accepted and not ended when it began to be followed
	released bool
	moved    bool      // the latest signals changed the run
	missed   time.Time // since when a waiting prompt is nowhere
	gone     bool      // the run can be read and written no more
}

// follow returns when the run is finished, or when ctx ends.
func (f *follower) follow(ctx context.Context) {
	if !f.load(ctx) {
		return
	}
	defer f.studio.live.forget(f.id)
	for f.goesOn(ctx) {
		f.handOver(ctx)
		f.attend(ctx)
	}
	f.release()
	if f.run.Status.Terminal() && f.run.Phase != PhaseFinished {
		f.settle(ctx)
	}
}

// goesOn reports whether there is anything left to do before the run's end.
func (f *follower) goesOn(ctx context.Context) bool {
	return !f.gone && !f.run.Status.Terminal() && f.run.Phase != PhaseHeld && ctx.Err() == nil
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
	job.Manner = f.studio.manners.take(f.id)
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
			f.studio.unkept.note(f.id, err)
		}
		f.gone = true
		return false
	}
	return true
}

func (f *follower) commit(ctx context.Context, signals ...Signal) error {
	run, err := retry(ctx, f.log, "commit signals", func() (run *Run, err error) {
		run, f.moved, err = f.studio.move(ctx, f.id, signals...)
		if err == nil || passing(err) {
			f.studio.unkept.note(f.id, err)
		}
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
	if run.Status.Terminal() {
		s.queue.ended(id)
	}
	return run, moved, nil
}

// attend follows an accepted run until it ends, or is to be handed over anew.
func (f *follower) attend(ctx context.Context) {
	f.attended = f.goesOn(ctx)
	f.beat = newHeartbeat(f.run.DueAt)
	defer f.beat.stop()
	for f.goesOn(ctx) && f.run.Accepted {
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
