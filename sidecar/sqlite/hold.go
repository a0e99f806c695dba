package sqlite

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// holdCells are the run that r follows and the rest of what it waits for, as
// they are stored.
func holdCells(h *sidecar.Hold) (after, hold any, err error) {
	if h == nil {
		return nil, nil, nil
	}
	text, err := json.Marshal(h)
	if err != nil {
		return nil, nil, fmt.Errorf("encode what a run waits for: %w", err)
	}
	if h.After != nil {
		after = string(h.After.Run)
	}
	return after, string(text), nil
}

func holdOf(hold, after textCell) (*sidecar.Hold, error) {
	if hold == "" {
		return nil, nil
	}
	var h sidecar.Hold
	if err := json.Unmarshal([]byte(hold), &h); err != nil {
		return nil, err
	}
	if h.After != nil {
		h.After.Run = sidecar.RunID(after)
	}
	return &h, nil
}

// position writes the place of a run that was not moved as NULL.
func position(n int64) any {
	if n == 0 {
		return nil
	}
	return n
}

// UpdateWith is Update that also adds data that the change refers to, in the
// same transaction. The data must not be changed afterwards.
func (s *Store) UpdateWith(ctx context.Context, id sidecar.RunID, blobs []sidecar.Blob, change func(*sidecar.Run) ([]sidecar.Event, error)) (*sidecar.Run, error) {
	var run *sidecar.Run
	err := s.Do(ctx, func(tx *Tx) (err error) {
		moved := false
		run, err = tx.Update(id, func(r *sidecar.Run) ([]sidecar.Event, error) {
			events, err := change(r)
			moved = len(events) > 0
			return events, err
		})
		if err != nil || !moved {
			return err
		}
		return tx.addBlobs(blobs)
	})
	if err != nil {
		return nil, err
	}
	return run, nil
}

func (tx *Tx) addBlobs(blobs []sidecar.Blob) error {
	for _, b := range blobs {
		if b.Digest != sidecar.DigestOf(b.Data) {
			return fmt.Errorf("the data of blob %s does not fit its digest", b.Digest)
		}
	}
	for _, b := range blobs {
		_, err := tx.Exec("INSERT INTO blobs (sha256, size, data) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
			string(b.Digest), int64(len(b.Data)), b.Data)
		if err != nil {
			return fmt.Errorf("keep blob %s: %w", b.Digest, err)
		}
	}
	return nil
}

// Children lists the runs of a scope that came from another, newest first: at
// most 1,000.
func (s *Store) Children(ctx context.Context, scope sidecar.Scope, parent sidecar.RunID) (sidecar.RunPage, error) {
	var page sidecar.RunPage
	err := s.view(ctx, false, func(q querier) error {
		runs, err := storedRuns(q, childrenSelect, string(parent), string(scope), maxPage+1)
		if err != nil {
			return err
		}
		page.More = len(runs) > maxPage
		for _, run := range runs[:min(maxPage, len(runs))] {
			page.Runs = append(page.Runs, &run.Run)
		}
		return nil
	})
	if err != nil {
		return sidecar.RunPage{}, fmt.Errorf("list the children of run %s: %w", parent, err)
	}
	return page, nil
}

// Ids are ordered by time.
var childrenSelect = "SELECT " + runTable.list("r") + ", " + stateTable.list("s") + `
	FROM run_state AS s CROSS JOIN runs AS r
	WHERE s.parent = ? AND r.run_id = s.run_id AND r.scope_key = ?
	ORDER BY s.run_id DESC LIMIT ?`

// keyPaused is the number in sidecar_meta that tells whether the queue is
// paused: 1 or nothing.
const keyPaused = "queue_paused"

// QueuePaused tells whether the queue was paused.
func (s *Store) QueuePaused(ctx context.Context) (bool, error) {
	var paused bool
	err := s.view(ctx, false, func(q querier) (err error) {
		paused, err = queuePaused(q)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("read whether the queue is paused: %w", err)
	}
	return paused, nil
}

func queuePaused(q querier) (bool, error) {
	var value numberCell
	_, err := one(q, []any{&value}, "SELECT value FROM sidecar_meta WHERE key = ?", keyPaused)
	return value != 0, err
}

// PauseQueue pauses or resumes the queue and commits an event that tells of it;
// nothing when it was so before.
func (s *Store) PauseQueue(ctx context.Context, paused bool, event sidecar.Event) error {
	err := s.effect(ctx, func(tx *Tx, _ *sidecar.Order) (sidecar.RunID, error) {
		was, err := queuePaused(tx)
		if err != nil || was == paused {
			return "", err
		}
		_, err = tx.Exec("INSERT INTO sidecar_meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
			keyPaused, flag(paused))
		if err != nil {
			return "", err
		}
		return "", tx.Append(event)
	})
	if err != nil {
		return fmt.Errorf("pause the queue: %w", err)
	}
	return nil
}
