package worker

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// TestProgressAsTold: the other sidecar tells its latest values alone, and with
// them which nodes counted steps before.
func TestProgressAsTold(t *testing.T) {
	var heard []sidecar.News
	l := &listener{epoch: 3, report: func(n sidecar.News) { heard = append(heard, n) }}
	id := sidecar.RunOfPrompt("3d3a3a2e-6a3f-4c4e-9df0-1a2b3c4d5e6f")
	err := l.read(strings.NewReader("event: progress\ndata: " +
		`{"run_id":"` + string(id) + `","node":{"id":"9","title":"Save"},"value":0,"max":1,"done":4,"total":5,"stepped":["3","7"],"live":true}` + "\n\n"))
	want := []sidecar.News{{
		Kind: sidecar.NewsProgress, Epoch: 3, Prompt: sidecar.PromptOfRun(id),
		Progress: sidecar.Progress{Node: sidecar.NodeRef{ID: "9", Title: "Save"}, Max: 1, Done: 4, Total: 5, Stepped: []sidecar.NodeID{"3", "7"}},
	}}
	if diff := cmp.Diff(want, heard); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}
