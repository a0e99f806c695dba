package sidecar

import (
	"slices"
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
	away    bool // no connection could be made since the last
	renewal int  // the latest epoch that came after the backend was away
	runs    map[RunID]*liveRun
}

type liveRun struct {
	Live
	scope   Scope
	epoch   int // that its messages come in; 0: in none that is known
	preview Preview
}

// follow begins to keep a run's latest values, until forget. News of a run that
// is not followed leaves nothing behind.
func (l *live) follow(id RunID, scope Scope) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.runs == nil {
		l.runs = map[RunID]*liveRun{}
	}
	l.runs[id] = &liveRun{Live: Live{Run: id, Position: -1}, scope: scope}
}

// touch changes a run's latest values and, when it says so, wakes those who
// look.
func (l *live) touch(id RunID, change func(*liveRun) bool) {
	l.mu.Lock()
	r, ok := l.runs[id]
	changed := ok && change(r)
	if changed {
		l.version++
		r.version = l.version
	}
	l.mu.Unlock()
	if changed {
		l.bell.Ring()
	}
}

func (l *live) progress(id RunID, p Progress) {
	l.touch(id, func(r *liveRun) bool {
		if p.Total == 0 {
			p.Done, p.Total = r.Progress.Done, r.Progress.Total
		}
		if p.Stepped == nil {
			p.Stepped = r.Progress.Stepped
		}
		if p.Max > 1 && !slices.Contains(p.Stepped, p.Node.ID) {
			p.Stepped = append(slices.Clip(p.Stepped), p.Node.ID)
		}
		r.Progress, r.HasProgress, r.Position = p, true, -1
		return true
	})
}

func (l *live) preview(id RunID, p Preview) {
	l.touch(id, func(r *liveRun) bool {
		r.preview = p
		r.Preview++
		return true
	})
}

func (l *live) position(id RunID, position int) {
	l.touch(id, func(r *liveRun) bool {
		moved := r.Position != position
		r.Position = position
		return moved
	})
}

// handedOver notes that a run's messages will come in the epoch of now; while no
// connection stands, in the next.
func (l *live) handedOver(id RunID) {
	l.touch(id, func(r *liveRun) bool {
		r.epoch = l.epoch
		if !l.up {
			r.epoch++
		}
		return false
	})
}

// heard notes the epoch in which a message about the run came.
func (l *live) heard(id RunID, epoch int) {
	l.touch(id, func(r *liveRun) bool {
		moved := r.epoch != epoch
		r.epoch = epoch
		return moved
	})
}

// connected notes that a socket stands, or fell: runs are heard, or no more.
func (l *live) connected(up bool, epoch int) {
	l.mu.Lock()
	l.up = up
	if up {
		if l.epoch = epoch; l.away {
			l.renewal, l.away = epoch, false
		}
	}
	l.version++
	for _, r := range l.runs {
		r.version = l.version
	}
	l.mu.Unlock()
	l.bell.Ring()
}

// unreached notes that no connection could be made.
func (l *live) unreached() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away = true
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
