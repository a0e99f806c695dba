package sidecar_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/comfygit-ai/studio-sidecar/manifest"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// newRun is a run as Launch stores it: two outputs, nothing handed over.
func newRun() *sidecar.Run {
	r := &sidecar.Run{
		ID: "run_1", Session: "s", Scope: "s", Workflow: "w", Contract: "c",
		Status: sidecar.StatusSubmitted, Inputs: json.RawMessage(`{"seed":18446744073709551615}`),
		CreatedAt: noon, UpdatedAt: noon,
		State: sidecar.State{Phase: sidecar.PhaseSubmitting, Prompt: "p-1", Graph: "sha256:g"},
	}
	for i, name := range []string{"image", "text"} {
		r.Slots = append(r.Slots, sidecar.Slot{
			ID: sidecar.SlotID("slot_run_1_" + string(rune('0'+i)) + "_" + name), Index: i, Name: name,
			Type: map[string]string{"image": "image", "text": "json"}[name], Status: sidecar.SlotPending,
			Width: 1, Height: 1, CreatedAt: noon, UpdatedAt: noon,
		})
	}
	return r
}

func strp(s string) *string { return &s }

func pictures(n int) sidecar.Result {
	res := sidecar.Result{Result: manifest.Result{Name: "image", Type: "image", NodeID: "2"}}
	for i := range n {
		name := "p_" + string(rune('0'+i)) + ".png"
		res.Artifacts = append(res.Artifacts, manifest.Artifact{
			Filename: strp(name), Subfolder: strp(""), Type: strp("output"), Raw: json.RawMessage(`{"filename":"` + name + `"}`),
		})
		res.Files = append(res.Files, sidecar.File{Width: 64, Height: 48})
	}
	return res
}

func noText() sidecar.Result {
	return sidecar.Result{Result: manifest.Result{Name: "text", Type: "string", NodeID: "3"}}
}

func finished(n int) sidecar.Signal {
	return sidecar.Signal{Kind: sidecar.SignalFinished, Results: []sidecar.Result{pictures(n), noText()}}
}

func failed() sidecar.Signal {
	return sidecar.Signal{Kind: sidecar.SignalFailed, Failure: &sidecar.Failure{Code: "comfyui_execution_failed", Message: "it broke"}}
}

// signalOf makes a full signal of a kind.
func signalOf(kind sidecar.SignalKind) sidecar.Signal {
	switch kind {
	case sidecar.SignalFinished:
		return finished(1)
	case sidecar.SignalFailed, sidecar.SignalCancelRefused:
		sig := failed()
		sig.Kind = kind
		return sig
	case sidecar.SignalAccepted:
		return sidecar.Signal{Kind: kind, PromptID: "p-1"}
	}
	return sidecar.Signal{Kind: kind, Node: sidecar.NodeRef{ID: "1", Class: "EmptyImage"}, Nodes: []sidecar.NodeRef{{ID: "2"}}}
}

func kinds(ks ...sidecar.SignalKind) []sidecar.Signal {
	var out []sidecar.Signal
	for _, k := range ks {
		out = append(out, signalOf(k))
	}
	return out
}

// stages are all places that a run can be in, and how it gets there.
var stages = map[string][]sidecar.Signal{
	"new":            nil,
	"handed":         kinds(sidecar.SignalHanding),
	"queued":         kinds(sidecar.SignalHanding, sidecar.SignalAccepted),
	"executing":      kinds(sidecar.SignalHanding, sidecar.SignalAccepted, sidecar.SignalStarted),
	"collecting":     kinds(sidecar.SignalHanding, sidecar.SignalAccepted, sidecar.SignalCollecting),
	"completed":      kinds(sidecar.SignalHanding, sidecar.SignalAccepted, sidecar.SignalFinished),
	"error":          kinds(sidecar.SignalHanding, sidecar.SignalAccepted, sidecar.SignalFailed),
	"rejected":       kinds(sidecar.SignalFailed),
	"lost":           kinds(sidecar.SignalHanding, sidecar.SignalAccepted, sidecar.SignalLost),
	"interrupted":    kinds(sidecar.SignalHanding, sidecar.SignalAccepted, sidecar.SignalInterrupted),
	"cancelled new":  kinds(sidecar.SignalCancel),
	"cancelling":     kinds(sidecar.SignalHanding, sidecar.SignalAccepted, sidecar.SignalCancel),
	"cancel settled": kinds(sidecar.SignalHanding, sidecar.SignalAccepted, sidecar.SignalCancel, sidecar.SignalSettled),
	"timed out":      kinds(sidecar.SignalHanding, sidecar.SignalAccepted, sidecar.SignalTimedOut),
	"again":          kinds(sidecar.SignalHanding, sidecar.SignalAccepted, sidecar.SignalStarted, sidecar.SignalAgain),
	"second time": kinds(sidecar.SignalHanding, sidecar.SignalAccepted, sidecar.SignalStarted, sidecar.SignalAgain,
		sidecar.SignalHanding, sidecar.SignalAccepted, sidecar.SignalStarted),
}

type place struct {
	Status  sidecar.Status
	Phase   sidecar.Phase
	Outcome sidecar.Outcome
}

func placeOf(r *sidecar.Run) place { return place{r.Status, r.Phase, r.Outcome} }

func at(stage string) *sidecar.Run {
	r := newRun()
	for i, sig := range stages[stage] {
		r.Apply(sig, noon.Add(time.Duration(i)*time.Second))
	}
	return r
}

// TestApplyTable holds every place × signal pair to where it must lead. A pair
// that is not in moves changes neither status, phase nor outcome.
func TestApplyTable(t *testing.T) {
	const (
		running, completed, errored, cancelled = sidecar.StatusRunning, sidecar.StatusCompleted, sidecar.StatusError, sidecar.StatusCancelled
	)
	ended := map[sidecar.SignalKind]place{
		sidecar.SignalFinished:    {completed, sidecar.PhaseFinished, sidecar.OutcomeCompleted},
		sidecar.SignalFailed:      {errored, sidecar.PhaseFinished, sidecar.OutcomeFailed},
		sidecar.SignalLost:        {errored, sidecar.PhaseFinished, sidecar.OutcomeLost},
		sidecar.SignalAgain:       {errored, sidecar.PhaseFinished, sidecar.OutcomeLost},
		sidecar.SignalInterrupted: {cancelled, sidecar.PhaseFinished, sidecar.OutcomeCancelled},
		sidecar.SignalCancel:      {cancelled, sidecar.PhaseCancelling, sidecar.OutcomeCancelled},
		sidecar.SignalTimedOut:    {errored, sidecar.PhaseCancelling, sidecar.OutcomeTimedOut},
	}
	with := func(more map[sidecar.SignalKind]place) map[sidecar.SignalKind]place {
		out := map[sidecar.SignalKind]place{}
		for k, v := range ended {
			out[k] = v
		}
		for k, v := range more {
			out[k] = v
		}
		return out
	}
	executing := place{running, sidecar.PhaseExecuting, ""}
	again := place{running, sidecar.PhaseSubmitting, ""}
	moves := map[string]map[sidecar.SignalKind]place{
		"new": with(map[sidecar.SignalKind]place{
			sidecar.SignalAccepted: {running, sidecar.PhaseQueued, ""},
			sidecar.SignalCancel:   {cancelled, sidecar.PhaseFinished, sidecar.OutcomeCancelled},
			sidecar.SignalTimedOut: {errored, sidecar.PhaseFinished, sidecar.OutcomeTimedOut},
		}),
		"handed": with(map[sidecar.SignalKind]place{
			sidecar.SignalAccepted: {running, sidecar.PhaseQueued, ""},
		}),
		"queued": with(map[sidecar.SignalKind]place{
			sidecar.SignalStarted: executing, sidecar.SignalCached: executing,
			sidecar.SignalNodeStarted: executing, sidecar.SignalNodeFinished: executing,
			sidecar.SignalCollecting: {running, sidecar.PhaseCollecting, ""}, sidecar.SignalAgain: again,
		}),
		"executing": with(map[sidecar.SignalKind]place{
			sidecar.SignalCollecting: {running, sidecar.PhaseCollecting, ""}, sidecar.SignalAgain: again,
		}),
		"collecting":  with(map[sidecar.SignalKind]place{sidecar.SignalAgain: again}),
		"again":       with(map[sidecar.SignalKind]place{sidecar.SignalAccepted: {running, sidecar.PhaseQueued, ""}}),
		"second time": with(map[sidecar.SignalKind]place{sidecar.SignalCollecting: {running, sidecar.PhaseCollecting, ""}}),
		"cancelling":  {sidecar.SignalSettled: {cancelled, sidecar.PhaseFinished, sidecar.OutcomeCancelled}},
		"timed out":   {sidecar.SignalSettled: {errored, sidecar.PhaseFinished, sidecar.OutcomeTimedOut}},
	}
	for stage := range stages {
		for _, kind := range sidecar.SignalKinds {
			t.Run(stage+"/"+string(kind), func(t *testing.T) {
				r := at(stage)
				want, moved := moves[stage][kind]
				if !moved {
					want = placeOf(r)
				}
				before := r.Revision
				events := r.Apply(signalOf(kind), noon.Add(time.Hour))
				if got := placeOf(r); got != want {
					t.Errorf("got %+v, want %+v", got, want)
				}
				if moved && len(events) == 0 {
					t.Error("it moved without an event")
				}
				if int64(len(events)) != r.Revision-before {
					t.Errorf("%d events raised the revision by %d", len(events), r.Revision-before)
				}
			})
		}
	}
}

func TestApply(t *testing.T) {
	t.Run("terminal states absorb whatever comes", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			r := newRun()
			ended := sidecar.Status("")
			for _, kind := range rapid.SliceOfN(rapid.SampledFrom(sidecar.SignalKinds), 1, 30).Draw(t, "signals") {
				r.Apply(signalOf(kind), noon)
				if ended != "" && r.Status != ended {
					t.Fatalf("%s revived a run that was %s: %s", kind, ended, r.Status)
				}
				if r.Status.Terminal() {
					ended = r.Status
				}
			}
		})
	})
	t.Run("revisions have no gap", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			r := newRun()
			var last int64
			for _, kind := range rapid.SliceOf(rapid.SampledFrom(sidecar.SignalKinds)).Draw(t, "signals") {
				for _, e := range r.Apply(signalOf(kind), noon) {
					if last++; e.Revision != last {
						t.Fatalf("revision %d follows %d", e.Revision, last-1)
					}
					if !json.Valid(e.Targets) {
						t.Fatalf("targets are no JSON: %s", e.Targets)
					}
				}
			}
		})
	})
	t.Run("handing over names the prompt and counts", func(t *testing.T) {
		r := at("new")
		if r.PromptID != "" {
			t.Fatalf("a prompt id before ComfyUI was asked: %q", r.PromptID)
		}
		r.Apply(signalOf(sidecar.SignalHanding), noon)
		if r.PromptID != "p-1" || r.Attempt != 1 {
			t.Errorf("got prompt %q, attempt %d", r.PromptID, r.Attempt)
		}
	})
	t.Run("an answered prompt id is adopted", func(t *testing.T) {
		r := at("handed")
		r.Apply(sidecar.Signal{Kind: sidecar.SignalAccepted, PromptID: "other"}, noon)
		if r.PromptID != "other" {
			t.Errorf("got %q", r.PromptID)
		}
	})
	t.Run("an answer after the cancel keeps the id so that the prompt can be dropped", func(t *testing.T) {
		r := at("handed")
		r.Apply(signalOf(sidecar.SignalCancel), noon)
		r.Apply(sidecar.Signal{Kind: sidecar.SignalAccepted, PromptID: "other"}, noon)
		if r.PromptID != "other" || r.Status != sidecar.StatusCancelled || len(r.Items) != 0 {
			t.Errorf("got prompt %q, status %s, %d items", r.PromptID, r.Status, len(r.Items))
		}
	})
	t.Run("everything cached is told apart", func(t *testing.T) {
		r := at("executing")
		sig := finished(1)
		sig.AllCached = true
		r.Apply(sig, noon)
		if r.Outcome != sidecar.OutcomeCached {
			t.Errorf("got %s", r.Outcome)
		}
	})
	t.Run("a failure before acceptance leaves one fault and no slots", func(t *testing.T) {
		r := at("handed")
		r.Apply(failed(), noon)
		if len(r.Slots) != 0 || len(r.Items) != 1 || r.Items[0].Type != "image" || r.Items[0].Slot != "" {
			t.Errorf("got %d slots and items %+v", len(r.Slots), r.Items)
		}
	})
	t.Run("a refused cancel is noted in the result", func(t *testing.T) {
		r := at("cancelling")
		r.Apply(signalOf(sidecar.SignalCancelRefused), noon)
		var doc map[string]any
		if err := json.Unmarshal(r.Result, &doc); err != nil {
			t.Fatal(err)
		}
		want := map[string]any{"error": "comfyui_execution_failed", "message": "it broke"}
		if diff := cmp.Diff(want, doc["remote_cancel"]); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("nodes of one attempt are rows, once", func(t *testing.T) {
		r := at("executing")
		for range 2 {
			r.Apply(signalOf(sidecar.SignalNodeStarted), noon)
			r.Apply(signalOf(sidecar.SignalNodeFinished), noon.Add(time.Second))
			r.Apply(signalOf(sidecar.SignalCached), noon)
		}
		want := []sidecar.NodeRun{
			{Node: "1", Attempt: 1, Class: "EmptyImage", StartedAt: noon, FinishedAt: noon.Add(time.Second)},
			{Node: "2", Attempt: 1, Cached: true, StartedAt: noon, FinishedAt: noon},
		}
		if diff := cmp.Diff(want, r.Nodes); diff != "" {
			t.Error(diff)
		}
	})
}

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
