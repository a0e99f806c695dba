package sidecar

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// PageKind is what a page of a run has.
type PageKind string

// The kinds of pages.
const (
	PageEvents PageKind = "events"
	PageNodes  PageKind = "nodes" // of all attempts
	PageSlots  PageKind = "slots"
)

// PageSize is how much a page of a run has at most.
const PageSize = 256

// ViewPage is a window of what belongs to a run: of Total things those from
// Start on.
type ViewPage struct {
	// Run has the page's Nodes or Slots, if they are its kind.
	Run    *Run
	Events []Record
	Start  int
	Total  int
}

// PageStart is where the window around a place begins; a place beyond the end,
// or below 0, is the end.
func PageStart(total, cursor int) int {
	if cursor < 0 || cursor >= total {
		cursor = total - 1
	}
	return max(0, min(cursor-PageSize/2, total-PageSize))
}

// Deltas are the events by which a run moved on from a revision, without a gap;
// at most 256.
type Deltas struct {
	Scope    Scope
	Revision int64 // of the run now
	// RetainedFrom is the first revision of which the event is kept; the one
	// before it is the earliest to go on from.
	RetainedFrom int64
	Events       []Event
}

// Targets is the run in the words of its events: an object with "run",
// "slots/ID", "items/ID" and "nodes/ID/ATTEMPT". An event's targets put into
// that of the revision before make that of its own.
func (r *Run) Targets() json.RawMessage {
	var all targets
	all.run(r)
	for i := range r.Slots {
		all.slot(&r.Slots[i])
	}
	for i := range r.Items {
		all.item(&r.Items[i])
	}
	for i := range r.Nodes {
		all.node(&r.Nodes[i])
	}
	return all.json()
}

// Page reads a window of what belongs to a scope's run. An unknown run is an
// *Error with CodeNotFound.
func (s *Studio) Page(ctx context.Context, scope Scope, id RunID, kind PageKind, cursor int) (*ViewPage, error) {
	page, err := s.store.Page(ctx, id, kind, cursor)
	if errors.Is(err, ErrNotFound) || err == nil && page.Run.Scope != scope {
		return nil, unknownRun(id)
	}
	if err != nil {
		return nil, storageError(err)
	}
	return page, nil
}

// Deltas reads what moved a scope's run on from a revision. ErrTrimmed, with
// the revisions, when there is no way from there. An unknown run is an *Error
// with CodeNotFound.
func (s *Studio) Deltas(ctx context.Context, scope Scope, id RunID, after int64) (*Deltas, error) {
	d, err := s.store.Deltas(ctx, id, after)
	trimmed := errors.Is(err, ErrTrimmed)
	switch {
	case errors.Is(err, ErrNotFound) || (err == nil || trimmed) && d.Scope != scope:
		return nil, unknownRun(id)
	case err != nil && !trimmed:
		return nil, storageError(err)
	}
	return d, err
}

func unknownRun(id RunID) error {
	return &Error{
		Code: CodeNotFound, Message: fmt.Sprintf("Run '%s' was not found.", id), Hint: "Look at /runs for those that this session sees.",
	}
}
