package sidecar_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// seenStore counts how often sessions are written.
type seenStore struct {
	sidecar.Store
	written int
}

func (s *seenStore) SaveSession(context.Context, sidecar.Session) error {
	s.written++
	return nil
}

// TestSessionsAreSeen: who keeps coming is written once a day, and before a
// pruning could take them for gone.
func TestSessionsAreSeen(t *testing.T) {
	for name, c := range map[string]struct {
		age     time.Duration
		written int
	}{
		"kept_for_good":  {0, 2},
		"kept_for_weeks": {30 * 24 * time.Hour, 2},
		"kept_for_hours": {4 * time.Hour, 13},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &seenStore{}
				studio := sidecar.New(sidecar.Options{Store: store, Keep: sidecar.Retention{Age: c.age}})
				for range 25 { // each hour of a day
					if err := studio.Remember(context.Background(), sidecar.Session{ID: "anna", Scope: "anna"}); err != nil {
						t.Fatal(err)
					}
					<-time.After(time.Hour)
				}
				if store.written != c.written {
					t.Errorf("written %d times", store.written)
				}
			})
		})
	}
}
