package sqlite

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"sync/atomic"
	"time"

	lib "modernc.org/sqlite/lib"
)

// DefaultReserve is how much of a disk a server keeps for deleting when there
// is no other space: SQLite has to write to delete. It is enough to move
// a usual log, of wal_autocheckpoint pages, into its file, which makes room in
// the log.
const DefaultReserve = 10 << 20

// refillPause is how long a spent reserve is left so: a pruning has many
// transactions.
const refillPause = time.Minute

// fillStep is how much is written of a reserve before it is asked whether to go
// on.
const fillStep = 256 << 10

// errHalted means that the space for a reserve is needed.
var errHalted = errors.New("it was halted")

// reserve is a file that takes space until somebody deletes and there is none.
// The writer alone uses it.
type reserve struct {
	path  string
	size  int64 // 0: there is none
	spent time.Time
	pause time.Duration

	filling chan error   // tells how filling it ended; nil: nobody does
	halt    *atomic.Bool // ends that
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
	return lacksSpace(codeOf(err)) || errors.Is(err, errNoSpace)
}

// lacksSpace: the index of the log grows by single bytes, and says no more than
// that it could not.
func lacksSpace(code int) bool {
	return code&0xff == lib.SQLITE_FULL || code == lib.SQLITE_IOERR_WRITE || code == lib.SQLITE_IOERR_SHMSIZE
}

// fill takes the space, unless it has it already or shall stop. What is written
// cannot be stored any smaller.
func (r *reserve) fill(stop func() bool) error {
	if info, err := os.Stat(r.path); r.size == 0 || err == nil && info.Size() == r.size {
		return nil
	}
	file, err := os.OpenFile(r.path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	for left := r.size; err == nil && left > 0; left -= fillStep {
		if stop() {
			err = errHalted
			break
		}
		_, err = io.CopyN(file, rand.Reader, min(left, fillStep))
	}
	if err == nil {
		err = file.Sync()
	}
	if err != nil {
		return errors.Join(err, file.Truncate(0), file.Close())
	}
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
// and moves the log into its file, so that it can be written anew. What is being
// reserved just now is let go for any group.
func (w *writer) makeRoom(group []*request, err error) bool {
	if !noSpace(err) {
		return false
	}
	if w.haltFilling() {
		return true
	}
	frees := false
	for _, req := range group {
		frees = frees || req.frees
	}
	if !frees {
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

// refill takes the space again once there is some. Nobody waits for it but
// Close.
func (w *writer) refill() {
	r := &w.reserve
	if r.filling != nil {
		select {
		case err := <-r.filling:
			w.filled(err)
		default:
		}
		return
	}
	if !r.due() {
		return
	}
	filling, halt := make(chan error, 1), new(atomic.Bool)
	r.filling, r.halt = filling, halt
	w.done.Go(func() {
		filling <- r.fill(func() bool { return halt.Load() || w.closed() })
	})
}

// haltFilling ends a filling that is under way; false when that took no space,
// or has all of it.
func (w *writer) haltFilling() bool {
	if w.reserve.filling == nil {
		return false
	}
	w.reserve.halt.Store(true)
	err := <-w.reserve.filling
	w.filled(err)
	return err != nil
}

// fillReserve takes the space before anybody waits for the writer.
func (w *writer) fillReserve() { w.filled(w.reserve.fill(w.closed)) }

func (w *writer) filled(err error) {
	w.reserve.filling, w.reserve.spent = nil, time.Time{}
	if err != nil {
		w.reserve.spent = time.Now()
		w.log.Debug("there is no space to reserve", "path", w.reserve.path, "error", err)
	}
}
