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
	bell   Bell // something waits, or a turn is free
	filled Bell // the window became full
	window int

	mu       sync.Mutex
	turns    []SessionID // sessions with waiting runs, the next one first
	waiting  map[SessionID][]RunID
	known    map[RunID]*ticket // waiting or in flight
	soonest  time.Time         // no waiting run is due before; zero: none is
	inFlight int
}

// ticket is what the queue knows of a run.
type ticket struct {
	session SessionID
	due     time.Time
	// answered is set when nobody waits for the backend's yes or no any more.
	answered bool
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
	q.known[run.ID] = &ticket{session: run.Session, due: run.DueAt, answered: answered}
	return true
}

func (q *queue) push(run *Run, answered bool) bool {
	q.mu.Lock()
	if !q.learn(run, answered) {
		q.mu.Unlock()
		return false
	}
	if len(q.waiting[run.Session]) == 0 {
		q.turns = append(q.turns, run.Session)
	}
	q.waiting[run.Session] = append(q.waiting[run.Session], run.ID)
	if !run.DueAt.IsZero() && (q.soonest.IsZero() || run.DueAt.Before(q.soonest)) {
		q.soonest = run.DueAt
	}
	q.mu.Unlock()
	q.bell.Ring()
	return true
}

// pop takes the next run and its place in the window; false when the window
// is full or nothing waits. A run whose time is up needs no place: it is taken
// at once, to be ended.
func (q *queue) pop(now time.Time) (RunID, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if id, ok := q.late(now); ok {
		session := q.known[id].session
		q.drop(session, slices.Index(q.waiting[session], id))
		q.enter()
		return id, true
	}
	if q.inFlight >= q.window || len(q.turns) == 0 {
		return "", false
	}
	session := q.turns[0]
	id := q.waiting[session][0]
	q.drop(session, 0)
	if len(q.waiting[session]) > 0 {
		q.turns = append(q.turns[1:], session)
	}
	q.enter()
	return id, true
}

// enter counts a run that got its turn.
func (q *queue) enter() {
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
	for _, ids := range q.waiting {
		for _, id := range ids {
			due := q.known[id].due
			switch {
			case due.IsZero():
			case !now.Before(due):
				return id, true
			case next.IsZero() || due.Before(next):
				next = due
			}
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
func (q *queue) remove(session SessionID, id RunID) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.waiting[session], id)
	if i < 0 {
		return false
	}
	q.drop(session, i)
	delete(q.known, id)
	return true
}

// take counts a run that has its turn already; false when it is known.
func (q *queue) take(run *Run) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.learn(run, true) {
		return false
	}
	q.enter()
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

// place is how many runs come before this one: those in flight, and of the
// waiting ones those whose turn comes earlier. False when it does not wait.
func (q *queue) place(session SessionID, id RunID) (int, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	row := slices.Index(q.waiting[session], id)
	if row < 0 {
		return 0, false
	}
	turn := slices.Index(q.turns, session)
	before := q.inFlight
	for t, other := range q.turns {
		n := len(q.waiting[other])
		if t < turn {
			before += min(n, row+1)
		} else {
			before += min(n, row)
		}
	}
	return before, true
}

// QueueState is how full the dispatcher is.
type QueueState struct {
	Window   int // places in the backend's queue
	InFlight int // handed over and not ended
	Waiting  int // accepted, waiting for their turn
}

// holdsBack reports whether a run has to wait for another to end. Its client is
// told so, and waits no more.
func (q *queue) holdsBack(id RunID) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := q.known[id]
	if t == nil || q.inFlight < q.window || !slices.Contains(q.waiting[t.session], id) {
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

func (q *queue) state() QueueState {
	q.mu.Lock()
	defer q.mu.Unlock()
	st := QueueState{Window: q.window, InFlight: q.inFlight}
	for _, ids := range q.waiting {
		st.Waiting += len(ids)
	}
	return st
}
