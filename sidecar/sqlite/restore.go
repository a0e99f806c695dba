package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// Restored is what Restore did.
type Restored struct {
	Report          // of what stands in the place of the database now
	Path     string // where that is
	Replaced string // where what stood there is kept, its log beside it; empty when nothing did
}

// Restore puts a copy of a backup in the place of a state database, which it
// keeps under another name with all that belongs to it. It refuses while
// somebody holds the database, and touches nothing before the copy is whole,
// verified and durable. When it is broken off later, no start uses what is
// there, and the next Restore goes on from there. Positions of those who read
// events end with it: they begin anew.
func Restore(ctx context.Context, backup, path string) (done Restored, err error) {
	if path, err = filepath.Abs(path); err == nil {
		backup, err = filepath.Abs(backup)
	}
	if err != nil {
		return done, fmt.Errorf("restore: %w", err)
	}
	path = realPath(path)
	if realPath(backup) == path {
		return done, refusal(path, "it cannot be restored from itself", "Name a backup.", nil)
	}
	if err := checkRegular(path); err != nil {
		return done, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return done, refusal(path, "its folder cannot be made", "Choose another file with --state-db.", err)
	}
	lock, err := waitLock(ctx, path, -1, nil)
	if err != nil {
		return done, err
	}
	// One that was made here may belong to somebody who is not the server.
	defer func() { err = errors.Join(err, lock.discard()) }()
	r := restoration{path: path, ready: path + readySuffix, whole: path + unreadySuffix}
	if err := r.prepare(ctx, backup); err != nil {
		return done, errors.Join(fmt.Errorf("restore %s: %w", path, err), removeCopy(r.whole))
	}
	if err := r.exchange(); err != nil {
		return done, fmt.Errorf("restore %s: %w", path, err)
	}
	return Restored{r.report, path, r.replaced}, nil
}

// readySuffix is that of a copy that is to come in the place of the database:
// as long as there is one, what stands there counts no more.
const readySuffix = ".restoring"

// unreadySuffix is that of a copy that is still being made. It is made under the
// lock of the database: who has that finds only what was broken off.
const unreadySuffix = readySuffix + ".partial"

// checkRestored refuses a file whose place another one is about to take.
func checkRestored(path string) error {
	ready := realPath(path) + readySuffix
	_, err := os.Lstat(ready)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return refusal(path, "whether bringing a backup back was broken off is not known", "Choose another file with --state-db.", err)
	}
	return refusal(path, "bringing a backup back was broken off ("+ready+" is still there)",
		restoreHint(path)+" Or choose another file with --state-db.", nil)
}

// restoration is the way of a copy to its place.
type restoration struct {
	path     string
	whole    string // the copy while it is made
	ready    string // the copy when it is verified
	report   Report
	resumed  bool // one that was broken off: what stood there may be aside in part
	replaced string
}

// prepare makes the copy and verifies it.
func (r *restoration) prepare(ctx context.Context, backup string) error {
	if err := removeCopy(r.whole); err != nil {
		return err
	}
	reader, err := OpenReader(ctx, backup)
	if err != nil {
		return err
	}
	err = copyInto(ctx, reader.session.conn, r.whole)
	if err := errors.Join(err, reader.Close()); err != nil {
		return err
	}
	if err := inCopy(ctx, r.whole, leavePositions); err != nil {
		return err
	}
	if err := r.inherit(); err != nil {
		return err
	}
	r.report, err = verifyCopy(ctx, r.whole)
	var unsound *UnsoundError
	if errors.As(err, &unsound) {
		unsound.Path = backup
	}
	return errors.Join(err, syncFile(r.whole))
}

// positionStep is far beyond the events that were ever told since the backup.
const positionStep = 1 << 32

// leavePositions moves the numbers of events past those of the file that is
// replaced: who read there begins anew.
func leavePositions(ctx context.Context, tx *sql.Tx) error {
	var position int64
	if err := tx.QueryRowContext(ctx, newestEvent).Scan(&position); err != nil {
		return err
	}
	// The time in microseconds runs ahead of events, so that a backup that is
	// restored twice does not begin twice at one number. JSON keeps such numbers.
	position = max(position+positionStep, time.Now().UnixMicro())
	_, err := tx.ExecContext(ctx, "UPDATE sidecar_meta SET value = ? WHERE key IN ('trimmed_to', '"+floorKey+"')", position)
	if err != nil {
		return err
	}
	// A program of a version before 8 begins where SQLite's own number is.
	if _, err := tx.ExecContext(ctx, "UPDATE sqlite_sequence SET seq = ? WHERE name = 'events'", position); err != nil {
		return err
	}
	return noteRestored(ctx, tx)
}

// restoredKey is the time in sidecar_meta at which a backup was brought back.
const restoredKey = "restored_at"

// noteRestored keeps when: what had not begun in the backup may have run since.
func noteRestored(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO sidecar_meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
		restoredKey, sidecar.FormatTime(time.Now()))
	return err
}

// RestoredAt is when a backup was brought back as this file; zero: never.
func (s *Store) RestoredAt(ctx context.Context) (time.Time, error) {
	var at textCell
	err := s.view(ctx, false, func(q querier) error {
		_, err := one(q, []any{&at}, "SELECT value FROM sidecar_meta WHERE key = ?", restoredKey)
		return err
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("read when a backup was brought back: %w", err)
	}
	return timeOf(at), nil
}

// inherit gives the copy the rights of the file that it replaces: the server's
// user is often not who restores.
func (r *restoration) inherit() error {
	info, err := os.Stat(r.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = errors.Join(os.Chmod(r.whole, info.Mode().Perm()), ownAs(r.whole, info))
	}
	return err
}

// exchange keeps what stands there aside and puts the copy in its place. The
// log goes first: nothing shall ever find it beside the copy.
func (r *restoration) exchange() (err error) {
	r.resumed = isThere(r.ready)
	if err := os.Rename(r.whole, r.ready); err != nil {
		return err
	}
	folder := filepath.Dir(r.path)
	var moved [][2]string
	defer func() {
		if err != nil {
			err = errors.Join(err, r.undo(moved))
		}
	}()
	if err := syncFolder(folder); err != nil {
		return err
	}
	aside, newest, err := r.aside()
	if err != nil {
		return err
	}
	for _, suffix := range []string{"-wal", "-journal", ""} {
		if !isThere(r.path + suffix) {
			continue
		}
		move := [2]string{r.path + suffix, aside + suffix}
		if err := os.Rename(move[0], move[1]); err != nil {
			return err
		}
		moved = append(moved, move)
		r.replaced = aside
	}
	if r.resumed && r.replaced == "" {
		r.replaced = newest
	}
	if err := errors.Join(removeIfThere(r.path+"-shm"), syncFolder(folder)); err != nil {
		return err
	}
	if err := os.Rename(r.ready, r.path); err != nil {
		return err
	}
	return syncFolder(folder)
}

// aside is the name for what is replaced, one above those that were taken. A
// log that a restore moved before it was broken off is of the file that still
// stands here: both belong together.
func (r *restoration) aside() (name, newest string, err error) {
	last, err := r.lastTaken()
	if err != nil {
		return "", "", err
	}
	newest, name = r.numbered(last), r.numbered(last+1)
	if r.resumed && last > 0 && !isThere(newest) && !r.both(newest, "-wal") && !r.both(newest, "-journal") {
		name = newest
	}
	return name, newest, nil
}

func (r *restoration) numbered(n int) string { return fmt.Sprintf("%s.replaced-%d", r.path, n) }

func (r *restoration) both(name, suffix string) bool {
	return isThere(name+suffix) && isThere(r.path+suffix)
}

// lastTaken is the highest number that a file or a log is kept aside with; 0
// when there is none.
func (r *restoration) lastTaken() (last int, err error) {
	entries, err := os.ReadDir(filepath.Dir(r.path))
	for _, entry := range entries {
		rest, ours := strings.CutPrefix(entry.Name(), filepath.Base(r.path)+".replaced-")
		digits, _, _ := strings.Cut(rest, "-")
		if n, err := strconv.Atoi(digits); ours && err == nil {
			last = max(last, n)
		}
	}
	return last, err
}

// undo puts back what was moved, so that all is as it was. What another one
// moved before it was broken off it cannot: then the copy stays, and no start
// takes the empty place for a new database.
func (r *restoration) undo(moved [][2]string) error {
	var errs []error
	for i := len(moved) - 1; i >= 0; i-- {
		errs = append(errs, os.Rename(moved[i][1], moved[i][0]))
	}
	if err := errors.Join(errs...); err != nil || r.resumed {
		return err // the copy stays: nothing may use a half
	}
	return removeIfThere(r.ready)
}

func isThere(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
