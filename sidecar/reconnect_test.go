package sidecar_test

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// TestReconnects: a socket that breaks 200 times leaves nothing behind, and a
// run under way ends as if nothing had been.
func TestReconnects(t *testing.T) {
	const times = 200
	bubble(t, setup{}, func(r *rig) {
		r.finished(r.launch(anna, "slow", 1).ID)
		r.until("the socket stands", func() bool { return r.fake.Sockets() == 1 })
		r.pass(time.Minute)
		synctest.Wait()
		goroutines, connections := runtime.NumGoroutine(), r.fake.Connections()
		r.fake.Hold()
		run := r.launch(anna, "slow", 2)
		r.inPhase(run.ID, sidecar.PhaseExecuting)
		for range times {
			r.fake.DropSockets()
			r.until("the old socket is gone", func() bool { return r.fake.Sockets() == 0 })
			r.until("another one stands", func() bool { return r.fake.Sockets() == 1 })
		}
		r.fake.Release()
		if diff := cmp.Diff(completed(), endOf(r.finished(run.ID))); diff != "" {
			r.Error(diff)
		}
		r.pass(5 * time.Minute)
		synctest.Wait()
		now, open := runtime.NumGoroutine(), r.fake.Connections()
		// A reconnect that leaves one behind leaves hundreds; those of the
		// process come and go.
		if now > goroutines+5 || open > connections {
			r.Errorf("%d goroutines and %d connections became %d and %d", goroutines, connections, now, open)
		}
		t.Logf("%d reconnects: %d goroutines before, %d after; %d connections before, %d after", times, goroutines, now, connections, open)
	})
}
