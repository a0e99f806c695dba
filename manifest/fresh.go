package manifest

import (
	"sync"
	"time"
)

// settleTime is how long a file must have been at rest before its stamp alone
// is trusted: within one tick of a file system's clock (up to 2 s on some) a
// second change leaves no trace in the stamp.
const settleTime = 2 * time.Second

// recent tells whether the file changed so shortly before at that it may change
// again without showing it.
func (s stamp) recent(at time.Time) bool {
	return max(s.mtime, s.ctime) > at.Add(-settleTime).UnixNano()
}

// stampsEach is stampOf for paths below dir.
func stampsEach(dir string) func(path string) (stamp, bool) {
	return func(path string) (stamp, bool) { return stampOf(dir + "/" + path) }
}

// rounds lets those who wait at the same time share one piece of work, but
// never work that began before they asked.
type rounds struct {
	mu      sync.Mutex
	next    *sync.Once
	working sync.Mutex
}

func (r *rounds) do(work func()) {
	r.mu.Lock()
	if r.next == nil {
		r.next = new(sync.Once)
	}
	round := r.next
	r.mu.Unlock()
	round.Do(func() {
		r.working.Lock()
		defer r.working.Unlock()
		r.mu.Lock()
		r.next = nil
		r.mu.Unlock()
		work()
	})
}
