package sqlite

import "github.com/comfygit-ai/studio-sidecar/sidecar"

// planner counts what pruning would remove, by the same cut.
type planner struct {
	cutter
	pruned sidecar.Pruned
	refs   map[string]bool
	named  map[string]bool // digests that doomed runs name
}

func (p *planner) plan(q querier) error {
	p.refs, p.named = map[string]bool{}, map[string]bool{}
	if err := p.find(q); err != nil {
		return err
	}
	if !p.upTo.zero() {
		if err := p.runs(q); err != nil {
			return err
		}
		if err := p.blobs(q); err != nil {
			return err
		}
	}
	return p.leftovers(q)
}

// runs counts the runs that go and what belongs to them.
func (p *planner) runs(q querier) error {
	for from := (cut{}); ; {
		runs, err := p.sized(q, sizesUp, p.upTo.at, p.upTo.id, toldSince(p.now), from.at, from.id, measuredPage)
		if err != nil {
			return err
		}
		ids := make([]string, 0, len(runs))
		for _, run := range runs {
			ids = append(ids, run.id)
			p.pruned.Bytes += run.bytes
			from = run.cut
		}
		if err := p.count(q, jsonList(ids)); err != nil {
			return err
		}
		p.pruned.Runs += len(runs)
		if len(runs) < measuredPage {
			return nil
		}
	}
}

func (p *planner) count(q querier, list string) error {
	var items, events int
	if _, err := one(q, []any{&items}, "SELECT count(*) FROM "+itemsOfThese, list); err != nil {
		return err
	}
	if _, err := one(q, []any{&events}, "SELECT count(*) FROM "+eventsOfThese, list); err != nil {
		return err
	}
	p.pruned.Items += items
	p.pruned.Events += events
	rows, err := q.query(copiesOfThese, list, list)
	err = each(rows, err, func(row scanner) error {
		var id, ref textCell
		err := row.Scan(&id, &ref)
		p.refs[string(ref)] = true
		return err
	})
	if err != nil {
		return err
	}
	rows, err = q.query(digestsNamed, list)
	return each(rows, err, noteDigests(p.named))
}

// unnamedThen counts the blobs of a JSON array that only doomed runs name.
const unnamedThen = `
	SELECT count(*) FROM json_each(?1) AS j CROSS JOIN blobs AS b ON b.sha256 = j.value
	WHERE NOT EXISTS (SELECT 1 FROM run_state AS s
			WHERE substr(s.graph, 1, 16) = substr(b.sha256, 1, 16) AND s.graph = b.sha256 AND NOT ` + upToCut + `)
		AND NOT EXISTS (SELECT 1 FROM run_state AS s
			WHERE substr(s.contract, 1, 16) = substr(b.sha256, 1, 16) AND s.contract = b.sha256 AND NOT ` + upToCut + `)`

const upToCut = "(" + prunable + " AND (s.finished_at, s.run_id) <= (?2, ?3) AND " + notAwaited + ")"

func (p *planner) blobs(q querier) error {
	page := make([]string, 0, measuredPage)
	flush := func() error {
		var n int
		_, err := one(q, []any{&n}, unnamedThen, jsonList(page), p.upTo.at, p.upTo.id, toldSince(p.now), toldSince(p.now))
		p.pruned.Blobs += n
		page = page[:0]
		return err
	}
	for digest := range p.named {
		if page = append(page, digest); len(page) == measuredPage {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// leftovers counts events of nobody that go, copies, and uploads whose time is
// over.
func (p *planner) leftovers(q querier) error {
	if before := p.ownBefore(); before != "" {
		if err := p.ownEvents(q, before); err != nil {
			return err
		}
	}
	rows, err := q.query("SELECT path FROM files WHERE kind = ?", kindDoomed)
	err = each(rows, err, func(row scanner) error {
		var ref textCell
		err := row.Scan(&ref)
		p.refs[string(ref)] = true
		return err
	})
	if err != nil {
		return err
	}
	p.pruned.Copies = len(p.refs)
	used, err := usedUploads(q)
	if err != nil {
		return err
	}
	expired, err := uploads(q, "SELECT "+fileTable.list("f")+" FROM files AS f WHERE f.kind = ? AND f.expires_at <= ?",
		kindUpload, sidecar.FormatTime(p.now))
	for _, u := range expired {
		if !used[u.ID] {
			p.pruned.Uploads++
		}
	}
	return err
}

func (p *planner) ownEvents(q querier, before string) error {
	older := true
	rows, err := q.query("SELECT e.at FROM events AS e WHERE e.run_id = '' ORDER BY e.seq")
	return each(rows, err, func(row scanner) error {
		var at textCell
		err := row.Scan(&at)
		if older = older && string(at) < before; older {
			p.pruned.Events++
		}
		return err
	})
}
