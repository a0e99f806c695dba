package sidecar_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// meddled is a store at which something else happens in between.
type meddled struct {
	*flaky
	created func(*sidecar.Run)                 // called when a run is stored, before its launch goes on
	read    atomic.Pointer[func(*sidecar.Run)] // called when a run was read, before its reader goes on
}

func (m *meddled) Create(ctx context.Context, run *sidecar.Run, events []sidecar.Event, blobs ...sidecar.Blob) error {
	err := m.flaky.Create(ctx, run, events, blobs...)
	if err == nil && m.created != nil {
		m.created(run)
	}
	return err
}

func (m *meddled) Run(ctx context.Context, id sidecar.RunID) (*sidecar.Run, error) {
	run, err := m.flaky.Run(ctx, id)
	if meanwhile := m.read.Load(); err == nil && meanwhile != nil {
		(*meanwhile)(run)
	}
	return run, err
}

// meddle begins a life with a store in whose work a test can meddle; the queue
// is paused.
func (r *rig) meddle(m *meddled) {
	r.Helper()
	m.flaky, r.opts.Store = r.store, m
	r.restart()
	r.pause(true)
}

// isGone: a cancelled run left nothing behind in the dispatcher.
func (r *rig) isGone(run *sidecar.Run) {
	r.Helper()
	r.ends(run, cancelled())
	if q := r.studio.Queue(run.Scope).QueueState; q.InFlight+q.Waiting+q.Held != 0 {
		r.Errorf("the queue is %+v", q)
	}
	if n := r.studio.Manners(); n != 0 {
		r.Errorf("%d manners are kept", n)
	}
}

func waited(req *sidecar.LaunchRequest) { req.Waited, req.Poll = true, time.Second }

// TestCancelledInLine: a cancel leaves nothing in the dispatcher, whenever it
// comes.
func TestCancelledInLine(t *testing.T) {
	t.Run("while_it_waits", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			r.pause(true)
			run := r.ordered(anna, "picture", 1, waited)
			r.cancel(run)
			r.isGone(run)
		})
	})
	t.Run("before_it_is_in_the_line", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			r.meddle(&meddled{created: func(run *sidecar.Run) { r.cancel(run) }})
			run := r.ordered(anna, "picture", 1, waited)
			if run.Status != sidecar.StatusCancelled {
				t.Errorf("it is told to be %s", run.Status)
			}
			r.isGone(run)
		})
	})
	t.Run("while_it_is_released", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			m := &meddled{}
			r.meddle(m)
			run := r.ordered(anna, "picture", 1, onApproval)
			reads, parked, told, done := atomic.Int32{}, make(chan bool), make(chan bool), make(chan bool)
			cancel := func(latest *sidecar.Run) {
				if latest.Phase != sidecar.PhaseSubmitting {
					return
				}
				switch reads.Add(1) {
				case 1: // who releases it has read it
					go func() {
						defer close(told)
						if _, err := r.studio.Wait(context.Background(), run.ID); err != nil {
							t.Error(err)
						}
					}()
					<-parked
					go func() { defer close(done); r.cancel(run) }()
					<-told // by a cancel that found nothing in the line
				case 2: // who waits for its end has
					close(parked)
				}
			}
			m.read.Store(&cancel)
			if _, err := r.studio.Approve(context.Background(), "anna", run.ID); err != nil {
				t.Fatal(err)
			}
			<-done
			r.isGone(run)
		})
	})
}
