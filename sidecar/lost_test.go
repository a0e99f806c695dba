package sidecar_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

// TestLostAnswer: ComfyUI's answer to a prompt does not arrive. Whatever it did
// with the prompt, the run has one record and is executed once.
func TestLostAnswer(t *testing.T) {
	away := refusal(sidecar.OutcomeFailed, sidecar.CodeUnavailable)
	unclear := refusal(sidecar.OutcomeRejected, sidecar.CodeRejected)
	answer := func(status int, body string) comfyfake.Fault {
		return comfyfake.Fault{Kind: comfyfake.Answer, Method: http.MethodPost, Route: "/prompt", Times: 1, Status: status, Body: body}
	}
	for name, c := range map[string]struct {
		faults []comfyfake.Fault
		want   end
		posts  int
	}{
		"queued_and_cut":                                      {[]comfyfake.Fault{onPrompt(comfyfake.ActThenRefuse)}, completed(), 1},
		"queued_and_500":                                      {[]comfyfake.Fault{onPrompt(comfyfake.ActThenAnswer)}, completed(), 1},
		"queued_and_broken_json":                              {[]comfyfake.Fault{onPrompt(comfyfake.BrokenJSON)}, completed(), 1},
		"queued_and_200_without_prompt_id":                    {[]comfyfake.Fault{{Kind: comfyfake.ActThenAnswer, Method: http.MethodPost, Route: "/prompt", Times: 1, Status: 200, Body: "{}"}}, completed(), 1},
		"cut_in_the_answer":                                   {[]comfyfake.Fault{onPrompt(comfyfake.Cut)}, completed(), 1},
		"cut_before_it_was_queued":                            {[]comfyfake.Fault{onPrompt(comfyfake.Refuse)}, completed(), 2},
		"cut_twice_before_it_was_queued":                      {[]comfyfake.Fault{onPrompt(comfyfake.Refuse), onPrompt(comfyfake.Refuse)}, away, 2},
		"a_500_without_queueing_is_told":                      {[]comfyfake.Fault{answer(500, "oops")}, unclear, 1},
		"a_200_without_queueing_twice":                        {[]comfyfake.Fault{answer(200, "{}"), answer(200, "{}")}, unclear, 2},
		"a_200_without_queueing_once":                         {[]comfyfake.Fault{answer(200, "<html>")}, completed(), 2},
		"a_request_that_stands_still_for_longer_than_we_wait": {[]comfyfake.Fault{{Kind: comfyfake.Delay, Method: http.MethodPost, Route: "/prompt", Times: 1, Delay: 15 * time.Second}}, completed(), 1},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, setup{}, func(r *rig) {
				for _, f := range c.faults {
					r.fake.Fault(f)
				}
				run := r.finished(r.launch(anna, "slow", 1).ID)
				if diff := cmp.Diff(c.want, endOf(run)); diff != "" {
					r.Error(diff)
				}
				r.heldOnce(run, c.want.Status == sidecar.StatusCompleted)
				if n := r.posts(http.MethodPost, "/prompt"); n != c.posts {
					r.Errorf("handed over %d times, want %d", n, c.posts)
				}
			})
		})
	}
	t.Run("hangs_and_is_cut", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			release := r.fake.Fault(onPrompt(comfyfake.Hang))
			id, _ := r.launching(anna, "picture", 1)
			r.pass(3 * time.Second)
			release()
			run := r.finished(id)
			if diff := cmp.Diff(completed(), endOf(run)); diff != "" {
				r.Error(diff)
			}
			r.heldOnce(run, true)
		})
	})
}

// heldOnce: one record, and the prompt was executed once if at all.
func (r *rig) heldOnce(run *sidecar.Run, executed bool) {
	r.Helper()
	if n := len(r.runs(sidecar.SessionID(run.Scope))); n != 1 {
		r.Errorf("%d records", n)
	}
	all := r.fake.Submissions().ByPrompt
	if executed && (len(all) != 1 || r.executed(run).Executed != 1) || !executed && len(all) != 0 {
		r.Errorf("ComfyUI had %v", all)
	}
}

// TestAway: ComfyUI does not answer.
func TestAway(t *testing.T) {
	t.Run("a_launch_fails_at_once", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			r.net.setDown(true)
			synctest.Wait() // no prompt is sent over what was just cut
			began := time.Now()
			run := r.launch(anna, "picture", 1)
			if diff := cmp.Diff(refusal(sidecar.OutcomeFailed, sidecar.CodeUnavailable), endOf(run)); diff != "" {
				r.Error(diff)
			}
			if run.Phase != sidecar.PhaseFinished {
				r.Errorf("it is %s", run.Phase)
			}
			if took := time.Since(began); took > 2*time.Second {
				r.Errorf("it took %v", took)
			}
			if n := len(r.runs(anna)); n != 1 {
				r.Errorf("%d records", n)
			}
		})
	})
	t.Run("a_run_of_an_earlier_life_waits_and_runs_once", func(t *testing.T) {
		bubble(t, setup{window: 1}, func(r *rig) {
			r.fake.Hold()
			first := r.launch(anna, "slow", 1)
			second := r.launch(anna, "slow", 2)
			r.net.setDown(true)
			r.restart()
			r.cancel(r.read(first.ID)) // frees the turn: the second is tried at once
			r.pass(10 * time.Minute)
			run := r.read(second.ID)
			if run.Status != sidecar.StatusSubmitted || run.Revision > 5 {
				r.Errorf("waits as %s, revision %d", run.Status, run.Revision)
			}
			r.net.setDown(false)
			r.fake.Release()
			run = r.finished(second.ID)
			if diff := cmp.Diff(completed(), endOf(run)); diff != "" {
				r.Error(diff)
			}
			if c := r.executed(run); c.Executed != 1 || c.Queued != 1 {
				r.Errorf("%+v", c)
			}
		})
	})
	t.Run("a_run_whose_client_was_told_to_wait_waits", func(t *testing.T) {
		bubble(t, setup{window: 1}, func(r *rig) {
			r.fake.Hold()
			first, second := r.launch(anna, "slow", 1), r.launch(anna, "slow", 2)
			if second.Status != sidecar.StatusSubmitted {
				r.Fatalf("second is %s", second.Status)
			}
			r.net.setDown(true)
			r.cancel(first)
			r.pass(30 * time.Second)
			r.net.setDown(false)
			r.fake.Release()
			if diff := cmp.Diff(completed(), endOf(r.finished(second.ID))); diff != "" {
				r.Error(diff)
			}
		})
	})
	t.Run("a_run_that_nobody_can_have_heard_of_is_not_lost", func(t *testing.T) {
		bubble(t, setup{window: 1}, func(r *rig) {
			r.blind.Store(true)
			r.fake.Hold()
			first, second := r.launch(anna, "slow", 1), r.launch(anna, "slow", 2)
			r.net.setDown(true)
			r.cancel(first)
			r.pass(30 * time.Second)
			if run := r.read(second.ID); run.Attempt != 1 {
				r.Errorf("%d tries were noted", run.Attempt)
			}
			r.net.setDown(false)
			r.fake.Release()
			run := r.finished(second.ID)
			if diff := cmp.Diff(completed(), endOf(run)); diff != "" {
				r.Error(run.Error, diff)
			}
			if c := r.executed(run); c.Executed != 1 || c.Queued != 1 {
				r.Errorf("%+v", c)
			}
		})
	})
	t.Run("one_that_starts_up_with_503_gets_the_run_of_an_earlier_life", func(t *testing.T) {
		bubble(t, setup{window: 1}, func(r *rig) {
			r.fake.Hold()
			first, second := r.launch(anna, "slow", 1), r.launch(anna, "slow", 2)
			r.fake.Fault(comfyfake.Fault{Kind: comfyfake.Answer, Method: http.MethodPost, Route: "/prompt", Times: 1, Status: 503})
			r.cancel(first)
			r.fake.Release()
			run := r.finished(second.ID)
			if diff := cmp.Diff(completed(), endOf(run)); diff != "" {
				r.Error(diff)
			}
			if c := r.executed(run); c.Executed != 1 {
				r.Errorf("%+v", c)
			}
		})
	})
}

// TestFollow: what happens between ComfyUI's yes and the end.
func TestFollow(t *testing.T) {
	fault := func(fs ...comfyfake.Fault) func(*rig) {
		return func(r *rig) {
			for _, f := range fs {
				r.fake.Fault(f)
			}
		}
	}
	lost := errored(sidecar.OutcomeLost, sidecar.CodeLost)
	history := func(kind comfyfake.Kind, times int) comfyfake.Fault {
		return comfyfake.Fault{Kind: kind, Route: "/history/", Times: times, Status: 500}
	}
	for name, c := range map[string]struct {
		before, during func(*rig)
		want           end
		within         time.Duration
	}{
		"a_mute_socket": {before: func(r *rig) {
			r.fake.Fault(comfyfake.Fault{Kind: comfyfake.MuteSocket})
			r.fake.DropSockets()
			r.pass(time.Second)
		}, want: completed(), within: 6 * time.Second},
		"a_socket_that_drops_and_comes_back": {during: func(r *rig) { r.fake.DropSockets() }, want: completed(), within: 4 * time.Second},
		"no_socket_at_all": {before: func(r *rig) {
			r.fake.Fault(comfyfake.Fault{Kind: comfyfake.Refuse, Route: "/ws"})
			r.fake.DropSockets()
		}, want: completed(), within: 6 * time.Second},
		"a_comfyui_that_restarts":            {during: func(r *rig) { must(r, r.fake.Restart()) }, want: lost, within: 8 * time.Second},
		"a_comfyui_that_forgets":             {during: func(r *rig) { r.fake.Forget() }, want: lost, within: 8 * time.Second},
		"a_network_that_breaks_for_a_minute": {during: func(r *rig) { r.net.setDown(true); r.pass(time.Minute); r.net.setDown(false) }, want: completed(), within: 70 * time.Second},
		"history_that_lags":                  {before: fault(comfyfake.Fault{Kind: comfyfake.HistoryLag, Delay: 800 * time.Millisecond}), want: completed(), within: 6 * time.Second},
		"history_that_lags_behind_mute_socket": {before: func(r *rig) {
			r.fake.Fault(comfyfake.Fault{Kind: comfyfake.HistoryLag, Delay: 1200 * time.Millisecond})
			r.fake.Fault(comfyfake.Fault{Kind: comfyfake.MuteSocket})
			r.fake.DropSockets()
			r.pass(time.Second)
		}, want: completed(), within: 8 * time.Second},
		"messages_twice":            {before: fault(comfyfake.Fault{Kind: comfyfake.DuplicateMessages}), want: completed(), within: 3 * time.Second},
		"messages_out_of_order":     {before: fault(comfyfake.Fault{Kind: comfyfake.ReorderMessages}), want: completed(), within: 5 * time.Second},
		"history_that_answers_500":  {before: fault(history(comfyfake.Answer, 3)), want: completed(), within: 8 * time.Second},
		"history_that_answers_half": {before: fault(history(comfyfake.BrokenJSON, 3)), want: completed(), within: 8 * time.Second},
		"history_that_is_cut":       {before: fault(history(comfyfake.Cut, 3)), want: completed(), within: 8 * time.Second},
		"a_long_silence":            {before: func(r *rig) { r.fake.Hold() }, during: func(r *rig) { r.pass(time.Hour); r.fake.Release() }, want: completed(), within: time.Hour + 5*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, setup{}, func(r *rig) {
				if c.before != nil {
					c.before(r)
				}
				began := time.Now()
				run := r.launch(anna, "slow", 1)
				if c.during != nil {
					r.inPhase(run.ID, sidecar.PhaseExecuting)
					c.during(r)
				}
				run = r.finished(run.ID)
				if diff := cmp.Diff(c.want, endOf(run)); diff != "" {
					r.Error(diff)
				}
				if took := time.Since(began); took > c.within {
					r.Errorf("it took %v, more than %v", took, c.within)
				}
				r.heldOnce(run, true)
			})
		})
	}
	t.Run("the_end_is_found_though_others_move_the_queue_all_the_time", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			run := r.launch(anna, "slow", 1)
			r.inPhase(run.ID, sidecar.PhaseExecuting)
			r.deaf.Store(true)
			began := time.Now()
			for n := 2; !r.read(run.ID).Status.Terminal() && n < 60; n++ {
				r.launch(bert, "picture", n)
				r.pass(700 * time.Millisecond)
			}
			if took := time.Since(began); took > 10*time.Second {
				r.Errorf("its end was found after %v", took)
			}
		})
	})
	t.Run("messages_that_come_after_the_end_was_seen_are_told", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			r.pass(time.Second)
			r.lag.Store(int64(300 * time.Millisecond))
			run := r.finished(r.launch(anna, "picture", 1).ID)
			done := 0
			for _, kind := range r.history(run) {
				if kind == sidecar.EventNodeFinished {
					done++
				}
			}
			if done != 2 || len(run.Nodes) != 2 {
				r.Errorf("%d nodes ended, of %d", done, len(run.Nodes))
			}
		})
	})
	t.Run("an_interrupt_from_outside_cancels", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			run := r.launch(anna, "slow", 1)
			r.inPhase(run.ID, sidecar.PhaseExecuting)
			r.ask(http.MethodPost, "/interrupt", "{}")
			run = r.finished(run.ID)
			if diff := cmp.Diff(cancelled(), endOf(run)); diff != "" {
				r.Error(diff)
			}
			if run.Error != "interrupted in ComfyUI" {
				r.Error(run.Error)
			}
		})
	})
}
