package sqlite_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/comfygit-ai/studio-sidecar/manifest"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// anySignal draws news about a run, sensible or not.
func anySignal(t *rapid.T) sidecar.Signal {
	node := func(label string) sidecar.NodeRef {
		return sidecar.NodeRef{ID: sidecar.NodeID(fmt.Sprint(rapid.IntRange(1, 5).Draw(t, label))), Class: "C", Title: "T"}
	}
	sig := sidecar.Signal{
		Kind: rapid.SampledFrom(sidecar.SignalKinds).Draw(t, "kind"),
		Node: node("node"), Nodes: []sidecar.NodeRef{node("first"), node("second")},
		PromptID: "3d3a3a2e-6a3f-4c4e-9df0-1a2b3c4d5e6f",
		Failure:  &sidecar.Failure{Code: "comfyui_execution_failed", Message: "m", Detail: []byte(`{"d":1}`)},
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "results") {
		result := sidecar.Result{Result: manifest.Result{Name: fmt.Sprint(i), Type: "image", NodeID: "1"}}
		for n := range rapid.IntRange(0, 3).Draw(t, "files") {
			name := fmt.Sprintf("%d_%d.png", i, n)
			result.Artifacts = append(result.Artifacts, manifest.Artifact{Filename: &name, Raw: []byte(`{"r":1.0}`)})
			result.Files = append(result.Files, sidecar.File{Width: 3, Height: 4})
		}
		sig.Results = append(sig.Results, result)
	}
	return sig
}

// TestSnapshotsSurvive: whatever happens to runs, they read as Update returned
// them, and the same after a new start.
func TestSnapshotsSurvive(t *testing.T) {
	budget(t, 30)
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "state.db")
	store := open(t, path)
	want := map[sidecar.RunID]*sidecar.Run{}
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		run := newRun("alice", n)
		if err := put(store, run); err != nil {
			t.Fatal(err)
		}
		for i := range rapid.IntRange(1, 12).Draw(t, "signals") {
			sig := anySignal(t)
			moved, err := store.Update(ctx, run.ID, func(r *sidecar.Run) ([]sidecar.Event, error) {
				return r.Apply(sig, birth.Add(time.Duration(i)*time.Minute)), nil
			})
			if err != nil {
				t.Fatal(err)
			}
			got, err := store.Run(ctx, run.ID)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmpDiff(moved, got); d != "" {
				t.Fatalf("-returned +read:\n%s", d)
			}
			rows, err := store.RowsOf(ctx, run.ID)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmpDiff(rows, got); d != "" {
				t.Fatalf("-rows +read:\n%s", d)
			}
			if len(got.Items) > 0 && rapid.IntRange(0, 9).Draw(t, "delete") == 0 {
				if item, err := store.DeleteItem(ctx, "alice", got.Items[0].ID); item == nil || err != nil {
					t.Fatal(item, err)
				}
			}
		}
		last, err := store.Run(ctx, run.ID)
		if err != nil {
			t.Fatal(err)
		}
		want[run.ID] = last
	})
	closeStore(t, store)
	store = open(t, path)
	for id, run := range want {
		diff(t, run, read(t, store, id))
	}
	sound(t, store)
}
