package sqlite_test

import (
	"bytes"
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite"
)

func TestDeliveriesLastUntilTheyAreDropped(t *testing.T) {
	ctx, path := context.Background(), filepath.Join(t.TempDir(), "state.db")
	open := func() *sqlite.Store {
		s, err := sqlite.Open(ctx, sqlite.Options{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	secret, err := s.Secret(ctx, "callback")
	if err != nil || len(secret) != 32 {
		t.Fatalf("secret of %d bytes: %v", len(secret), err)
	}
	run := &sidecar.Run{ID: "run_1", Session: "a", Scope: "a", Status: sidecar.StatusSubmitted, CreatedAt: time.Unix(1, 0), UpdatedAt: time.Unix(1, 0)}
	run.Callback = &sidecar.Callback{Run: "run_x", URL: "http://front/cb", Token: "t"}
	silent := &sidecar.Run{ID: "run_2", Session: "a", Scope: "a", Status: sidecar.StatusSubmitted, CreatedAt: time.Unix(1, 0), UpdatedAt: time.Unix(1, 0)}
	for _, r := range []*sidecar.Run{run, silent} {
		if err := s.Create(ctx, r, nil); err != nil {
			t.Fatal(err)
		}
	}
	found, err := s.Deliveries(ctx, 0)
	if err != nil || len(found) != 1 {
		t.Fatalf("%v, %v", found, err)
	}
	want := found[0]
	want.Told, want.Attempts, want.Error, want.DueAt = 3, 2, "no", time.Unix(99, 0).UTC()
	if err := s.SaveDelivery(ctx, want); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open()
	found, err = s.Deliveries(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]sidecar.Delivery{want}, found); diff != "" {
		t.Errorf("after a restart (-want +got):\n%s", diff)
	}
	if want.Run != run.ID || want.Callback != *run.Callback {
		t.Errorf("%+v", want)
	}
	if rest, err := s.Deliveries(ctx, want.ID); err != nil || len(rest) != 0 {
		t.Errorf("after the last: %v, %v", rest, err)
	}
	if again, err := s.Secret(ctx, "callback"); err != nil || !bytes.Equal(again, secret) {
		t.Errorf("another secret after a restart: %v", err)
	}
	if err := s.DropDelivery(ctx, want); err != nil {
		t.Fatal(err)
	}
	if rest, err := s.Deliveries(ctx, 0); err != nil || len(rest) != 0 {
		t.Errorf("dropped: %v, %v", rest, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
