package sidecar_test

import (
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
