package sidecar

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// prunePause is how often a server looks for what it need not keep.
	prunePause = time.Hour
	// pruneDelay is how long after its start it does so for the first time:
	// what waits then comes first.
	pruneDelay = 5 * time.Second
	// maxDoomed is how many copies are removed at once.
	maxDoomed = 500
)

// Retention says what is kept of finished runs. The zero value keeps all.
// Pinned runs are kept and count for none of the limits.
type Retention struct {
	Age   time.Duration // since they ended; 0: any
	Runs  int           // the newest by their end; 0: all
	Bytes int64         // of the newest, with their copies; 0: all
}

// Pruned counts what was removed, or would be.
type Pruned struct {
	Runs    int
	Items   int
	Events  int
	Blobs   int
	Copies  int   // files of outputs
	Uploads int   // files that clients sent
	Bytes   int64 // of the runs, with their copies
}

// RetentionStore is the part of a Store that lets go of finished runs.
type RetentionStore interface {
	// Prune removes the finished runs that retention does not keep, in many
	// short transactions, with all that belongs to them. size tells how large
	// a copy is. Their copies become doomed. What an unfinished run waits for
	// stays, and whose end a delivery is still to tell. Scopes are told by their
	// versions alone: an event for each of many thousands would tell no more.
	Prune(ctx context.Context, keep Retention, now time.Time, size func(ref string) int64) (Pruned, error)
	// DeleteRun removes a finished run as Prune does, tells its scope, and
	// returns it: ErrNotFound when the scope has none of that id, the run with
	// ErrUnfinished when it has not ended.
	DeleteRun(ctx context.Context, scope Scope, id RunID) (*Run, error)
	// Doomed lists copies that nothing names any more, in their order after a
	// given one, at most limit of them.
	Doomed(ctx context.Context, after string, limit int) ([]string, error)
	// Spare forgets that copies are doomed: they are gone.
	Spare(ctx context.Context, refs []string) error
}

// ErrUnfinished is returned for a run that has to end first.
var ErrUnfinished = errors.New("the run has not ended")

// CodeUnfinished answers who would delete a run that has not ended.
const CodeUnfinished Code = "run_not_finished"

// Copies are the files that runs made and that we keep.
type Copies interface {
	// RemoveAll removes copies; one that is gone already is no error.
	RemoveAll(refs ...string) error
	// Size is how large a copy is, 0 when there is none.
	Size(ref string) int64
}

// tendRetention prunes now and then until ctx ends.
func (s *Studio) tendRetention(ctx context.Context) error {
	for pause := pruneDelay; sleep(ctx, pause); pause = prunePause {
		pruned, err := s.Prune(ctx, s.keep)
		if err != nil && ctx.Err() == nil {
			s.log.Error("prune", "err", err)
		}
		if pruned.Runs+pruned.Copies > 0 {
			s.log.Info("removed what need not be kept", "runs", pruned.Runs, "copies", pruned.Copies, "bytes", pruned.Bytes)
		}
	}
	return ctx.Err()
}

// Prune removes the finished runs that keep does not keep, the copies that
// nothing names any more, and commands and uploads whose time is over. Of the Studio's
// options it needs Store, Copies and Uploads alone.
func (s *Studio) Prune(ctx context.Context, keep Retention) (Pruned, error) {
	size := func(string) int64 { return 0 }
	if s.copies != nil {
		size = s.copies.Size
	}
	_, commands := s.store.ExpireCommands(ctx, time.Now().Add(-CommandLife))
	pruned, err := s.store.Prune(ctx, keep, time.Now(), size)
	if err = errors.Join(commands, err); err != nil {
		err = storageError(err)
	}
	copies, failed := s.discardDoomed(ctx)
	pruned.Copies = copies
	if s.uploads != nil {
		pruned.Uploads = s.expireUploads(ctx)
	}
	return pruned, errors.Join(err, failed)
}

// discardDoomed removes the copies that nothing names any more. Each stays on
// the list until it is gone; those that cannot be removed hold no others up, and
// the error is of the first of them.
func (s *Studio) discardDoomed(ctx context.Context) (count int, first error) {
	if s.copies == nil {
		return 0, nil
	}
	for after := ""; ; {
		refs, err := s.store.Doomed(ctx, after, maxDoomed)
		if err != nil {
			return count, storageError(err)
		}
		gone, err := s.discard(ctx, refs)
		count += gone
		if first == nil {
			first = err
		}
		if len(refs) < maxDoomed {
			return count, first
		}
		after = refs[len(refs)-1]
	}
}

// discard removes copies and takes those that are gone off the list. It returns
// how many went, and why the first that did not could not.
func (s *Studio) discard(ctx context.Context, refs []string) (int, error) {
	var gone []string
	var first error
	for _, ref := range refs {
		if err := s.copies.RemoveAll(ref); err == nil {
			gone = append(gone, ref)
		} else if first == nil {
			first = fmt.Errorf("remove copies: %w", err)
		}
	}
	if len(gone) == 0 {
		return 0, first
	}
	if err := s.store.Spare(ctx, gone); err != nil {
		return 0, storageError(err)
	}
	return len(gone), first
}

// DeleteRun removes a finished run of a scope with its items, events and
// copies. One that has not ended is an *Error with CodeUnfinished, an unknown
// one with CodeNotFound.
func (s *Studio) DeleteRun(ctx context.Context, scope Scope, id RunID) error {
	ctx = context.WithoutCancel(ctx)
	run, err := s.store.DeleteRun(ctx, scope, id)
	switch {
	case errors.Is(err, ErrNotFound):
		return unknownRun(id)
	case errors.Is(err, ErrUnfinished):
		return unfinished(run)
	case err != nil:
		return storageError(err)
	}
	if s.copies == nil {
		return nil
	}
	if _, err := s.discard(ctx, copiesOf(run)); err != nil {
		s.log.Error("remove the copies of a deleted run", "run", id, "err", err)
	}
	return nil
}

// unfinished says why a run cannot be deleted yet: people are told that it has
// ended as soon as it is being cancelled.
func unfinished(run *Run) *Error {
	if run.Phase == PhaseCancelling {
		return &Error{
			Code: CodeUnfinished, Message: fmt.Sprintf("Run '%s' is being cancelled.", run.ID),
			Hint: "Delete it when its 'phase' is 'finished': ComfyUI has let go of it then.", Run: run,
		}
	}
	return &Error{
		Code: CodeUnfinished, Message: fmt.Sprintf("Run '%s' has not ended.", run.ID),
		Hint: "Cancel it first, or delete it when it has ended.", Run: run,
	}
}

// copiesOf are the copies that a run's items show. Others that were doomed with
// it go with the next pruning.
func copiesOf(run *Run) []string {
	var refs []string
	for i := range run.Items {
		if ref := copyOf(&run.Items[i]); ref != "" {
			refs = append(refs, ref)
		}
	}
	return refs
}
