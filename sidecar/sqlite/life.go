package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Each start draws a mark, its life, and leaves it in the file itself, past
// the log, and in the lock file. A log that a killed process left is of the
// file that has a mark which the lock file knows. A backup that was put in the
// place of that file has none: moved into it, the log would ruin it.
const lifeKey = "life"

// noLife stands for a file that was never marked.
const noLife = "-"

// lifeOf reads the mark of the file itself, without its log; "" when it cannot
// be read: the log may have been on its way into the file.
func lifeOf(ctx context.Context, path string) string {
	db, err := sql.Open("sqlite", dsn(path, "mode=ro", "immutable=1"))
	if err != nil {
		return ""
	}
	defer db.Close()
	var tables int
	var life string
	err = db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema WHERE name = 'sidecar_meta'").Scan(&tables)
	if err == nil && tables == 0 {
		return noLife
	}
	if err == nil {
		err = db.QueryRowContext(ctx, "SELECT value FROM sidecar_meta WHERE key = ?", lifeKey).Scan(&life)
	}
	if errors.Is(err, sql.ErrNoRows) {
		return noLife
	}
	if err != nil {
		return ""
	}
	return life
}

// livesIn lists the marks in a lock file, none when there is no such file.
func livesIn(lock string) []string {
	_, lives := readLock(lock)
	return lives
}

// checkLog refuses a log that belongs to another file.
func checkLog(ctx context.Context, path string, logged bool) error {
	if !logged {
		return nil
	}
	for range 2 { // somebody may be starting with it just now
		known, life := livesIn(lockPath(path)), lifeOf(ctx, path)
		if life == "" || len(known) == 0 || slices.Contains(known, life) {
			return nil
		}
	}
	return refusal(path, "its log "+walPath(path)+" belongs to another file",
		restoreHint(path)+" If both were brought here together, remove "+lockPath(path)+".", nil)
}

// readLock reads what sign wrote.
func readLock(path string) (pid string, lives []string) {
	file, err := os.Open(path)
	if err != nil {
		return "", nil
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, 1024))
	if err != nil {
		return "", nil
	}
	pid, rest, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(pid), strings.Fields(rest)
}

// sign writes who holds the lock, for the message of those who wait, and the
// marks that the file may have. It is durable before one of them is.
func (l *fileLock) sign(lives ...string) error {
	text := strconv.Itoa(os.Getpid()) + "\n" + strings.Join(lives, " ") + "\n"
	if err := l.file.Truncate(0); err != nil {
		return err
	}
	if _, err := l.file.WriteAt([]byte(text), 0); err != nil {
		return err
	}
	return l.file.Sync()
}

// drawLife signs the lock with a new mark beside that which the file has.
func (s *Store) drawLife(ctx context.Context, filled, ephemeral bool) error {
	if ephemeral {
		return s.lock.sign()
	}
	s.life = rand.Text()
	before := []string{noLife}
	if filled {
		before[0] = lifeOf(ctx, s.path)
	}
	if before[0] == "" {
		before = livesIn(s.lock.file.Name())
	}
	return s.lock.sign(append(before, s.life)...)
}

// settleLife moves the log into the file, which then has the new mark for
// sure. Where that cannot be done just now both marks stay good.
func (w *writer) settleLife() error {
	if w.life == "" {
		return nil
	}
	moved, err := w.moveLog()
	if damageOf(err) == lasting {
		return opening(w.path, err)
	}
	if err != nil {
		w.log.Warn("the log of the state database could not be moved into it", "path", w.path, "error", err)
	}
	if err != nil || !moved {
		return nil
	}
	return w.lock.sign(w.life)
}

// moveLog moves the log into the file and waits for nobody who reads; false
// when somebody does.
func (w *writer) moveLog() (moved bool, err error) {
	if _, err := w.session.exec("PRAGMA busy_timeout(0)"); err != nil {
		return false, err
	}
	var busy, pages, done int64
	_, err = one(w.session, []any{&busy, &pages, &done}, "PRAGMA wal_checkpoint(TRUNCATE)")
	_, restored := w.session.exec("PRAGMA busy_timeout(5000)")
	return busy == 0, errors.Join(err, restored)
}

// rescue moves what a removed log holds into the file: until then the end of
// the process would be the end of what was acknowledged. Beside somebody who
// reads it is tried again.
func (w *writer) rescue() {
	if w.rescued || w.session == nil || !w.place.logMisplaced() {
		return
	}
	moved, err := w.moveLog()
	if err != nil {
		w.log.Error("what the log of the state database held could not be moved into it", "path", w.path, "error", err)
	}
	w.rescued = err == nil && moved
}
