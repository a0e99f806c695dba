package sqlite_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// TestStepsDoNotCopyInputs: what a step of a run does not change, it neither
// copies nor writes.
func TestStepsDoNotCopyInputs(t *testing.T) {
	const size = 4 << 20
	store := fresh(t)
	run := newRun("alice", 1)
	run.Inputs = []byte(`{"text":"` + strings.Repeat("w", size) + `"}`)
	run = create(t, store, run)
	for _, sig := range []sidecar.Signal{{Kind: sidecar.SignalHanding}, accepted(), {Kind: sidecar.SignalStarted}} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		apply(t, store, run.ID, sig)
		runtime.ReadMemStats(&after)
		// What is accepted gets gallery items, which show the inputs.
		if took := after.TotalAlloc - before.TotalAlloc; took > size/2 && sig.Kind != sidecar.SignalAccepted {
			t.Errorf("%s took %d bytes", sig.Kind, took)
		}
	}
}
