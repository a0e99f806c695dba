package sidecar

import (
	"encoding/json"
	"slices"
	"time"
)

// WaitReason says what a held run waits for.
type WaitReason string

// The reasons to wait, in the order in which a run that has several is told
// to wait for them.
const (
	WaitApproval WaitReason = "approval" // somebody has to approve it
	WaitParent   WaitReason = "parent"   // the run that it follows has to complete
	WaitTime     WaitReason = "time"     // it is not time yet
	WaitBackend  WaitReason = "backend"  // ComfyUI is away
)

// Hold is what a run waits for, or waited for, beside its turn. It is never
// written into: a change makes another.
type Hold struct {
	// Pending is what the run still waits for.
	Pending []WaitReason `json:"pending,omitempty"`
	// Backend is set when the run was accepted whether or not ComfyUI is there.
	Backend   bool      `json:"backend,omitempty"`
	Approval  bool      `json:"approval,omitempty"`
	NotBefore time.Time `json:"not_before,omitzero"`
	After     *After    `json:"after,omitempty"`
	// Limit is how long the run may take once it is released.
	Limit time.Duration `json:"limit,omitempty"`
}

// After makes a run follow another: it is built when that one, its parent, has
// completed.
type After struct {
	Run RunID `json:"-"`
	// Inputs are the inputs that are filled from the parent, each with the
	// name of the output whose first file or text it gets.
	Inputs []Feed `json:"inputs,omitempty"`
	// Values are the other inputs as they were given, a JSON object; empty
	// once the run is built.
	Values json.RawMessage `json:"values,omitempty"`
}

// Feed is an input that gets what an output of another run made.
type Feed struct {
	Input  string `json:"input"`
	Output string `json:"output"`
}

// WaitReason is what a held run waits for first; empty when it is not held.
func (r *Run) WaitReason() WaitReason {
	if r.Phase != PhaseHeld || r.Hold == nil || len(r.Hold.Pending) == 0 {
		return ""
	}
	return r.Hold.Pending[0]
}

// WaitsFor says in words what a run waits for that was not handed over.
func (r *Run) WaitsFor() string {
	switch r.WaitReason() {
	case WaitApproval:
		return "approval"
	case WaitParent:
		return "the run that it follows"
	case WaitTime:
		return "the time that it was told to wait for"
	case WaitBackend:
		return "its backend, which is away"
	}
	return "its turn"
}

// Awaits tells whether reason is among what a held run waits for.
func (r *Run) Awaits(reason WaitReason) bool {
	return r.Phase == PhaseHeld && r.Hold != nil && slices.Contains(r.Hold.Pending, reason)
}

// waitsForTurn tells that the run may be handed over, and was not yet.
func (r *Run) waitsForTurn() bool {
	return r.Status == StatusSubmitted && r.Phase == PhaseSubmitting && r.Attempt == 0 && !r.Accepted
}

// mayBeHeld tells that the run may wait for the backend to come back: it was
// asked to wait for something, and the backend never had it.
func (r *Run) mayBeHeld() bool {
	return r.Hold != nil && r.Status == StatusSubmitted && r.Phase == PhaseSubmitting && !r.Accepted
}

// newHold is what a new run waits for beside its turn; nil: nothing.
func newHold(req LaunchRequest, limit time.Duration, now time.Time) *Hold {
	h := Hold{Backend: req.Hold, Approval: req.NeedsApproval, NotBefore: req.NotBefore, After: req.After, Limit: limit}
	if h.Approval {
		h.Pending = append(h.Pending, WaitApproval)
	}
	if h.After != nil {
		h.Pending = append(h.Pending, WaitParent)
	}
	if h.NotBefore.After(now) {
		h.Pending = append(h.Pending, WaitTime)
	}
	if len(h.Pending) == 0 && !h.Backend {
		return nil
	}
	return &h
}

// hold makes a run that is about to be stored wait for h. Its time runs from
// its release on.
func (r *Run) hold(h *Hold) {
	r.Hold = h
	if h == nil || len(h.Pending) == 0 {
		return
	}
	r.Phase, r.DueAt = PhaseHeld, time.Time{}
}

// whileHeld: only what a held run waits for, and its end, moves it.
func (t *transition) whileHeld(sig Signal) {
	r := t.run
	switch sig.Kind {
	case SignalApproved:
		t.met(WaitApproval)
	case SignalReleased:
		if r.Awaits(sig.Wait) && (sig.Wait != WaitParent || sig.Bound != nil) {
			t.bind(sig.Bound)
			t.met(sig.Wait)
		}
	case SignalRejected, SignalFailed, SignalCancel:
		t.stop(sig)
	}
}

// met takes a reason away, and lets the run go when it was the last.
func (t *transition) met(reason WaitReason) {
	r := t.run
	if !r.Awaits(reason) {
		return
	}
	h := *r.Hold
	h.Pending = slices.DeleteFunc(slices.Clone(h.Pending), func(p WaitReason) bool { return p == reason })
	r.Hold = &h
	if len(h.Pending) > 0 {
		t.phase(PhaseHeld)
		return
	}
	if h.Limit > 0 {
		r.DueAt = t.now.Add(h.Limit)
	}
	t.phase(PhaseSubmitting)
}

// bind makes a follow-up what its parent's outputs made of it.
func (t *transition) bind(b *Bound) {
	r := t.run
	if b == nil || r.Hold.After == nil {
		return
	}
	h, after := *r.Hold, *r.Hold.After
	after.Values, h.After = nil, &after
	r.Hold = &h
	r.Graph, r.PromptDigest = b.Graph, b.PromptDigest
	r.Inputs, r.Uploads, r.Issues = b.Inputs, b.Uploads, b.Issues
	r.Result = receiptResult(r)
	for i := range r.Slots {
		r.Slots[i].Result = pendingSlotResult(r)
		t.slot(&r.Slots[i])
	}
}

// away holds a run again whose backend cannot have heard of it: the hand-over
// that was noted did not happen.
func (t *transition) away() {
	r := t.run
	if !r.mayBeHeld() {
		return
	}
	h := *r.Hold
	h.Pending = []WaitReason{WaitBackend}
	r.Hold, r.DueAt = &h, time.Time{}
	if r.Attempt > 0 {
		r.Attempt--
	}
	if r.Attempt == 0 {
		r.PromptID = ""
	}
	t.phase(PhaseHeld)
}

// front moves a run that waits for its turn before all others that do.
func (t *transition) front() {
	if !t.run.waitsForTurn() {
		return
	}
	t.run.Position = max(t.now.UnixMilli(), t.run.Position+1)
	t.phase(PhaseSubmitting)
}
