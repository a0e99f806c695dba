package sidecar

import (
	"sync"
	"time"
)

// busyAfter is how long a backend may take to let go of a prompt before it is
// called busy: an interrupt acts at the next step of a node.
const busyAfter = 5 * time.Second

// leaving are the runs that ended here and whose prompts the backend still has.
type leaving struct {
	mu    sync.Mutex
	since map[RunID]time.Time
}

// enter notes a run; done forgets it.
func (l *leaving) enter(id RunID, ended time.Time) (done func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.since == nil {
		l.since = map[RunID]time.Time{}
	}
	l.since[id] = ended
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.since, id)
	}
}

// state is how many there are, and whether one of them does not go.
func (l *leaving) state(now time.Time) (n int, busy bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, ended := range l.since {
		busy = busy || now.Sub(ended) >= busyAfter
	}
	return len(l.since), busy
}
