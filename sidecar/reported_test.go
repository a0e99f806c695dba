package sidecar_test

import (
	"context"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/artifact"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

// TestReported plays what users of neighbouring programs report.
func TestReported(t *testing.T) {
	t.Run("the_socket_breaks_between_the_last_node_and_the_end", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			r.pass(time.Second)
			r.fake.Hold()
			run := r.launch(anna, "picture", 1)
			atLast := func() bool {
				return slices.ContainsFunc(r.read(run.ID).Nodes, func(n sidecar.NodeRun) bool { return n.Node == "2" })
			}
			for !atLast() { // each node waits at the gate
				r.fake.Release()
				r.fake.Hold()
				r.pass(10 * time.Millisecond)
			}
			r.fake.Fault(comfyfake.Fault{Kind: comfyfake.Refuse, Route: "/ws"})
			r.fake.DropSockets()
			r.pass(time.Second)
			r.fake.Release()
			began := time.Now()
			if diff := cmp.Diff(completed(), endOf(r.finished(run.ID))); diff != "" {
				r.Error(diff)
			}
			if took := time.Since(began); took > 4*time.Second {
				r.Errorf("its end was found after %v", took)
			}
		})
	})
	t.Run("comfyui_takes_a_minute_to_start", func(t *testing.T) {
		bubble(t, setup{window: 1}, func(r *rig) {
			first, second := r.launch(anna, "slow", 1), r.launch(anna, "slow", 2)
			r.net.setDown(true)
			r.cancel(first)
			r.pass(40 * time.Second)
			release := r.fake.Fault(comfyfake.Fault{Kind: comfyfake.Answer, Status: 503, Body: "starting"})
			r.net.setDown(false)
			r.pass(10 * time.Second)
			release()
			began := time.Now()
			run := r.finished(second.ID)
			if diff := cmp.Diff(completed(), endOf(run)); diff != "" {
				r.Error(run.Error, diff)
			}
			if took := time.Since(began); took > 15*time.Second {
				r.Errorf("it took %v", took)
			}
			if n := r.executed(run); n.Queued != 1 || n.Executed != 1 {
				r.Errorf("ComfyUI had it %+v", n)
			}
		})
	})
	generations(t, func(t *testing.T, s setup) {
		t.Run("one_cancel_of_one_session_stops_nobody_else", func(t *testing.T) {
			bubble(t, s, func(r *rig) {
				r.pass(time.Second)
				r.fake.Hold()
				var all []*sidecar.Run
				for n := range 6 {
					all = append(all, r.launch([]sidecar.SessionID{anna, bert}[n%2], "slow", n))
				}
				r.inPhase(all[0].ID, sidecar.PhaseExecuting)
				for _, victim := range []*sidecar.Run{all[0], all[3]} { // one that executes, one that waits
					r.isCancelled(r.cancel(victim))
				}
				r.fake.Release()
				for i, launched := range all {
					want := completed()
					if i == 0 || i == 3 {
						want = cancelled()
					}
					if diff := cmp.Diff(want, endOf(r.finished(launched.ID))); diff != "" {
						r.Errorf("run %d: %s", i, diff)
					}
				}
				r.queueEmpty()
			})
		})
	})
	t.Run("a_cancel_that_comes_too_late_for_comfyui_brings_nothing_back", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			r.fake.Fault(comfyfake.Fault{Kind: comfyfake.IgnoreInterrupt})
			run := r.launch(anna, "slow", 1)
			r.inPhase(run.ID, sidecar.PhaseExecuting)
			r.cancel(run)
			run = r.finished(run.ID)
			r.isCancelled(run)
			r.pass(time.Minute)
			page, err := r.studio.Gallery(context.Background(), sidecar.ItemFilter{Scope: "anna"})
			must(r, err)
			if len(page.Items) != 0 {
				r.Errorf("the gallery shows %+v", page.Items)
			}
		})
	})
	t.Run("the_same_again_shows_the_same_picture", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			r.stop()
			copies, err := artifact.Open(t.TempDir())
			must(r, err)
			defer func() { must(r, copies.Close()) }()
			r.copies = copies
			r.start()
			defer r.stop()
			r.finished(r.launch(anna, "temp", 1).ID)
			run := r.finished(r.launch(anna, "temp", 1).ID)
			want := completed()
			want.Outcome = sidecar.OutcomeCached
			if diff := cmp.Diff(want, endOf(run)); diff != "" {
				r.Error(diff)
			}
			must(r, r.fake.Restart()) // its temporary files are gone
			address, err := url.Parse(run.Items[0].URL)
			must(r, err)
			file, err := copies.Open(address.Query().Get("serve_artifact"))
			must(r, err)
			must(r, file.Close())
		})
	})
}
