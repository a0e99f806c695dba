package sidecar_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/manifest"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

func TestApplyItems(t *testing.T) {
	type tile struct {
		ID      sidecar.ItemID
		Status  sidecar.ItemStatus
		Type    string
		Size    [2]int
		Created time.Duration
	}
	tiles := func(r *sidecar.Run) []tile {
		var out []tile
		for _, i := range r.Items {
			out = append(out, tile{i.ID, i.Status, i.Type, [2]int{i.Width, i.Height}, i.CreatedAt.Sub(noon)})
		}
		return out
	}
	t.Run("a pending tile for each slot becomes the finished one", func(t *testing.T) {
		r := at("executing")
		want := []tile{
			{"gallery_run_1", sidecar.ItemPending, "image", [2]int{1, 1}, 0},
			{"gallery_slot_run_1_1_text", sidecar.ItemPending, "json", [2]int{1, 1}, -time.Millisecond},
		}
		if diff := cmp.Diff(want, tiles(r)); diff != "" {
			t.Error(diff)
		}
		r.Apply(finished(1), noon)
		want = []tile{
			{"gallery_run_1", sidecar.ItemDone, "image", [2]int{64, 48}, 0},
			{"gallery_slot_run_1_1_text", sidecar.ItemDone, "json", [2]int{1, 1}, -time.Millisecond},
		}
		if diff := cmp.Diff(want, tiles(r)); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("files of a batch keep their order, one millisecond apart", func(t *testing.T) {
		r := at("executing")
		r.Apply(finished(3), noon)
		var order []string
		for k := range 4 {
			for _, i := range r.Items {
				if i.CreatedAt.Equal(noon.Add(-time.Duration(k) * time.Millisecond)) {
					order = append(order, i.Filename)
				}
			}
		}
		if diff := cmp.Diff([]string{"p_0.png", "p_1.png", "p_2.png", ""}, order); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("files stand before what has none", func(t *testing.T) {
		r := at("executing")
		end, name := finished(2), "x.txt"
		end.Results[0].Artifacts, end.Results[0].Files = []manifest.Artifact{{Text: "x"}}, []sidecar.File{{}}
		end.Results[1].Artifacts, end.Results[1].Files = []manifest.Artifact{{Filename: &name}}, []sidecar.File{{}}
		r.Apply(end, noon)
		newest := slices.MaxFunc(r.Items, func(a, b sidecar.Item) int { return a.CreatedAt.Compare(b.CreatedAt) })
		if newest.Output != "text" || len(r.Items) != 2 {
			t.Errorf("%d items, the newest of %q", len(r.Items), newest.Output)
		}
	})
	t.Run("ids are the same when the same end is applied to a copy", func(t *testing.T) {
		a, b := at("executing"), at("executing")
		a.Apply(finished(3), noon)
		b.Apply(finished(3), noon)
		if diff := cmp.Diff(tiles(a), tiles(b)); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("a tile deleted while pending stays deleted", func(t *testing.T) {
		r := at("executing")
		before := *r
		events := r.DeleteItem("gallery_run_1", noon.Add(time.Hour))
		if len(events) != 1 || events[0].Revision != before.Revision+1 || !strings.Contains(string(events[0].Targets), `"items/gallery_run_1":null`) {
			t.Errorf("told as %+v", events)
		}
		if r.Revision != before.Revision+1 || !r.UpdatedAt.Equal(before.UpdatedAt) {
			t.Errorf("revision %d, updated %s", r.Revision, r.UpdatedAt)
		}
		if r.DeleteItem("gallery_run_1", noon) != nil {
			t.Error("it was deleted twice")
		}
		r.Apply(finished(2), noon)
		for _, i := range r.Items {
			if i.Slot == "slot_run_1_0_image" {
				t.Errorf("%s came back", i.ID)
			}
		}
		if r.Slots[0].Status != sidecar.SlotDone {
			t.Errorf("slot is %s", r.Slots[0].Status)
		}
	})
	t.Run("a cancel takes the pending tiles away", func(t *testing.T) {
		r := at("cancelling")
		if len(r.Items) != 0 {
			t.Errorf("left: %+v", tiles(r))
		}
		for _, s := range r.Slots {
			if s.Status != sidecar.SlotCancelled {
				t.Errorf("slot %s is %s", s.Name, s.Status)
			}
		}
	})
	t.Run("an accepted run that fails has a fault for each slot", func(t *testing.T) {
		r := at("error")
		for _, i := range r.Items {
			if i.Status != sidecar.ItemError || i.Error != "it broke" {
				t.Errorf("%s is %s: %s", i.ID, i.Status, i.Error)
			}
		}
		if len(r.Items) != 2 {
			t.Errorf("%d items", len(r.Items))
		}
	})
	t.Run("big integers of the inputs keep their digits", func(t *testing.T) {
		r := at("completed")
		if got := string(r.Items[0].Inputs); got != `{"seed":18446744073709551615}` {
			t.Error(got)
		}
	})
}

func TestResultDocuments(t *testing.T) {
	decode := func(raw json.RawMessage) map[string]any {
		var doc map[string]any
		if err := json.Unmarshal(raw, &doc); err != nil {
			t.Fatal(err)
		}
		return doc
	}
	artifact := map[string]any{
		"filename": "p_0.png", "subfolder": "", "type": "output", "raw": map[string]any{"filename": "p_0.png"},
		"url": "/outputs/view?filename=p_0.png&subfolder=&type=output", "width": 64.0, "height": 48.0,
	}
	cases := map[string]map[string]any{
		"executing": {"status": "running", "run_id": "run_1", "prompt_id": "p-1", "issues": []any{}},
		"completed": {
			"status": "completed", "run_id": "run_1", "prompt_id": "p-1", "issues": []any{},
			"outputs": []any{
				map[string]any{"name": "image", "type": "image", "node_id": "2", "selector": nil, "artifacts": []any{artifact}},
				map[string]any{"name": "text", "type": "string", "node_id": "3", "selector": nil, "artifacts": []any{}},
			},
		},
		"cancelling": {"status": "cancelled", "run_id": "run_1", "prompt_id": "p-1", "message": "Generation cancelled."},
		"error":      {"error": "comfyui_execution_failed", "message": "it broke", "prompt_id": "p-1"},
		"rejected":   {"error": "comfyui_execution_failed", "message": "it broke"},
	}
	for stage, want := range cases {
		t.Run(stage, func(t *testing.T) {
			if diff := cmp.Diff(want, decode(at(stage).Result)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
