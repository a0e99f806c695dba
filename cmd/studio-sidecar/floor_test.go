package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite"
)

// TestPositionsAfterARestart: a deleted run makes nobody begin anew but those
// who could see it.
func TestPositionsAfterARestart(t *testing.T) {
	_, comfy := startFake(t, comfyfake.Options{})
	dir := t.TempDir()
	env, err := layDemo(dir)
	if err != nil {
		t.Fatal(err)
	}
	db := filepath.Join(dir, "state.sqlite")
	store, err := sqlite.Open(t.Context(), sqlite.Options{Path: db})
	if err != nil {
		t.Fatal(err)
	}
	yours := &sidecar.Run{
		ID: "run_yours", Session: "you", Scope: "you", Workflow: "w", Contract: "c", Status: sidecar.StatusCompleted, CreatedAt: time.Now(), UpdatedAt: time.Now(),
		State: sidecar.State{Phase: sidecar.PhaseFinished, Outcome: sidecar.OutcomeCompleted, FinishedAt: time.Now()},
	}
	told := sidecar.Event{Run: yours.ID, Scope: "you", Type: sidecar.EventRunCompleted, At: time.Now(), Revision: 1}
	err = errors.Join(fillState(t.Context(), store, "2"), store.Create(t.Context(), yours, []sidecar.Event{told}))
	if err == nil {
		_, err = store.DeleteRun(t.Context(), "me", "run_00000000000000000000000000000001")
	}
	if err := errors.Join(err, store.Close()); err != nil {
		t.Fatal(err)
	}
	p := start(t, env.Dir, comfy, "--state", "local", "--state-db", db, "--artifact-dir", filepath.Join(dir, "artifacts"))
	for session, want := range map[string]string{"me": "trimmed", "you": ""} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url+"/events?after=1", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-ComfyGit-Studio-Session", session)
		req.Header.Set("Accept", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var list struct {
			Reset  string
			Events []struct {
				Run string `json:"run_id"`
			}
		}
		if err := errors.Join(json.NewDecoder(resp.Body).Decode(&list), resp.Body.Close()); err != nil {
			t.Fatal(err)
		}
		if list.Reset != want || want == "" && (len(list.Events) == 0 || list.Events[0].Run != "run_yours") {
			t.Errorf("%s: %+v", session, list)
		}
	}
}
