package sidecar

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/comfygit-ai/studio-sidecar/manifest"
	"github.com/comfygit-ai/studio-sidecar/sidecar/upload"
)

const (
	// DefaultWindow is how many prompts wait in ComfyUI's queue at once: enough
	// that it never idles, few enough that turns between sessions stay fair.
	DefaultWindow = 4
	// DefaultRunLimit is how long a run may take, as in the reference.
	DefaultRunLimit = 12 * time.Hour
	// DefaultPatience is how long who waits for a run waits while what becomes
	// of it cannot be written.
	DefaultPatience = 10 * time.Second
	// DecisionWait is how long Launch waits for the backend's yes or no.
	DecisionWait = 10 * time.Second
)

// Options are what a Studio stands on. Catalog, Store and Executor are
// required; the zero values of the others are the defaults.
type Options struct {
	Catalog  *manifest.Catalog
	Store    Store
	Executor Executor
	Window   int
	Limits   Limits
	RunLimit time.Duration
	// Lost says what becomes of runs that the backend lost; empty: LostFail.
	Lost LostPolicy
	// OpenCopy opens our own copy of an output; nil: there are none.
	OpenCopy func(ref string) (io.ReadCloser, error)
	// Uploads is where files that clients send are kept; nil: none are taken.
	Uploads *upload.Folder
	// Keep says what is kept of finished runs, Copies where their files are;
	// nil: there are none.
	Keep   Retention
	Copies Copies
	// HealthOnDemand: the executor is asked how it is only when somebody asks
	// for that, and not at the start.
	HealthOnDemand bool
	// Patience bounds a wait for a run of which nothing can be written; 0:
	// DefaultPatience.
	Patience time.Duration
	Log      *slog.Logger
}

// Studio launches, follows, cancels and shows runs. Its methods may be called
// from many goroutines; runs move while Run does.
type Studio struct {
	catalog  *manifest.Catalog
	store    Store
	exec     Executor
	runLimit time.Duration
	lost     LostPolicy
	log      *slog.Logger

	queue     queue
	arranging sync.Mutex // held while a run is put where it belongs
	connected Bell       // the backend came, or went
	openCopy  func(ref string) (io.ReadCloser, error)

	boxes    mailboxes
	live     live
	leaving  leaving
	decided  bells
	unkept   unkept
	sessions sessionSet
	manners  manners
	health   healthState
	onDemand bool // of the health

	keep    Retention
	copies  Copies
	takenUp chan struct{} // closed when an earlier life's runs are taken up
	// restored is when a backup was brought back as the store; nil: not read yet.
	restored atomic.Pointer[time.Time]

	uploads *upload.Folder
	placing sync.Mutex // held while a received file gets its name
}

// New makes a Studio. It starts nothing.
func New(o Options) *Studio {
	if o.Window <= 0 {
		o.Window = DefaultWindow
	}
	if o.RunLimit <= 0 {
		o.RunLimit = DefaultRunLimit
	}
	if o.Patience <= 0 {
		o.Patience = DefaultPatience
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Studio{catalog: o.Catalog, store: o.Store, exec: o.Executor, runLimit: o.RunLimit, lost: o.Lost, log: o.Log, uploads: o.Uploads, keep: o.Keep, copies: o.Copies, takenUp: make(chan struct{})}
	s.queue.window, s.queue.limits, s.openCopy = o.Window, o.Limits.withDefaults(), o.OpenCopy
	s.onDemand, s.unkept.patience = o.HealthOnDemand, o.Patience
	return s
}

// TakenUp is closed when Run has taken up the runs of an earlier life, and has
// ended those that cannot be.
func (s *Studio) TakenUp() <-chan struct{} { return s.takenUp }

// Run takes up the runs of an earlier life, then hands over, follows and ends
// runs until ctx ends. It returns nil then; what is unfinished is left to the
// next start. It is called once.
func (s *Studio) Run(ctx context.Context) error {
	g, inner := errgroup.WithContext(ctx)
	g.Go(func() error { return s.watch(inner) })
	g.Go(func() error { return s.tellHealth(inner) })
	g.Go(func() error { return s.tendUploads(inner) })
	g.Go(func() error { return s.tendRetention(inner) })
	g.Go(func() error { return s.tendHeld(inner) })
	g.Go(func() error { return s.awaitBackend(inner) })
	g.Go(func() error { return s.dispatch(inner, g) })
	if err := g.Wait(); ctx.Err() == nil {
		return fmt.Errorf("run studio: %w", err)
	}
	return nil
}

func (s *Studio) watch(ctx context.Context) error {
	if err := s.exec.Watch(ctx, s.hear); err != nil {
		return fmt.Errorf("watch the backend: %w", err)
	}
	return nil
}

// dispatch takes up what an earlier life left, then hands over waiting runs as
// the window allows.
func (s *Studio) dispatch(ctx context.Context, g *errgroup.Group) error {
	if err := s.recover(ctx, g); err != nil {
		return err
	}
	close(s.takenUp)
	for {
		wake := s.queue.bell.Wait()
		for id, ok := s.queue.pop(time.Now()); ok; id, ok = s.queue.pop(time.Now()) {
			s.startFollowing(ctx, g, id)
		}
		if !waitUntil(ctx, wake, s.queue.nextDue()) {
			return ctx.Err()
		}
	}
}

// waitUntil waits for wake or for a time, if it is one; false when ctx ended.
func waitUntil(ctx context.Context, wake <-chan struct{}, at time.Time) bool {
	var alarm <-chan time.Time
	if !at.IsZero() {
		timer := time.NewTimer(time.Until(at))
		defer timer.Stop()
		alarm = timer.C
	}
	select {
	case <-wake:
	case <-alarm:
	case <-ctx.Done():
		return false
	}
	return true
}

// recover takes up unfinished runs: those that may have been handed over are
// followed, the others wait for their turn.
func (s *Studio) recover(ctx context.Context, g *errgroup.Group) error {
	runs, err := retry(ctx, s.log, "read unfinished runs", func() ([]*Run, error) { return s.store.Unfinished(ctx) })
	if err != nil {
		return fmt.Errorf("read unfinished runs: %w", err)
	}
	if err := errors.Join(s.recoverPause(ctx), s.recoverRestored(ctx)); err != nil {
		return err
	}
	count := 0
	for _, run := range runs {
		switch {
		case run.ContractRef == "" && s.endsAtOnce(ctx, run):
		case run.Phase == PhaseHeld:
			s.queue.keepHeld(run)
			s.queue.lookLater(run.ID, time.Now()) // it may have been moved just now
			count++
		case run.Attempt > 0 || run.Accepted || run.Status.Terminal():
			if s.queue.take(run) {
				count++
				s.startFollowing(ctx, g, run.ID)
			}
		case s.queue.push(run, true):
			count++
		}
	}
	if count > 0 {
		s.log.Info("took up unfinished runs", "count", count)
	}
	return nil
}

// endsAtOnce ends a run of the reference's that can never be taken up: clients
// that ask after a start find it ended there, too.
func (s *Studio) endsAtOnce(ctx context.Context, run *Run) bool {
	_, err := s.jobOf(ctx, run)
	if err == nil || passing(err) || ctx.Err() != nil {
		return false
	}
	s.log.Error("cannot take up run", "run", run.ID, "err", err)
	_, err = s.apply(ctx, run.ID, Signal{Kind: SignalFailed, Failure: recoveryFailure(err)})
	return err == nil
}

func (s *Studio) startFollowing(ctx context.Context, g *errgroup.Group, id RunID) {
	box := s.boxes.open(id)
	g.Go(func() error {
		f := &follower{studio: s, id: id, box: box, log: s.log.With("run", id)}
		f.follow(ctx)
		f.release()
		if !f.gone {
			s.unkept.note(id, nil) // there is nothing left to write
		}
		s.boxes.close(id)
		s.queue.forget(id)
		if f.run != nil && f.run.Phase == PhaseHeld {
			s.queue.keepHeld(f.run)
			_, _ = s.arrange(ctx, id) // told there, and tried again
		}
		return nil
	})
}

// Catalog is where contracts come from.
func (s *Studio) Catalog() *manifest.Catalog { return s.catalog }

// Executor is where runs go.
func (s *Studio) Executor() Executor { return s.exec }
