package sqlite

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

const (
	// maxGroup bounds what one transaction takes: larger groups gain nothing
	// and hold the others up.
	maxGroup = 128
	// maxReruns is how often a group is run again as a whole; then each
	// function gets a transaction of its own.
	maxReruns = 2
)

// trouble is why writing does not work.
type trouble struct {
	err     *sidecar.Error
	lasting bool
	room    int64 // the most that found no space since it began, bytes; 0: all did
}

// Stats counts what the writer did since the file was opened.
type Stats struct {
	Calls        int64 // functions that Do took
	Transactions int64 // that were committed for them
	Rollbacks    int64
}

type counters struct{ calls, transactions, rollbacks atomic.Int64 }

// Stats reads the writer's counters.
func (s *Store) Stats() Stats {
	return Stats{s.stats.calls.Load(), s.stats.transactions.Load(), s.stats.rollbacks.Load()}
}

// Trouble is why writing does not work just now, a *sidecar.Error; nil when it
// does. The writer tries by itself, once a second, whether it works again. A
// file that is gone from its place is noticed here too: nobody may be writing.
func (s *Store) Trouble() error {
	if t := s.trouble.Load(); t != nil {
		return t.err
	}
	return s.place.check()
}

// writer owns the one connection that writes. Who uses it has the turn.
type writer struct {
	*Store
	session *session
	rescued bool // the log is gone, and all it held is in the file
	// fileVersion is SQLite's data_version for this connection, which moves when
	// another one writes; 0: not read yet.
	fileVersion int64
	probeAt     time.Time // when to try whether writing works again
}

func (s *Store) newWriter(ctx context.Context) (*writer, error) {
	session, err := openSession(ctx, s.writeDB)
	if err != nil {
		return nil, err
	}
	return &writer{Store: s, session: session}, nil
}

// begun does what comes before the first who waits.
func (w *writer) begun() (err error) {
	if err := w.agree(); err != nil {
		return err
	}
	if err := w.settleLife(); err != nil {
		return err
	}
	if w.reserve.spent.IsZero() {
		w.fillReserve()
	}
	w.place, err = placeOf(w.path)
	return err
}

// settle commits a group and answers everybody in it.
func (w *writer) settle(group []*request) {
	w.stats.calls.Add(int64(len(group)))
	waiting := group
	for reruns := 0; len(waiting) > 0; reruns++ {
		batch := waiting
		if reruns >= maxReruns {
			batch = waiting[:1]
		}
		failed := w.commit(batch)
		if failed == nil {
			waiting = waiting[len(batch):]
			continue
		}
		waiting = remove(waiting, failed)
	}
	for _, req := range group {
		close(req.done)
	}
}

func remove(group []*request, req *request) []*request {
	kept := make([]*request, 0, len(group))
	for _, other := range group {
		if other != req {
			kept = append(kept, other)
		}
	}
	return kept
}

// commit runs the functions of a group in one transaction. It returns the one
// that has to leave before the others can run again; nil when all have their
// answer.
func (w *writer) commit(group []*request) *request {
	if t := w.trouble.Load(); t != nil && t.lasting {
		fail(group, t.err)
		return nil
	}
	for _, req := range group {
		req.err, req.settled = nil, false
	}
	tx, err := w.begin()
	if err != nil {
		w.fault(group, err, 0)
		return nil
	}
	for _, req := range group {
		req.settled = !tx.wrote
		if req.err = tx.run(req.change); req.err == nil {
			continue
		}
		if tx.fault != nil {
			req.settled = false
			return w.undo(tx, group, tx.fault)
		}
		if tx.dirty {
			w.rollback()
			return req
		}
	}
	return w.conclude(tx, group)
}

// undo ends a group whose transaction the storage broke off, or commits it
// again when there is room for it now.
func (w *writer) undo(tx *Tx, group []*request, err error) *request {
	w.rollback()
	if w.makeRoom(group, err) {
		return w.commit(group)
	}
	w.fault(group, err, tx.size)
	return nil
}

// conclude commits what a group wrote, and tells of it; like commit it returns
// who has to leave.
func (w *writer) conclude(tx *Tx, group []*request) *request {
	w.working.drop(tx.moved)
	if err := tx.finish(); err != nil {
		return w.undo(tx, group, err)
	}
	w.publish(tx)
	if !tx.wrote {
		return nil
	}
	// The file may have gone while this was written. Where it is now, that is
	// true; what the next start will find is not known.
	if err := w.place.check(); err != nil {
		w.fault(group, unknown(err), 0)
		return nil
	}
	w.refill()
	return nil
}

func (w *writer) begin() (*Tx, error) {
	if err := w.place.check(); err != nil {
		w.rescue()
		return nil, err
	}
	w.rescued = false
	if err := w.reconnect(); err != nil {
		return nil, err
	}
	if _, err := w.session.exec("BEGIN IMMEDIATE"); err != nil {
		return nil, err
	}
	tx := &Tx{store: w.Store, session: w.session, seq: w.Head()}
	if err := w.unshared(tx); err != nil {
		w.rollback()
		return nil, err
	}
	return tx, nil
}

// reconnect opens the connection when the last one was given up.
func (w *writer) reconnect() error {
	if w.session != nil {
		return nil
	}
	session, err := openSession(context.Background(), w.writeDB)
	if err != nil {
		return err
	}
	w.session, w.fileVersion = session, 0
	return nil
}

// rollback undoes the transaction. SQLite has done so itself after some
// errors; a connection of which that is not sure is replaced.
func (w *writer) rollback() {
	w.stats.rollbacks.Add(1)
	if _, err := w.session.exec("ROLLBACK"); err == nil {
		return
	}
	if err := w.session.close(); err != nil {
		w.log.Warn("the writer's connection was not closed cleanly", "error", err)
	}
	w.session = nil
}

// publish tells of what has become true.
func (w *writer) publish(tx *Tx) {
	w.stats.transactions.Add(1)
	// A group that only read proves nothing of writing, nor one that wrote of
	// space.
	if t := w.trouble.Load(); tx.wrote && t != nil && t.room == 0 {
		w.recovered()
	}
	w.working.keep(tx.moved)
	w.tail.add(tx.records)
	w.versions.bump(tx.scopes, tx.everybody)
	if len(tx.records) > 0 {
		w.bell.Ring()
	}
}

// fault answers a group whose transaction, of a size, met an error of the
// storage.
func (w *writer) fault(group []*request, err error, size int64) {
	var told *sidecar.Error
	if !errors.As(err, &told) {
		told = storageError(w.path, err)
	}
	state := &trouble{err: told, lasting: damageOf(err) == lasting || errors.Is(err, errFenced) || errors.Is(err, sidecar.ErrLasting)}
	if noSpace(err) {
		state.room = max(size, 1)
	}
	before := w.trouble.Load()
	if before == nil {
		w.probeAt = time.Now().Add(probePause)
	} else {
		state.room = max(state.room, before.room)
	}
	w.trouble.Store(state)
	if before == nil || state.lasting && !before.lasting {
		w.log.Error("the state database cannot be written", "path", w.path, "error", err)
	}
	fail(group, told)
}

// fail gives a group's error to all whose own answer may have hung on what the
// group had written.
func fail(group []*request, err error) {
	for _, req := range group {
		if req.err == nil || !req.settled {
			req.err = err
		}
	}
}

// run calls change and turns a panic into an error.
func (tx *Tx) run(change func(*Tx) error) (err error) {
	tx.dirty = false
	defer func() {
		if p := recover(); p != nil {
			tx.store.log.Error("a change of the state database panicked", "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("change the state database: panic: %v", p)
		}
		if tx.fault == nil {
			tx.note(err)
		}
		if tx.fault != nil {
			err = tx.fault
		}
	}()
	return change(tx)
}
