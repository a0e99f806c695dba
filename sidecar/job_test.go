package sidecar_test

import (
	"context"
	"testing"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// TestJobLimit: what a backend is told of a run's time does not grow while the
// run is held.
func TestJobLimit(t *testing.T) {
	for name, change := range map[string]func(*sidecar.LaunchRequest){
		"that_waits_for_nothing": func(*sidecar.LaunchRequest) {},
		"with_a_time":            inAnHour,
		"with_an_approval":       onApproval,
	} {
		t.Run("of_a_run_"+name, func(t *testing.T) {
			bubble(t, setup{}, func(r *rig) {
				r.withoutSocket()
				run := r.ordered(anna, "picture", 1, func(q *sidecar.LaunchRequest) { withinAMinute(q); change(q) })
				r.pass(2 * time.Hour)
				if r.read(run.ID).Awaits(sidecar.WaitApproval) {
					_, err := r.studio.Approve(context.Background(), run.Scope, run.ID)
					must(r, err)
				}
				r.ends(run, completed())
				if got := time.Duration(r.given.Load()); got != time.Minute {
					t.Errorf("it may take %v", got)
				}
			})
		})
	}
}
