package sidecar

import (
	"fmt"
	"sync"
)

// CodeQueueFull is the code of a run that is not accepted because too many
// wait already.
const CodeQueueFull Code = "queue_full"

// Limits bound how many runs may wait for their turn, and how many more may be
// held, waiting for something else. Beyond them no run of a contract is accepted; what another sidecar hands over
// waits there already, within that one's limits. Zero values are the defaults.
type Limits struct {
	Waiting    int // in all, and as many held
	PerSession int // of one session, and as many held
}

// The default limits: more than a person queues, less than a program that has
// lost control does harm with.
const (
	DefaultMaxWaiting           = 1000
	DefaultMaxWaitingPerSession = 200
)

func (l Limits) withDefaults() Limits {
	if l.Waiting <= 0 {
		l.Waiting = DefaultMaxWaiting
	}
	if l.PerSession <= 0 {
		l.PerSession = DefaultMaxWaitingPerSession
	}
	return l
}

// admit keeps room for a run that is about to be stored, until leave is called:
// it waits then, or is held, or never will. Runs for which there is a free place
// in the window do not wait. Those that are held shut out none but their like,
// and are not accepted either where too many wait for their turn: they come there.
func (q *queue) admit(session SessionID, holds bool) (leave func(), err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	free := 0
	if !q.paused && !holds {
		free = max(0, q.window-q.inFlight)
	}
	all, own := q.crowd(session, false)
	if err := q.limits.crowded(all, own, free, "wait"); err != nil {
		return nil, err
	}
	all, own = q.crowd(session, true)
	if err := q.limits.crowded(all, own, 0, "are held"); holds && err != nil {
		return nil, err
	}
	if q.expected == nil {
		q.expected = map[SessionID]int{}
	}
	q.expected[session]++
	return sync.OnceFunc(func() { q.admitted(session) }), nil
}

// crowded tells that a limit is reached.
func (l Limits) crowded(all, own, free int, do string) error {
	switch {
	case own-free >= l.PerSession:
		return queueFull(fmt.Sprintf("%d runs of this session %s already, as many as may.", l.PerSession, do), "--max-waiting-per-session")
	case all-free >= l.Waiting:
		return queueFull(fmt.Sprintf("%d runs %s already, as many as may.", l.Waiting, do), "--max-waiting")
	}
	return nil
}

func queueFull(message, flag string) *Error {
	return &Error{Code: CodeQueueFull, Message: message, Hint: "Try again when some have ended, cancel some, or raise " + flag + "."}
}

func (q *queue) admitted(session SessionID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.expected[session]--; q.expected[session] <= 0 {
		delete(q.expected, session)
	}
}

// crowd counts the runs that wait for their turn, or those that are held, and
// those that are about to, in all and of a session.
func (q *queue) crowd(session SessionID, held bool) (all, own int) {
	count := func(whose SessionID, n int) {
		if all += n; whose == session {
			own += n
		}
	}
	for whose, n := range q.expected {
		count(whose, n)
	}
	if held {
		for _, h := range q.held {
			count(h.session, 1)
		}
		return all, own
	}
	for _, id := range q.front {
		count(q.known[id].session, 1)
	}
	for whose, ids := range q.waiting {
		count(whose, len(ids))
	}
	return all, own
}
