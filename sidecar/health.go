package sidecar

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

const (
	// healthFresh is how old a good answer of the backend may be to be told
	// again. A bad one is never told twice: who waits for ComfyUI asks often.
	healthFresh = 100 * time.Millisecond
	// healthWait is how long a question waits for the backend; after it the
	// last known state is told.
	healthWait = 250 * time.Millisecond
	// healthLimit ends a question to a backend that hangs.
	healthLimit = 2 * time.Second
)

// Condition is how the backend and the store are.
type Condition struct {
	Available bool
	Version   string
	// Error is a sentence for people; empty when available.
	Error string
	Queue QueueState
	// Storage is why nothing can be written just now; nil when all is well.
	Storage error
}

// healthState is the last known state of the backend.
type healthState struct {
	flight singleflight.Group
	bell   Bell

	mu    sync.Mutex
	known bool
	at    time.Time
	last  Condition
}

// heard makes what the socket says count at once: a cut connection is asked
// about anew.
func (h *healthState) heard(bool) {
	h.mu.Lock()
	h.at = time.Time{}
	h.mu.Unlock()
	h.bell.Ring()
}

func (h *healthState) fresh() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.known && h.last.Available && time.Since(h.at) < healthFresh
}

func (h *healthState) get() Condition {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.known {
		return Condition{Error: "ComfyUI has not answered yet."}
	}
	return h.last
}

func (h *healthState) set(c Condition) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last, h.known, h.at = c, true, time.Now()
}

// Health tells how the backend is. It waits no longer than 250 ms for it.
func (s *Studio) Health(ctx context.Context) Condition {
	if !s.health.fresh() {
		ask := s.health.flight.DoChan("health", func() (any, error) { return nil, s.askHealth() })
		timer := time.NewTimer(healthWait)
		defer timer.Stop()
		select {
		case <-ask:
		case <-timer.C:
			s.health.slow()
		case <-ctx.Done():
		}
	}
	c := s.health.get()
	c.Queue, c.Storage = s.queue.state(), s.store.Trouble()
	return c
}

// slow: a backend that was not seen for longer than the limit is not there.
func (h *healthState) slow() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.at) > healthLimit {
		h.last, h.known = Condition{Error: "ComfyUI does not answer in time."}, true
	}
}

func (s *Studio) askHealth() error {
	ctx, stop := context.WithTimeout(context.Background(), healthLimit)
	defer stop()
	c := Condition{Available: true}
	h, err := s.exec.Health(ctx)
	if err != nil {
		c = Condition{Error: err.Error()}
	}
	c.Version = h.Version
	s.health.set(c)
	return err
}

// tellHealth writes an event whenever the backend comes or goes.
func (s *Studio) tellHealth(ctx context.Context) error {
	told := Condition{}
	first := true
	for {
		wake := s.health.bell.Wait()
		c := s.Health(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if first || c.Available != told.Available {
			s.appendEvent(ctx, EventHealthChanged, "health", healthTarget{c.Available, c.Version, c.Error})
		}
		first, told = false, c
		select {
		case <-wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

type healthTarget struct {
	Available bool   `json:"available"`
	Version   string `json:"version,omitempty"`
	Error     string `json:"error,omitempty"`
}

// appendEvent tells everybody of something that belongs to no run.
func (s *Studio) appendEvent(ctx context.Context, kind EventType, name string, value any) {
	event := Event{Type: kind, At: time.Now(), Targets: mustJSON(map[string]any{name: value})}
	if err := s.store.Append(ctx, event); err != nil && ctx.Err() == nil {
		s.log.Error("write event", "type", kind, "err", err)
	}
}

// ContractsChanged tells everybody that the environment offers other contracts.
// change is encoded as JSON.
func (s *Studio) ContractsChanged(ctx context.Context, change any) {
	s.appendEvent(ctx, EventContractsChanged, "contracts", change)
}
