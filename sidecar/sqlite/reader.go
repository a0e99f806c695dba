package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	lib "modernc.org/sqlite/lib"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// Reader reads a state database beside whoever writes it and changes nothing
// in it. Its methods take one caller at a time. No Store of the same process
// may have the file open: closing the Reader would drop its locks.
type Reader struct {
	path    string
	db      *sql.DB
	session *session
	version int64 // of the schema; 0: a file of the reference
}

// OpenReader opens a state database of this or an older version. A file that
// is none is refused with a *sidecar.Error, which is [sidecar.ErrLasting] when
// it is damaged and os.ErrNotExist when it is not there.
func OpenReader(ctx context.Context, path string) (*Reader, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open the state database: %w", err)
	}
	if err := Present(path); err != nil {
		return nil, err
	}
	size, head, err := readHeader(path)
	if err != nil {
		return nil, err
	}
	logged := sizeOf(walPath(path)) > 0
	if err := head.judge(path, size, logged); err != nil {
		return nil, err
	}
	if err := checkLog(ctx, path, logged); err != nil {
		return nil, err
	}
	r := &Reader{path: path}
	if err := r.connect(ctx, logged); err != nil {
		return nil, errors.Join(opening(path, err), r.Close())
	}
	if err := r.judge(ctx); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Present refuses a path where there is nothing, or an empty file, which no
// server leaves behind: it looks at the state database that is there and makes
// none.
func Present(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("look for the state database: %w", err)
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return refusal(path, "there is none", "Name the file with --state-db.", os.ErrNotExist)
	case err != nil:
		return unreadable(path, err)
	case info.Mode().IsRegular() && info.Size() == 0:
		return refusal(path, "it is empty (0 bytes), and no state database", "Name the right file with --state-db, or restore a backup.", nil)
	}
	return nil
}

// connect opens the file read-only. A folder that cannot be written to has no
// place for the index of the log: without a log none is needed.
func (r *Reader) connect(ctx context.Context, logged bool) error {
	err := r.connectAs(ctx, "mode=ro")
	if codeOf(err)&0xff != lib.SQLITE_CANTOPEN || logged {
		return err
	}
	if err := r.Close(); err != nil {
		return err
	}
	return r.connectAs(ctx, "immutable=1")
}

func (r *Reader) connectAs(ctx context.Context, mode string) (err error) {
	if r.db, err = sql.Open("sqlite", dsn(r.path, mode, "_pragma=busy_timeout(5000)", "_dqs=0")); err != nil {
		return err
	}
	r.db.SetMaxOpenConns(1)
	if r.session, err = openSession(ctx, r.db); err != nil {
		return err
	}
	_, err = one(r.session, []any{&r.version}, "SELECT user_version FROM pragma_user_version, (SELECT count(*) FROM sqlite_schema)")
	return err
}

// judge looks whether it has the tables of its version.
func (r *Reader) judge(ctx context.Context) error {
	if r.version > schemaVersion {
		return newer(r.path, r.version)
	}
	tables, err := tablesOf(r.session)
	if err != nil {
		return opening(r.path, err)
	}
	if r.version > 0 {
		if err := checkOwnTables(r.path, tables, r.version); err != nil {
			return err
		}
	}
	return errors.Join(checkTables(r.path, tables), ctx.Err())
}

// Close ends reading.
func (r *Reader) Close() error {
	var errs []error
	if r.session != nil {
		errs = append(errs, r.session.close())
		r.session = nil
	}
	if r.db != nil {
		errs = append(errs, r.db.Close())
		r.db = nil
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close %s: %w", r.path, err)
	}
	return nil
}

// Path is where the file is.
func (r *Reader) Path() string { return r.path }

// Verify is Store.Verify. A file of the reference has no chains: its pages are
// looked at alone.
func (r *Reader) Verify(ctx context.Context) (Report, error) {
	v := verifier{ctx: ctx, closed: func() bool { return false }, plain: r.version == 0}
	if err := r.session.read(true, v.verify); err != nil {
		return v.report, fmt.Errorf("verify %s: %w", r.path, err)
	}
	return v.report, nil
}

// Plan tells what Store.Prune would remove from the file as it is now, and
// what waits to be removed beside it.
func (r *Reader) Plan(ctx context.Context, keep sidecar.Retention, now time.Time, size func(ref string) int64) (sidecar.Pruned, error) {
	p := planner{cutter: cutter{ctx: ctx, keep: keep, now: now, size: size}}
	err := r.session.read(true, func(q querier) error {
		if err := r.upToDate(q); err != nil {
			return err
		}
		return p.plan(q)
	})
	if err != nil {
		return sidecar.Pruned{}, fmt.Errorf("look what would be pruned: %w", err)
	}
	return p.pruned, nil
}

// upToDate refuses a file that the next start will change before anything
// else happens to it.
func (r *Reader) upToDate(q querier) error {
	hint := "Start the server with it once, or prune without --dry-run."
	if r.version != schemaVersion {
		return refusal(r.path, "it was not brought up to date yet", hint, nil)
	}
	var opens, seen int64
	_, err := one(q, []any{&opens, &seen}, foreignOpens)
	if err == nil && opens != seen {
		err = refusal(r.path, "another program opened it since", hint, nil)
	}
	return err
}

// Runs lists runs of all scopes without slots, items and node runs, newest
// first, at most limit of them. Of a file of an older version it tells what
// the reference's columns do.
func (r *Reader) Runs(ctx context.Context, active bool, limit int) ([]*sidecar.Run, error) {
	text := runSelect
	if r.version != schemaVersion {
		text = "SELECT " + runTable.list("r") + strings.Repeat(", NULL", len(stateTable.columns)) + " FROM runs AS r"
	}
	if active {
		text += " WHERE r.status IN ('submitted', 'running')"
	}
	stored, err := storedRuns(r.session, text+" ORDER BY r.created_at DESC, r.run_id DESC LIMIT ?", limit)
	if err := errors.Join(err, ctx.Err()); err != nil {
		return nil, fmt.Errorf("list runs: %w", opening(r.path, err))
	}
	runs := make([]*sidecar.Run, 0, len(stored))
	for _, run := range stored {
		runs = append(runs, &run.Run)
	}
	return runs, nil
}
