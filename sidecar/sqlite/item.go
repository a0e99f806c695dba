package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

var (
	itemSelect = "SELECT " + itemTable.list("i") + " FROM gallery_items AS i"
	slotSelect = "SELECT " + slotTable.list("o") + ` FROM output_slots AS o
		WHERE o.scope_key = ? AND o.run_id = ?
		ORDER BY o.created_at, o.slot_id`
)

func scanItem(row scanner) (*sidecar.Item, error) {
	var c [21]textCell
	var width, height numberCell
	err := row.Scan(&c[0], &c[1], &c[2], &c[3], &c[4], &c[5], &c[6], &c[7], &c[8], &c[9], &c[10], &c[11], &c[12],
		&width, &height, &c[15], &c[16], &c[17], &c[18], &c[19], &c[20])
	if err != nil {
		return nil, err
	}
	return &sidecar.Item{
		ID: sidecar.ItemID(c[0]), Run: sidecar.RunID(c[1]), Session: sidecar.SessionID(c[2]), Scope: sidecar.Scope(c[3]),
		Workflow: string(c[4]), Contract: string(c[5]), Status: sidecar.ItemStatus(c[6]), Type: string(c[7]),
		Slot: sidecar.SlotID(c[8]), Output: string(c[9]), PromptID: sidecar.PromptID(c[10]),
		Filename: string(c[11]), URL: string(c[12]), Width: int(width), Height: int(height),
		Inputs: objectOf(c[15]), Artifact: documentOf(c[16]), Result: documentOf(c[17]), Error: string(c[18]),
		CreatedAt: timeOf(c[19]), UpdatedAt: timeOf(c[20]),
	}, nil
}

func itemRow(i *sidecar.Item) []any {
	return []any{
		string(i.ID), string(i.Run), string(i.Session), string(i.Scope), i.Workflow, i.Contract, string(i.Status),
		i.Type, nullable(i.Slot), nullable(i.Output), nullable(i.PromptID), nullable(i.Filename), nullable(i.URL),
		dimension(i.Width), dimension(i.Height),
		object(i.Inputs), document(i.Artifact), document(i.Result), nullable(i.Error),
		sidecar.FormatTime(i.CreatedAt), sidecar.FormatTime(i.UpdatedAt),
	}
}

func itemsOf(q querier, r *sidecar.Run) ([]sidecar.Item, error) {
	var items []sidecar.Item
	// The plus keeps SQLite from walking the whole scope in the right order.
	rows, err := q.query(itemSelect+" WHERE i.scope_key = ? AND i.run_id = ? ORDER BY +i.created_at DESC, i.item_id DESC",
		string(r.Scope), string(r.ID))
	err = each(rows, err, func(row scanner) error {
		item, err := scanItem(row)
		if err == nil {
			items = append(items, *item)
		}
		return err
	})
	return items, err
}

// sortItems puts items as a list of them does.
func sortItems(items []sidecar.Item) {
	slices.SortStableFunc(items, func(a, b sidecar.Item) int {
		return cmp.Or(
			cmp.Compare(sidecar.FormatTime(b.CreatedAt), sidecar.FormatTime(a.CreatedAt)),
			cmp.Compare(b.ID, a.ID))
	})
}

// Items lists gallery items of a scope, newest first: at most 1,000, or
// filter.Limit if that is less.
func (s *Store) Items(ctx context.Context, filter sidecar.ItemFilter) (sidecar.ItemPage, error) {
	var page sidecar.ItemPage
	err := s.view(ctx, false, func(q querier) error {
		where, args, err := after(q, &itemTable, "i", " WHERE i.scope_key = ?", []any{string(filter.Scope)}, filter.After)
		if err != nil {
			return err
		}
		limit := pageSize(filter.Limit)
		rows, err := q.query(itemSelect+where+" ORDER BY i.created_at DESC, i.item_id DESC LIMIT ?", append(args, limit+1)...)
		return each(rows, err, func(row scanner) error {
			if len(page.Items) == limit {
				page.More = true
				return nil
			}
			item, err := scanItem(row)
			page.Items = append(page.Items, item)
			return err
		})
	})
	if err != nil {
		return sidecar.ItemPage{}, fmt.Errorf("list gallery items: %w", err)
	}
	return page, nil
}

// DeleteItem removes an item and returns it; nil when the scope has none of
// this id. A copy that no other item of its run shows becomes doomed. It is told
// as an event of the item's run, which remembers it while it is unfinished, so
// that a late result does not bring it back.
func (s *Store) DeleteItem(ctx context.Context, scope sidecar.Scope, id sidecar.ItemID) (*sidecar.Item, error) {
	var deleted *sidecar.Item
	err := s.effect(freeing(ctx), func(tx *Tx, order *sidecar.Order) (run sidecar.RunID, err error) {
		if deleted, err = tx.deleteItem(scope, id, order); deleted != nil {
			run = deleted.Run
		}
		return run, err
	})
	if err != nil {
		return nil, fmt.Errorf("delete item %s: %w", id, err)
	}
	return deleted, nil
}

func (tx *Tx) deleteItem(scope sidecar.Scope, id sidecar.ItemID, order *sidecar.Order) (*sidecar.Item, error) {
	var item *sidecar.Item
	rows, err := tx.query(itemSelect+" WHERE i.item_id = ?", string(id))
	err = each(rows, err, func(row scanner) (err error) {
		item, err = scanItem(row)
		return err
	})
	if err != nil || item == nil || item.Scope != scope {
		return nil, err
	}
	now := sidecar.FormatTime(time.Now())
	if _, err := tx.Exec(doomShown, now, now, string(id)); err != nil {
		return nil, fmt.Errorf("doom its copy: %w", err)
	}
	_, err = tx.Update(item.Run, expecting(order, func(r *sidecar.Run) ([]sidecar.Event, error) {
		return r.DeleteItem(id, time.Now()), nil
	}))
	if err != nil && !errors.Is(err, sidecar.ErrNotFound) {
		return nil, err
	}
	// An item may have no run, or be in another scope than it.
	tx.Touch(scope)
	tx.forget(item.Run)
	_, err = tx.Exec("DELETE FROM gallery_items WHERE item_id = ?", string(id))
	return item, err
}

func slotsOf(q querier, r *sidecar.Run) ([]sidecar.Slot, error) {
	var slots []sidecar.Slot
	indexed := true
	rows, err := q.query(slotSelect, string(r.Scope), string(r.ID))
	err = each(rows, err, func(row scanner) error {
		slot, err := scanSlot(row)
		if err != nil {
			return err
		}
		index, ok := slotIndex(r.ID, slot.ID)
		slot.Index, indexed = index, indexed && ok
		slots = append(slots, slot)
		return nil
	})
	if !indexed {
		for i := range slots {
			slots[i].Index = i
		}
	}
	sortSlots(slots)
	return slots, err
}

func sortSlots(slots []sidecar.Slot) {
	slices.SortStableFunc(slots, func(a, b sidecar.Slot) int { return cmp.Compare(a.Index, b.Index) })
}

// slotIndex reads a slot's place off its id, the only place where the
// reference's tables have it.
func slotIndex(run sidecar.RunID, slot sidecar.SlotID) (int, bool) {
	rest, ok := strings.CutPrefix(string(slot), "slot_"+string(run)+"_")
	if !ok {
		return 0, false
	}
	digits, _, ok := strings.Cut(rest, "_")
	index, err := strconv.Atoi(digits)
	return index, ok && err == nil
}

func scanSlot(row scanner) (sidecar.Slot, error) {
	var c [16]textCell
	var width, height numberCell
	err := row.Scan(&c[0], &c[1], &c[2], &c[3], &c[4], &c[5], &c[6], &c[7], &c[8], &c[9],
		&width, &height, &c[12], &c[13], &c[14], &c[15])
	return sidecar.Slot{
		ID: sidecar.SlotID(c[0]), Name: string(c[6]), Type: string(c[7]), Status: sidecar.SlotStatus(c[8]),
		PromptID: sidecar.PromptID(c[9]), Width: int(width), Height: int(height), Error: string(c[12]),
		Result: documentOf(c[13]), CreatedAt: timeOf(c[14]), UpdatedAt: timeOf(c[15]),
	}, err
}

func slotRow(r *sidecar.Run, s *sidecar.Slot) []any {
	return []any{
		string(s.ID), string(r.ID), string(r.Session), string(r.Scope), r.Workflow, r.Contract,
		s.Name, s.Type, string(s.Status), nullable(s.PromptID), dimension(s.Width), dimension(s.Height),
		nullable(s.Error), document(s.Result), sidecar.FormatTime(s.CreatedAt), sidecar.FormatTime(s.UpdatedAt),
	}
}
