package sidecar

import (
	"sync"
	"time"
)

// Manner is how a run was asked for. It says nothing of the run itself, and is
// not kept beyond this life of the process.
type Manner struct {
	// Waited: the caller waits for the end.
	Waited bool
	// Poll is how often the caller wants its backend to be asked; 0: it did
	// not say.
	Poll time.Duration
}

// manners remembers how runs were asked for until they are followed.
type manners struct {
	mu    sync.Mutex
	known map[RunID]Manner
}

func (m *manners) note(id RunID, manner Manner) {
	if manner == (Manner{}) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil {
		m.known = map[RunID]Manner{}
	}
	m.known[id] = manner
}

func (m *manners) take(id RunID) Manner {
	m.mu.Lock()
	defer m.mu.Unlock()
	manner := m.known[id]
	delete(m.known, id)
	return manner
}
