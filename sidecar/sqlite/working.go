package sqlite

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

const (
	// maxWorking bounds the runs that are kept at hand, maxWorkingBytes their
	// documents. What does not fit is read from the file.
	maxWorking      = 4096
	maxWorkingBytes = 32 << 20
)

// working holds unfinished runs as they are committed, so that their next step
// and those who wait for it need not read the file. What is in it is shared and
// never written into.
type working struct {
	mu   sync.RWMutex
	runs map[sidecar.RunID]*storedRun // guarded by mu
	size int                          // of all documents, bytes; guarded by mu
}

func (w *working) run(id sidecar.RunID) *storedRun {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.runs[id]
}

// keep takes runs that were committed: those that have not ended replace what
// is known of them.
func (w *working) keep(moved map[sidecar.RunID]*storedRun) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, run := range moved {
		w.remove(id)
		if run == nil || run.Phase == sidecar.PhaseFinished {
			continue
		}
		size := documentBytes(&run.Run)
		if size > maxWorkingBytes {
			continue
		}
		for other := range w.runs {
			if len(w.runs) < maxWorking && w.size+size <= maxWorkingBytes {
				break
			}
			w.remove(other)
		}
		if w.runs == nil {
			w.runs = map[sidecar.RunID]*storedRun{}
		}
		w.runs[id] = run
		w.size += size
	}
}

// drop lets go of runs that are about to move: while that is being committed
// the file alone tells which state holds.
func (w *working) drop(moved map[sidecar.RunID]*storedRun) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range moved {
		w.remove(id)
	}
}

func (w *working) remove(id sidecar.RunID) {
	if known := w.runs[id]; known != nil {
		w.size -= documentBytes(&known.Run)
		delete(w.runs, id)
	}
}

// clear forgets everything: somebody else wrote to the file.
func (w *working) clear() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.runs)
	w.size = 0
}

// shareBytes is about what a slot, an item, a node run or an upload takes.
const shareBytes = 256

// documentBytes is about what a run takes of memory.
func documentBytes(r *sidecar.Run) int {
	n := shareBytes * (1 + len(r.Slots) + len(r.Items) + len(r.Nodes) + len(r.Uploads))
	n += len(r.Inputs) + len(r.Result) + len(r.Error) + len(r.EnvironmentRef) + len(r.Issues)
	if r.Hold != nil && r.Hold.After != nil {
		n += len(r.Hold.After.Values)
	}
	for i := range r.Slots {
		n += len(r.Slots[i].Result)
	}
	for i := range r.Items {
		n += len(r.Items[i].Inputs) + len(r.Items[i].Artifact) + len(r.Items[i].Result)
	}
	return n
}

// load reads a run as this transaction sees it. What it returns is shared and
// must not be written into.
func (tx *Tx) load(id sidecar.RunID) (*storedRun, error) {
	run, moved := tx.moved[id]
	if !moved {
		run = tx.store.working.run(id)
	}
	if run != nil {
		return run, nil
	}
	return loadRun(tx, id)
}

// keep remembers what a run has become, for whoever changes it next.
func (tx *Tx) keep(run *storedRun) { tx.remember(run.ID, run) }

// forget makes whoever asks for a run next read its rows.
func (tx *Tx) forget(id sidecar.RunID) { tx.remember(id, nil) }

func (tx *Tx) remember(id sidecar.RunID, run *storedRun) {
	if tx.moved == nil {
		tx.moved = map[sidecar.RunID]*storedRun{}
	}
	tx.moved[id] = run
}

// asStored makes of a run that was saved what reading it gives. updated is the
// text of its time of change in both tables.
func asStored(r *sidecar.Run, updated string) *storedRun {
	run := &storedRun{Run: *clone(r), hasState: true, rowUpdated: updated, updated: updated}
	run.Callback = nil
	run.Inputs = storedInputs(run.Inputs)
	storedDocuments(&run.Result, &run.EnvironmentRef, &run.Issues)
	storedTimes(&run.CreatedAt, &run.UpdatedAt, &run.DueAt, &run.StartedAt, &run.FinishedAt)
	for i := range run.Slots {
		slot := &run.Slots[i]
		storedDocuments(&slot.Result)
		storedTimes(&slot.CreatedAt, &slot.UpdatedAt)
	}
	for i := range run.Items {
		item := &run.Items[i]
		item.Inputs = storedInputs(item.Inputs)
		storedDocuments(&item.Artifact, &item.Result)
		storedTimes(&item.CreatedAt, &item.UpdatedAt)
	}
	for i := range run.Nodes {
		storedTimes(&run.Nodes[i].StartedAt, &run.Nodes[i].FinishedAt)
	}
	sortSlots(run.Slots)
	sortItems(run.Items)
	return run
}

// storedTimes rounds times as their texts do.
func storedTimes(times ...*time.Time) {
	for _, t := range times {
		*t = t.UTC().Truncate(time.Millisecond)
	}
}

func storedDocuments(docs ...*json.RawMessage) {
	for _, doc := range docs {
		*doc = documentIn(*doc)
	}
}

// storedInputs does not look into what may be large and was made by us.
func storedInputs(inputs json.RawMessage) json.RawMessage {
	if len(inputs) == 0 {
		return json.RawMessage("{}")
	}
	return inputs
}

// unshared looks whether somebody else wrote to the file since the last
// transaction. Then nothing is true that is not read anew, and the file may be
// another process's.
func (w *writer) unshared(tx *Tx) error {
	var version int64
	if _, err := one(tx, []any{&version}, "PRAGMA data_version"); err != nil {
		return err
	}
	if version == w.fileVersion {
		return nil
	}
	w.working.clear()
	if err := tx.checkEpoch(); err != nil {
		return err
	}
	w.fileVersion = version
	return nil
}
