package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

const (
	// maxPruned is how many runs one transaction removes at most.
	maxPruned = 500
	// pruneStep is how many are removed between two looks at the clock.
	pruneStep = 8
	// pruneTime is about how long one transaction takes: others wait for it.
	pruneTime = 5 * time.Millisecond
	// measuredPage is how many runs are measured at once.
	measuredPage = 500
)

// prunable are the runs that retention may remove, in the words of their
// index.
const prunable = "s.phase = 'finished' AND s.pinned = 0 AND s.finished_at <> ''"

// doomedRuns are those up to a cut.
const doomedRuns = prunable + " AND (s.finished_at, s.run_id) <= (?, ?)"

// cut is the newest run that goes, in the order of their ends; the zero cut
// keeps all.
type cut struct{ at, id string }

func (c cut) zero() bool { return c == cut{} }

func (c cut) later(other cut) cut {
	if c.at > other.at || c.at == other.at && c.id > other.id {
		return c
	}
	return other
}

// Prune removes the finished runs that keep does not keep, oldest first, with
// all that belongs to them and the blobs that nothing names any more, in
// transactions of at most 500 runs and some milliseconds each. What is
// returned with an error was removed.
func (s *Store) Prune(ctx context.Context, keep sidecar.Retention, now time.Time, size func(ref string) int64) (sidecar.Pruned, error) {
	var pruned sidecar.Pruned
	upTo, sizes, err := s.cut(ctx, keep, now, size)
	if err != nil {
		return pruned, fmt.Errorf("prune: %w", err)
	}
	if err := s.keepSizes(ctx, sizes); err != nil {
		return pruned, fmt.Errorf("prune: %w", err)
	}
	for !upTo.zero() {
		var gone removal
		err := s.Do(ctx, func(tx *Tx) error {
			gone = removal{}
			return tx.pruneChunk(upTo, &gone)
		})
		if err != nil {
			return pruned, fmt.Errorf("prune: %w", err)
		}
		if gone.Runs == 0 {
			break
		}
		pruned = add(pruned, gone.Pruned)
	}
	events, err := s.pruneOwn(ctx, upTo)
	pruned.Events += events
	if err != nil {
		err = fmt.Errorf("prune events: %w", err)
	}
	return pruned, err
}

func add(a, b sidecar.Pruned) sidecar.Pruned {
	a.Runs, a.Items, a.Events, a.Blobs, a.Copies = a.Runs+b.Runs, a.Items+b.Items, a.Events+b.Events, a.Blobs+b.Blobs, a.Copies+b.Copies
	a.Bytes += b.Bytes
	return a
}

// cut finds the newest run that goes, and measures what was not measured yet
// as far as it has to.
func (s *Store) cut(ctx context.Context, keep sidecar.Retention, now time.Time, size func(string) int64) (cut, []runSize, error) {
	c := cutter{ctx: ctx, keep: keep, now: now, size: size}
	err := s.walk(ctx, false, c.find)
	return c.upTo, c.sizes, err
}

// walk lends a connection of its own to who reads for longer than a moment.
func (s *Store) walk(ctx context.Context, whole bool, read func(querier) error) error {
	s.walking.RLock()
	defer s.walking.RUnlock()
	if s.closed() {
		return ErrClosed
	}
	session, err := openSession(ctx, s.readDB)
	if err != nil {
		return err
	}
	err = session.read(whole, read)
	if damageOf(err) != harmless {
		err = storageError(s.path, err)
	}
	return errors.Join(err, session.close())
}

// keepSizes writes down what runs were measured to take.
func (s *Store) keepSizes(ctx context.Context, sizes []runSize) error {
	for len(sizes) > 0 {
		page := sizes[:min(measuredPage, len(sizes))]
		err := s.Do(ctx, func(tx *Tx) error {
			for _, size := range page {
				if _, err := tx.Exec("UPDATE run_state SET bytes = ? WHERE run_id = ? AND phase = 'finished'", size.bytes, size.id); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		sizes = sizes[len(page):]
	}
	return nil
}

// pruneChunk removes the oldest runs up to a cut.
func (tx *Tx) pruneChunk(upTo cut, gone *removal) error {
	var ids []string
	scopes := map[sidecar.Scope]bool{}
	rows, err := tx.query(`
		SELECT s.run_id, coalesce(s.bytes, 0), coalesce((SELECT r.scope_key FROM runs AS r WHERE r.run_id = s.run_id), '')
		FROM run_state AS s INDEXED BY run_state_kept
		WHERE `+doomedRuns+`
		ORDER BY s.finished_at, s.run_id LIMIT ?`, upTo.at, upTo.id, maxPruned)
	var sizes []int64
	err = each(rows, err, func(row scanner) error {
		var id, scope textCell
		var bytes int64
		err := row.Scan(&id, &bytes, &scope)
		ids, sizes = append(ids, string(id)), append(sizes, bytes)
		scopes[sidecar.Scope(scope)] = true
		return err
	})
	if err != nil || len(ids) == 0 {
		return err
	}
	for scope := range scopes {
		tx.Touch(scope)
	}
	for began := time.Now(); len(ids) > 0 && time.Since(began) < pruneTime; {
		step := min(pruneStep, len(ids))
		if err := tx.removeRuns(ids[:step], gone); err != nil {
			return err
		}
		for _, bytes := range sizes[:step] {
			gone.Bytes += bytes
		}
		ids, sizes = ids[step:], sizes[step:]
	}
	return tx.finishRemoval(gone)
}

// ownEvents are the oldest events that belong to no run.
const ownEvents = "SELECT e.seq, e.at, e.hash FROM events AS e WHERE e.run_id = '' ORDER BY e.seq LIMIT ?"

// pruneOwn removes the oldest events that belong to no run, as far as they are
// older than the runs that went.
func (s *Store) pruneOwn(ctx context.Context, upTo cut) (int, error) {
	total := 0
	for !upTo.zero() {
		count := 0
		err := s.Do(ctx, func(tx *Tx) (err error) {
			count, err = tx.trimOwn(upTo.at)
			return err
		})
		total += count
		if err != nil || count < maxPruned {
			return total, err
		}
	}
	return total, nil
}

// trimOwn removes a prefix of the chain that belongs to no run. The hash of its
// last one becomes the base of what stays.
func (tx *Tx) trimOwn(before string) (int, error) {
	var last int64
	var base []byte
	rows, err := tx.query(ownEvents, maxPruned)
	older := true
	err = each(rows, err, func(row scanner) error {
		var seq int64
		var at textCell
		var hash []byte
		if err := row.Scan(&seq, &at, &hash); err != nil {
			return err
		}
		if older = older && string(at) < before; older {
			last, base = seq, hash
		}
		return nil
	})
	if err != nil || last == 0 {
		return 0, err
	}
	count, err := tx.count("DELETE FROM events WHERE run_id = '' AND seq <= ?", last)
	if err != nil {
		return 0, err
	}
	_, err = tx.Exec("INSERT INTO sidecar_meta (key, value) VALUES ('base_hash', ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value", base)
	if err != nil {
		return 0, err
	}
	return count, tx.trimmed(sidecar.Seq(last))
}
