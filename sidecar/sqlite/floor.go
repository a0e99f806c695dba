package sqlite

import (
	"strings"
	"sync"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// Where the log has holes, readers whose number is before them begin anew: of
// one scope where only runs of that scope went, else of all. trimmed_to in the
// file is where the last hole is, whoever misses it.
const (
	floorKey      = "reset_to" // followed by /SCOPE, for one
	scopeFloors   = "key > 'reset_to/' AND key < 'reset_to0'"
	maxFloors     = 4096 // scopes with a floor of their own; beyond it they share one
	saveFloor     = "INSERT INTO sidecar_meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = max(value, excluded.value)"
	raiseTrimmed  = "UPDATE sidecar_meta SET value = max(value, ?) WHERE key = 'trimmed_to'"
	dropFloors    = "DELETE FROM sidecar_meta WHERE " + scopeFloors
	listFloors    = "SELECT key, value FROM sidecar_meta WHERE key = '" + floorKey + "' OR " + scopeFloors
	inheritFloors = "INSERT INTO sidecar_meta (key, value) SELECT '" + floorKey + "', value FROM sidecar_meta WHERE key = 'trimmed_to' ON CONFLICT DO NOTHING"
)

// floors are the numbers up to which events may be gone.
type floors struct {
	mu     sync.RWMutex
	all    sidecar.Seq
	scopes map[sidecar.Scope]sidecar.Seq
}

// of is the floor of those who read a scope.
func (f *floors) of(scope sidecar.Scope) sidecar.Seq {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return max(f.all, f.scopes[scope])
}

// raise notes a floor of a scope, of all when it is empty. It reports whether
// there are so many that they have become one, and which that is.
func (f *floors) raise(scope sidecar.Scope, to sidecar.Seq) (shared bool, all sidecar.Seq) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if scope == "" {
		f.all = max(f.all, to)
		return false, f.all
	}
	if f.scopes == nil {
		f.scopes = map[sidecar.Scope]sidecar.Seq{}
	}
	f.scopes[scope] = max(f.scopes[scope], to)
	if len(f.scopes) <= maxFloors {
		return false, f.all
	}
	for _, floor := range f.scopes {
		f.all = max(f.all, floor)
	}
	clear(f.scopes)
	return true, f.all
}

// load reads the floors of a file. One that has none has those that it had
// before there were any: of all, where the last hole is.
func (f *floors) load(q querier) error {
	rows, err := q.query(listFloors)
	return each(rows, err, func(row scanner) error {
		var key textCell
		var floor sidecar.Seq
		err := row.Scan(&key, &floor)
		f.raise(sidecar.Scope(strings.TrimPrefix(strings.TrimPrefix(string(key), floorKey), "/")), floor)
		return err
	})
}

// trimmed notes that events of a scope up to a number may be gone, of all when
// it is empty, before that is committed: a reader looks at the note after it
// has read.
func (tx *Tx) trimmed(scope sidecar.Scope, upTo sidecar.Seq) error {
	if upTo == 0 {
		return nil
	}
	key := floorKey
	shared, all := tx.store.floors.raise(scope, upTo)
	switch {
	case shared:
		if _, err := tx.Exec(dropFloors); err != nil {
			return err
		}
	case scope != "":
		key, all = key+"/"+string(scope), upTo
	}
	if _, err := tx.Exec(saveFloor, key, int64(all)); err != nil {
		return err
	}
	_, err := tx.Exec(raiseTrimmed, int64(upTo))
	return err
}
