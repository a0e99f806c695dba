package sidecar

import (
	"cmp"
	"slices"
	"time"
)

// QueueState is how full the dispatcher is.
type QueueState struct {
	Window   int // places in the backend's queue
	InFlight int // handed over and not ended
	Waiting  int // accepted, waiting for their turn
	Held     int // accepted, waiting for something other than their turn
	Limits   Limits
	Paused   bool // nothing is handed over until it is resumed
}

// QueueEntry is a run in the dispatcher.
type QueueEntry struct {
	Run                RunID
	Workflow, Contract string
	CreatedAt          time.Time
	// Position is the number of runs that come before a waiting one.
	Position int
	// Reason is what a held run waits for first, NotBefore when that is time,
	// After its parent.
	Reason    WaitReason
	NotBefore time.Time
	After     RunID
}

// QueueView is the dispatcher as a scope sees it: all in numbers, its own runs
// by name. InFlight and Held are ordered by creation, Waiting by position.
type QueueView struct {
	QueueState
	Flying, Waiting, Held []QueueEntry
}

func (q *queue) state() QueueState {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.count()
}

func (q *queue) count() QueueState {
	st := QueueState{Window: q.window, InFlight: q.inFlight, Held: len(q.held), Limits: q.limits, Paused: q.paused}
	st.Waiting = len(q.front)
	for _, ids := range q.waiting {
		st.Waiting += len(ids)
	}
	return st
}

// view lists the runs of a scope.
func (q *queue) view(scope Scope) QueueView {
	q.mu.Lock()
	defer q.mu.Unlock()
	v := QueueView{QueueState: q.count()}
	for _, t := range q.known {
		if t.flying && t.scope == scope {
			v.Flying = append(v.Flying, t.QueueEntry)
		}
	}
	for i, id := range q.order() {
		if t := q.known[id]; t.scope == scope {
			entry := t.QueueEntry
			entry.Position = q.inFlight + i
			v.Waiting = append(v.Waiting, entry)
		}
	}
	for _, h := range q.held {
		if h.scope == scope {
			v.Held = append(v.Held, h.QueueEntry)
		}
	}
	for _, list := range [][]QueueEntry{v.Flying, v.Held} {
		slices.SortFunc(list, func(a, b QueueEntry) int {
			return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.Run, b.Run))
		})
	}
	return v
}

// order is the order in which the waiting runs get their turns, as far as it
// is known now.
func (q *queue) order() []RunID {
	order := slices.Clone(q.front)
	for row, more := 0, true; more; row++ {
		more = false
		for _, session := range q.turns {
			if ids := q.waiting[session]; row < len(ids) {
				order, more = append(order, ids[row]), true
			}
		}
	}
	return order
}

// place is how many runs come before this one: those in flight, and of the
// waiting ones those whose turn comes earlier. False when it does not wait.
func (q *queue) place(id RunID) (int, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := q.known[id]
	if t == nil || t.flying {
		return 0, false
	}
	if i := slices.Index(q.front, id); i >= 0 {
		return q.inFlight + i, true
	}
	row := slices.Index(q.waiting[t.session], id)
	if row < 0 {
		return 0, false
	}
	turn := slices.Index(q.turns, t.session)
	before := q.inFlight + len(q.front)
	for i, other := range q.turns {
		n := len(q.waiting[other])
		if i < turn {
			before += min(n, row+1)
		} else {
			before += min(n, row)
		}
	}
	return before, true
}
