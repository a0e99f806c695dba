package sqlite

import (
	"context"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// runSize is what a run takes of the disk, as of a revision.
type runSize struct {
	id       string
	revision int64
	bytes    int64
}

// cutter finds where retention cuts.
type cutter struct {
	ctx  context.Context
	keep sidecar.Retention
	now  time.Time
	size func(ref string) int64

	upTo  cut
	sizes []runSize // that were measured
}

// ownBefore is the time before which events that belong to no run go: when the
// newest run that goes ended, and as long ago as runs go.
func (c *cutter) ownBefore() string {
	if c.keep.Age > 0 {
		return max(c.upTo.at, sidecar.FormatTime(c.now.Add(-c.keep.Age)))
	}
	return c.upTo.at
}

func (c *cutter) find(q querier) error {
	if c.keep.Age > 0 {
		at := sidecar.FormatTime(c.now.Add(-c.keep.Age))
		if err := c.newest(q, "SELECT s.finished_at, s.run_id FROM run_state AS s INDEXED BY run_state_kept WHERE "+prunable+
			" AND s.finished_at <= ? ORDER BY s.finished_at DESC, s.run_id DESC LIMIT 1", at); err != nil {
			return err
		}
	}
	if c.keep.Runs > 0 {
		if err := c.newest(q, "SELECT s.finished_at, s.run_id FROM run_state AS s INDEXED BY run_state_kept WHERE "+prunable+
			" ORDER BY s.finished_at DESC, s.run_id DESC LIMIT 1 OFFSET ?", c.keep.Runs); err != nil {
			return err
		}
	}
	if c.keep.Bytes > 0 {
		return c.largest(q)
	}
	return nil
}

// newest moves the cut to the run that a query finds, if that is later.
func (c *cutter) newest(q querier, text string, args ...any) error {
	var at, id textCell
	_, err := one(q, []any{&at, &id}, text, args...)
	c.upTo = c.upTo.later(cut{string(at), string(id)})
	return err
}

const sizesDown = "SELECT s.finished_at, s.run_id, s.bytes FROM run_state AS s INDEXED BY run_state_kept WHERE " + prunable +
	" AND (s.finished_at, s.run_id) < (?, ?) ORDER BY s.finished_at DESC, s.run_id DESC LIMIT ?"

// largest walks from the newest run down to where what is kept would be too
// large.
func (c *cutter) largest(q querier) error {
	total, from := int64(0), cut{"~", "~"}
	for {
		runs, err := c.sized(q, sizesDown, from.at, from.id, measuredPage)
		if err != nil {
			return err
		}
		for _, run := range runs {
			if total += run.bytes; total > c.keep.Bytes {
				c.upTo = c.upTo.later(run.cut)
				return nil
			}
			from = run.cut
		}
		if len(runs) < measuredPage {
			return nil
		}
	}
}

// sizesUp lists runs up to a cut, from another one on.
const sizesUp = "SELECT s.finished_at, s.run_id, s.bytes FROM run_state AS s INDEXED BY run_state_kept WHERE " + doomedRuns +
	" AND (s.finished_at, s.run_id) > (?, ?) ORDER BY s.finished_at, s.run_id LIMIT ?"

// sizedRun is a run with its size.
type sizedRun struct {
	cut
	bytes int64
}

// sized lists runs with their sizes, and measures those that were not yet.
func (c *cutter) sized(q querier, text string, args ...any) ([]sizedRun, error) {
	if err := c.ctx.Err(); err != nil {
		return nil, err
	}
	var runs []sizedRun
	unknown := map[string]int{}
	rows, err := q.query(text, args...)
	err = each(rows, err, func(row scanner) error {
		var at, id textCell
		var bytes any
		if err := row.Scan(&at, &id, &bytes); err != nil {
			return err
		}
		known, ok := bytes.(int64)
		if !ok {
			unknown[string(id)] = len(runs)
		}
		runs = append(runs, sizedRun{cut{string(at), string(id)}, known})
		return nil
	})
	if err != nil || len(unknown) == 0 {
		return runs, err
	}
	ids := make([]string, 0, len(unknown))
	for id := range unknown {
		ids = append(ids, id)
	}
	sizes, err := c.measure(q, ids)
	for id, size := range sizes {
		runs[unknown[id]].bytes = size.bytes
		c.sizes = append(c.sizes, *size)
	}
	return runs, err
}

// rowBytes is about what the rows of a run and their indexes take beside
// their texts.
const rowBytes = 2000

const sizeOfThese = `
		SELECT r.run_id, (SELECT s.revision FROM run_state AS s WHERE s.run_id = r.run_id), octet_length(r.inputs_json) + coalesce(octet_length(r.raw_result_json), 0)
			+ (SELECT coalesce(sum(octet_length(e.targets) + 200), 0) FROM events AS e WHERE e.run_id = r.run_id)
			+ (SELECT coalesce(sum(coalesce(octet_length(o.raw_result_json), 0) + 300), 0) FROM output_slots AS o
				WHERE o.scope_key = r.scope_key AND o.run_id = r.run_id)
			+ (SELECT coalesce(sum(octet_length(i.inputs_json) + coalesce(octet_length(i.artifact_json), 0)
				+ coalesce(octet_length(i.raw_result_json), 0) + 400), 0) FROM gallery_items AS i
				WHERE i.scope_key = r.scope_key AND i.run_id = r.run_id)
			+ coalesce((SELECT b.size FROM run_state AS s, blobs AS b WHERE s.run_id = r.run_id AND b.sha256 = s.graph), 0)
		FROM json_each(?) AS j CROSS JOIN runs AS r ON r.run_id = j.value`

// measure tells what runs take: their rows, their graph, and their copies.
func (c *cutter) measure(q querier, ids []string) (map[string]*runSize, error) {
	sizes := make(map[string]*runSize, len(ids))
	list := jsonList(ids)
	rows, err := q.query(sizeOfThese, list)
	err = each(rows, err, func(row scanner) error {
		var id textCell
		var revision, bytes numberCell
		err := row.Scan(&id, &revision, &bytes)
		sizes[string(id)] = &runSize{string(id), int64(revision), int64(bytes) + rowBytes}
		return err
	})
	if err != nil {
		return nil, err
	}
	rows, err = q.query(copiesOfThese, list, list)
	err = each(rows, err, func(row scanner) error {
		var id, ref textCell
		err := row.Scan(&id, &ref)
		if size := sizes[string(id)]; size != nil {
			size.bytes += c.size(string(ref))
		}
		return err
	})
	return sizes, err
}
