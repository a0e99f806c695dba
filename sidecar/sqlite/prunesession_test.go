package sqlite_test

import (
	"context"
	"testing"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// TestPruneSessions: those go that were not seen for so long, and have no runs.
func TestPruneSessions(t *testing.T) {
	ctx := context.Background()
	store := fresh(t)
	for _, id := range []sidecar.SessionID{"alice", "bobby", "old1", "old2"} {
		if err := store.SaveSession(ctx, sidecar.Session{ID: id, Scope: sidecar.Scope(id)}); err != nil {
			t.Fatal(err)
		}
	}
	create(t, store, newRun("alice", 1))
	row(t, store, "UPDATE sessions SET updated_at = '2025-01-01T00:00:00.000Z' WHERE session_id <> 'bobby'")
	// More than one page of them.
	row(t, store, `INSERT INTO sessions WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1200)
		SELECT 'v' || i, 'v' || i, '2025-01-01T00:00:00.000Z', '2025-01-01T00:00:00.000Z' FROM n`)
	size := func(string) int64 { return 0 }
	if _, err := store.Prune(ctx, sidecar.Retention{Runs: 10}, time.Now(), size); err != nil {
		t.Fatal(err)
	}
	if n := count(t, store, "SELECT count(*) FROM sessions"); n != 1204 {
		t.Errorf("without an age %d sessions are left", n)
	}
	if _, err := store.Prune(ctx, sidecar.Retention{Age: 24 * time.Hour}, time.Now(), size); err != nil {
		t.Fatal(err)
	}
	if n := count(t, store, "SELECT count(*) FROM sessions WHERE session_id IN ('alice', 'bobby')"); n != 2 {
		t.Error("one with a run, or one that was seen, is gone")
	}
	if n := count(t, store, "SELECT count(*) FROM sessions"); n != 2 {
		t.Errorf("%d sessions are left", n)
	}
}

// TestPruneSharingSessions: where all share a gallery, who has runs there stays
// and others go.
func TestPruneSharingSessions(t *testing.T) {
	ctx := context.Background()
	store := fresh(t)
	for _, id := range []sidecar.SessionID{"ran", "looked"} {
		if err := store.SaveSession(ctx, sidecar.Session{ID: id, Scope: sidecar.SharedScope}); err != nil {
			t.Fatal(err)
		}
	}
	run := newRun(sidecar.SharedScope, 1)
	run.Session = "ran"
	create(t, store, run)
	row(t, store, "UPDATE sessions SET updated_at = '2025-01-01T00:00:00.000Z'")
	if _, err := store.Prune(ctx, sidecar.Retention{Age: 24 * time.Hour}, time.Now(), func(string) int64 { return 0 }); err != nil {
		t.Fatal(err)
	}
	if n := count(t, store, "SELECT count(*) FROM sessions WHERE session_id = 'ran'"); n != 1 {
		t.Error("one with a run is gone")
	}
	if n := count(t, store, "SELECT count(*) FROM sessions"); n != 1 {
		t.Errorf("%d sessions are left", n)
	}
}
