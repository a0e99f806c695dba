package sidecar

import (
	"fmt"
	"sync"
)

// CodeQueueFull is the code of a run that is not accepted because too many
// wait already.
const CodeQueueFull Code = "queue_full"

// Limits bound how many runs may wait, for their turn or for something else.
// Beyond them no run of a contract is accepted; what another sidecar hands over
// waits there already, within that one's limits. Zero values are the defaults.
type Limits struct {
	Waiting    int // in all
	PerSession int
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
// it waits then, or never will. Runs for which there is a free place in the
// window do not wait.
func (q *queue) admit(session SessionID) (leave func(), err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	all, own := q.crowd(session)
	free := 0
	if !q.paused {
		free = max(0, q.window-q.inFlight)
	}
	switch {
	case own-free >= q.limits.PerSession:
		return nil, queueFull(fmt.Sprintf("%d runs of this session wait already, as many as may.", q.limits.PerSession), "--max-waiting-per-session")
	case all-free >= q.limits.Waiting:
		return nil, queueFull(fmt.Sprintf("%d runs wait already, as many as may.", q.limits.Waiting), "--max-waiting")
	}
	if q.expected == nil {
		q.expected = map[SessionID]int{}
	}
	q.expected[session]++
	return sync.OnceFunc(func() { q.admitted(session) }), nil
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

// crowd counts the runs that wait or are about to, in all and of a session.
func (q *queue) crowd(session SessionID) (all, own int) {
	for _, id := range q.front {
		all++
		if q.known[id].session == session {
			own++
		}
	}
	for _, ids := range q.waiting {
		all += len(ids)
	}
	own += len(q.waiting[session]) + q.expected[session]
	for _, n := range q.expected {
		all += n
	}
	for _, h := range q.held {
		all++
		if h.session == session {
			own++
		}
	}
	return all, own
}
