package sqlite

import (
	"context"
	"errors"
	"maps"
	"slices"
)

// What tests from outside need to see.
var (
	WriterDSN = writerDSN
	ReaderDSN = readerDSN
)

const (
	ApplicationID = applicationID
	SchemaVersion = schemaVersion
	TailLength    = tailLength
	MaxVersions   = maxVersions
	MaxGroup      = maxGroup
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

// Fail makes a statement of the running function fail as if by the storage.
func (tx *Tx) Fail(err error) { tx.fault = errors.Join(tx.fault, err) }
