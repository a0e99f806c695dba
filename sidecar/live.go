package sidecar

import (
	"sync"
)

// Live is what is known of an unfinished run beyond its row: latest values
// that nobody needs to see all of.
type Live struct {
	Run      RunID
	Progress Progress
	// HasProgress is set once the backend told any.
	HasProgress bool
	// Preview is the version of the newest preview, 0 when there is none.
	Preview int64
	// Position is the number of prompts before it in the backend's queue; -1
	// when it is not queued there.
	Position int
	// Heard is false while the backend's messages about the run do not reach
	// us: it is followed by asking.
	Heard bool

	version int64
}

// live holds the latest values of runs that are followed.
type live struct {
	bell Bell

	mu      sync.Mutex
	version int64
	up      bool
	epoch   int
	runs    map[RunID]*liveRun
}

type liveRun struct {
	Live
	scope   Scope
	epoch   int
	preview Preview
}

func (l *live) of(id RunID, scope Scope) *liveRun {
	r, ok := l.runs[id]
	if !ok {
		if l.runs == nil {
			l.runs = map[RunID]*liveRun{}
		}
		r = &liveRun{Live: Live{Run: id, Position: -1}, scope: scope, epoch: l.epoch}
		l.runs[id] = r
	}
	return r
}

// touch changes a run's latest values and wakes those who look.
func (l *live) touch(id RunID, scope Scope, change func(*liveRun)) {
	l.mu.Lock()
	r := l.of(id, scope)
	change(r)
	l.version++
	r.version = l.version
	l.mu.Unlock()
	l.bell.Ring()
}

func (l *live) progress(id RunID, scope Scope, p Progress) {
	l.touch(id, scope, func(r *liveRun) {
		if p.Total == 0 {
			p.Done, p.Total = r.Progress.Done, r.Progress.Total
		}
		r.Progress, r.HasProgress, r.Position = p, true, -1
	})
}

func (l *live) preview(id RunID, scope Scope, p Preview) {
	l.touch(id, scope, func(r *liveRun) {
		r.preview = p
		r.Preview++
	})
}

func (l *live) position(id RunID, scope Scope, position int) {
	l.mu.Lock()
	same := l.of(id, scope).Position == position
	l.mu.Unlock()
	if !same {
		l.touch(id, scope, func(r *liveRun) { r.Position = position })
	}
}

// handedOver notes the epoch that a run's messages will come in.
func (l *live) handedOver(id RunID, scope Scope) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of(id, scope).epoch = l.epoch
}

func (l *live) connected(up bool, epoch int) {
	l.mu.Lock()
	l.up = up
	if up {
		l.epoch = epoch
	}
	l.mu.Unlock()
}

// hears reports whether messages about the run reach us.
func (l *live) hears(id RunID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, ok := l.runs[id]
	return ok && l.up && r.epoch == l.epoch
}

func (l *live) forget(id RunID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.runs, id)
}

func (l *live) snapshot(r *liveRun) Live {
	out := r.Live
	out.Heard = l.up && r.epoch == l.epoch
	return out
}

// Live returns the latest values of a run that is being followed.
func (s *Studio) Live(id RunID) (Live, bool) {
	l := &s.live
	l.mu.Lock()
	defer l.mu.Unlock()
	r, ok := l.runs[id]
	if !ok {
		return Live{}, false
	}
	return l.snapshot(r), true
}

// LiveSince returns the latest values of a scope's runs that changed after a
// version, and the version to ask with next.
func (s *Studio) LiveSince(scope Scope, version int64) ([]Live, int64) {
	l := &s.live
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []Live
	for _, r := range l.runs {
		if r.scope == scope && r.version > version {
			out = append(out, l.snapshot(r))
		}
	}
	return out, l.version
}

// LiveChanged returns a channel that is closed when a latest value changed.
func (s *Studio) LiveChanged() <-chan struct{} { return s.live.bell.Wait() }

// Preview returns the newest preview of a scope's run and its version.
func (s *Studio) Preview(scope Scope, id RunID) (Preview, int64, error) {
	l := &s.live
	l.mu.Lock()
	defer l.mu.Unlock()
	r, ok := l.runs[id]
	if !ok || r.scope != scope || r.Live.Preview == 0 {
		return Preview{}, 0, ErrNotFound
	}
	return r.preview, r.Live.Preview, nil
}
