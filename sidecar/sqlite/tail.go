package sqlite

import (
	"sync"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// tail is the end of the log in memory. Numbers in it have no gaps.
type tail struct {
	mu      sync.RWMutex
	records []sidecar.Record // guarded by mu; at most tailLength
	newest  sidecar.Seq      // guarded by mu
}

func newTail(newest sidecar.Seq) *tail { return &tail{newest: newest} }

func (t *tail) head() sidecar.Seq {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.newest
}

func (t *tail) add(records []sidecar.Record) {
	if len(records) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.newest = records[len(records)-1].Seq
	t.records = append(t.records, records...)
	// Moved down only when twice as long, so that a record is moved once.
	if n := len(t.records); n >= 2*tailLength {
		kept := make([]sidecar.Record, tailLength, 2*tailLength)
		copy(kept, t.records[n-tailLength:])
		t.records = kept
	}
}

// since lists what follows a number, and whether the tail knows all of that.
func (t *tail) since(after sidecar.Seq, wanted func(*sidecar.Record) bool, limit int) ([]sidecar.Record, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	begin := t.newest - sidecar.Seq(len(t.records)) // the number before the first
	if after < begin || after > t.newest {
		return nil, false
	}
	var found []sidecar.Record
	for i := int(after - begin); i < len(t.records) && len(found) < limit; i++ {
		if wanted(&t.records[i]) {
			found = append(found, t.records[i])
		}
	}
	return found, true
}

// maxVersions bounds the scopes that are counted one by one.
const maxVersions = 4096

// versions counts changes by scope. A scope that is not in counts has the
// version floor, which is at least what it had.
type versions struct {
	mu     sync.Mutex
	clock  int64
	floor  int64
	counts map[sidecar.Scope]int64
}

// newVersions begins at a number that an earlier process cannot have reached:
// it would have had to commit a million times a second.
func newVersions(now time.Time) *versions {
	start := now.UnixMicro()
	return &versions{clock: start, floor: start, counts: map[sidecar.Scope]int64{}}
}

func (v *versions) of(scope sidecar.Scope) int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	if n, ok := v.counts[scope]; ok {
		return n
	}
	return v.floor
}

func (v *versions) bump(scopes map[sidecar.Scope]bool, everybody bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.clock++
	if everybody || len(v.counts)+len(scopes) > maxVersions {
		clear(v.counts)
		v.floor = v.clock
	}
	for scope := range scopes {
		v.counts[scope] = v.clock
	}
}
