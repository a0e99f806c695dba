package sidecar_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// TestEnd: what becomes of a run when nothing is in its way.
func TestEnd(t *testing.T) {
	five := completed()
	five.Items = items(sidecar.ItemDone, sidecar.ItemDone, sidecar.ItemDone, sidecar.ItemDone, sidecar.ItemDone)
	cases := map[string]struct {
		flow     string
		want     end
		executed int
	}{
		"a_picture_completes":                         {"picture", completed(), 1},
		"a_batch_of_five_has_five_items":              {"batch", five, 1},
		"a_text_is_an_item":                           {"text", completed(), 1},
		"a_node_that_raises_fails_the_run":            {"broken", errored(sidecar.OutcomeFailed, sidecar.CodeExecution), 1},
		"a_400_rejects":                               {"refused", refusal(sidecar.OutcomeRejected, sidecar.CodeRejected), 0},
		"an_output_that_comfyui_drops_rejects":        {"touched", refusal(sidecar.OutcomeRejected, sidecar.CodeRejected), 1},
		"a_dropped_node_that_nobody_wants_is_no_harm": {"untouched", completed(), 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			bubble(t, setup{}, func(r *rig) {
				run := r.finished(r.launch(anna, c.flow, 1).ID)
				if diff := cmp.Diff(c.want, endOf(run)); diff != "" {
					r.Error(diff)
				}
				if n := r.executed(run).Executed; n > c.executed {
					r.Errorf("executed %d times", n)
				}
			})
		})
	}
	t.Run("events_come_in_order", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			r.pass(time.Second) // until the socket is there
			run := r.finished(r.launch(anna, "picture", 1).ID)
			want := []sidecar.EventType{
				sidecar.EventRunStarted,
				sidecar.EventRunProgress, // handed over
				sidecar.EventRunProgress, // queued
				sidecar.EventRunProgress, // executing
				sidecar.EventNodeStarted, sidecar.EventNodeFinished, sidecar.EventNodeStarted, sidecar.EventNodeFinished,
				sidecar.EventRunProgress, // collecting
				sidecar.EventOutputCompleted, sidecar.EventRunCompleted,
			}
			if diff := cmp.Diff(want, r.history(run)); diff != "" {
				r.Error(diff)
			}
		})
	})
	t.Run("a_second_run_of_the_same_is_cached", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			r.finished(r.launch(anna, "text", 1).ID)
			run := r.finished(r.launch(anna, "text", 1).ID)
			want := completed()
			want.Outcome = sidecar.OutcomeCached
			if diff := cmp.Diff(want, endOf(run)); diff != "" {
				r.Error(diff)
			}
		})
	})
	t.Run("what_comfyui_dropped_without_harm_is_a_warning", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			run := r.finished(r.launch(anna, "untouched", 1).ID)
			var doc struct {
				Issues []struct{ Code, Severity, Node_ID string }
			}
			must(r, json.Unmarshal(run.Result, &doc))
			if len(doc.Issues) != 1 || doc.Issues[0].Severity != "warning" || doc.Issues[0].Code != "comfyui_node_error" {
				r.Errorf("issues of %s", run.Result)
			}
		})
	})
}
