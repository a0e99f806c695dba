package sidecar

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// CodeRevisionGone is the code of a question for a revision of which events are
// kept no more.
const CodeRevisionGone Code = "revision_gone"

// PastView is a run as it was at an earlier revision.
type PastView struct {
	Run      RunID
	Revision int64
	Current  int64 // the run's revision now
	// Targets is the run in the words of its events, as Run.Targets says.
	Targets json.RawMessage
}

// Past tells how a scope's run was at a revision, by its events from the first
// one on. A revision that it has not reached, and one of which events are gone,
// are an *Error, as is an unknown run.
func (s *Studio) Past(ctx context.Context, scope Scope, id RunID, at int64) (*PastView, error) {
	past, all := &PastView{Run: id, Revision: at}, map[string]json.RawMessage{}
	for after := int64(0); ; {
		d, err := s.Deltas(ctx, scope, id, after)
		if err != nil && !errors.Is(err, ErrTrimmed) {
			return nil, err
		}
		if past.Current = d.Revision; at < 1 || at > past.Current {
			return nil, &Error{Code: CodeBadRequest, Message: fmt.Sprintf("Run '%s' has had no revision %d.", id, at), Hint: fmt.Sprintf("Its revisions are 1 to %d.", past.Current)}
		}
		if err != nil || len(d.Events) == 0 {
			return nil, &Error{
				Code:    CodeRevisionGone,
				Message: fmt.Sprintf("How run '%s' was at revision %d is kept no more.", id, at),
				Hint:    "Ask for the run as it is now, without 'at'.",
			}
		}
		for i := range d.Events[:min(int64(len(d.Events)), at-after)] {
			if err := put(all, d.Events[i].Targets); err != nil {
				return nil, launchError(err)
			}
		}
		if after += int64(len(d.Events)); after >= at {
			past.Targets = mustJSON(all)
			return past, nil
		}
	}
}

// put brings all to where an event's targets lead.
func put(all map[string]json.RawMessage, targets json.RawMessage) error {
	var changed map[string]json.RawMessage
	if err := json.Unmarshal(targets, &changed); err != nil {
		return fmt.Errorf("read the targets of an event: %w", err)
	}
	for name, value := range changed {
		if string(value) == "null" {
			delete(all, name)
			continue
		}
		all[name] = value
	}
	return nil
}
