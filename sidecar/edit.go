package sidecar

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// maxTitle is how long a title may be, in characters.
const maxTitle = 200

// Edit is what people write on a run; nil leaves a field as it is.
type Edit struct {
	Title  *string // "" takes it away
	Pinned *bool   // a pinned run is kept whatever retention says
}

// check refuses what is no title.
func (e Edit) check() error {
	if e.Title == nil {
		return nil
	}
	if n := utf8.RuneCountInString(*e.Title); n > maxTitle {
		return &Error{
			Code: CodeBadRequest, Message: fmt.Sprintf("'title' has %d characters.", n),
			Hint: fmt.Sprintf("Shorten it to %d.", maxTitle),
		}
	}
	if !utf8.ValidString(*e.Title) || strings.ContainsFunc(*e.Title, unicode.IsControl) {
		return &Error{Code: CodeBadRequest, Message: "'title' has characters that cannot be shown.", Hint: "Write it on one line."}
	}
	return nil
}

// Edit writes on the run and returns the event that tells of it; none when
// nothing changed. It is no step of the run: UpdatedAt stays.
func (r *Run) Edit(e Edit, now time.Time) []Event {
	title, pinned := r.Title, r.Pinned
	if e.Title != nil {
		title = *e.Title
	}
	if e.Pinned != nil {
		pinned = *e.Pinned
	}
	if title == r.Title && pinned == r.Pinned {
		return nil
	}
	r.Title, r.Pinned = title, pinned
	updated := r.UpdatedAt
	t := transition{run: r, now: now.UTC().Truncate(time.Millisecond)}
	t.emit(EventRunProgress)
	r.UpdatedAt = updated
	return t.events
}

// EditRun writes on a run of a scope and returns it as it then is. An unknown
// one is an *Error with CodeNotFound.
func (s *Studio) EditRun(ctx context.Context, scope Scope, id RunID, edit Edit) (*Run, error) {
	if err := edit.check(); err != nil {
		return nil, err
	}
	if _, err := s.Lookup(ctx, scope, id); err != nil {
		return nil, err
	}
	run, err := s.store.Update(context.WithoutCancel(ctx), id, func(r *Run) ([]Event, error) {
		return r.Edit(edit, time.Now()), nil
	})
	if err != nil {
		return nil, storageError(err)
	}
	return run, nil
}
