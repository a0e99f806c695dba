package sidecar

import (
	"context"
	"errors"
	"time"
)

// ErrNotFound is returned for a run, an item or a blob that does not exist,
// or that another scope owns.
var ErrNotFound = errors.New("not found")

// ErrLasting marks what the store cannot do, and will not be able to until
// somebody mends it: its file is damaged.
var ErrLasting = errors.New("it stays so until it is mended")

// Store keeps runs. A method that writes returns when the write is durable,
// and does not undo it when the caller's context ends first.
type Store interface {
	UploadStore
	CommandStore
	RetentionStore
	Ledger

	// Create adds a run with its slots, items, blobs and events.
	Create(ctx context.Context, run *Run, events []Event, blobs ...Blob) error
	// Update changes a run in one transaction and returns it as committed,
	// unless it has none of the revisions that the context's Order expects.
	// change gets a fresh copy and returns the events to commit with it; when
	// it returns no events, or an error, nothing is written.
	Update(ctx context.Context, id RunID, change func(*Run) ([]Event, error)) (*Run, error)
	// UpdateWith is Update that also adds the data that the change refers to.
	UpdateWith(ctx context.Context, id RunID, blobs []Blob, change func(*Run) ([]Event, error)) (*Run, error)
	// Children lists a scope's runs that came from another, newest first, as
	// Runs does.
	Children(ctx context.Context, scope Scope, parent RunID) (RunPage, error)
	// RestoredAt is when a backup was brought back as this store; zero: never.
	RestoredAt(ctx context.Context) (time.Time, error)
	// QueuePaused tells whether the queue was paused; PauseQueue pauses or
	// resumes it, with an event that tells of it when it was not so before.
	QueuePaused(ctx context.Context) (bool, error)
	PauseQueue(ctx context.Context, paused bool, event Event) error
	// Run reads a run with its slots, items and node runs.
	Run(ctx context.Context, id RunID) (*Run, error)
	// Runs lists runs without slots, items and node runs, newest first.
	Runs(ctx context.Context, filter RunFilter) (RunPage, error)
	// Unfinished lists the runs whose phase is not finished, oldest first.
	Unfinished(ctx context.Context) ([]*Run, error)
	// Blob reads the data that a digest names.
	Blob(ctx context.Context, digest Digest) ([]byte, error)

	// SaveSession remembers a session.
	SaveSession(ctx context.Context, session Session) error
	// Items lists gallery items, newest first.
	Items(ctx context.Context, filter ItemFilter) (ItemPage, error)
	// DeleteItem removes an item, tells of it as Run.DeleteItem does, and
	// returns it; nil when there is none.
	DeleteItem(ctx context.Context, scope Scope, id ItemID) (*Item, error)

	// Events lists committed events after a number, oldest first, at most
	// limit of them: those of scope and those for everybody; of one run when
	// run is not empty. ErrTrimmed when some of them are gone.
	Events(ctx context.Context, scope Scope, run RunID, after Seq, limit int) ([]Record, error)
	// Append commits events that belong to no run.
	Append(ctx context.Context, events ...Event) error
	// Head is the number of the newest committed event.
	Head() Seq
	// Changed returns a channel that is closed when events were committed.
	Changed() <-chan struct{}
	// Version grows with every committed change of what a scope shows.
	Version(scope Scope) int64
	// Trouble is why writing does not work just now; nil when it does.
	Trouble() error
}

// ErrTrimmed is returned for events that retention has removed.
var ErrTrimmed = errors.New("events were trimmed")

// RunFilter chooses runs.
type RunFilter struct {
	Scope  Scope
	Active bool
	Limit  int // 0: the store's maximum
	After  Cursor

	// Empty ones of these choose nothing.
	Status   Status
	Workflow string
	Contract string    // of the workflow
	Since    time.Time // created then or later
	Until    time.Time // created before
	Parent   RunID     // made from this run
	RootOnly bool      // made from no other

	// Metrics asks for those of each run.
	Metrics bool
}

// RunPage is a page of runs.
type RunPage struct {
	Runs []*Run
	More bool
	// Metrics has those of each run, when they were asked for.
	Metrics []Metrics
}

// ItemFilter chooses gallery items.
type ItemFilter struct {
	Scope Scope
	Limit int // 0: the store's maximum
	After Cursor
}

// ItemPage is a page of gallery items.
type ItemPage struct {
	Items []*Item
	More  bool
}

// Cursor is the place of a row in a list that is ordered by creation time and
// id, both descending. The zero Cursor is the beginning.
type Cursor struct {
	CreatedAt time.Time
	ID        string
}

// Zero reports whether the cursor is the beginning.
func (c Cursor) Zero() bool { return c.ID == "" && c.CreatedAt.IsZero() }
