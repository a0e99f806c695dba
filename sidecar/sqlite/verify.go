package sqlite

import (
	"bytes"
	"context"
	"fmt"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// maxFaults bounds a report: a file with more is not to be mended by hand.
const maxFaults = 1000

// Report is what Verify found.
type Report struct {
	Runs   int
	Events int
	Blobs  int
	Faults []Fault
}

// Fault is one thing that is not as it was written.
type Fault struct {
	Run     sidecar.RunID // empty when it concerns no run
	Seq     sidecar.Seq   // 0 when it concerns no event
	Message string
}

// Verify reads the whole file: its pages and indexes, foreign keys, every
// chain of events from its beginning to the head that its run remembers, the
// numbers of the events, every blob, whether all blobs that runs name are
// there, and the rows of every finished run. SQLite notices no flipped bit; the
// chains and digests do. It sees one moment of the file and holds nobody up.
func (s *Store) Verify(ctx context.Context) (Report, error) {
	v := verifier{ctx: ctx, closed: s.closed}
	if err := s.walk(ctx, true, v.verify); err != nil {
		return v.report, fmt.Errorf("verify %s: %w", s.path, err)
	}
	return v.report, nil
}

type verifier struct {
	ctx    context.Context
	closed func() bool
	plain  bool // no tables of ours are there
	report Report
}

// stop is why the walk should end here.
func (v *verifier) stop() error {
	if v.closed() {
		return ErrClosed
	}
	return v.ctx.Err()
}

func (v *verifier) fault(run sidecar.RunID, seq sidecar.Seq, format string, args ...any) {
	if len(v.report.Faults) < maxFaults {
		v.report.Faults = append(v.report.Faults, Fault{run, seq, fmt.Sprintf(format, args...)})
	}
}

func (v *verifier) verify(q querier) error {
	steps := []func(querier) error{v.pages, v.keys, v.chains, v.numbers, v.blobs, v.names, v.rows}
	if v.plain {
		steps = steps[:2]
	}
	for _, step := range steps {
		if err := step(q); err != nil {
			if damageOf(err) != lasting {
				return err
			}
			v.fault("", 0, "the file is damaged: %v", err)
		}
	}
	return nil
}

func (v *verifier) pages(q querier) error {
	rows, err := q.query("PRAGMA integrity_check(100)")
	return each(rows, err, func(row scanner) error {
		var verdict string
		if err := row.Scan(&verdict); err != nil {
			return err
		}
		if verdict != "ok" {
			v.fault("", 0, "%s", verdict)
		}
		return v.stop()
	})
}

// link is where the walk along a chain is.
type link struct {
	run    sidecar.RunID
	hash   []byte
	head   []byte
	broken bool
}

// chains walks the events of all runs, run by run.
func (v *verifier) chains(q querier) error {
	var at *link
	rows, err := q.query(`
		SELECT
			c.run_id, c.base_hash, c.head_hash,
			e.seq, e.run_id, e.scope, e.revision, e.type, e.targets, e.at, e.hash
		FROM (
			SELECT run_id, base_hash, head_hash FROM run_state
			UNION ALL
			SELECT '', (SELECT value FROM sidecar_meta WHERE key = 'base_hash'), value FROM sidecar_meta WHERE key = 'head_hash'
		) AS c LEFT JOIN events AS e ON e.run_id = c.run_id
		ORDER BY c.run_id, e.seq`)
	err = each(rows, err, func(row scanner) error {
		next, event, err := scanLink(row)
		if err != nil {
			return err
		}
		if at == nil || at.run != next.run {
			v.end(at)
			at = next
			if at.run != "" {
				v.report.Runs++
			}
		}
		v.step(at, event)
		return v.stop()
	})
	if err == nil {
		v.end(at)
	}
	return err
}

// eventCells is a row of events that may be absent, or nonsense.
type eventCells struct {
	seq, revision              numberCell
	run, scope, kind, text, at textCell
	hash                       []byte
}

func scanLink(row scanner) (*link, *eventCells, error) {
	var l link
	var e eventCells
	err := row.Scan(&l.run, &l.hash, &l.head,
		&e.seq, &e.run, &e.scope, &e.revision, &e.kind, &e.text, &e.at, &e.hash)
	return &l, &e, err
}

func (v *verifier) step(at *link, e *eventCells) {
	if e.seq == 0 {
		return
	}
	v.report.Events++
	seq := sidecar.Seq(e.seq)
	event := sidecar.Event{
		Seq: seq, Run: at.run, Scope: sidecar.Scope(e.scope), Revision: int64(e.revision),
		Type: sidecar.EventType(e.kind), At: timeOf(e.at), Targets: jsonOf(string(e.text)),
	}
	hash := hashOf(at.hash, recordOf(event))
	if !bytes.Equal(hash, e.hash) || event.Targets == nil || sidecar.FormatTime(event.At) != string(e.at) {
		v.fault(at.run, seq, "the event is not as it was written, or one before it is missing")
		at.broken = true
	}
	at.hash = e.hash
}

// end looks whether a chain ends where its run says.
func (v *verifier) end(at *link) {
	if at == nil || at.broken {
		return
	}
	if !bytes.Equal(at.hash, at.head) {
		v.fault(at.run, 0, "its last events are missing")
	}
}

// numbers looks for events that are in no chain, or are gone.
func (v *verifier) numbers(q querier) error {
	var trimmed, newest int64
	_, err := one(q, []any{&trimmed, &newest}, `
		SELECT
			coalesce((SELECT value FROM sidecar_meta WHERE key = 'trimmed_to'), 0),
			max(
				coalesce((SELECT value FROM sidecar_meta WHERE key = 'head'), 0),
				coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'events'), 0))`) // of versions before 8
	if err != nil {
		return err
	}
	last := trimmed
	rows, err := q.query("SELECT seq FROM events WHERE seq > ? ORDER BY seq", trimmed)
	err = each(rows, err, func(row scanner) error {
		var seq int64
		if err := row.Scan(&seq); err != nil {
			return err
		}
		if seq != last+1 {
			v.fault("", sidecar.Seq(last+1), "%d events are missing from here", seq-last-1)
		}
		last = seq
		return v.stop()
	})
	if err == nil && last < newest {
		v.fault("", sidecar.Seq(last+1), "the newest %d events are missing", newest-last)
	}
	return err
}

func (v *verifier) blobs(q querier) error {
	rows, err := q.query("SELECT sha256, data FROM blobs")
	return each(rows, err, func(row scanner) error {
		var digest textCell
		var data []byte
		if err := row.Scan(&digest, &data); err != nil {
			return err
		}
		v.report.Blobs++
		if sidecar.DigestOf(data) != sidecar.Digest(digest) {
			v.fault("", 0, "blob %s is not as it was written", string(digest))
		}
		return v.stop()
	})
}

// keys looks for rows whose foreign keys lead nowhere.
func (v *verifier) keys(q querier) error {
	rows, err := q.query("SELECT \"table\", parent FROM pragma_foreign_key_check")
	return each(rows, err, func(row scanner) error {
		var table, parent textCell
		err := row.Scan(&table, &parent)
		v.fault("", 0, "a row of %s names one of %s that is not there", string(table), string(parent))
		return err
	})
}

// names looks for blobs that runs name and that are not there.
func (v *verifier) names(q querier) error {
	rows, err := q.query(`
		SELECT s.run_id, 'graph' FROM run_state AS s
		WHERE s.graph <> '' AND NOT EXISTS (SELECT 1 FROM blobs AS b WHERE b.sha256 = s.graph)
		UNION ALL
		SELECT s.run_id, 'contract' FROM run_state AS s
		WHERE s.contract <> '' AND NOT EXISTS (SELECT 1 FROM blobs AS b WHERE b.sha256 = s.contract)`)
	return each(rows, err, func(row scanner) error {
		var run, what textCell
		if err := row.Scan(&run, &what); err != nil {
			return err
		}
		v.fault(sidecar.RunID(run), 0, "the %s that it was launched with is missing", string(what))
		return v.stop()
	})
}
