package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	lib "modernc.org/sqlite/lib"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// clone copies what a change may change: everything but the documents, which
// are replaced, never written into.
func clone(r *sidecar.Run) *sidecar.Run {
	c := *r
	c.Slots = slices.Clone(r.Slots)
	c.Items = slices.Clone(r.Items)
	c.Nodes = slices.Clone(r.Nodes)
	c.Deleted = slices.Clone(r.Deleted)
	c.Uploads = slices.Clone(r.Uploads)
	c.HeadHash = slices.Clone(r.HeadHash)
	return &c
}

// Create adds a run with all that belongs to it, the events that tell of it
// and the data that it refers to, in one transaction. A run that is there
// already is ErrExists. The data of blobs must not be changed afterwards.
func (s *Store) Create(ctx context.Context, run *sidecar.Run, events []sidecar.Event, blobs ...sidecar.Blob) error {
	own, told := clone(run), slices.Clone(events)
	err := s.effect(ctx, func(tx *Tx, _ *sidecar.Order) (sidecar.RunID, error) { return own.ID, tx.Create(own, told, blobs...) })
	if err != nil {
		return fmt.Errorf("create run %s: %w", run.ID, err)
	}
	return nil
}

// Create is Store.Create within a larger transaction. It does not change run.
func (tx *Tx) Create(run *sidecar.Run, events []sidecar.Event, blobs ...sidecar.Blob) error {
	if run.ID == "" || run.Scope == "" || run.CreatedAt.IsZero() {
		return errors.New("a run needs an id, a scope and a time of creation")
	}
	if err := tx.addBlobs(blobs); err != nil {
		return err
	}
	if err := tx.addDelivery(run); err != nil {
		return exists(fmt.Errorf("keep whom to tell of run %s: %w", run.ID, err))
	}
	own := *run // only its head moves
	return exists(tx.commitRun(nil, &own, events))
}

// exists makes ErrExists of what SQLite says of a row that is there.
func exists(err error) error {
	if codeOf(err)&0xff == lib.SQLITE_CONSTRAINT {
		return errors.Join(ErrExists, err)
	}
	return err
}

// Update changes a run by what change does to a fresh copy, in one
// transaction with the events that change returns, and returns it as
// committed. Without events, or with an error, nothing is written. change may
// be called again; its last call counts. An unknown run is
// [sidecar.ErrNotFound].
func (s *Store) Update(ctx context.Context, id sidecar.RunID, change func(*sidecar.Run) ([]sidecar.Event, error)) (*sidecar.Run, error) {
	var run *sidecar.Run
	err := s.effect(ctx, func(tx *Tx, order *sidecar.Order) (_ sidecar.RunID, err error) {
		run, err = tx.Update(id, expecting(order, change))
		return id, err
	})
	if err != nil {
		return nil, err
	}
	return run, nil
}

// expecting makes a change for the revisions alone that the order expects.
func expecting(order *sidecar.Order, change func(*sidecar.Run) ([]sidecar.Event, error)) func(*sidecar.Run) ([]sidecar.Event, error) {
	return func(r *sidecar.Run) ([]sidecar.Event, error) {
		if err := order.Check(r); err != nil {
			return nil, err
		}
		return change(r)
	}
}

// Update is Store.Update within a larger transaction.
func (tx *Tx) Update(id sidecar.RunID, change func(*sidecar.Run) ([]sidecar.Event, error)) (*sidecar.Run, error) {
	before, err := tx.load(id)
	if err != nil {
		return nil, err
	}
	after := clone(&before.Run)
	events, err := change(after)
	if err != nil {
		return nil, err
	}
	if len(events) == 0 {
		return clone(&before.Run), nil
	}
	if after.ID != id || after.Scope != before.Scope {
		return nil, fmt.Errorf("update run %s: a run keeps its id and its scope", id)
	}
	if err := tx.commitRun(before, after, events); err != nil {
		return nil, fmt.Errorf("update run %s: %w", id, err)
	}
	sortItems(after.Items)
	return after, nil
}

// commitRun writes a run and the events that tell of its change.
func (tx *Tx) commitRun(before *storedRun, after *sidecar.Run, events []sidecar.Event) error {
	heads := map[sidecar.RunID][]byte{after.ID: after.HeadHash}
	if err := tx.chain(heads, events); err != nil {
		return err
	}
	after.HeadHash = heads[after.ID]
	delete(heads, after.ID)
	updated, err := tx.save(before, after)
	if err != nil {
		return err
	}
	if err := tx.setHeads(heads); err != nil {
		return err
	}
	if after.Phase == sidecar.PhaseFinished {
		tx.forget(after.ID)
		return tx.sign(after)
	}
	tx.keep(asStored(after, updated))
	return nil
}

// save writes what differs between two states of a run, and returns the text of
// its time of change; before is nil for a new one.
func (tx *Tx) save(before *storedRun, after *sidecar.Run) (updated string, err error) {
	tx.Touch(after.Scope)
	if _, _, err := holdCells(after.Hold); err != nil {
		return "", err
	}
	old := &sidecar.Run{}
	updated = sidecar.FormatTime(after.UpdatedAt)
	var oldRun, oldState []any
	if before != nil {
		old = &before.Run
		oldRun = runRow(old)
		if sidecar.FormatTime(old.UpdatedAt) == updated {
			updated = before.rowUpdated
		}
		if before.hasState {
			oldState = stateRow(old, before.updated)
		}
	}
	if err := tx.write(&runTable, oldRun, runRow(after)); err != nil {
		return "", err
	}
	if err := tx.write(&stateTable, oldState, stateRow(after, updated)); err != nil {
		return "", err
	}
	if err := tx.afterwards(before, after); err != nil {
		return "", err
	}
	if err := tx.saveSlots(old, after); err != nil {
		return "", err
	}
	if err := tx.saveItems(old.Items, after.Items); err != nil {
		return "", err
	}
	return updated, tx.saveNodes(after.ID, old.Nodes, after.Nodes)
}

func (tx *Tx) saveSlots(before, after *sidecar.Run) error {
	gone := map[sidecar.SlotID]*sidecar.Slot{}
	for i := range before.Slots {
		gone[before.Slots[i].ID] = &before.Slots[i]
	}
	for i := range after.Slots {
		slot := &after.Slots[i]
		var old []any
		if known := gone[slot.ID]; known != nil {
			old = slotRow(before, known)
			delete(gone, slot.ID)
		}
		if err := tx.write(&slotTable, old, slotRow(after, slot)); err != nil {
			return err
		}
	}
	for _, slot := range gone {
		if err := tx.write(&slotTable, slotRow(before, slot), nil); err != nil {
			return err
		}
	}
	return nil
}

func (tx *Tx) saveItems(before, after []sidecar.Item) error {
	gone := map[sidecar.ItemID]*sidecar.Item{}
	for i := range before {
		gone[before[i].ID] = &before[i]
	}
	for i := range after {
		item := &after[i]
		var old []any
		if known := gone[item.ID]; known != nil {
			old = itemRow(known)
			delete(gone, item.ID)
		}
		if err := tx.write(&itemTable, old, itemRow(item)); err != nil {
			return err
		}
	}
	for _, item := range gone {
		if err := tx.write(&itemTable, itemRow(item), nil); err != nil {
			return err
		}
	}
	return nil
}

// saveNodes compares by place: node runs are only ever added and ended.
func (tx *Tx) saveNodes(id sidecar.RunID, before, after []sidecar.NodeRun) error {
	for i := range max(len(before), len(after)) {
		var old, now []any
		if i < len(before) {
			if i < len(after) && before[i] == after[i] {
				continue
			}
			old = nodeRow(id, i, &before[i])
		}
		if i < len(after) {
			now = nodeRow(id, i, &after[i])
		}
		if err := tx.write(&nodeTable, old, now); err != nil {
			return err
		}
	}
	return nil
}

// SaveSession remembers a session and the scope that it sees.
func (s *Store) SaveSession(ctx context.Context, session sidecar.Session) error {
	now := sidecar.FormatTime(time.Now())
	err := s.Do(ctx, func(tx *Tx) error {
		_, err := tx.Exec(`
			INSERT INTO sessions (session_id, scope_key, created_at, updated_at)
			VALUES (?, ?, ?, ?)
			ON CONFLICT (session_id) DO UPDATE SET
				scope_key = excluded.scope_key,
				updated_at = excluded.updated_at`,
			string(session.ID), string(session.Scope), now, now)
		return err
	})
	if err != nil {
		return fmt.Errorf("save session: %w", err)
	}
	return nil
}
