package sidecar

// AsAccepted returns a copy of the run as its receipt shows it, however far it
// is by now: submitted, its slots pending, and a pending item for each. Clients
// of the reference count on that answer to a run that they do not wait for.
func (r *Run) AsAccepted() *Run {
	began := *r
	began.Status, began.Error = StatusSubmitted, ""
	began.Result = receiptResult(r)
	if r.Phase == PhaseHeld {
		return &began // nothing is in the making: there are no tiles
	}
	began.Slots, began.Items = nil, nil
	for _, slot := range r.Slots {
		slot.Status, slot.Error, slot.PromptID = SlotPending, "", r.PromptID
		slot.Width, slot.Height = placeholderSize(slot.Type)
		slot.Result, slot.UpdatedAt = pendingSlotResult(r), r.CreatedAt
		item := pendingItem(r, &slot, began.Result)
		item.UpdatedAt = r.CreatedAt
		began.Slots, began.Items = append(began.Slots, slot), append(began.Items, item)
	}
	return &began
}
