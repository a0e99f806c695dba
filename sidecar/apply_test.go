package sidecar_test

import (
	"encoding/json"
	"maps"
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
	case sidecar.SignalReleased:
		return sidecar.Signal{Kind: kind, Wait: sidecar.WaitBackend}
	case sidecar.SignalRejected:
		return sidecar.Signal{Kind: kind, Failure: &sidecar.Failure{Code: "run_rejected", Message: "no", Outcome: sidecar.OutcomeRejected}}
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
	"held":           kinds(sidecar.SignalHanding, sidecar.SignalHeld),
	"released":       kinds(sidecar.SignalHanding, sidecar.SignalHeld, sidecar.SignalReleased),
	"for approval":   nil,
	"approved":       kinds(sidecar.SignalApproved),
	"not approved":   kinds(sidecar.SignalRejected),
	"held cancelled": kinds(sidecar.SignalHanding, sidecar.SignalHeld, sidecar.SignalCancel),
}

// waits are the stages of runs that wait for something beside their turn.
var waits = map[string]sidecar.Hold{
	"held": {Backend: true}, "released": {Backend: true}, "held cancelled": {Backend: true},
	"for approval": forApproval, "approved": forApproval, "not approved": forApproval,
}

var forApproval = sidecar.Hold{Approval: true, Pending: []sidecar.WaitReason{sidecar.WaitApproval}, Limit: time.Hour}

type place struct {
	Status  sidecar.Status
	Phase   sidecar.Phase
	Outcome sidecar.Outcome
}

func placeOf(r *sidecar.Run) place { return place{r.Status, r.Phase, r.Outcome} }

func at(stage string) *sidecar.Run {
	r := newRun()
	if h, waits := waits[stage]; waits {
		r.Hold = &h
		if len(h.Pending) > 0 {
			r.Phase = sidecar.PhaseHeld
		}
	}
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
	fresh := with(map[sidecar.SignalKind]place{
		sidecar.SignalAccepted: {running, sidecar.PhaseQueued, ""},
		sidecar.SignalCancel:   {cancelled, sidecar.PhaseFinished, sidecar.OutcomeCancelled},
		sidecar.SignalTimedOut: {errored, sidecar.PhaseFinished, sidecar.OutcomeTimedOut},
		sidecar.SignalFront:    {sidecar.StatusSubmitted, sidecar.PhaseSubmitting, ""},
	})
	patient, held := maps.Clone(fresh), sidecar.PhaseHeld
	patient[sidecar.SignalHeld] = place{sidecar.StatusSubmitted, held, ""}
	waiting := map[sidecar.SignalKind]place{
		sidecar.SignalFailed:   {errored, sidecar.PhaseFinished, sidecar.OutcomeFailed},
		sidecar.SignalRejected: {errored, sidecar.PhaseFinished, sidecar.OutcomeRejected},
		sidecar.SignalCancel:   {cancelled, sidecar.PhaseFinished, sidecar.OutcomeCancelled},
	}
	forBackend, forApproval := maps.Clone(waiting), maps.Clone(waiting)
	forBackend[sidecar.SignalReleased] = place{sidecar.StatusSubmitted, sidecar.PhaseSubmitting, ""}
	forApproval[sidecar.SignalApproved] = forBackend[sidecar.SignalReleased]
	moves := map[string]map[sidecar.SignalKind]place{
		"new": fresh, "released": patient, "approved": patient,
		"held": forBackend, "for approval": forApproval,
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
