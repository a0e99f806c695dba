package sidecar_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

func generations(t *testing.T, test func(*testing.T, setup)) {
	t.Helper()
	for name, g := range map[string]comfyfake.Generation{"old_comfyui": comfyfake.V0_3_64, "new_comfyui": comfyfake.V0_33_0} {
		t.Run(name, func(t *testing.T) { test(t, setup{fake: comfyfake.Options{Generation: g}}) })
	}
}

func (r *rig) isCancelled(run *sidecar.Run) {
	r.Helper()
	if diff := cmp.Diff(cancelled(), endOf(run)); diff != "" {
		r.Error(diff)
	}
}

// queueEmpty: nothing is left in ComfyUI's queue.
func (r *rig) queueEmpty() {
	r.Helper()
	r.until("nothing is left in ComfyUI's queue", func() bool {
		h, err := r.exec.Health(context.Background())
		must(r, err)
		return h.Queue == 0
	})
}

func TestCancel(t *testing.T) {
	generations(t, func(t *testing.T, s setup) {
		t.Run("waiting_for_its_turn", func(t *testing.T) {
			s := s
			s.window = 1
			bubble(t, s, func(r *rig) {
				first, second := r.launch(anna, "slow", 1), r.launch(anna, "slow", 2)
				got := r.cancel(second)
				r.isCancelled(got)
				if got.Phase != sidecar.PhaseFinished {
					r.Errorf("it is %s", got.Phase)
				}
				if diff := cmp.Diff(completed(), endOf(r.finished(first.ID))); diff != "" {
					r.Error(diff)
				}
				r.pass(time.Minute)
				if c := r.executed(second); c != (comfyfake.Count{}) {
					r.Errorf("ComfyUI had it: %+v", c)
				}
			})
		})
		t.Run("being_handed_over", func(t *testing.T) {
			bubble(t, s, func(r *rig) {
				r.fake.Fault(comfyfake.Fault{Kind: comfyfake.Delay, Method: http.MethodPost, Route: "/prompt", Times: 1, Delay: 3 * time.Second})
				id, answered := r.launching(anna, "slow", 1)
				r.until("it is handed over", func() bool { return r.read(id).Attempt == 1 })
				began := time.Now()
				r.isCancelled(r.cancel(r.read(id)))
				run := <-answered
				if took := time.Since(began); took > 2*time.Second || run.Status != sidecar.StatusCancelled {
					r.Errorf("its launch answered %s after %v", run.Status, took)
				}
				r.isCancelled(r.finished(id))
				r.pass(time.Minute)
				r.queueEmpty()
				r.isCancelled(r.read(id))
				if n := r.posts(http.MethodPost, "/prompt"); n != 1 {
					r.Errorf("handed over %d times", n)
				}
			})
		})
		t.Run("accepted_after_its_cancel_it_is_dropped_at_once", func(t *testing.T) {
			bubble(t, s, func(r *rig) {
				r.fake.Hold()
				r.fake.Fault(comfyfake.Fault{Kind: comfyfake.Delay, Method: http.MethodPost, Route: "/prompt", Times: 1, Delay: 3 * time.Second})
				id, answered := r.launching(anna, "slow", 1)
				r.until("it is handed over", func() bool { return r.read(id).Attempt == 1 })
				r.pass(2800 * time.Millisecond)
				r.cancel(r.read(id))
				<-answered
				r.until("ComfyUI accepts it", func() bool { return r.read(id).Accepted })
				began := time.Now()
				r.fake.Release()
				r.finished(id)
				// ComfyUI may lose the first; what counts is when it was asked.
				told := slices.IndexFunc(r.fake.Requests(), func(req comfyfake.Request) bool {
					return req.Method == http.MethodPost && !strings.HasSuffix(req.Path, "/prompt")
				})
				if told < 0 || r.fake.Requests()[told].At.Sub(began) > 400*time.Millisecond {
					r.Errorf("it was not asked at once to drop it")
				}
			})
		})
		t.Run("news_do_not_make_it_ask_without_a_pause", func(t *testing.T) {
			bubble(t, s, func(r *rig) {
				run := r.launch(anna, "deaf", 1)
				r.inPhase(run.ID, sidecar.PhaseExecuting)
				r.cancel(run)
				before := r.posts(http.MethodGet, "/queue")
				for range 60 {
					r.ask(http.MethodPost, "/queue", `{"clear":true}`) // told to all
					r.pass(20 * time.Millisecond)
				}
				if n := r.posts(http.MethodGet, "/queue") - before; n > 30 {
					r.Errorf("it asked %d times", n)
				}
				r.finished(run.ID)
			})
		})
		t.Run("queued_behind_another_which_lives", func(t *testing.T) {
			bubble(t, s, func(r *rig) {
				first, second := r.launch(anna, "slow", 1), r.launch(bert, "slow", 2)
				r.inPhase(first.ID, sidecar.PhaseExecuting)
				r.isCancelled(r.cancel(second))
				r.isCancelled(r.finished(second.ID))
				if diff := cmp.Diff(completed(), endOf(r.finished(first.ID))); diff != "" {
					r.Error(diff)
				}
				if c := r.executed(second); c.Executed != 0 {
					r.Errorf("executed: %+v", c)
				}
				if n := r.posts(http.MethodPost, "/interrupt"); n != 0 {
					r.Errorf("%d interrupts", n)
				}
			})
		})
		t.Run("executing", func(t *testing.T) {
			bubble(t, s, func(r *rig) {
				run := r.launch(anna, "slow", 1)
				next := r.launch(anna, "slow", 2)
				r.inPhase(run.ID, sidecar.PhaseExecuting)
				began := time.Now()
				r.isCancelled(r.cancel(run))
				r.isCancelled(r.finished(run.ID))
				if took := time.Since(began); took > time.Second {
					r.Errorf("it took %v", took)
				}
				if diff := cmp.Diff(completed(), endOf(r.finished(next.ID))); diff != "" {
					r.Error(diff)
				}
			})
		})
		t.Run("a_node_that_does_not_stop_blocks_nobody", func(t *testing.T) {
			s := s
			s.window = 1
			bubble(t, s, func(r *rig) {
				run := r.launch(anna, "deaf", 1)
				next := r.launch(anna, "picture", 2)
				r.inPhase(run.ID, sidecar.PhaseExecuting)
				r.isCancelled(r.cancel(run))
				r.until("the next one is in ComfyUI", func() bool { return r.read(next.ID).Accepted })
				if p := r.read(run.ID).Phase; p != sidecar.PhaseCancelling {
					r.Errorf("it is %s", p)
				}
				if diff := cmp.Diff(completed(), endOf(r.finished(next.ID))); diff != "" {
					r.Error(diff)
				}
				r.isCancelled(r.finished(run.ID)) // its late result revives nothing
			})
		})
		t.Run("comfyui_is_down", func(t *testing.T) {
			bubble(t, s, func(r *rig) {
				run := r.launch(anna, "slow", 1)
				r.inPhase(run.ID, sidecar.PhaseExecuting)
				r.fake.Hold()
				r.net.setDown(true)
				began := time.Now()
				r.isCancelled(r.cancel(run))
				if took := time.Since(began); took > 2*time.Second {
					r.Errorf("it took %v", took)
				}
				r.pass(time.Minute)
				if p := r.read(run.ID).Phase; p != sidecar.PhaseCancelling {
					r.Errorf("it is %s", p)
				}
				r.net.setDown(false)
				r.isCancelled(r.finished(run.ID))
				r.queueEmpty()
			})
		})
		t.Run("comfyui_hangs", func(t *testing.T) {
			bubble(t, s, func(r *rig) {
				run := r.launch(anna, "slow", 1)
				r.inPhase(run.ID, sidecar.PhaseExecuting)
				release := r.fake.Fault(comfyfake.Fault{Kind: comfyfake.Hang})
				began := time.Now()
				r.isCancelled(r.cancel(run))
				if took := time.Since(began); took > 2*time.Second {
					r.Errorf("it took %v", took)
				}
				release()
				r.isCancelled(r.finished(run.ID))
			})
		})
		t.Run("comfyui_refuses", func(t *testing.T) {
			bubble(t, s, func(r *rig) {
				for _, route := range []string{"/queue", "/interrupt", "/jobs/"} {
					r.fake.Fault(comfyfake.Fault{Kind: comfyfake.Answer, Method: http.MethodPost, Route: route, Status: 403, Body: "no"})
				}
				run := r.launch(anna, "slow", 1)
				r.inPhase(run.ID, sidecar.PhaseExecuting)
				got := r.cancel(run)
				r.isCancelled(got)
				if !jsonHas(got.Result, "remote_cancel") {
					r.Errorf("the refusal is not told: %s", got.Result)
				}
				if p := r.read(run.ID).Phase; p != sidecar.PhaseCancelling {
					r.Errorf("it is %s", p)
				}
				r.isCancelled(r.finished(run.ID)) // it ran to its end
				types := r.history(run)
				if i := slices.Index(types, sidecar.EventRunCancelled); len(types)-i != 3 {
					r.Errorf("the refusal and the end are more than two events: %v", types[i:])
				}
			})
		})
		t.Run("by_another_in_between_the_order_is_for_nothing_else", func(t *testing.T) {
			bubble(t, s, func(r *rig) {
				for _, route := range []string{"/queue", "/interrupt", "/jobs/"} {
					r.fake.Fault(comfyfake.Fault{Kind: comfyfake.Answer, Method: http.MethodPost, Route: route, Status: 403, Body: "no"})
				}
				run := r.launch(anna, "slow", 1)
				r.inPhase(run.ID, sidecar.PhaseExecuting)
				order := &sidecar.Order{Command: &sidecar.Command{Owner: anna, Key: "k", Hash: []byte("h"), Session: anna, Kind: "cancel_run", At: time.Now()}}
				another := sync.OnceFunc(func() {
					_, err := r.store.Store.Update(context.Background(), run.ID, func(run *sidecar.Run) ([]sidecar.Event, error) {
						return run.Apply(sidecar.Signal{Kind: sidecar.SignalCancel}, time.Now()), nil
					})
					must(r, err)
				})
				r.store.updating.Store(&another)
				got, err := r.studio.Cancel(sidecar.WithOrder(context.Background(), order), run.Scope, run.ID)
				must(r, err)
				r.isCancelled(got)
				if !jsonHas(got.Result, "remote_cancel") {
					r.Errorf("the refusal is not told: %s", got.Result)
				}
				if known, err := r.studio.Command(context.Background(), anna, "k"); err != nil || known != nil || order.Settled() {
					r.Errorf("the command was carried out: %v %v %v", known, err, order.Settled())
				}
				r.isCancelled(r.finished(run.ID))
			})
		})
		t.Run("twice_and_by_two_at_once", func(t *testing.T) {
			bubble(t, s, func(r *rig) {
				run := r.launch(anna, "slow", 1)
				r.inPhase(run.ID, sidecar.PhaseExecuting)
				var all sync.WaitGroup
				for range 2 {
					all.Go(func() {
						got, err := r.studio.Cancel(context.Background(), run.Scope, run.ID)
						if err != nil || got.Status != sidecar.StatusCancelled {
							r.Errorf("%v", err)
						}
					})
				}
				all.Wait()
				r.finished(run.ID)
				before := len(r.history(run))
				r.isCancelled(r.cancel(run))
				types := r.history(run)
				if len(types) != before {
					r.Errorf("the later cancel was an event: %v", types[before:])
				}
				ends := 0
				for _, kind := range types {
					if kind == sidecar.EventRunCancelled {
						ends++
					}
				}
				if ends != 1 {
					r.Errorf("cancelled %d times: %v", ends, types)
				}
			})
		})
	})
	t.Run("one_that_ended_otherwise_or_is_another_scopes", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			run := r.finished(r.launch(anna, "picture", 1).ID)
			for scope, want := range map[sidecar.Scope]sidecar.Code{"anna": sidecar.CodeNotCancellable, "bert": sidecar.CodeNotFound} {
				_, err := r.studio.Cancel(context.Background(), scope, run.ID)
				var told *sidecar.Error
				if !errors.As(err, &told) || told.Code != want {
					r.Errorf("%s: %v", scope, err)
				}
			}
			if diff := cmp.Diff(completed(), endOf(r.read(run.ID))); diff != "" {
				r.Error(diff)
			}
		})
	})
}

// TestLimit: a run may take so long and no longer.
func TestLimit(t *testing.T) {
	timedOut := errored(sidecar.OutcomeTimedOut, sidecar.CodeTimeout)
	limited := func(r *rig, flow string, seed int, limit time.Duration) *sidecar.Run {
		r.Helper()
		req := r.request(anna, flow, seed)
		req.Limit = limit
		run, err := r.studio.Launch(context.Background(), req)
		must(r, err)
		return run
	}
	t.Run("it_passes_while_the_run_executes", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			r.fake.Hold()
			run := limited(r, "slow", 1, 5*time.Second)
			r.until("it ended", func() bool { return r.read(run.ID).Status.Terminal() })
			if age := time.Since(run.CreatedAt); age > 6*time.Second || age < 5*time.Second {
				r.Errorf("it ended after %v", age)
			}
			if diff := cmp.Diff(timedOut, endOf(r.finished(run.ID))); diff != "" {
				r.Error(diff)
			}
			r.fake.Release()
			r.queueEmpty()
		})
	})
	t.Run("it_passes_while_the_run_waits_for_its_turn", func(t *testing.T) {
		bubble(t, setup{window: 1}, func(r *rig) {
			r.fake.Hold()
			r.launch(anna, "slow", 1)
			run := limited(r, "slow", 2, 5*time.Second)
			r.pass(7 * time.Second)
			want := refusal(sidecar.OutcomeTimedOut, sidecar.CodeTimeout)
			if diff := cmp.Diff(want, endOf(r.read(run.ID))); diff != "" {
				r.Error(diff)
			}
			if c := r.executed(run); c != (comfyfake.Count{}) {
				r.Errorf("ComfyUI had it: %+v", c)
			}
			r.fake.Release()
		})
	})
	t.Run("it_passes_while_comfyui_is_away", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			run := limited(r, "slow", 1, 10*time.Second)
			r.inPhase(run.ID, sidecar.PhaseExecuting)
			r.fake.Hold()
			r.net.setDown(true)
			r.restart()
			r.pass(20 * time.Second)
			if got := r.read(run.ID); got.Outcome != sidecar.OutcomeTimedOut || got.Phase != sidecar.PhaseCancelling {
				r.Errorf("it is %s, %s", got.Outcome, got.Phase)
			}
			r.net.setDown(false)
			r.finished(run.ID)
			r.queueEmpty()
		})
	})
	t.Run("a_result_that_came_in_time_counts_though_it_is_found_late", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			run := limited(r, "slow", 1, 10*time.Second)
			r.inPhase(run.ID, sidecar.PhaseExecuting)
			r.stop()
			r.pass(time.Minute)
			r.start()
			if diff := cmp.Diff(completed(), endOf(r.finished(run.ID))); diff != "" {
				r.Error(diff)
			}
		})
	})
	t.Run("a_wait_that_ends_changes_nothing", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			r.fake.Hold()
			run := r.inPhase(r.launch(anna, "slow", 1).ID, sidecar.PhaseExecuting)
			r.pass(5 * time.Second)
			before := r.read(run.ID)
			ctx, stop := context.WithTimeout(context.Background(), 3*time.Second)
			defer stop()
			got, err := r.studio.Wait(ctx, run.ID)
			if !errors.Is(err, context.DeadlineExceeded) || got == nil || got.Status != sidecar.StatusRunning {
				r.Errorf("got %v", err)
			}
			if diff := cmp.Diff(before, r.read(run.ID)); diff != "" {
				r.Error(diff)
			}
			r.fake.Release()
			got, err = r.studio.Wait(context.Background(), run.ID)
			must(r, err)
			if diff := cmp.Diff(completed(), endOf(got)); diff != "" {
				r.Error(diff)
			}
		})
	})
	t.Run("a_launch_that_is_given_up_runs_all_the_same", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			r.fake.Fault(comfyfake.Fault{Kind: comfyfake.Delay, Method: http.MethodPost, Route: "/prompt", Times: 1, Delay: 3 * time.Second})
			ctx, stop := context.WithTimeout(context.Background(), time.Second)
			defer stop()
			run, err := r.studio.Launch(ctx, r.request(anna, "slow", 1))
			must(r, err)
			if diff := cmp.Diff(completed(), endOf(r.finished(run.ID))); diff != "" {
				r.Error(diff)
			}
		})
	})
}
