package sidecar

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"
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
	// Error is a sentence for people; empty when available. Doubt is one about
	// a backend that is available and does not answer as one does.
	Error string
	Doubt string
	Queue QueueState
	// Leaving is the number of runs that ended and whose prompts the backend
	// still has. Busy is set when one of them does not stop.
	Leaving int
	Busy    bool
	// Detail is the backend's own health answer, when it is a sidecar.
	Detail json.RawMessage
	// Storage is why nothing can be written just now; nil when all is well.
	Storage error
}

// healthState is the last known state of the backend. Run alone asks the
// backend; others ring asked and wait for answered.
type healthState struct {
	asked    Bell
	answered Bell

	mu    sync.Mutex
	known bool
	stale bool // what is known counts no more
	at    time.Time
	last  Condition
}

// ask makes the backend be asked anew: what is known counts no more.
func (h *healthState) ask() {
	h.mu.Lock()
	h.stale = true
	h.mu.Unlock()
	h.asked.Ring()
}

func (h *healthState) fresh() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.known && !h.stale && h.last.Available && time.Since(h.at) < healthFresh
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
	h.last, h.known, h.stale, h.at = c, true, false, time.Now()
	h.mu.Unlock()
	h.answered.Ring()
}

// slow: a backend that was not seen for longer than the limit is not there.
func (h *healthState) slow() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.at) > healthLimit {
		h.last, h.known = Condition{Error: "ComfyUI does not answer in time."}, true
	}
}

// Health tells how the backend is. It waits no longer than 250 ms for it, and
// tells the last known state while Run does not move.
func (s *Studio) Health(ctx context.Context) Condition {
	if !s.health.fresh() {
		answered := s.health.answered.Wait()
		s.health.asked.Ring()
		timer := time.NewTimer(healthWait)
		defer timer.Stop()
		select {
		case <-answered:
		case <-timer.C:
			s.health.slow()
		case <-ctx.Done():
		}
	}
	return s.LastHealth()
}

// LastHealth is the last known state: nobody is asked.
func (s *Studio) LastHealth() Condition {
	c := s.health.get()
	c.Queue, c.Storage = s.queue.state(), s.store.Trouble()
	c.Leaving, c.Busy = s.leaving.state(time.Now())
	return c
}

// tellHealth asks the backend when somebody wants to know, and writes an event
// whenever it came or went.
func (s *Studio) tellHealth(ctx context.Context) error {
	if s.onDemand {
		select {
		case <-s.health.asked.Wait():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	var told *Condition
	for {
		asked := s.health.asked.Wait()
		c := s.askHealth(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.health.set(c)
		if told == nil || c.Available != told.Available {
			if s.appendEvent(ctx, EventHealthChanged, "health", healthTarget{c.Available, c.Version, c.Error}) {
				told = &c
			}
		}
		select {
		case <-asked:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *Studio) askHealth(ctx context.Context) Condition {
	ctx, stop := context.WithTimeout(ctx, healthLimit)
	defer stop()
	h, err := s.exec.Health(ctx)
	if err != nil {
		s.noteRefusal(err)
		return Condition{Version: h.Version, Error: err.Error(), Detail: h.Detail}
	}
	return Condition{Available: true, Version: h.Version, Doubt: h.Doubt, Detail: h.Detail}
}

// takesRuns reports whether what waits for the backend is released: what may be
// no backend fails it.
func (c Condition) takesRuns() bool { return c.Available && c.Doubt == "" }

// awaitsBackend holds a run that may wait until the backend can run it. Asking
// comes first: a worker whose own ComfyUI is away takes a prompt and fails it,
// and its id is used up.
func (f *follower) awaitsBackend(ctx context.Context) bool {
	if !f.run.mayBeHeld() || f.run.Attempt > 0 || f.studio.askHealth(ctx).takesRuns() || ctx.Err() != nil {
		return false
	}
	f.apply(ctx, Signal{Kind: SignalHeld})
	return true
}

type healthTarget struct {
	Available bool   `json:"available"`
	Version   string `json:"version,omitempty"`
	Error     string `json:"error,omitempty"`
}

// appendEvent tells everybody of something that belongs to no run; false when
// it could not be written.
func (s *Studio) appendEvent(ctx context.Context, kind EventType, name string, value any) bool {
	event := Event{Type: kind, At: time.Now(), Targets: mustJSON(map[string]any{name: value})}
	err := s.store.Append(ctx, event)
	if err != nil && ctx.Err() == nil {
		level := slog.LevelError
		if passing(err) {
			level = slog.LevelDebug // the store told of it, and this is tried again
		}
		s.log.Log(ctx, level, "write event", "type", kind, "err", err)
	}
	return err == nil
}

// ContractsChanged tells everybody that the environment offers other contracts.
// change is encoded as JSON.
func (s *Studio) ContractsChanged(ctx context.Context, change any) {
	s.appendEvent(ctx, EventContractsChanged, "contracts", change)
}
