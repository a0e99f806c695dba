package sidecar_test

import (
	"context"
	"flag"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

// TestRestart: the studio ends at some moment of a run and begins anew, while
// ComfyUI lives on.
func TestRestart(t *testing.T) {
	for name, c := range map[string]struct {
		flow   string
		reach  func(*rig, sidecar.RunID) // brings the run to the moment
		asleep time.Duration
		want   end
	}{
		"after_its_creation": {"slow", func(r *rig, id sidecar.RunID) {
			if r.read(id).Attempt != 0 {
				r.Fatal("it was handed over")
			}
		}, 0, completed()},
		"after_it_was_noted_as_handed_over": {"slow", func(r *rig, id sidecar.RunID) {
			r.stall.Store(int32(beforePost))
			r.goFirst()
			r.until("it is handed over", func() bool { return r.read(id).Attempt == 1 })
		}, 0, completed()},
		"when_comfyui_has_it_and_has_not_answered": {"slow", func(r *rig, id sidecar.RunID) {
			r.stall.Store(int32(afterPost))
			r.goFirst()
			r.until("ComfyUI has it", func() bool { return r.executed(r.read(id)).Queued == 1 })
		}, 0, completed()},
		"when_it_ended_unanswered": {"slow", func(r *rig, id sidecar.RunID) {
			r.stall.Store(int32(afterPost))
			r.goFirst()
			r.until("ComfyUI has it", func() bool { return r.executed(r.read(id)).Queued == 1 })
		}, time.Minute, completed()},
		"when_it_is_accepted": {"slow", func(r *rig, id sidecar.RunID) {
			r.goFirst()
			r.until("it is accepted", func() bool { return r.read(id).Accepted })
		}, 0, completed()},
		"when_it_executes": {"slow", func(r *rig, id sidecar.RunID) {
			r.goFirst()
			r.inPhase(id, sidecar.PhaseExecuting)
		}, 0, completed()},
		"when_it_executes_and_ends_meanwhile": {"slow", func(r *rig, id sidecar.RunID) {
			r.goFirst()
			r.inPhase(id, sidecar.PhaseExecuting)
		}, time.Minute, completed()},
		"when_it_fails_meanwhile": {"broken", func(r *rig, id sidecar.RunID) {
			r.stall.Store(int32(afterPost))
			r.goFirst()
			r.until("ComfyUI has it", func() bool { return r.executed(r.read(id)).Queued == 1 })
		}, time.Minute, errored(sidecar.OutcomeFailed, sidecar.CodeExecution)},
		"when_it_is_being_cancelled": {"deaf", func(r *rig, id sidecar.RunID) {
			r.fake.Release() // a held run hears of the cancel before its deaf node
			r.until("the deaf node runs", func() bool {
				return slices.ContainsFunc(r.read(id).Nodes, func(n sidecar.NodeRun) bool { return n.Class == "TrialDeaf" })
			})
			r.cancel(r.read(id))
			r.inPhase(id, sidecar.PhaseCancelling)
		}, 0, cancelled()},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, setup{window: 1}, func(r *rig) {
				r.fake.Hold()
				first := r.launch(bert, "slow", 1) // keeps the window full
				r.inPhase(first.ID, sidecar.PhaseExecuting)
				run := r.launch(anna, c.flow, 2)
				c.reach(r, run.ID)
				r.stop()
				r.stall.Store(int32(nowhere))
				r.fake.Release()
				r.pass(c.asleep)
				r.start()
				got := r.finished(run.ID)
				if diff := cmp.Diff(c.want, endOf(got)); diff != "" {
					r.Error(diff)
				}
				if got.ID != run.ID || got.Prompt != run.Prompt || !got.CreatedAt.Equal(run.CreatedAt) {
					r.Errorf("it became another: %s %s", got.ID, got.Prompt)
				}
				if n := r.executed(got); n.Executed != 1 || n.Queued != 1 {
					r.Errorf("ComfyUI had it: %+v", n)
				}
				r.gapless(got)
				outputs := 0
				for _, kind := range r.history(got) {
					if kind == sidecar.EventOutputCompleted {
						outputs++
					}
				}
				if wanted := len(got.Slots); got.Status == sidecar.StatusCompleted && outputs != wanted {
					r.Errorf("%d outputs were told, want %d", outputs, wanted)
				}
			})
		})
	}
	t.Run("what_the_reference_left_of_a_contract_that_is_gone_has_ended_when_it_is_taken_up", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			r.fake.Hold()
			run := r.inPhase(r.launch(anna, "slow", 1).ID, sidecar.PhaseExecuting)
			r.stop()
			r.sql("UPDATE runs SET workflow = 'gone' WHERE run_id = '" + string(run.ID) + "'")
			r.sql("UPDATE run_state SET contract = '' WHERE run_id = '" + string(run.ID) + "'")
			r.start()
			<-r.studio.TakenUp()
			got := r.read(run.ID)
			if got.Status != sidecar.StatusError || got.Error != "Cannot recover active run because contract 'gone / default' no longer exists." {
				r.Errorf("%s %q", got.Status, got.Error)
			}
		})
	})
	t.Run("many_times_in_one_run", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			id, _ := r.launching(anna, "slow", 1)
			for range 12 {
				r.pass(150 * time.Millisecond)
				r.restart()
			}
			run := r.finished(id)
			if diff := cmp.Diff(completed(), endOf(run)); diff != "" {
				r.Error(diff)
			}
			r.heldOnce(run, true)
			r.gapless(run)
		})
	})
	t.Run("a_run_in_flight_is_not_taken_for_heard", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			r.fake.Hold()
			run := r.launch(anna, "slow", 1)
			r.inPhase(run.ID, sidecar.PhaseExecuting)
			if live, ok := r.studio.Live(run.ID); !ok || !live.Heard {
				r.Errorf("it is not heard at first: %+v", live)
			}
			r.restart()
			r.pass(5 * time.Second)
			if live, ok := r.studio.Live(run.ID); !ok || live.Heard {
				r.Errorf("it is followed as %+v", live)
			}
			r.fake.Release()
			r.finished(run.ID)
			r.pass(time.Second)
			if _, ok := r.studio.Live(run.ID); ok {
				r.Error("its latest values are kept after its end")
			}
		})
	})
	t.Run("with_a_network_that_comes_back_later", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			run := r.launch(anna, "slow", 1)
			r.inPhase(run.ID, sidecar.PhaseExecuting)
			r.net.setDown(true)
			r.restart()
			r.pass(time.Minute)
			r.restart()
			r.net.setDown(false)
			if diff := cmp.Diff(completed(), endOf(r.finished(run.ID))); diff != "" {
				r.Error(diff)
			}
		})
	})
}

// stored counts the runs of the crowd.
func (r *rig) stored() (n int) {
	for i := range 20 {
		n += len(r.runs(crowdSession(i)))
	}
	return n
}

func crowdSession(n int) sidecar.SessionID { return sidecar.SessionID("s" + string(rune('a'+n%20))) }

// goFirst ends the run that keeps the window full.
func (r *rig) goFirst() {
	r.Helper()
	r.fake.Release()
	r.finished(r.runs(bert)[0].ID)
	r.fake.Hold()
}

// gapless: the run's events number its revisions without a gap.
func (r *rig) gapless(run *sidecar.Run) {
	r.Helper()
	synctest.Wait() // a row is seen a moment before its events are
	records, err := r.studio.Events(context.Background(), run.Scope, run.ID, 0, 0)
	must(r, err)
	for i, rec := range records {
		if n := decodeEvent(r, rec).Revision; n != int64(i+1) {
			r.Fatalf("event %d has revision %d", i+1, n)
		}
	}
	if run.Revision != int64(len(records)) {
		r.Errorf("revision %d after %d events", run.Revision, len(records))
	}
	r.replays(run, records)
}

// TestTurns: sessions take turns, and ComfyUI never has more than the window.
func TestTurns(t *testing.T) {
	t.Run("one_who_comes_later_does_not_wait_for_all_of_the_first", func(t *testing.T) {
		bubble(t, setup{window: 1}, func(r *rig) {
			r.fake.Hold()
			for n := range 32 {
				r.launch(anna, "picture", n)
			}
			first, second := r.launch(bert, "picture", 100), r.launch(bert, "picture", 101)
			if place, ok := r.studio.QueuePlace(first); !ok || place > 2 {
				r.Errorf("its place is %d", place)
			}
			r.fake.Release()
			before := func(id sidecar.RunID) (n int) {
				mine := r.finished(id)
				for _, run := range r.runs(anna) {
					if !run.FinishedAt.IsZero() && run.FinishedAt.Before(mine.FinishedAt) {
						n++
					}
				}
				return n
			}
			if n := before(first.ID); n > 2 {
				r.Errorf("%d came before the first", n)
			}
			if n := before(second.ID); n > 3 {
				r.Errorf("%d came before the second", n)
			}
			for _, run := range r.runs(anna) {
				if diff := cmp.Diff(completed().Status, r.finished(run.ID).Status); diff != "" {
					r.Error(diff)
				}
			}
		})
	})
	t.Run("the_window_is_full_and_never_more", func(t *testing.T) {
		bubble(t, setup{window: 3}, func(r *rig) {
			for n := range 12 {
				r.launch(anna, "slow", n)
			}
			most := 0
			r.until("all have ended", func() bool {
				inside, ended := 0, 0
				for _, run := range r.runs(anna) {
					switch {
					case run.Status.Terminal():
						ended++
					case run.Accepted:
						inside++
					}
				}
				most = max(most, inside)
				return ended == 12
			})
			if most != 3 {
				r.Errorf("up to %d were in ComfyUI", most)
			}
		})
	})
	t.Run("turns_of_cancelled_runs_are_used", func(t *testing.T) {
		bubble(t, setup{window: 2}, func(r *rig) {
			r.fake.Hold()
			var all []*sidecar.Run
			for n := range 6 {
				all = append(all, r.launch(anna, "slow", n))
			}
			for _, run := range all[:4] {
				r.cancel(run)
			}
			r.until("the others have their turn", func() bool { return r.read(all[4].ID).Accepted && r.read(all[5].ID).Accepted })
			r.fake.Release()
			for _, run := range all[4:] {
				if diff := cmp.Diff(completed(), endOf(r.finished(run.ID))); diff != "" {
					r.Error(diff)
				}
			}
			r.until("no turn is taken any more", func() bool {
				st := r.studio.Health(context.Background()).Queue
				return st.InFlight == 0 && st.Waiting == 0
			})
		})
	})
}

var crowdSize = flag.Int("crowd", 60, "how many runs TestCrowd launches at once")

// TestCrowd: many runs of 20 sessions at once.
func TestCrowd(t *testing.T) {
	crowd := func(r *rig, each func(sidecar.RunID)) {
		var answers []<-chan *sidecar.Run
		for n := range *crowdSize {
			who := crowdSession(n)
			answered := make(chan *sidecar.Run, 1)
			answers = append(answers, answered)
			studio := r.studio
			go func() {
				run, err := studio.Launch(context.Background(), r.request(who, "picture", n))
				if err != nil {
					r.Error(err)
				}
				answered <- run
			}()
		}
		for _, answered := range answers {
			if run := <-answered; run != nil {
				each(run.ID)
			}
		}
	}
	t.Run("all_end", func(t *testing.T) {
		bubble(t, setup{fake: comfyfake.Options{StepDelay: time.Millisecond}}, func(r *rig) {
			crowd(r, func(id sidecar.RunID) {
				run, err := r.studio.Wait(context.Background(), id)
				must(r, err)
				if diff := cmp.Diff(completed(), endOf(run)); diff != "" {
					r.Error(diff)
				}
				if c := r.executed(run); c.Executed != 1 {
					r.Errorf("%+v", c)
				}
			})
		})
	})
	t.Run("all_end_though_the_studio_ends_in_the_middle", func(t *testing.T) {
		bubble(t, setup{fake: comfyfake.Options{StepDelay: time.Millisecond}}, func(r *rig) {
			restarted := false
			crowd(r, func(id sidecar.RunID) {
				if !restarted {
					restarted = true
					r.until("all are stored", func() bool { return r.stored() == *crowdSize })
					r.restart()
				}
				run := r.finished(id)
				if diff := cmp.Diff(completed(), endOf(run)); diff != "" {
					r.Error(diff)
				}
				if c := r.executed(run); c.Executed != 1 || c.Queued != 1 {
					r.Errorf("%+v", c)
				}
				r.gapless(run)
			})
		})
	})
}
