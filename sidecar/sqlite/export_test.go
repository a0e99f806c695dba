package sqlite

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// What tests from outside need to see.
var ReaderDSN = readerDSN

// WriterDSN is writerDSN where it cannot fail.
func WriterDSN(path string, ephemeral bool) string {
	dsn, err := writerDSN(path, ephemeral)
	if err != nil {
		panic(err)
	}
	return dsn
}

const (
	ApplicationID = applicationID
	SchemaVersion = schemaVersion
	TailLength    = tailLength
	MaxVersions   = maxVersions
	MaxGroup      = maxGroup
	PruneStep     = pruneStep
)

// Texts lists every statement that was prepared so far.
func (s *Store) Texts(ctx context.Context) ([]string, error) {
	texts := map[string]bool{}
	note := func(session *session) {
		for text := range session.statements {
			texts[text] = true
		}
	}
	err := s.Do(ctx, func(tx *Tx) error {
		note(tx.session)
		return nil
	})
	for range s.reading {
		reader := <-s.readers
		note(reader)
		defer func() { s.readers <- reader }()
	}
	return slices.Sorted(maps.Keys(texts)), err
}

// SetPruneTime makes a transaction of pruning take about so long.
func (s *Store) SetPruneTime(d time.Duration) { s.pruneTime = d }

// Fail makes a statement of the running function fail as if by the storage.
func (tx *Tx) Fail(err error) { tx.fault = errors.Join(tx.fault, err) }

// Query runs a statement that reads and calls scan for each row, whose Scan
// works as that of sql.Rows.
func (tx *Tx) Query(text string, scan func(row interface{ Scan(dest ...any) error }) error, args ...any) error {
	rows, err := tx.query(text, args...)
	return each(rows, err, func(row scanner) error { return scan(row) })
}

// Run reads a run with all that belongs to it, as this transaction sees it.
func (tx *Tx) Run(id sidecar.RunID) (*sidecar.Run, error) {
	run, err := tx.load(id)
	if err != nil {
		return nil, err
	}
	return clone(&run.Run), nil
}

// RowsOf reads a run from the file, whatever is known of it.
func (s *Store) RowsOf(ctx context.Context, id sidecar.RunID) (*sidecar.Run, error) {
	var run *storedRun
	err := s.view(ctx, true, func(q querier) (err error) {
		run, err = loadRun(q, id)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &run.Run, nil
}

// Working counts the runs that are kept at hand.
func (s *Store) Working() int {
	s.working.mu.RLock()
	defer s.working.mu.RUnlock()
	return len(s.working.runs)
}

// MaxFloors is how many scopes have a floor of their own.
const MaxFloors = maxFloors

// Trimmed notes that events of a scope are gone.
func (tx *Tx) Trimmed(scope sidecar.Scope, upTo sidecar.Seq) error { return tx.trimmed(scope, upTo) }

// SetRefill makes a spent reserve be filled again after a time.
func (s *Store) SetRefill(d time.Duration) { s.reserve.pause = d }

// SpendReserve makes it time to fill the reserve again.
func (s *Store) SpendReserve() { s.reserve.spent = time.Now().Add(-2 * s.reserve.pause) }
