package sidecar

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"
)

// Lookup reads a scope's run with its slots, items and node runs. An unknown
// one is an *Error with CodeNotFound.
func (s *Studio) Lookup(ctx context.Context, scope Scope, id RunID) (*Run, error) {
	run, err := s.store.Run(ctx, id)
	if errors.Is(err, ErrNotFound) || err == nil && run.Scope != scope {
		return nil, unknownRun(id)
	}
	if err != nil {
		return nil, storageError(err)
	}
	return run, nil
}

// Runs lists a scope's runs, newest first.
func (s *Studio) Runs(ctx context.Context, filter RunFilter) (RunPage, error) {
	page, err := s.store.Runs(ctx, filter)
	if err != nil {
		return page, storageError(err)
	}
	return page, nil
}

// QueuePlace is how many runs come before one that waits for its turn; false
// when it does not wait.
func (s *Studio) QueuePlace(run *Run) (int, bool) { return s.queue.place(run.ID) }

// Gallery lists a scope's gallery items, newest first.
func (s *Studio) Gallery(ctx context.Context, filter ItemFilter) (ItemPage, error) {
	page, err := s.store.Items(ctx, filter)
	if err != nil {
		return page, storageError(err)
	}
	return page, nil
}

// DeleteItem removes a gallery item, and our copy of its file; false when the
// scope has none of that id. A copy that stays is removed by the next pruning.
func (s *Studio) DeleteItem(ctx context.Context, scope Scope, id ItemID) (bool, error) {
	ctx = context.WithoutCancel(ctx)
	item, err := s.store.DeleteItem(ctx, scope, id)
	if err != nil {
		return false, storageError(err)
	}
	if item == nil {
		return false, nil
	}
	if err := s.discardCopy(ctx, item); err != nil {
		s.log.Error("remove the copy of a deleted item", "item", id, "err", err)
	}
	return true, nil
}

// discardCopy removes the copy that a deleted item showed, unless another item
// shows it too: outputs of one run may name the same file.
func (s *Studio) discardCopy(ctx context.Context, item *Item) error {
	ref := copyOf(item)
	if ref == "" {
		return nil
	}
	run, err := s.store.Run(ctx, item.Run)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	if err == nil && slices.ContainsFunc(run.Items, func(other Item) bool { return copyOf(&other) == ref }) {
		return nil
	}
	if err := s.exec.Discard([]Result{{Files: []File{{Ref: ref}}}}); err != nil {
		return err
	}
	return s.store.Spare(ctx, []string{ref})
}

// copyOf is the reference of the copy that an item shows; empty when none.
func copyOf(item *Item) string {
	var doc struct {
		Ref string `json:"serve_artifact"`
	}
	if json.Unmarshal(item.Artifact, &doc) != nil {
		return ""
	}
	return doc.Ref
}

// Events lists committed events of a scope after a number, of one run when
// run is not empty. ErrTrimmed when some of them are gone.
func (s *Studio) Events(ctx context.Context, scope Scope, run RunID, after Seq, limit int) ([]Record, error) {
	records, err := s.store.Events(ctx, scope, run, after, limit)
	if err != nil && !errors.Is(err, ErrTrimmed) {
		return nil, storageError(err)
	}
	return records, err
}

// Head is the number of the newest committed event.
func (s *Studio) Head() Seq { return s.store.Head() }

// Changed returns a channel that is closed when events were committed.
func (s *Studio) Changed() <-chan struct{} { return s.store.Changed() }

// Version grows with every committed change of what a scope shows.
func (s *Studio) Version(scope Scope) int64 { return s.store.Version(scope) }

// Trouble is why nothing can be stored just now; nil when all is well.
func (s *Studio) Trouble() error { return s.store.Trouble() }

// sessionSet remembers when sessions were stored, so that a read does not write
// each time.
type sessionSet struct {
	mu    sync.Mutex
	known map[Session]time.Time
}

const (
	// sessionsMax bounds the set; beyond it a session is merely written again.
	sessionsMax = 100_000
	// seenPause is how long a session that keeps coming is not written again.
	seenPause = 24 * time.Hour
)

// seenFor is seenPause, or less where sessions are pruned so early: one that is
// known is in the store.
func (s *Studio) seenFor() time.Duration {
	if s.keep.Age > 0 {
		return min(seenPause, s.keep.Age/2)
	}
	return seenPause
}

// Remember stores a session when it is new, and that it was seen now and then.
func (s *Studio) Remember(ctx context.Context, session Session) error {
	set, now := &s.sessions, time.Now()
	set.mu.Lock()
	stored, known := set.known[session]
	set.mu.Unlock()
	if known && now.Sub(stored) < s.seenFor() {
		return nil
	}
	if err := s.store.SaveSession(context.WithoutCancel(ctx), session); err != nil {
		return storageError(err)
	}
	set.mu.Lock()
	defer set.mu.Unlock()
	if set.known == nil || len(set.known) >= sessionsMax {
		set.known = map[Session]time.Time{}
	}
	set.known[session] = now
	return nil
}
