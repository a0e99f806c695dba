package sidecar_test

import (
	"strings"
	"testing"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// TestUndelivered: that a caller did not take a run's end is a note on it, and
// no step of it.
func TestUndelivered(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var run sidecar.Run
	run.ID, run.Status, run.Revision, run.UpdatedAt = "run_1", sidecar.StatusCompleted, 4, at
	if events := run.Undelivered("no", at.Add(time.Hour)); len(events) != 1 || run.Revision != 5 {
		t.Errorf("events %+v, revision %d", events, run.Revision)
	}
	if !strings.Contains(string(run.Issues), `"callback_failed"`) || run.Status != sidecar.StatusCompleted || !run.UpdatedAt.Equal(at) {
		t.Errorf("%s, %s, %v", run.Issues, run.Status, run.UpdatedAt)
	}
	for _, status := range []sidecar.Status{sidecar.StatusError, sidecar.StatusCancelled, sidecar.StatusRunning} {
		var other sidecar.Run
		other.Status = status
		if events := other.Undelivered("no", at); len(events) != 0 || other.Issues != nil {
			t.Errorf("%s: %+v", status, other)
		}
	}
}
