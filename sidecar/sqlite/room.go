package sqlite

import (
	"errors"
	"os"
	"time"
)

const (
	// probePause is how often the writer tries whether writing works again;
	// a try that takes long is made less often by probeShare times that.
	probePause = time.Second
	probeShare = 10
	// roomBeside is what has to be free beside what found no space.
	roomBeside = 1 << 20
	// maxRoom bounds what is written to see whether there is space: as much of
	// the log is kept.
	maxRoom  = 64 << 20
	roomStep = 256 << 10
	// statementBytes is about what a statement writes beside its arguments.
	statementBytes = 8 << 10
)

// errRoom is the answer of a transaction that found the space and wrote nothing.
var errRoom = errors.New("there is space")

// writtenBy is about what a statement writes.
func writtenBy(args []any) int64 {
	n := int64(statementBytes)
	for _, arg := range args {
		switch arg := arg.(type) {
		case string:
			n += int64(len(arg))
		case []byte:
			n += int64(len(arg))
		}
	}
	return n
}

// probe tries whether writing works again. On a full disk small writes pass for
// long, in what the log has already, and where others make room and take it
// anything passes now and then: only as much as was missed, and more, tells
// that there is space again.
func (w *writer) probe() {
	began := time.Now()
	req := &request{change: touchEpoch, done: make(chan struct{})}
	if t := w.trouble.Load(); t.room > 0 {
		req.change = w.findRoom(min(t.room, maxRoom) + roomBeside)
	}
	w.settle([]*request{req})
	switch t := w.trouble.Load(); {
	case errors.Is(req.err, errRoom):
		w.recovered()
	case t != nil && t.room > 0:
		w.emptyLog()
	}
	w.probeAt = time.Now().Add(probePause + probeShare*time.Since(began))
}

// emptyLog moves the log into its file where that makes room: the log is cut
// then. A full disk keeps SQLite from doing so, when the file has to grow for it;
// the reserve is let go for that moment.
func (w *writer) emptyLog() {
	growth, log, err := w.logGrowth()
	if err != nil || log < roomBeside || log <= growth {
		return
	}
	if growth > 0 {
		if growth+roomStep > w.reserve.size {
			return // half of it would be lost for what may be removed
		}
		if spent, err := w.reserve.spend(); !spent || err != nil {
			return
		}
		defer w.fillReserve()
	}
	if _, err := w.moveLog(); err != nil {
		w.log.Warn("the log of the state database could not be moved into it", "path", w.path, "error", err)
	}
}

// logGrowth is by how many bytes the file grows when the log is moved into it,
// and how large the log is.
func (w *writer) logGrowth() (growth, log int64, err error) {
	if err := w.reconnect(); err != nil {
		return 0, 0, err
	}
	var pages, size int64
	_, err = one(w.session, []any{&pages, &size}, "SELECT page_count, page_size FROM pragma_page_count, pragma_page_size")
	if err != nil {
		return 0, 0, err
	}
	file, err := os.Stat(w.path)
	if err != nil {
		return 0, 0, err
	}
	wal, err := os.Stat(walPath(w.path))
	if err != nil {
		return 0, 0, err
	}
	return pages*size - file.Size(), wal.Size(), nil
}

// recovered tells that the trouble is over.
func (w *writer) recovered() {
	w.log.Info("the state database can be written again", "path", w.path)
	w.trouble.Store(nil)
}

// touchEpoch writes a little, to see whether it can be.
func touchEpoch(tx *Tx) error {
	_, err := tx.Exec("UPDATE sidecar_meta SET value = value WHERE key = 'epoch'")
	return err
}

// findRoom writes a number of bytes into the log that nobody will see, and that
// are written over next: it always fails. What is written cannot be stored any
// smaller.
func (w *writer) findRoom(room int64) func(*Tx) error {
	return func(tx *Tx) (err error) {
		// What does not fit the cache goes into the log at once.
		if _, err := tx.Exec("PRAGMA cache_size = 16"); err != nil {
			return err
		}
		defer func() {
			_, restored := tx.session.exec("PRAGMA cache_size = -2000") // SQLite's own
			err = errors.Join(err, restored)
			tx.size = 0 // nobody misses it
		}()
		for step := 0; room > 0; step++ {
			if w.closed() {
				return errHalted
			}
			if _, err := tx.Exec("INSERT INTO blobs (sha256, size, data) VALUES (?, 0, randomblob(?))", step, min(room, roomStep)); err != nil {
				return err
			}
			room -= roomStep
		}
		return errRoom
	}
}
