package sqlite

import (
	"database/sql"
	"errors"
	"fmt"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// errFenced means that another process opened the file after us, which the
// lock should have kept it from: a file system without locks.
var errFenced = errors.New("another process has opened the state database since")

// Tx is the transaction of a function that Do runs. It must not be used after
// the function returned.
type Tx struct {
	store   *Store
	session *session

	wrote bool  // anything, by any function of the group
	dirty bool  // by the function that runs
	fault error // of the storage; the group cannot be committed
	size  int64 // about what it writes, bytes

	seq       sidecar.Seq
	records   []sidecar.Record
	scopes    map[sidecar.Scope]bool
	everybody bool
	// moved are the runs that were written; nil: by other ways than as a whole.
	moved map[sidecar.RunID]*storedRun
}

// Exec runs a statement that writes.
func (tx *Tx) Exec(text string, args ...any) (sql.Result, error) {
	if tx.fault != nil {
		return nil, tx.fault
	}
	tx.wrote, tx.dirty = true, true
	tx.size += writtenBy(args)
	result, err := tx.session.exec(text, args...)
	return result, tx.note(err)
}

func (tx *Tx) query(text string, args ...any) (*sql.Rows, error) {
	if tx.fault != nil {
		return nil, tx.fault
	}
	rows, err := tx.session.query(text, args...)
	return rows, tx.note(err)
}

// note keeps the first error of the storage, so that a function that swallows
// it cannot make the group commit half of what it wanted.
func (tx *Tx) note(err error) error {
	if err != nil && tx.fault == nil && damageOf(err) != harmless {
		tx.fault = err
	}
	return err
}

// Touch makes the version of a scope grow with this transaction. Create,
// Update, Append and DeleteItem do so themselves.
func (tx *Tx) Touch(scope sidecar.Scope) {
	if scope == "" {
		tx.everybody = true
		return
	}
	if tx.scopes == nil {
		tx.scopes = map[sidecar.Scope]bool{}
	}
	tx.scopes[scope] = true
}

func (tx *Tx) checkEpoch() error {
	var epoch int64
	found, err := one(tx, []any{&epoch}, "SELECT value FROM sidecar_meta WHERE key = 'epoch'")
	if err != nil {
		return err
	}
	if !found || epoch != tx.store.epoch {
		return refusal(tx.store.path, "another process has opened it since",
			"Let one process at a time use it, or put it on a file system that knows locks.", errFenced)
	}
	return nil
}

func (tx *Tx) finish() error {
	if _, err := tx.session.exec("COMMIT"); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}
