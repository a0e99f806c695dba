package sqlite

import (
	"context"
	"errors"
	"maps"
	"slices"
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

// toldLife is for how long after its end a run is kept to be told of. It is
// tried for a shorter time: what is left then is of a role that the file served
// before, in which somebody tried.
const toldLife = 7 * 24 * time.Hour

// toldSince is when runs ended that may still be told of.
func toldSince(now time.Time) string { return sidecar.FormatTime(now.Add(-toldLife)) }

// notAwaited leaves out runs whose outputs an unfinished run waits for, and
// those that ended after toldSince and somebody is still to be told of.
const notAwaited = "NOT EXISTS (SELECT 1 FROM run_state AS c WHERE c.phase <> 'finished' AND c.parent = s.run_id)" +
	" AND NOT EXISTS (SELECT 1 FROM cursors AS d WHERE d.consumer = '" + callbackConsumer + "' || s.run_id AND s.finished_at > ?)"

// doomedRuns are those up to a cut that go.
const doomedRuns = prunable + " AND (s.finished_at, s.run_id) <= (?, ?) AND " + notAwaited

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
	if keep == (sidecar.Retention{}) {
		return sidecar.Pruned{}, nil
	}
	ctx = freeing(ctx)
	c := cutter{ctx: ctx, keep: keep, now: now, size: size}
	err := s.walk(ctx, false, c.find)
	if err == nil {
		err = s.keepSizes(ctx, c.sizes)
	}
	var pruned sidecar.Pruned
	if err == nil && !c.upTo.zero() {
		pruned, err = s.pruneRuns(ctx, &c)
	}
	if err == nil && keep.Age > 0 {
		err = s.pruneSessions(ctx, sidecar.FormatTime(now.Add(-keep.Age)))
	}
	if err == nil {
		var events int
		events, err = s.pruneOwn(ctx, c.ownBefore())
		pruned.Events += events
	}
	return pruned, wrapped("prune", err)
}

// pruneRuns removes the runs up to the cut, a page at a time. What of a page
// could not go is not looked at again.
func (s *Store) pruneRuns(ctx context.Context, c *cutter) (sidecar.Pruned, error) {
	var pruned sidecar.Pruned
	for from := (cut{}); ; {
		var page []sizedRun
		err := s.walk(ctx, false, func(q querier) (err error) {
			c.sizes = nil // of runs that go
			page, err = c.sized(q, sizesUp, c.upTo.at, c.upTo.id, toldSince(c.now), from.at, from.id, maxPruned)
			return err
		})
		if err != nil || len(page) == 0 {
			return pruned, err
		}
		from = page[len(page)-1].cut
		for len(page) > 0 {
			var gone removal
			done := 0
			err := s.Do(ctx, func(tx *Tx) (err error) {
				gone = removal{}
				done, err = tx.pruneSome(page, toldSince(c.now), &gone)
				return err
			})
			if err != nil {
				return pruned, err
			}
			pruned = add(pruned, gone.Pruned)
			page = page[done:]
		}
	}
}

func add(a, b sidecar.Pruned) sidecar.Pruned {
	a.Runs, a.Items, a.Events, a.Blobs, a.Copies = a.Runs+b.Runs, a.Items+b.Items, a.Events+b.Events, a.Blobs+b.Blobs, a.Copies+b.Copies
	a.Bytes += b.Bytes
	return a
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
	// A new connection opens what stands there now.
	if err := s.place.check(); err != nil {
		return errors.Join(err, session.close())
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
				if _, err := tx.Exec("UPDATE run_state SET bytes = ? WHERE run_id = ? AND phase = 'finished' AND bytes IS NULL AND revision = ?",
					size.bytes, size.id, size.revision); err != nil {
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

// stillPrunable are those of a JSON array that were not pinned meanwhile, nor
// taken up again.
const stillPrunable = `
	SELECT s.run_id, r.scope_key
	FROM json_each(?) AS j CROSS JOIN run_state AS s ON s.run_id = j.value CROSS JOIN runs AS r ON r.run_id = s.run_id
	WHERE ` + prunable + ` AND ` + notAwaited

// pruneSome removes runs of a page as long as a transaction may take, and
// returns of how many it is done.
func (tx *Tx) pruneSome(page []sizedRun, told string, gone *removal) (int, error) {
	done := 0
	for began := time.Now(); done < len(page) && (done == 0 || time.Since(began) < tx.store.pruneTime); {
		step := page[done:min(done+pruneStep, len(page))]
		sizes := map[string]int64{}
		for _, run := range step {
			sizes[run.id] = run.bytes
		}
		var ids []string
		rows, err := tx.query(stillPrunable, jsonList(slices.Sorted(maps.Keys(sizes))), told)
		err = each(rows, err, func(row scanner) error {
			var id, scope textCell
			err := row.Scan(&id, &scope)
			ids = append(ids, string(id))
			gone.Bytes += sizes[string(id)]
			tx.Touch(sidecar.Scope(scope))
			return err
		})
		if err != nil {
			return done, err
		}
		if err := tx.removeRuns(ids, gone); err != nil {
			return done, err
		}
		done += len(step)
	}
	return done, tx.finishRemoval(gone)
}

// ownEvents are the oldest events that belong to no run.
const ownEvents = "SELECT e.seq, e.at, e.hash FROM events AS e WHERE e.run_id = '' ORDER BY e.seq LIMIT ?"

// pruneOwn removes the oldest events that belong to no run, as far as they are
// older than a time.
func (s *Store) pruneOwn(ctx context.Context, before string) (int, error) {
	total := 0
	for before != "" {
		count := 0
		err := s.Do(ctx, func(tx *Tx) (err error) {
			count, err = tx.trimOwn(before)
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
	return count, tx.trimmed("", sidecar.Seq(last))
}
