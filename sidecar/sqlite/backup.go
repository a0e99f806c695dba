package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// UnsoundError tells that a copy has the faults of what it was copied from.
type UnsoundError struct {
	Path   string
	Faults []Fault
}

func (e *UnsoundError) Error() string {
	return fmt.Sprintf("%s is not sound: %d faults, the first: %s", e.Path, len(e.Faults), e.Faults[0].Message)
}

// Backup writes a copy of one moment of the file to a path where nothing is
// yet. The copy has its name once it is whole, durable and verified; it needs
// no other file beside it. What an earlier one to this path left when it was
// killed is removed.
func (r *Reader) Backup(ctx context.Context, to string) (Report, error) {
	to, err := filepath.Abs(to)
	if err != nil {
		return Report{}, fmt.Errorf("back up %s: %w", r.path, err)
	}
	if err := sweepPartials(to); err != nil {
		return Report{}, fmt.Errorf("back up %s: remove what one that was broken off left: %w", r.path, err)
	}
	if _, err := os.Lstat(to); !errors.Is(err, os.ErrNotExist) {
		return Report{}, fmt.Errorf("back up %s: %w", r.path, taken(to, err))
	}
	p, err := newPartial(to)
	if err != nil {
		return Report{}, fmt.Errorf("back up %s: %w", r.path, err)
	}
	report, err := r.copyTo(ctx, p.copy())
	if err == nil {
		err = publish(p.copy(), to)
	}
	if err := errors.Join(err, p.remove()); err != nil {
		return report, fmt.Errorf("back up %s: %w", r.path, err)
	}
	return report, syncFolder(filepath.Dir(to))
}

func taken(path string, err error) error {
	if err != nil {
		return err
	}
	return &sidecar.Error{
		Code: sidecar.CodeStorage, Message: path + " is there already", Hint: "Choose another name.", Err: os.ErrExist,
	}
}

// copyTo writes the copy, makes it durable and verifies it.
func (r *Reader) copyTo(ctx context.Context, path string) (Report, error) {
	if err := copyInto(ctx, r.session.conn, path); err != nil {
		return Report{}, err
	}
	return verifyCopy(ctx, path)
}

// executor runs a statement: a pool, or one of its connections.
type executor interface {
	ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error)
}

// copyInto has SQLite write a whole and durable copy of one moment: a copy by
// hand would miss the log and drop its locks.
func copyInto(ctx context.Context, db executor, path string) error {
	if _, err := db.ExecContext(ctx, "VACUUM INTO ?", path); err != nil {
		return err
	}
	if err := inCopy(ctx, path, forgetLife); err != nil {
		return err
	}
	return syncFile(path)
}

// inCopy changes a copy that is not whole yet, and to which no log belongs.
func inCopy(ctx context.Context, path string, change func(context.Context, *sql.Tx) error) (err error) {
	db, err := sql.Open("sqlite", dsn(path, "mode=rw", "_pragma=journal_mode(MEMORY)", "_pragma=synchronous(OFF)"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var tables int
	if err := db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema WHERE name = 'sidecar_meta'").Scan(&tables); err != nil || tables == 0 {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := change(ctx, tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// forgetLife takes the mark of the original from a copy: its log is not that of
// the copy.
func forgetLife(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, "DELETE FROM sidecar_meta WHERE key = ?", lifeKey)
	return err
}

func verifyCopy(ctx context.Context, path string) (Report, error) {
	reader, err := OpenReader(ctx, path)
	if err != nil {
		return Report{}, err
	}
	report, err := reader.Verify(ctx)
	if err := errors.Join(err, reader.Close()); err != nil {
		return report, err
	}
	if len(report.Faults) > 0 {
		return report, &UnsoundError{path, report.Faults}
	}
	return report, nil
}

// publish gives a whole file its name, unless somebody has it meanwhile.
func publish(partial, to string) error {
	err := os.Link(partial, to)
	if errors.Is(err, os.ErrExist) {
		return taken(to, nil)
	}
	if err == nil {
		return nil
	}
	// A file system without links: the name was free a moment ago.
	if _, err := os.Lstat(to); !errors.Is(err, os.ErrNotExist) {
		return taken(to, err)
	}
	return os.Rename(partial, to)
}

func syncFile(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}
