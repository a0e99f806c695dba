package sidecar_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/manifest"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

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
