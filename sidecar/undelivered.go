package sidecar

import (
	"context"
	"time"

	"github.com/comfygit-ai/studio-sidecar/manifest"
)

// IssueUndelivered is the code of the issue of a run whose end its caller did
// not take.
const IssueUndelivered = "callback_failed"

// Undelivered notes on a completed run that its caller did not take its end,
// and returns the event that tells of it. It is no step of the run: UpdatedAt
// stays.
func (r *Run) Undelivered(why string, now time.Time) []Event {
	if r.Status != StatusCompleted {
		return nil
	}
	r.Issues = withIssues(r.Issues, mustJSON([]manifest.Issue{{
		Code: IssueUndelivered, Message: why, Severity: manifest.SeverityWarning,
	}}))
	updated := r.UpdatedAt
	t := transition{run: r, now: now.UTC().Truncate(time.Millisecond)}
	t.emit(EventRunProgress)
	r.UpdatedAt = updated
	return t.events
}

// NoteUndelivered notes that a run's caller did not take its end; see
// Run.Undelivered.
func (s *Studio) NoteUndelivered(ctx context.Context, id RunID, why string) error {
	_, err := s.store.Update(ctx, id, func(r *Run) ([]Event, error) {
		return r.Undelivered(why, time.Now()), nil
	})
	if err != nil {
		return storageError(err)
	}
	return nil
}
