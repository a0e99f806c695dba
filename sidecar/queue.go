package sidecar

import (
	"slices"
	"sync"
	"time"
)

// queue holds the runs that wait for their turn and counts those that have
// it. Sessions take turns, so that one who queues many does not keep the
// others waiting.
type queue struct {
	bell    Bell // something may begin, or is due sooner than before; a pause began or ended
	filled  Bell // the window became full, or closed
	stirred Bell // a held run came, or may have got what it waits for
	window  int
	limits  Limits

	mu       sync.Mutex
	paused   bool
	front    []RunID     // moved before all others, the next one first
	turns    []SessionID // sessions with waiting runs, the next one first
	waiting  map[SessionID][]RunID
	known    map[RunID]*ticket // waiting or in flight
	soonest  time.Time         // no waiting run is due before; zero: none is
	inFlight int
	held     map[RunID]*heldRun
	expected map[SessionID]int // launches that have room and do not wait yet
}

// ticket is what the queue knows of a run.
type ticket struct {
	QueueEntry
	session  SessionID
	scope    Scope
	position int64
	due      time.Time
	flying   bool
	// answered is set when nobody waits for the backend's yes or no any more.
	answered bool
}

func newTicket(run *Run) ticket {
	t := ticket{session: run.Session, scope: run.Scope, position: run.Position, due: run.DueAt}
	t.QueueEntry = QueueEntry{Run: run.ID, Workflow: run.Workflow, Contract: run.Contract, CreatedAt: run.CreatedAt}
	return t
}

// learn notes a run; false when it waits or is in flight already: a run that is
// launched while those of an earlier life are taken up is met twice.
func (q *queue) learn(run *Run, answered bool) bool {
	if _, known := q.known[run.ID]; known {
		return false
	}
	if q.known == nil {
		q.known, q.waiting = map[RunID]*ticket{}, map[SessionID][]RunID{}
	}
	t := newTicket(run)
	t.answered = answered
	q.known[run.ID] = &t
	return true
}

func (q *queue) push(run *Run, answered bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.learn(run, answered) {
		return false
	}
	if run.Position > 0 {
		q.lead(run.ID)
	} else {
		q.line(run.Session, run.ID)
	}
	sooner := !run.DueAt.IsZero() && (q.soonest.IsZero() || run.DueAt.Before(q.soonest))
	if sooner {
		q.soonest = run.DueAt
	}
	if sooner || q.open() {
		q.bell.Ring()
	}
	return true
}

// line puts a run behind those of its session.
func (q *queue) line(session SessionID, id RunID) {
	if len(q.waiting[session]) == 0 {
		q.turns = append(q.turns, session)
	}
	q.waiting[session] = append(q.waiting[session], id)
}

// lead puts a run before all that do not have a higher position.
func (q *queue) lead(id RunID) {
	i := slices.IndexFunc(q.front, func(other RunID) bool { return q.known[other].position <= q.known[id].position })
	if i < 0 {
		i = len(q.front)
	}
	q.front = slices.Insert(q.front, i, id)
}

// pop takes the next run and its place in the window; false when the window
// is full or closed, or nothing waits. A run whose time is up needs no place:
// it is taken at once, to be ended.
func (q *queue) pop(now time.Time) (RunID, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if id, ok := q.late(now); ok {
		q.leave(id)
		q.enter(id)
		return id, true
	}
	if !q.open() {
		return "", false
	}
	id, ok := q.next()
	if ok {
		q.enter(id)
	}
	return id, ok
}

// open reports whether a turn is free.
func (q *queue) open() bool { return !q.paused && q.inFlight < q.window }

// next takes the run whose turn it is out of the line, and its session's turn
// to the end.
func (q *queue) next() (RunID, bool) {
	if len(q.front) > 0 {
		id := q.front[0]
		q.front = slices.Delete(q.front, 0, 1)
		return id, true
	}
	if len(q.turns) == 0 {
		return "", false
	}
	session := q.turns[0]
	id := q.waiting[session][0]
	q.drop(session, 0)
	if len(q.waiting[session]) > 0 {
		q.turns = append(q.turns[1:], session)
	}
	return id, true
}

// enter counts a run that got its turn.
func (q *queue) enter(id RunID) {
	q.known[id].flying = true
	q.inFlight++
	if q.inFlight >= q.window {
		q.filled.Ring()
	}
}

// late finds a waiting run whose time is up.
func (q *queue) late(now time.Time) (RunID, bool) {
	if q.soonest.IsZero() || now.Before(q.soonest) {
		return "", false
	}
	var next time.Time
	for id, t := range q.known {
		switch {
		case t.flying || t.due.IsZero():
		case !now.Before(t.due):
			return id, true
		case next.IsZero() || t.due.Before(next):
			next = t.due
		}
	}
	q.soonest = next
	return "", false
}

// nextDue is by when pop has to be called again; zero: never.
func (q *queue) nextDue() time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.soonest
}

// leave takes a waiting run out of the line; false when it is not there.
func (q *queue) leave(id RunID) bool {
	t := q.known[id]
	if t == nil || t.flying {
		return false
	}
	if i := slices.Index(q.front, id); i >= 0 {
		q.front = slices.Delete(q.front, i, i+1)
		return true
	}
	i := slices.Index(q.waiting[t.session], id)
	if i < 0 {
		return false
	}
	q.drop(t.session, i)
	return true
}

// drop removes the i-th waiting run of session, and the session's turn when
// it was the last.
func (q *queue) drop(session SessionID, i int) {
	rest := slices.Delete(q.waiting[session], i, i+1)
	if len(rest) > 0 {
		q.waiting[session] = rest
		return
	}
	delete(q.waiting, session)
	q.turns = slices.DeleteFunc(q.turns, func(s SessionID) bool { return s == session })
}

// remove takes a run out of the queue; false when it does not wait there.
func (q *queue) remove(id RunID) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.leave(id) {
		return false
	}
	delete(q.known, id)
	return true
}

// moveToFront makes a waiting run the next one, as its row says; false when it
// waits no more.
func (q *queue) moveToFront(run *Run) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.leave(run.ID) {
		return false
	}
	q.known[run.ID].position = run.Position
	q.lead(run.ID)
	return true
}

// take counts a run that has its turn already; false when it is known.
func (q *queue) take(run *Run) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.learn(run, true) {
		return false
	}
	q.enter(run.ID)
	return true
}

// release gives the turn of a run back.
func (q *queue) release() {
	q.mu.Lock()
	q.inFlight--
	q.mu.Unlock()
	q.bell.Ring()
}

// forget lets go of a run that nobody follows any more.
func (q *queue) forget(id RunID) {
	q.mu.Lock()
	delete(q.known, id)
	q.mu.Unlock()
}

// pause closes the window, or opens it again; false when it was so before.
func (q *queue) pause(paused bool) bool {
	q.mu.Lock()
	moved := q.paused != paused
	q.paused = paused
	q.mu.Unlock()
	q.filled.Ring()
	q.bell.Ring()
	return moved
}

func (q *queue) isPaused() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.paused
}

// holdsBack reports whether a run has to wait for another to end, or for the
// window to open. Its client is told so, and waits no more.
func (q *queue) holdsBack(id RunID) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := q.known[id]
	if t == nil || t.flying || q.open() {
		return false
	}
	t.answered = true
	return true
}

// answer notes that nobody waits for the backend's yes or no any more.
func (q *queue) answer(id RunID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t := q.known[id]; t != nil {
		t.answered = true
	}
}

// knows reports whether a run waits or is in flight.
func (q *queue) knows(id RunID) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.known[id] != nil
}

func (q *queue) isAnswered(id RunID) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := q.known[id]
	return t == nil || t.answered
}
