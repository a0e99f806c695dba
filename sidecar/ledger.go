package sidecar

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// Ledger is what a store tells of a run in one read, and of many at once.
type Ledger interface {
	// View reads a run and what belongs to it as they were at one moment. An
	// unknown one is ErrNotFound.
	View(ctx context.Context, id RunID, parts ViewParts) (*RunView, error)
	// CountRuns counts the runs that a filter chooses, by status.
	CountRuns(ctx context.Context, filter RunFilter) (map[Status]int, error)
	// RetainedFrom is the number of the first event that is kept for a scope, of
	// one run when run is not empty.
	RetainedFrom(ctx context.Context, scope Scope, run RunID) (Seq, error)
	// Page reads a window of what belongs to a run, PageSize around cursor, as
	// of one revision. An unknown run is ErrNotFound.
	Page(ctx context.Context, id RunID, kind PageKind, cursor int) (*ViewPage, error)
	// Deltas reads what moved a run on from a revision. ErrTrimmed when there
	// is no way from there, with the revisions from which there is one.
	Deltas(ctx context.Context, id RunID, after int64) (*Deltas, error)
}

// ViewParts says which documents a view brings along.
type ViewParts struct {
	Contract bool
	Graph    bool
	Targets  bool
}

// RunView is a run with all that belongs to it, at one revision.
type RunView struct {
	// Run has its slots and items, and the node runs of the latest attempt.
	Run *Run
	// Parent is the run that this one was made from; empty: none.
	Parent RunID
	// Children were made from this one, the oldest first; MoreChildren is set
	// when there are others.
	Children     []RunID
	MoreChildren bool
	// Steps are the moves from phase to phase, of which events are kept.
	Steps []Step
	// RetainedFrom is the number of the first event that is kept, and Last that
	// of the newest: what follows it is not in the view.
	RetainedFrom Seq
	Last         Seq
	// Contract as launched, and Graph as handed over; nil when not asked for,
	// or not known.
	Contract json.RawMessage
	Graph    json.RawMessage
	// Targets is the run in the words of its events, as Run.Targets says; nil
	// when not asked for.
	Targets json.RawMessage
}

// Step is a move of a run to another phase or status.
type Step struct {
	Seq      Seq
	Revision int64
	Type     EventType
	From     Phase // empty for the first that is kept
	To       Phase
	Status   Status
	At       time.Time
}

// Metrics sum up what a run did, in its latest attempt.
type Metrics struct {
	Nodes  int // that were executed or found in the backend's cache
	Cached int
	Files  int
	Bytes  int64         // of the files whose size is known
	Took   time.Duration // from the first node to the end; 0 while it has not ended
}

// Metrics sums up a run that was read with its node runs.
func (r *Run) Metrics() Metrics {
	m := Metrics{Took: r.took()}
	for i := range r.Nodes {
		n := &r.Nodes[i]
		if n.Attempt != r.Attempt {
			continue
		}
		m.Nodes++
		if n.Cached {
			m.Cached++
		}
		m.Files += n.Files
		m.Bytes += n.Bytes
	}
	return m
}

func (r *Run) took() time.Duration {
	if r.StartedAt.IsZero() || r.FinishedAt.Before(r.StartedAt) {
		return 0
	}
	return r.FinishedAt.Sub(r.StartedAt)
}

// View reads a scope's run with all that belongs to it, as they were at one
// moment. An unknown one is an *Error with CodeNotFound.
func (s *Studio) View(ctx context.Context, scope Scope, id RunID, parts ViewParts) (*RunView, error) {
	view, err := s.store.View(ctx, id, parts)
	if errors.Is(err, ErrNotFound) || err == nil && view.Run.Scope != scope {
		return nil, unknownRun(id)
	}
	if err != nil {
		return nil, storageError(err)
	}
	return view, nil
}

// CountRuns counts runs by their status. Limit and After of the filter do not
// matter.
func (s *Studio) CountRuns(ctx context.Context, filter RunFilter) (map[Status]int, error) {
	counts, err := s.store.CountRuns(ctx, filter)
	if err != nil {
		return nil, storageError(err)
	}
	return counts, nil
}

// RetainedFrom is the number of the first event that is kept for a scope, of one
// run when run is not empty.
func (s *Studio) RetainedFrom(ctx context.Context, scope Scope, run RunID) (Seq, error) {
	seq, err := s.store.RetainedFrom(ctx, scope, run)
	if err != nil {
		return 0, storageError(err)
	}
	return seq, nil
}

// Attended reports whether somebody here sees to an unfinished run: it waits
// for its turn or is being followed. One that is not was given up until the
// next start.
func (s *Studio) Attended(run *Run) bool {
	if run.Phase == PhaseFinished {
		return false
	}
	return run.Phase == PhaseHeld || s.queue.knows(run.ID)
}
