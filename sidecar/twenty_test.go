package sidecar_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

// twenty launches as many runs of several sessions, and returns when they are
// where they stay while ComfyUI is held.
func (r *rig) twenty() (all []*sidecar.Run) {
	r.Helper()
	for n := range 20 {
		all = append(all, r.launch(crowdSession(n%4), "slow", n))
	}
	r.until("one executes", func() bool {
		for _, run := range all {
			if r.read(run.ID).Phase == sidecar.PhaseExecuting {
				return true
			}
		}
		return false
	})
	return all
}

// onceEach holds runs to their end: completed with one output, or lost when it
// may be. It returns how many were lost.
func (r *rig) onceEach(all []*sidecar.Run, begun int) (lost int) {
	r.Helper()
	for _, launched := range all {
		run := r.finished(launched.ID)
		if run.Outcome == sidecar.OutcomeLost {
			lost++
			continue
		}
		if diff := cmp.Diff(completed(), endOf(run)); diff != "" {
			r.Error(run.Error, diff)
		}
		told := 0
		for _, kind := range r.history(run) {
			if kind == sidecar.EventOutputCompleted {
				told++
			}
		}
		if told != 1 {
			r.Errorf("its output was told %d times", told)
		}
		if n := r.handed(launched); n.Executed > begun {
			r.Errorf("ComfyUI had it %+v", n)
		}
		r.gapless(run)
	}
	return lost
}

// TestTwentyThroughOurRestart: the studio ends in the middle of 20 runs.
func TestTwentyThroughOurRestart(t *testing.T) {
	bubble(t, setup{}, func(r *rig) {
		r.pass(time.Second)
		r.fake.Hold()
		all := r.twenty()
		r.restart()
		began := time.Now()
		r.until("all are taken up", func() bool {
			q := r.studio.Health(context.Background()).Queue
			for _, run := range all {
				_, waits := r.studio.QueuePlace(run)
				if _, followed := r.studio.Live(run.ID); !waits && !followed {
					return false
				}
			}
			return q.InFlight+q.Waiting == len(all)
		})
		took := time.Since(began)
		if took > 5*time.Second {
			r.Errorf("they were taken up after %v", took)
		}
		r.fake.Release()
		if lost := r.onceEach(all, 1); lost != 0 {
			r.Errorf("%d are lost", lost)
		}
		t.Logf("20 runs were taken up within %v and ended once each", took)
	})
}

// TestTwentyThroughComfyUIsRestart: ComfyUI forgets all in the middle of 20
// runs.
func TestTwentyThroughComfyUIsRestart(t *testing.T) {
	for policy, most := range map[sidecar.LostPolicy]int{sidecar.LostFail: 1, sidecar.LostAgain: 0} {
		t.Run(string(policy), func(t *testing.T) {
			bubble(t, setup{lost: policy, fake: comfyfake.Options{Generation: comfyfake.V0_33_0}}, func(r *rig) {
				r.pass(time.Second)
				r.fake.Hold()
				all := r.twenty()
				r.comfyRestarts()
				r.fake.Release()
				lost := r.onceEach(all, 2-most)
				if lost != most {
					r.Errorf("%d are lost, want %d: the one that it had begun", lost, most)
				}
				t.Logf("20 runs, %d lost, the others ended once each", lost)
			})
		})
	}
}
