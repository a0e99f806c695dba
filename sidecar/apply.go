package sidecar

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/comfygit-ai/studio-sidecar/manifest"
)

// Apply moves the run by one signal at time now and returns the events that
// tell of it. It is the only place that changes a status, a slot's or an
// item's. No events means that the signal changed nothing: it came late, or
// again.
func (r *Run) Apply(sig Signal, now time.Time) []Event {
	now = now.UTC().Truncate(time.Millisecond)
	step := transition{run: r, now: now}
	switch {
	case r.Status.Terminal():
		step.afterEnd(sig)
	case r.Phase == PhaseHeld:
		step.whileHeld(sig)
	default:
		step.beforeEnd(sig)
	}
	return step.commit()
}

// transition collects what one signal changes.
type transition struct {
	run     *Run
	now     time.Time
	kind    EventType // of the event that closes the transition
	changed bool
	targets targets
	events  []Event
}

// afterEnd: a terminal status absorbs. Only the phase may still settle, and a
// refused cancel be noted.
func (t *transition) afterEnd(sig Signal) {
	r := t.run
	switch sig.Kind {
	case SignalSettled:
		if r.Phase != PhaseFinished {
			t.phase(PhaseFinished)
		}
	case SignalCancelRefused:
		if r.Phase == PhaseCancelling {
			t.refusedCancel(sig.Failure)
		}
	case SignalAccepted:
		// A cancel overtook the answer: keep the id, so that the prompt can
		// be found and dropped.
		if r.Phase == PhaseCancelling && !r.Accepted {
			r.Accepted = true
			r.PromptID = sig.PromptID
			t.phase(PhaseCancelling)
		}
	}
}

func (t *transition) beforeEnd(sig Signal) {
	switch sig.Kind {
	case SignalAdopted:
		t.adopt(sig.Outputs)
	case SignalHanding, SignalAccepted, SignalStarted, SignalCollecting:
		t.advance(sig)
	case SignalCached, SignalNodeStarted, SignalNodeFinished:
		t.node(sig)
	case SignalFinished:
		t.finish(sig)
	case SignalAgain:
		t.again()
	case SignalFailed, SignalLost, SignalTimedOut, SignalInterrupted, SignalCancel:
		t.stop(sig)
	case SignalHeld:
		t.away()
	case SignalFront:
		t.front()
	}
}

// adopt makes a run that the reference left behind one of ours.
func (t *transition) adopt(outputs []manifest.Output) {
	r := t.run
	if !r.Accepted || r.ContractRef != "" || r.Status == StatusRunning && len(r.Slots) > 0 {
		return
	}
	r.Issues = issuesIn(r.Result)
	r.Status, r.Result = StatusRunning, runningResult(r)
	if len(r.Slots) == 0 {
		r.Slots = newSlots(r, outputs)
	}
	for i := range r.Slots {
		slot := &r.Slots[i]
		slot.Status, slot.PromptID, slot.Result = SlotRunning, r.PromptID, runningSlotResult(r)
		t.slot(slot)
	}
	t.phase(r.Phase)
}

// advance moves the phase forward; it never goes back. A run is neither
// executing nor collecting before it was accepted.
func (t *transition) advance(sig Signal) {
	r := t.run
	switch sig.Kind {
	case SignalHanding:
		if r.Accepted {
			return
		}
		r.Attempt++
		r.PromptID, r.Position = r.Prompt, 0
		t.phase(PhaseSubmitting)
	case SignalAccepted:
		if !r.Accepted {
			t.accept(sig)
		}
	case SignalStarted:
		if r.Accepted {
			t.start()
		}
	case SignalCollecting:
		if r.Accepted && r.Phase != PhaseCollecting {
			t.start()
			t.phase(PhaseCollecting)
		}
	}
}

func (t *transition) accept(sig Signal) {
	r := t.run
	r.Accepted = true
	r.PromptID = sig.PromptID
	r.Status = StatusRunning
	r.Issues = withIssues(withWarnings(r.Issues, sig.Warnings), sig.Issues)
	r.Result = runningResult(r)
	receipt := receiptResult(r)
	for i := range r.Slots {
		slot := &r.Slots[i]
		slot.Status = SlotRunning
		slot.PromptID = r.PromptID
		slot.Result = runningSlotResult(r)
		t.slot(slot)
		t.item(pendingItem(r, slot, receipt))
	}
	t.phase(PhaseQueued)
}

func (t *transition) start() {
	r := t.run
	if r.Phase == PhaseExecuting || r.Phase == PhaseCollecting {
		return
	}
	r.StartedAt = t.now
	t.phase(PhaseExecuting)
}

func (t *transition) finish(sig Signal) {
	r := t.run
	r.Status, r.Outcome = StatusCompleted, OutcomeCompleted
	if sig.AllCached {
		r.Outcome = OutcomeCached
	}
	r.Issues = withIssues(r.Issues, sig.Issues)
	r.Result = completedResult(r, sig.Results)
	r.Error, r.Code = "", ""
	t.made(&sig)
	t.closeNodes()
	// Files stand before what has none, as in the reference's answers.
	for _, files := range []bool{true, false} {
		for i := range r.Slots {
			if res := resultAt(sig.Results, i); res.hasFiles() == files {
				t.resolve(&r.Slots[i], res)
			}
		}
	}
	t.kind = EventRunCompleted
	t.phase(PhaseFinished)
	r.FinishedAt = t.now
}

// resolve ends a slot with what was found for it.
func (t *transition) resolve(slot *Slot, res *Result) {
	r := t.run
	slot.Status, slot.Result, slot.PromptID = SlotEmpty, r.Result, r.PromptID
	items := itemsOf(r, slot, res)
	if res != nil && len(res.Artifacts) > 0 {
		slot.Status = SlotDone
		slot.Type, slot.Width, slot.Height = items[0].Type, items[0].Width, items[0].Height
	}
	t.slot(slot)
	if !r.itemDeleted(firstItemID(r.ID, slot.Index, slot.ID)) {
		for _, item := range items {
			t.item(item)
		}
	}
	t.emit(EventOutputCompleted)
}

// stop ends a run that did not complete.
func (t *transition) stop(sig Signal) {
	r := t.run
	switch sig.Kind {
	case SignalCancel:
		t.cancelled("Generation cancelled.", nil)
	case SignalInterrupted:
		t.interrupted(sig.Failure)
	case SignalLost:
		t.fail(lostFailure(r))
	case SignalTimedOut:
		t.fail(timedOutFailure(r))
	case SignalFailed, SignalRejected:
		t.fail(sig.Failure)
	}
	t.closeNodes()
	r.FinishedAt, r.Position = t.now, 0
	if r.Attempt > 0 && r.Phase != PhaseHeld && (sig.Kind == SignalCancel || sig.Kind == SignalTimedOut) {
		t.phase(PhaseCancelling)
		return
	}
	t.phase(PhaseFinished)
}

// interrupted: why may say what another sidecar knows of it.
func (t *transition) interrupted(why *Failure) {
	message, told := "interrupted in ComfyUI", json.RawMessage(nil)
	if why != nil && why.Message != "" {
		message, told = why.Message, why.Told
	}
	t.cancelled(message, told)
}

func (t *transition) cancelled(message string, told json.RawMessage) {
	r := t.run
	r.Status, r.Outcome, r.Error = StatusCancelled, OutcomeCancelled, message
	r.Result = cancelledResult(r, message)
	if told != nil {
		r.Result = toldResult(r, told)
	}
	for i := range r.Slots {
		slot := &r.Slots[i]
		slot.Status, slot.Error, slot.Result = SlotCancelled, message, r.Result
		t.slot(slot)
	}
	kept := r.Items[:0]
	for _, item := range r.Items {
		if item.Status != ItemPending {
			kept = append(kept, item)
			continue
		}
		t.targets.gone("items/" + string(item.ID))
	}
	r.Items = kept
	t.kind = EventRunCancelled
}

func (t *transition) fail(f *Failure) {
	r := t.run
	never := !r.Accepted && !r.repeated()
	r.Status, r.Error, r.Code = StatusError, f.Message, f.Code
	r.Outcome = f.Outcome
	if r.Outcome == "" {
		r.Outcome = OutcomeFailed
	}
	if never {
		// The reference shows a run that never started as one fault without
		// prompt id and slots, an image whatever the contract.
		for _, slot := range r.Slots {
			t.targets.gone("slots/" + string(slot.ID))
		}
		r.Slots, r.PromptID = nil, ""
	}
	r.Result = failedResult(r, f)
	t.kind = EventRunFailed
	if len(r.Slots) == 0 {
		t.item(faultItem(r))
	}
	for i := range r.Slots {
		slot := &r.Slots[i]
		slot.Status, slot.Error, slot.Result = SlotError, r.Error, r.Result
		t.slot(slot)
		t.item(faultItemOf(r, slot))
	}
}

func (t *transition) refusedCancel(f *Failure) {
	r := t.run
	noted := withRemoteCancel(r.Result, f)
	if bytes.Equal(noted, r.Result) {
		return
	}
	r.Result = noted
	for i := range r.Slots {
		r.Slots[i].Result = r.Result
	}
	t.phase(PhaseCancelling)
}

func (t *transition) phase(p Phase) {
	t.run.Phase = p
	t.changed = true
	if t.kind == "" {
		t.kind = EventRunProgress
	}
}

func (t *transition) slot(s *Slot) {
	s.UpdatedAt = t.now
	t.targets.slot(s)
	t.changed = true
}

// item adds or replaces an item, unless somebody deleted it meanwhile.
func (t *transition) item(item Item) {
	r := t.run
	if r.itemDeleted(item.ID) {
		return
	}
	item.UpdatedAt = t.now
	t.changed = true
	for i := range r.Items {
		if r.Items[i].ID == item.ID {
			r.Items[i] = item
			t.targets.item(&item)
			return
		}
	}
	r.Items = append(r.Items, item)
	t.targets.item(&item)
}

// emit writes what was touched since the last event down as one event with a
// revision of its own.
func (t *transition) emit(kind EventType) {
	r := t.run
	r.Revision++
	r.UpdatedAt = t.now
	t.targets.run(r)
	t.events = append(t.events, Event{
		Run: r.ID, Scope: r.Scope, Revision: r.Revision, Type: kind, At: t.now, Targets: t.targets.json(),
	})
	t.targets = targets{}
}

func (t *transition) commit() []Event {
	if !t.changed {
		return nil
	}
	t.emit(t.kind)
	return t.events
}
