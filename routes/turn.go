package routes

import (
	"context"
	"sync"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// turnKey names a command.
type turnKey struct {
	owner sidecar.SessionID
	key   string
}

// turns let the requests of one command go one after another.
type turns struct {
	mu   sync.Mutex
	held map[turnKey]*seat
}

// seat is held by one request while others may wait for it.
type seat struct {
	free  chan struct{} // holds one value while nobody has the seat
	users int           // have it or wait for it
}

// turn is a request's hold of a seat.
type turn struct{ release func() }

// take waits until it is the caller's turn.
func (t *turns) take(ctx context.Context, key turnKey) (*turn, error) {
	t.mu.Lock()
	s := t.held[key]
	if s == nil {
		s = &seat{free: make(chan struct{}, 1)}
		s.free <- struct{}{}
		if t.held == nil {
			t.held = map[turnKey]*seat{}
		}
		t.held[key] = s
	}
	s.users++
	t.mu.Unlock()
	select {
	case <-s.free:
		return &turn{sync.OnceFunc(func() {
			s.free <- struct{}{}
			t.leave(key, s)
		})}, nil
	case <-ctx.Done():
		t.leave(key, s)
		return nil, ctx.Err()
	}
}

func (t *turns) leave(key turnKey, s *seat) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.users--; s.users == 0 {
		delete(t.held, key)
	}
}
