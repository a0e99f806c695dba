package sidecar

import (
	"slices"
	"time"
)

// DeleteItem removes an item of the run and returns the event that tells of it;
// none when there is no such item. While the run is unfinished the deletion is
// remembered, so that a late result does not bring it back. It is no step of the
// run: UpdatedAt stays.
func (r *Run) DeleteItem(id ItemID, now time.Time) []Event {
	i := slices.IndexFunc(r.Items, func(item Item) bool { return item.ID == id })
	if i < 0 {
		return nil
	}
	r.Items = slices.Delete(r.Items, i, i+1)
	if r.Phase != PhaseFinished {
		r.Deleted = append(r.Deleted, id)
	}
	updated := r.UpdatedAt
	t := transition{run: r, now: now.UTC().Truncate(time.Millisecond)}
	t.targets.gone("items/" + string(id))
	t.emit(EventRunProgress)
	r.UpdatedAt = updated
	return t.events
}

func (r *Run) itemDeleted(id ItemID) bool { return slices.Contains(r.Deleted, id) }
