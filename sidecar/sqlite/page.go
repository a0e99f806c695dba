package sqlite

import (
	"context"
	"fmt"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// Page reads a window of what belongs to a run, as of one revision. An unknown
// run is [sidecar.ErrNotFound].
func (s *Store) Page(ctx context.Context, id sidecar.RunID, kind sidecar.PageKind, cursor int) (*sidecar.ViewPage, error) {
	p := &sidecar.ViewPage{}
	err := s.view(ctx, true, func(q querier) (err error) {
		runs, err := storedRuns(q, runSelect+" WHERE r.run_id = ?", string(id))
		if err != nil {
			return err
		}
		if len(runs) == 0 {
			return sidecar.ErrNotFound
		}
		p.Run = &runs[0].Run
		switch kind {
		case sidecar.PageEvents:
			return readEventPage(q, p, cursor)
		case sidecar.PageNodes:
			return readNodePage(q, p, cursor)
		case sidecar.PageSlots:
			return readSlotPage(q, p, cursor)
		}
		return fmt.Errorf("there are no pages of %q", kind)
	})
	if err != nil {
		return nil, fmt.Errorf("read a page of run %s: %w", id, err)
	}
	return p, nil
}

func countOf(q querier, text string, id sidecar.RunID) (n int, err error) {
	_, err = one(q, []any{&n}, text, string(id))
	return n, err
}

func readEventPage(q querier, p *sidecar.ViewPage, cursor int) (err error) {
	if p.Total, err = countOf(q, "SELECT count(*) FROM events WHERE run_id = ?", p.Run.ID); err != nil {
		return err
	}
	p.Start = sidecar.PageStart(p.Total, cursor)
	p.Events, err = eventRows(q, "SELECT "+eventColumns+" FROM events WHERE run_id = ? ORDER BY seq LIMIT ? OFFSET ?",
		string(p.Run.ID), sidecar.PageSize, p.Start)
	return err
}

func readNodePage(q querier, p *sidecar.ViewPage, cursor int) (err error) {
	if p.Total, err = countOf(q, "SELECT count(*) FROM node_runs WHERE run_id = ?", p.Run.ID); err != nil {
		return err
	}
	p.Start = sidecar.PageStart(p.Total, cursor)
	rows, err := q.query(nodeSelect+" LIMIT ? OFFSET ?", string(p.Run.ID), sidecar.PageSize, p.Start)
	p.Run.Nodes, err = scanNodes(rows, err)
	return err
}

// readSlotPage reads all slots: their order is told by their ids alone.
func readSlotPage(q querier, p *sidecar.ViewPage, cursor int) error {
	slots, err := slotsOf(q, p.Run)
	if err != nil {
		return err
	}
	p.Total = len(slots)
	p.Start = sidecar.PageStart(p.Total, cursor)
	p.Run.Slots = slots[p.Start:min(p.Total, p.Start+sidecar.PageSize)]
	return nil
}

// maxDeltas is how many events are read at once.
const maxDeltas = 256

// Deltas reads what moved a run on from a revision. [sidecar.ErrTrimmed] when
// there is no way from there, with the revisions from which there is one.
func (s *Store) Deltas(ctx context.Context, id sidecar.RunID, after int64) (*sidecar.Deltas, error) {
	d := &sidecar.Deltas{}
	err := s.view(ctx, true, func(q querier) error {
		var scope textCell
		found, err := one(q, []any{&scope, &d.Revision}, `SELECT r.scope_key, coalesce(s.revision, 0)
			FROM runs AS r LEFT JOIN run_state AS s ON s.run_id = r.run_id WHERE r.run_id = ?`, string(id))
		if err != nil || !found {
			return orNotFound(err)
		}
		d.Scope = sidecar.Scope(scope)
		d.RetainedFrom = d.Revision + 1
		_, err = one(q, []any{&d.RetainedFrom}, "SELECT revision FROM events WHERE run_id = ? ORDER BY seq LIMIT 1", string(id))
		if err != nil {
			return err
		}
		if after > d.Revision || after+1 < d.RetainedFrom {
			return sidecar.ErrTrimmed
		}
		return readDeltas(q, d, id, after)
	})
	if err != nil {
		return d, fmt.Errorf("read how run %s moved: %w", id, err)
	}
	return d, nil
}

func orNotFound(err error) error {
	if err != nil {
		return err
	}
	return sidecar.ErrNotFound
}

func readDeltas(q querier, d *sidecar.Deltas, id sidecar.RunID, after int64) error {
	rows, err := q.query("SELECT "+eventColumns+" FROM events WHERE run_id = ? AND revision > ? ORDER BY seq LIMIT ?",
		string(id), after, maxDeltas)
	err = each(rows, err, func(row scanner) error {
		e, err := scanEvent(row)
		d.Events = append(d.Events, e)
		return err
	})
	if err != nil {
		return err
	}
	for i, e := range d.Events {
		if e.Revision != after+int64(i)+1 {
			return sidecar.ErrTrimmed
		}
	}
	if len(d.Events) < maxDeltas && after+int64(len(d.Events)) != d.Revision {
		return sidecar.ErrTrimmed
	}
	return nil
}
