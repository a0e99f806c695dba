package sidecar_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/manifest"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

// handed is how often ComfyUI took and began the prompts of a run, whatever
// their ids: its graph carries a stamp of its own.
func (r *rig) handed(launched *sidecar.Run) (c comfyfake.Count) {
	for graph, n := range r.fake.Submissions().ByGraph {
		if strings.Contains(graph, launched.Prompt.Token()) {
			c.Queued += n.Queued
			c.Executed += n.Executed
		}
	}
	return c
}

// attempts lists the attempts that nodes were run in.
func attempts(run *sidecar.Run) []int {
	var list []int
	for _, n := range run.Nodes {
		if len(list) == 0 || list[len(list)-1] != n.Attempt {
			list = append(list, n.Attempt)
		}
	}
	return list
}

// issueCodes lists the codes of a result's issues.
func issueCodes(t testing.TB, result json.RawMessage) (codes []string) {
	t.Helper()
	var doc struct{ Issues []manifest.Issue }
	must(t, json.Unmarshal(result, &doc))
	for _, issue := range doc.Issues {
		codes = append(codes, issue.Code)
	}
	return codes
}

// TestLost: ComfyUI forgets a run that it had begun.
func TestLost(t *testing.T) {
	restarts := func(r *rig) { must(r, r.fake.Restart()) }
	forgets := func(r *rig) { r.fake.Forget() }
	lost := errored(sidecar.OutcomeLost, sidecar.CodeLost)
	for name, c := range map[string]struct {
		policy sidecar.LostPolicy
		how    func(*rig)
		times  int
		want   end
		began  int
	}{
		"fails_after_a_restart":               {sidecar.LostFail, restarts, 1, lost, 1},
		"fails_when_it_is_forgotten":          {sidecar.LostFail, forgets, 1, lost, 1},
		"runs_again_after_a_restart":          {sidecar.LostAgain, restarts, 1, completed(), 2},
		"runs_again_when_it_is_forgotten":     {sidecar.LostAgain, forgets, 1, completed(), 2},
		"runs_again_once_and_never_twice":     {sidecar.LostAgain, restarts, 2, lost, 2},
		"runs_again_once_though_forgotten_of": {sidecar.LostAgain, forgets, 2, lost, 2},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, setup{lost: c.policy}, func(r *rig) {
				r.pass(time.Second) // the socket stands
				launched := r.launch(anna, "slow", 1)
				for n := range c.times {
					r.until("it executes", func() bool {
						run := r.read(launched.ID)
						return run.Attempt == n+1 && slices.ContainsFunc(run.Nodes, func(node sidecar.NodeRun) bool { return node.Attempt == n+1 })
					})
					c.how(r)
				}
				run := r.finished(launched.ID)
				if diff := cmp.Diff(c.want, endOf(run)); diff != "" {
					r.Error(diff)
				}
				if n := r.handed(launched); n.Executed != c.began || n.Queued != c.began {
					r.Errorf("ComfyUI had it %+v, want %d", n, c.began)
				}
				if got, want := len(attempts(run)), c.began; got != want {
					r.Errorf("nodes of %d attempts, want %d: %+v", got, want, run.Nodes)
				}
				if again := run.Prompt != launched.Prompt; again != (c.began > 1) {
					r.Errorf("prompt %s became %s", launched.Prompt, run.Prompt)
				}
				r.gapless(run)
			})
		})
	}
	t.Run("tells_that_it_was_handed_over_again", func(t *testing.T) {
		bubble(t, setup{lost: sidecar.LostAgain}, func(r *rig) {
			launched := r.launch(anna, "slow", 1)
			r.inPhase(launched.ID, sidecar.PhaseExecuting)
			r.fake.Forget()
			run := r.finished(launched.ID)
			if diff := cmp.Diff([]string{"comfyui_lost_prompt"}, issueCodes(r, run.Result)); diff != "" {
				r.Error(diff)
			}
			outputs := 0
			for _, kind := range r.history(run) {
				if kind == sidecar.EventOutputCompleted {
					outputs++
				}
			}
			if outputs != 1 {
				r.Errorf("%d outputs were told", outputs)
			}
		})
	})
	t.Run("goes_on_where_the_studio_ends_in_between", func(t *testing.T) {
		bubble(t, setup{lost: sidecar.LostAgain}, func(r *rig) {
			launched := r.launch(anna, "slow", 1)
			r.inPhase(launched.ID, sidecar.PhaseExecuting)
			r.stall.Store(int32(afterPost))
			r.fake.Forget()
			r.until("ComfyUI has it again", func() bool { return r.handed(launched).Queued == 2 })
			r.stop()
			r.stall.Store(int32(nowhere))
			r.start()
			run := r.finished(launched.ID)
			if diff := cmp.Diff(completed(), endOf(run)); diff != "" {
				r.Error(diff)
			}
			if n := r.handed(launched); n.Executed != 2 || n.Queued != 2 {
				r.Errorf("ComfyUI had it %+v", n)
			}
		})
	})
	t.Run("can_be_cancelled_while_it_waits_for_comfyui", func(t *testing.T) {
		bubble(t, setup{lost: sidecar.LostAgain}, func(r *rig) {
			launched := r.launch(anna, "slow", 1)
			r.inPhase(launched.ID, sidecar.PhaseExecuting)
			release := r.fake.Fault(comfyfake.Fault{Kind: comfyfake.Answer, Method: http.MethodPost, Route: "/prompt", Status: 503})
			r.fake.Forget()
			r.until("it is handed over again", func() bool { return r.posts(http.MethodPost, "/prompt") == 2 })
			r.cancel(launched)
			if diff := cmp.Diff(cancelled(), endOf(r.finished(launched.ID))); diff != "" {
				r.Error(diff)
			}
			release()
			if n := r.handed(launched); n.Queued != 1 {
				r.Errorf("ComfyUI had it %+v", n)
			}
		})
	})
	t.Run("fails_with_slots_when_comfyui_refuses_it_the_second_time", func(t *testing.T) {
		bubble(t, setup{lost: sidecar.LostAgain}, func(r *rig) {
			launched := r.launch(anna, "slow", 1)
			r.inPhase(launched.ID, sidecar.PhaseExecuting)
			r.fake.Fault(comfyfake.Fault{Kind: comfyfake.Answer, Method: http.MethodPost, Route: "/prompt", Status: 400, Body: `{"error":"no"}`})
			r.fake.Forget()
			if diff := cmp.Diff(errored(sidecar.OutcomeRejected, sidecar.CodeRejected), endOf(r.finished(launched.ID))); diff != "" {
				r.Error(diff)
			}
		})
	})
}

// TestWaitingInComfyUI: ComfyUI loses what waits in its queue.
func TestWaitingInComfyUI(t *testing.T) {
	t.Run("runs_once_after_a_restart", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			r.fake.Hold()
			var all []*sidecar.Run
			for n := range 5 {
				all = append(all, r.launch(anna, "slow", n))
			}
			r.inPhase(all[0].ID, sidecar.PhaseExecuting)
			r.comfyRestarts()
			r.fake.Release()
			for i, launched := range all {
				want, began := completed(), 1
				if i == 0 {
					want = errored(sidecar.OutcomeLost, sidecar.CodeLost)
				}
				run := r.finished(launched.ID)
				if diff := cmp.Diff(want, endOf(run)); diff != "" {
					r.Errorf("run %d: %s %s", i, run.Error, diff)
				}
				if n := r.handed(launched); n.Executed != began {
					r.Errorf("run %d: ComfyUI had it %+v", i, n)
				}
				r.gapless(run)
			}
		})
	})
	t.Run("survives_restart_after_restart", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			r.pass(time.Second)
			r.fake.Hold()
			var all []*sidecar.Run
			for n := range 4 {
				all = append(all, r.launch(anna, "slow", n))
			}
			in := func(phase sidecar.Phase) (n int) {
				for _, run := range all {
					if r.read(run.ID).Phase == phase {
						n++
					}
				}
				return n
			}
			for n := range 3 {
				r.until("one executes, the others wait", func() bool {
					return in(sidecar.PhaseExecuting) == 1 && in(sidecar.PhaseQueued) == 3-n && in(sidecar.PhaseFinished) == n
				})
				r.comfyRestarts()
			}
			r.fake.Release()
			lost := 0
			for _, launched := range all {
				run := r.finished(launched.ID)
				if run.Outcome == sidecar.OutcomeLost {
					lost++
				} else if diff := cmp.Diff(completed(), endOf(run)); diff != "" {
					r.Error(diff)
				}
				if n := r.handed(launched); n.Executed != 1 {
					r.Errorf("ComfyUI had it %+v", n)
				}
			}
			if lost != 3 {
				r.Errorf("%d are lost, want those that had begun", lost)
			}
		})
	})
	t.Run("is_not_brought_back_when_somebody_removes_it", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			r.fake.Hold()
			first, second := r.launch(anna, "slow", 1), r.launch(anna, "slow", 2)
			r.inPhase(first.ID, sidecar.PhaseExecuting)
			r.ask(http.MethodPost, "/queue", fmt.Sprintf(`{"delete":[%q]}`, second.Prompt))
			run := r.finished(second.ID)
			if diff := cmp.Diff(errored(sidecar.OutcomeLost, sidecar.CodeLost), endOf(run)); diff != "" {
				r.Error(diff)
			}
			r.fake.Release()
			r.finished(first.ID)
			if n := r.handed(second); n.Queued != 1 {
				r.Errorf("ComfyUI had it %+v", n)
			}
		})
	})
	t.Run("is_not_brought_back_when_only_the_socket_broke", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			r.pass(time.Second)
			r.fake.Hold()
			first, second := r.launch(anna, "slow", 1), r.launch(anna, "slow", 2)
			r.inPhase(first.ID, sidecar.PhaseExecuting)
			r.fake.DropSockets()
			r.pass(5 * time.Second)
			r.ask(http.MethodPost, "/queue", fmt.Sprintf(`{"delete":[%q]}`, second.Prompt))
			if diff := cmp.Diff(errored(sidecar.OutcomeLost, sidecar.CodeLost), endOf(r.finished(second.ID))); diff != "" {
				r.Error(diff)
			}
			r.fake.Release()
			r.finished(first.ID)
			if n := r.handed(second); n.Queued != 1 {
				r.Errorf("ComfyUI had it %+v", n)
			}
		})
	})
	t.Run("runs_once_though_the_socket_comes_back_later_than_comfyui", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			r.pass(time.Second)
			r.fake.Hold()
			first, second := r.launch(anna, "slow", 1), r.launch(anna, "slow", 2)
			r.inPhase(first.ID, sidecar.PhaseExecuting)
			release := r.fake.Fault(comfyfake.Fault{Kind: comfyfake.Refuse, Route: "/ws"})
			must(r, r.fake.Restart())
			r.fake.Release()
			r.pass(5 * time.Second)
			release()
			if diff := cmp.Diff(completed(), endOf(r.finished(second.ID))); diff != "" {
				r.Error(diff)
			}
			if n := r.handed(second); n.Executed != 1 {
				r.Errorf("ComfyUI had it %+v", n)
			}
		})
	})
	t.Run("runs_once_though_comfyui_comes_up_in_two_steps", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			r.pass(time.Second)
			r.fake.Hold()
			first, second := r.launch(anna, "slow", 1), r.launch(anna, "slow", 2)
			r.inPhase(first.ID, sidecar.PhaseExecuting)
			release := r.fake.Fault(comfyfake.Fault{Kind: comfyfake.Refuse, Route: "/ws"})
			must(r, r.fake.Restart())
			r.fake.Release()
			r.pass(5 * time.Second)
			r.net.setDown(true)
			r.pass(time.Minute)
			r.net.setDown(false)
			r.pass(4 * time.Second)
			release()
			if diff := cmp.Diff(completed(), endOf(r.finished(second.ID))); diff != "" {
				r.Error(diff)
			}
			if n := r.handed(second); n.Executed != 1 {
				r.Errorf("ComfyUI had it %+v", n)
			}
		})
	})
	t.Run("is_given_up_when_no_socket_comes_back", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			r.fake.Hold()
			first, second := r.launch(anna, "slow", 1), r.launch(anna, "slow", 2)
			r.inPhase(first.ID, sidecar.PhaseExecuting)
			r.fake.Fault(comfyfake.Fault{Kind: comfyfake.Refuse, Route: "/ws"})
			began := time.Now()
			must(r, r.fake.Restart())
			if diff := cmp.Diff(errored(sidecar.OutcomeLost, sidecar.CodeLost), endOf(r.finished(second.ID))); diff != "" {
				r.Error(diff)
			}
			if took := time.Since(began); took > 20*time.Second {
				r.Errorf("it took %v", took)
			}
		})
	})
}

// TestDropped: ComfyUI's answer, which told that it leaves a declared output
// out, is lost.
func TestDropped(t *testing.T) {
	for name, kind := range map[string]comfyfake.Kind{"cut": comfyfake.ActThenRefuse, "500": comfyfake.ActThenAnswer, "half": comfyfake.BrokenJSON} {
		t.Run("an_output_that_somebody_wants_is_no_success/"+name, func(t *testing.T) {
			bubble(t, setup{}, func(r *rig) {
				r.fake.Fault(onPrompt(kind))
				run := r.finished(r.launch(anna, "touched", 1).ID)
				if diff := cmp.Diff(refusal(sidecar.OutcomeRejected, sidecar.CodeRejected), endOf(run)); diff != "" {
					r.Error(diff)
				}
				if diff := cmp.Diff([]string{"comfyui_node_error"}, issueCodes(r, run.Result)); diff != "" {
					r.Error(diff)
				}
			})
		})
	}
	t.Run("found_after_a_restart_of_ours_too", func(t *testing.T) {
		bubble(t, setup{window: 1}, func(r *rig) {
			r.stall.Store(int32(afterPost))
			id, answered := r.launching(anna, "touched", 1)
			r.until("ComfyUI has it", func() bool { return r.executed(r.read(id)).Queued == 1 })
			r.stop()
			<-answered // the old life's patience ends
			r.stall.Store(int32(nowhere))
			r.start()
			if diff := cmp.Diff(refusal(sidecar.OutcomeRejected, sidecar.CodeRejected), endOf(r.finished(id))); diff != "" {
				r.Error(diff)
			}
		})
	})
	t.Run("a_node_that_is_no_output_node_is_not_dropped", func(t *testing.T) {
		want := completed()
		want.Slots = slots(sidecar.SlotEmpty)
		for name, kind := range map[string]comfyfake.Kind{"answered": 0, "lost": comfyfake.ActThenRefuse} {
			t.Run(name, func(t *testing.T) {
				bubble(t, setup{}, func(r *rig) {
					if kind != 0 {
						r.fake.Fault(onPrompt(kind))
					}
					if diff := cmp.Diff(want, endOf(r.finished(r.launch(anna, "inner", 1).ID))); diff != "" {
						r.Error(diff)
					}
				})
			})
		}
	})
	t.Run("one_that_nobody_wants_is_no_harm", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			r.fake.Fault(onPrompt(comfyfake.ActThenRefuse))
			if diff := cmp.Diff(completed(), endOf(r.finished(r.launch(anna, "untouched", 1).ID))); diff != "" {
				r.Error(diff)
			}
		})
	})
}

// TestComplaints: what ComfyUI says against a field names the input that is
// bound to it.
func TestComplaints(t *testing.T) {
	bubble(t, setup{}, func(r *rig) {
		req := r.request(anna, "wide", 0)
		req.Values = manifest.Values{{Name: "width", Value: json.RawMessage("99999999")}}
		run, err := r.studio.Launch(context.Background(), req)
		must(r, err)
		if !strings.HasPrefix(run.Error, "Prompt outputs failed validation") {
			r.Errorf("it says %q", run.Error)
		}
		var doc struct{ Issues []manifest.Issue }
		must(r, json.Unmarshal(run.Result, &doc))
		want := []manifest.Issue{{Code: "above_max", Severity: "error", InputName: "width", NodeID: "1", APINodeID: "1", Message: "Value 99999999 bigger than max of 16384 (width)"}}
		if diff := cmp.Diff(want, doc.Issues); diff != "" {
			r.Error(diff)
		}
	})
}

// TestBusy: a node that does not stop shows.
func TestBusy(t *testing.T) {
	bubble(t, setup{}, func(r *rig) {
		health := func() sidecar.Condition { return r.studio.Health(context.Background()) }
		r.fake.Fault(comfyfake.Fault{Kind: comfyfake.IgnoreInterrupt})
		r.fake.Hold()
		run := r.launch(anna, "slow", 1)
		r.inPhase(run.ID, sidecar.PhaseExecuting)
		r.cancel(run)
		r.pass(time.Second)
		if c := health(); c.Leaving != 1 || c.Busy || !c.Available {
			r.Errorf("after a second: %+v", c)
		}
		r.pass(10 * time.Second)
		if c := health(); c.Leaving != 1 || !c.Busy || !c.Available {
			r.Errorf("after ten seconds: %+v", c)
		}
		r.fake.Release()
		r.isCancelled(r.finished(run.ID))
		r.until("nothing is left", func() bool { c := health(); return c.Leaving == 0 && !c.Busy })
	})
}

// TestDials: a socket that cannot be opened makes health be asked anew.
func TestDials(t *testing.T) {
	bubble(t, setup{}, func(r *rig) {
		r.pass(time.Second)
		// It goes without our hearing of it: the question at that moment is still
		// answered.
		release := r.fake.Fault(comfyfake.Fault{Kind: comfyfake.Refuse, Route: "/ws"})
		r.fake.DropSockets()
		r.pass(50 * time.Millisecond)
		r.net.setDown(true)
		r.pass(6 * time.Second)
		if diff := cmp.Diff([]bool{true, false}, r.healthTold()); diff != "" {
			r.Errorf("nobody was told that it went: %s", diff)
		}
		r.net.setDown(false)
		r.pass(6 * time.Second)
		release()
		if diff := cmp.Diff([]bool{true, false, true}, r.healthTold()); diff != "" {
			r.Errorf("nobody was told that it came: %s", diff)
		}
	})
}
