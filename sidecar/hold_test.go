package sidecar_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

// ordered launches what a request that is changed asks for.
func (r *rig) ordered(who sidecar.SessionID, flow string, seed int, change func(*sidecar.LaunchRequest)) *sidecar.Run {
	r.Helper()
	req := r.request(who, flow, seed)
	change(&req)
	run, err := r.studio.Launch(context.Background(), req)
	must(r, err)
	return run
}

func patiently(req *sidecar.LaunchRequest)   { req.Hold = true }
func onApproval(req *sidecar.LaunchRequest)  { req.NeedsApproval = true }
func inAnHour(req *sidecar.LaunchRequest)    { req.NotBefore = time.Now().Add(time.Hour) }
func withinAMinute(q *sidecar.LaunchRequest) { q.Limit = time.Minute }

// isHeld holds a run to what every held run is.
func (r *rig) isHeld(run *sidecar.Run, reason sidecar.WaitReason) {
	r.Helper()
	got := r.read(run.ID)
	if got.Status != sidecar.StatusSubmitted || got.Phase != sidecar.PhaseHeld || got.WaitReason() != reason {
		r.Fatalf("it is %s, %s, waiting for %q", got.Status, got.Phase, got.WaitReason())
	}
	if len(got.Slots) == 0 || len(got.Items) != 0 || got.PromptID != "" || !got.DueAt.IsZero() {
		r.Errorf("%d slots, %d items, prompt %q, due %v", len(got.Slots), len(got.Items), got.PromptID, got.DueAt)
	}
	r.until("the queue shows it", func() bool {
		return slices.ContainsFunc(r.studio.Queue(run.Scope).Held, func(e sidecar.QueueEntry) bool { return e.Run == run.ID && e.Reason == reason })
	})
}

// idle: the dispatcher knows of no run any more.
func (r *rig) idle() {
	r.Helper()
	r.until("the dispatcher is empty", func() bool {
		q := r.studio.Queue("anna").QueueState
		return q.InFlight+q.Waiting+q.Held == 0
	})
}

// ends holds a run to its end, its events, and to having left the queue.
func (r *rig) ends(run *sidecar.Run, want end) *sidecar.Run {
	r.Helper()
	got := r.finished(run.ID)
	if diff := cmp.Diff(want, endOf(got)); diff != "" {
		r.Error(got.Error, diff)
	}
	r.gapless(got)
	return got
}

func codeOf(err error) sidecar.Code {
	var told *sidecar.Error
	if errors.As(err, &told) {
		return told.Code
	}
	return ""
}

func TestHoldForTheBackend(t *testing.T) {
	t.Run("it_runs_when_comfyui_is_back", func(t *testing.T) {
		bubble(t, setup{window: 1}, func(r *rig) {
			r.net.setDown(true)
			held := []*sidecar.Run{r.ordered(anna, "picture", 1, patiently), r.ordered(bert, "picture", 2, patiently)}
			for _, run := range held {
				r.isHeld(run, sidecar.WaitBackend)
			}
			without := r.launch(anna, "picture", 3)
			r.ends(without, refusal(sidecar.OutcomeFailed, sidecar.CodeUnavailable))
			r.pass(time.Hour)
			r.net.setDown(false)
			for _, run := range held {
				if n := r.executed(r.ends(run, completed())); n.Queued != 1 {
					r.Errorf("ComfyUI had it %+v", n)
				}
			}
			r.idle()
		})
	})
	t.Run("what_may_be_no_comfyui_is_available_and_gets_none", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			gone := r.fake.Fault(comfyfake.Fault{Kind: comfyfake.Answer, Route: "/system_stats", Status: 200, Body: "<html>"})
			r.pass(time.Second)
			if c := r.studio.Health(context.Background()); !c.Available || c.Doubt == "" || c.Error != "" {
				r.Errorf("%+v", c)
			}
			run := r.ordered(anna, "picture", 1, patiently)
			r.pass(time.Minute)
			r.isHeld(run, sidecar.WaitBackend)
			gone()
			r.ends(run, completed())
		})
	})
	t.Run("it_is_handed_over_at_once_when_comfyui_is_there", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			run := r.ordered(anna, "slow", 1, patiently)
			if run.Status != sidecar.StatusRunning {
				r.Errorf("it is %s", run.Status)
			}
			r.ends(run, completed())
		})
	})
	t.Run("its_time_counts_from_its_release", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			r.net.setDown(true)
			run := r.ordered(anna, "picture", 1, func(q *sidecar.LaunchRequest) { patiently(q); withinAMinute(q) })
			r.pass(time.Hour)
			r.isHeld(run, sidecar.WaitBackend)
			r.net.setDown(false)
			r.ends(run, completed())
		})
	})
	t.Run("a_restart_meanwhile", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			r.net.setDown(true)
			run := r.ordered(anna, "picture", 1, patiently)
			r.restart()
			r.pass(time.Minute)
			r.isHeld(run, sidecar.WaitBackend)
			r.stop()
			r.net.setDown(false)
			r.start()
			r.heldOnce(r.ends(run, completed()), true)
		})
	})
	t.Run("after_an_answer_that_got_lost", func(t *testing.T) {
		for name, meanwhile := range map[string]func(*rig){
			"alive": func(*rig) {}, "with_a_restart": (*rig).restart, "when_it_could_not_be_read": func(*rig) {},
		} {
			t.Run(name, func(t *testing.T) {
				bubble(t, setup{}, func(r *rig) {
					r.fake.Fault(onPrompt(comfyfake.Refuse))
					answered := make(chan *sidecar.Run, 1)
					go func() { answered <- r.ordered(anna, "picture", 1, patiently) }()
					r.until("its answer is lost", func() bool { return r.posts(http.MethodPost, "/prompt") == 1 })
					r.store.writes.Store(true) // it is proven absent, and waits to be noted
					r.pass(5 * time.Second)
					r.net.setDown(true)
					r.store.reads.Store(name == "when_it_could_not_be_read")
					r.store.writes.Store(false)
					run := <-answered
					r.until("it waits for ComfyUI", func() bool { return r.read(run.ID).WaitReason() == sidecar.WaitBackend })
					if n := r.read(run.ID).Attempt; n != 1 {
						r.Errorf("%d attempts", n)
					}
					r.store.reads.Store(false)
					meanwhile(r)
					r.pass(time.Minute)
					r.net.setDown(false)
					if n := r.executed(r.ends(run, completed())); n.Queued != 1 {
						r.Errorf("ComfyUI had it %+v", n)
					}
					r.idle()
				})
			})
		}
	})
	t.Run("a_cancel_meanwhile", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			r.net.setDown(true)
			run := r.ordered(anna, "picture", 1, patiently)
			r.cancel(run)
			r.ends(run, cancelled())
			r.idle()
			r.net.setDown(false)
			r.pass(time.Minute)
			if n := r.executed(run); n.Queued != 0 {
				r.Errorf("ComfyUI got it: %+v", n)
			}
		})
	})
}

// TestHeldInOrder: what is released at once runs as it was launched.
func TestHeldInOrder(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(time.Time) func(*sidecar.LaunchRequest)
		release func(*rig)
	}{
		"for_the_backend": {
			func(time.Time) func(*sidecar.LaunchRequest) { return patiently },
			func(r *rig) { r.net.setDown(false) },
		},
		"for_a_time": {
			func(at time.Time) func(*sidecar.LaunchRequest) {
				return func(q *sidecar.LaunchRequest) { q.NotBefore = at }
			},
			func(r *rig) { r.net.setDown(false); r.pass(time.Hour) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, setup{window: 1}, func(r *rig) {
				r.net.setDown(true)
				change := c.change(time.Now().Add(time.Hour))
				var ids []sidecar.RunID
				for seed := range 6 {
					ids = append(ids, r.ordered(anna, "slow", seed, change).ID)
					r.pass(time.Second)
				}
				c.release(r)
				var latest time.Time
				for i, id := range ids {
					started := r.finished(id).StartedAt
					if !started.After(latest) {
						r.Errorf("run %d started at %v, the one before at %v", i, started, latest)
					}
					latest = started
				}
			})
		})
	}
}

func TestNotBefore(t *testing.T) {
	for name, meanwhile := range map[string]func(*rig){
		"alive":                  func(r *rig) { r.pass(50 * time.Minute) },
		"with_a_restart":         func(r *rig) { r.pass(50 * time.Minute); r.restart() },
		"asleep_beyond_its_time": func(r *rig) { r.stop(); r.pass(2 * time.Hour); r.start() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, setup{}, func(r *rig) {
				r.withoutSocket()
				began := time.Now()
				run := r.ordered(anna, "picture", 1, func(q *sidecar.LaunchRequest) { inAnHour(q); withinAMinute(q) })
				r.isHeld(run, sidecar.WaitTime)
				meanwhile(r)
				r.pass(9 * time.Minute)
				got := r.ends(run, completed())
				if passed := got.StartedAt.Sub(began); passed < time.Hour || passed > 2*time.Hour+time.Minute {
					r.Errorf("it started after %v", passed)
				}
				r.idle()
			})
		})
	}
	t.Run("what_has_passed_is_no_reason_to_wait", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			run := r.ordered(anna, "slow", 1, func(q *sidecar.LaunchRequest) { q.NotBefore = time.Now().Add(-time.Hour) })
			if run.Status != sidecar.StatusRunning {
				r.Errorf("it is %s", run.Status)
			}
			r.ends(run, completed())
		})
	})
	t.Run("a_time_that_cannot_be_stored_stores_nothing", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			req := r.request(anna, "picture", 1)
			req.NeedsApproval, req.NotBefore = true, time.Date(-1, 12, 31, 0, 0, 0, 0, time.UTC)
			if run, err := r.studio.Launch(context.Background(), req); err == nil {
				t.Errorf("it is accepted as %s", run.ID)
			}
			if n := len(r.runs(anna)); n != 0 {
				t.Errorf("%d runs are stored", n)
			}
			r.idle()
		})
	})
	t.Run("comfyui_is_away_when_its_time_comes", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			run := r.ordered(anna, "picture", 1, inAnHour)
			r.net.setDown(true)
			r.pass(time.Hour)
			r.until("it waits for ComfyUI", func() bool { return r.read(run.ID).WaitReason() == sidecar.WaitBackend })
			r.net.setDown(false)
			r.ends(run, completed())
		})
	})
}

func TestApproval(t *testing.T) {
	rejected := refusal(sidecar.OutcomeRejected, sidecar.CodeRunRejected)
	approve := func(r *rig, run *sidecar.Run) error {
		_, err := r.studio.Approve(context.Background(), run.Scope, run.ID)
		return err
	}
	reject := func(r *rig, run *sidecar.Run) error {
		_, err := r.studio.Reject(context.Background(), run.Scope, run.ID)
		return err
	}
	t.Run("approved", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			r.withoutSocket()
			run := r.ordered(anna, "picture", 1, onApproval)
			r.pass(24 * time.Hour)
			r.restart()
			r.isHeld(run, sidecar.WaitApproval)
			must(r, approve(r, run))
			must(r, approve(r, run)) // again changes nothing
			r.heldOnce(r.ends(run, completed()), true)
			if code := codeOf(reject(r, run)); code != sidecar.CodeNotWaiting {
				r.Errorf("a rejection afterwards: %q", code)
			}
		})
	})
	t.Run("approved_after_it_could_not_be_read", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			r.pass(time.Second) // the start is over
			r.store.reads.Store(true)
			run := r.ordered(anna, "picture", 1, onApproval)
			r.store.reads.Store(false)
			r.isHeld(run, sidecar.WaitApproval)
			must(r, approve(r, run))
			r.ends(run, completed())
			r.idle()
		})
	})
	t.Run("rejected", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			run := r.ordered(anna, "picture", 1, onApproval)
			must(r, reject(r, run))
			must(r, reject(r, run))
			r.ends(run, rejected)
			r.idle()
			if code := codeOf(approve(r, run)); code != sidecar.CodeNotWaiting {
				r.Errorf("an approval afterwards: %q", code)
			}
		})
	})
	t.Run("and_its_time", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			r.withoutSocket()
			run := r.ordered(anna, "picture", 1, func(q *sidecar.LaunchRequest) { onApproval(q); inAnHour(q) })
			r.isHeld(run, sidecar.WaitApproval)
			must(r, approve(r, run))
			r.isHeld(run, sidecar.WaitTime)
			r.pass(time.Hour)
			r.ends(run, completed())
			late := r.ordered(anna, "picture", 2, func(q *sidecar.LaunchRequest) { onApproval(q); inAnHour(q) })
			r.pass(2 * time.Hour)
			r.isHeld(late, sidecar.WaitApproval)
			must(r, approve(r, late))
			r.ends(late, completed())
		})
	})
	t.Run("of_others_and_of_what_does_not_wait", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			run := r.ordered(anna, "picture", 1, onApproval)
			if _, err := r.studio.Approve(context.Background(), "bert", run.ID); codeOf(err) != sidecar.CodeNotFound {
				r.Errorf("bert approved it: %v", err)
			}
			r.cancel(run)
			r.ends(run, cancelled())
			if code := codeOf(approve(r, run)); code != sidecar.CodeNotWaiting {
				r.Errorf("a cancelled one: %q", code)
			}
			plain := r.ordered(anna, "picture", 2, inAnHour)
			if code := codeOf(reject(r, plain)); code != sidecar.CodeNotWaiting {
				r.Errorf("one that waits for its time: %q", code)
			}
			r.isHeld(plain, sidecar.WaitTime)
		})
	})
}
