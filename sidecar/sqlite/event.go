package sqlite

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// tailLength is how many records are kept in memory, encoded: some seconds of
// a busy machine, a megabyte.
const tailLength = 1024

// hashOf chains a record to the hash of the one before it. What is hashed is
// all that the row says.
func hashOf(before []byte, record sidecar.Record) []byte {
	h := sha256.New()
	h.Write(before)
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(record.Seq)))
	h.Write([]byte(record.Scope))
	h.Write([]byte{0})
	h.Write(record.JSON)
	return h.Sum(nil)
}

func recordOf(e sidecar.Event) sidecar.Record {
	return sidecar.Record{Seq: e.Seq, Run: e.Run, Scope: e.Scope, Type: e.Type, JSON: e.JSON()}
}

// Append commits events, in order. Those of a run go on with its chain.
func (s *Store) Append(ctx context.Context, events ...sidecar.Event) error {
	told := slices.Clone(events)
	err := s.Do(ctx, func(tx *Tx) error { return tx.Append(told...) })
	if err != nil {
		return fmt.Errorf("append events: %w", err)
	}
	return nil
}

// Append is Store.Append within a larger transaction.
func (tx *Tx) Append(events ...sidecar.Event) error {
	heads := map[sidecar.RunID][]byte{}
	if err := tx.chain(heads, events); err != nil {
		return err
	}
	return tx.setHeads(heads)
}

// chain numbers events and adds them behind the heads of their chains, which
// it reads where heads does not have them, and moves in heads alone.
func (tx *Tx) chain(heads map[sidecar.RunID][]byte, events []sidecar.Event) error {
	records := make([]sidecar.Record, 0, len(events))
	for _, e := range events {
		if len(e.Targets) > 0 && !json.Valid(e.Targets) {
			return fmt.Errorf("the targets of event %s are not JSON", e.Type)
		}
		if _, known := heads[e.Run]; !known {
			head, err := tx.head(e.Run)
			if err != nil {
				return err
			}
			heads[e.Run] = head
		}
		e.Seq = tx.seq + sidecar.Seq(len(records)) + 1
		record := recordOf(e)
		hash := hashOf(heads[e.Run], record)
		if err := tx.insertEvent(e, hash); err != nil {
			return err
		}
		heads[e.Run] = hash
		records = append(records, record)
		tx.Touch(e.Scope)
	}
	tx.seq += sidecar.Seq(len(records))
	tx.records = append(tx.records, records...)
	return nil
}

func (tx *Tx) insertEvent(e sidecar.Event, hash []byte) error {
	targets := string(e.Targets)
	if targets == "" {
		targets = "null"
	}
	_, err := tx.Exec(`
		INSERT INTO events (seq, run_id, scope, revision, type, targets, at, hash)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
		int64(e.Seq), string(e.Run), string(e.Scope), e.Revision, string(e.Type), targets, sidecar.FormatTime(e.At), hash)
	if err != nil {
		return fmt.Errorf("write event %d: %w", e.Seq, err)
	}
	return nil
}

// head is the hash of the newest event of a chain: a run's, or that of the
// events without one.
func (tx *Tx) head(run sidecar.RunID) ([]byte, error) {
	var head []byte
	text, args := "SELECT head_hash FROM run_state WHERE run_id = ?", []any{string(run)}
	if run == "" {
		text, args = "SELECT value FROM sidecar_meta WHERE key = 'head_hash'", nil
	}
	found, err := one(tx, []any{&head}, text, args...)
	if err == nil && !found {
		err = fmt.Errorf("run %s: %w", run, sidecar.ErrNotFound)
	}
	return head, err
}

func (tx *Tx) setHeads(heads map[sidecar.RunID][]byte) error {
	for run, hash := range heads {
		text, args := "UPDATE run_state SET head_hash = ? WHERE run_id = ?", []any{blob(hash), string(run)}
		if run == "" {
			text, args = "UPDATE sidecar_meta SET value = ? WHERE key = 'head_hash'", args[:1]
		} else {
			tx.forget(run)
		}
		if _, err := tx.Exec(text, args...); err != nil {
			return err
		}
	}
	return nil
}

// Head is the number of the newest committed event.
func (s *Store) Head() sidecar.Seq { return s.tail.head() }

// Changed returns a channel that is closed when events were committed. Take it
// before looking at what it announces.
func (s *Store) Changed() <-chan struct{} { return s.bell.Wait() }

// Version grows with every committed change of what a scope shows. It does not
// outlive the process, and does not repeat in the next.
func (s *Store) Version(scope sidecar.Scope) int64 { return s.versions.of(scope) }

// Events lists committed events after a number, oldest first, at most limit of
// them, or 1,024 when limit is 0 or less: those of scope and those for
// everybody; of one run when run is not empty. [sidecar.ErrTrimmed] when some
// of them are gone, and when after is beyond the newest: the reader's number
// is of another file. The JSON of a record must not be changed.
func (s *Store) Events(ctx context.Context, scope sidecar.Scope, run sidecar.RunID, after sidecar.Seq, limit int) ([]sidecar.Record, error) {
	if limit <= 0 {
		limit = tailLength
	}
	after = max(after, 0)
	records, inside := s.tail.since(after, func(r *sidecar.Record) bool {
		return (r.Scope == "" || r.Scope == scope) && (run == "" || r.Run == run)
	}, limit)
	if inside {
		return records, nil
	}
	if after > s.Head() {
		return nil, sidecar.ErrTrimmed
	}
	err := s.view(ctx, true, func(q querier) (err error) {
		if run == "" {
			records, err = eventRows(q, scopeEvents, string(scope), int64(after), limit, int64(after), limit, limit)
			return err
		}
		if err := checkRetained(q, run, after); err != nil {
			return err
		}
		records, err = eventRows(q, runEvents, string(run), int64(after), string(scope), limit)
		return err
	})
	// Pruning says so before it commits: what was read after that may have holes.
	if err == nil && run == "" && after < s.floors.of(scope) {
		return nil, sidecar.ErrTrimmed
	}
	if err != nil && !errors.Is(err, sidecar.ErrTrimmed) {
		err = fmt.Errorf("list events after %d: %w", after, err)
	}
	return records, err
}

const eventColumns = "seq, run_id, scope, revision, type, targets, at"

const (
	scopeEvents = `
		SELECT * FROM (SELECT ` + eventColumns + ` FROM events WHERE scope = ? AND seq > ? ORDER BY seq LIMIT ?)
		UNION
		SELECT * FROM (SELECT ` + eventColumns + ` FROM events WHERE scope = '' AND seq > ? ORDER BY seq LIMIT ?)
		ORDER BY seq LIMIT ?`
	runEvents = `
		SELECT ` + eventColumns + ` FROM events
		WHERE run_id = ? AND seq > ? AND scope IN (?, '')
		ORDER BY seq LIMIT ?`
)

func checkRetained(q querier, run sidecar.RunID, after sidecar.Seq) error {
	from, err := retainedFrom(q, run)
	if err == nil && after+1 < from {
		return sidecar.ErrTrimmed
	}
	return err
}

func retainedFrom(q querier, run sidecar.RunID) (from sidecar.Seq, err error) {
	_, err = one(q, []any{&from}, "SELECT retained_from FROM run_state WHERE run_id = ?", string(run))
	return from, err
}

// RetainedFrom is the number of the first event that is kept for a scope, of
// one run when run is not empty.
func (s *Store) RetainedFrom(ctx context.Context, scope sidecar.Scope, run sidecar.RunID) (from sidecar.Seq, err error) {
	if run == "" {
		return s.floors.of(scope) + 1, nil
	}
	err = s.view(ctx, false, func(q querier) (err error) {
		from, err = retainedFrom(q, run)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("read which events of run %s are kept: %w", run, err)
	}
	return max(from, 1), nil
}

func eventRows(q querier, text string, args ...any) ([]sidecar.Record, error) {
	var records []sidecar.Record
	rows, err := q.query(text, args...)
	err = each(rows, err, func(row scanner) error {
		e, err := scanEvent(row)
		if err != nil {
			return err
		}
		records = append(records, recordOf(e))
		return nil
	})
	return records, err
}

func scanEvent(row scanner, more ...any) (sidecar.Event, error) {
	var e sidecar.Event
	var targets, at textCell
	dest := []any{&e.Seq, &e.Run, &e.Scope, &e.Revision, &e.Type, &targets, &at}
	if err := row.Scan(append(dest, more...)...); err != nil {
		return e, err
	}
	e.Targets, e.At = json.RawMessage(targets), timeOf(at)
	if !json.Valid(e.Targets) {
		return e, fmt.Errorf("event %d is damaged", e.Seq)
	}
	return e, nil
}
