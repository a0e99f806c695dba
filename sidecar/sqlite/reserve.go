package sqlite

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"time"

	lib "modernc.org/sqlite/lib"
)

// DefaultReserve is how much of a disk a server keeps for deleting when there
// is no other space: SQLite has to write to delete. It is enough to move a
// usual log into its file, which makes room in the log.
const DefaultReserve = 4 << 20

// refillPause is how long a spent reserve is left so: a pruning has many
// transactions.
const refillPause = time.Minute

// reserve is a file that takes space until somebody deletes and there is none.
// The writer alone uses it.
type reserve struct {
	path  string
	size  int64 // 0: there is none
	spent time.Time
	pause time.Duration
}

// reserveOf is the reserve of a store, which was spent at a time, or not.
func reserveOf(options Options, spent time.Time) reserve {
	if options.Ephemeral || options.Path == "" {
		return reserve{}
	}
	return reserve{path: realPath(options.Path) + ".reserve", size: options.Reserve, spent: spent, pause: refillPause}
}

// noSpace reports whether an error is for lack of space on the disk.
func noSpace(err error) bool {
	code := codeOf(err)
	return code&0xff == lib.SQLITE_FULL || code == lib.SQLITE_IOERR_WRITE
}

// fill takes the space, unless it has it already. What is written cannot be
// stored any smaller.
func (r *reserve) fill() error {
	if info, err := os.Stat(r.path); r.size == 0 || err == nil && info.Size() == r.size {
		return nil
	}
	r.spent = time.Now()
	file, err := os.OpenFile(r.path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.CopyN(file, rand.Reader, r.size)
	if err == nil {
		err = file.Sync()
	}
	if err != nil {
		return errors.Join(err, file.Truncate(0), file.Close())
	}
	r.spent = time.Time{}
	return file.Close()
}

// spend lets go of the space; false when there was none.
func (r *reserve) spend() (bool, error) {
	if info, err := os.Stat(r.path); r.size == 0 || !r.spent.IsZero() || err != nil || info.Size() == 0 {
		return false, nil
	}
	r.spent = time.Now()
	err := os.Truncate(r.path, 0)
	return err == nil, err
}

func (r *reserve) due() bool {
	return r.size > 0 && !r.spent.IsZero() && time.Since(r.spent) >= r.pause
}

type freeingKey struct{}

// freeing marks what removes more than it writes.
func freeing(ctx context.Context) context.Context {
	return context.WithValue(ctx, freeingKey{}, true)
}

// makeRoom lets go of the reserve for a group that frees space and found none,
// and moves the log into its file, so that it can be written anew.
func (w *writer) makeRoom(group []*request, err error) bool {
	frees := false
	for _, req := range group {
		frees = frees || req.frees
	}
	if !frees || !noSpace(err) {
		return false
	}
	spent, err := w.reserve.spend()
	if err != nil {
		w.log.Warn("the reserved space could not be let go", "path", w.reserve.path, "error", err)
	}
	if !spent || w.session == nil {
		return spent
	}
	w.log.Warn("there is no space left, the reserved space is used to remove what may go", "path", w.path)
	if _, err := w.session.exec("PRAGMA wal_checkpoint(PASSIVE)"); err != nil {
		w.log.Warn("the log of the state database could not be moved into it", "path", w.path, "error", err)
	}
	return true
}

// refill takes the space again once there is some.
func (w *writer) refill() {
	if w.reserve.due() {
		w.fillReserve()
	}
}

func (w *writer) fillReserve() {
	if err := w.reserve.fill(); err != nil {
		w.log.Debug("there is no space to reserve", "path", w.reserve.path, "error", err)
	}
}
