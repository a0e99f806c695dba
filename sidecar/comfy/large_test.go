package comfy_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfy"
)

// TestLookDoesNotCopyGraphs: the queue and the record of a prompt hold graphs,
// which may be large.
func TestLookDoesNotCopyGraphs(t *testing.T) {
	large := `{"1":{"class_type":"X","inputs":{"text":"` + strings.Repeat("ten letters", 200_000) + `"}}}`
	item := func(id sidecar.PromptID) string { return fmt.Sprintf(`[1,%q,%s,{},["1"]]`, id, large) }
	for name, ui := range map[string]comfyUI{
		"in_the_queue":  {queue: `{"queue_running":[` + item("a") + `],"queue_pending":[` + item("b") + `,` + item(promptA) + `]}`},
		"in_its_record": recorded(`{"prompt":` + item(promptA) + `,"outputs":{},"status":{"status_str":"success"}}`),
	} {
		t.Run(name, func(t *testing.T) {
			scripted(t, ui, comfy.Options{}, func(t *testing.T, exec *comfy.Executor) {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				seen, err := exec.Look(t.Context(), job(promptA, picture(1)))
				runtime.ReadMemStats(&after)
				if err != nil || seen.Place == sidecar.PlaceAbsent {
					t.Errorf("%+v, %v", seen, err)
				}
				size := len(ui.queue) + len(ui.history[string(promptA)])
				took := after.TotalAlloc - before.TotalAlloc
				// The test's own ComfyUI copies its answer, too.
				if took > uint64(size)*9/2 {
					t.Errorf("%d bytes were taken for an answer of %d", took, size)
				}
				t.Logf("%d bytes were taken for an answer of %d", took, size)
			})
		})
	}
}

// TestLookReadsOddQueues: what cannot be taken apart without copies is read all
// the same.
func TestLookReadsOddQueues(t *testing.T) {
	for name, graph := range map[string]string{
		"not_a_number": `{"1":{"inputs":{"x":NaN}}}`,
		"given_twice":  `{"1":{},"1":{}}`,
		"very_deep":    strings.Repeat(`{"a":`, 700) + "1" + strings.Repeat("}", 700),
	} {
		t.Run(name, func(t *testing.T) {
			queue := fmt.Sprintf(`{"queue_running":[[1,"x",%s,{},[]]],"queue_pending":[[2,%q,%s,{},[]]]}`, graph, promptA, graph)
			scripted(t, comfyUI{queue: queue}, comfy.Options{}, func(t *testing.T, exec *comfy.Executor) {
				seen, err := exec.Look(t.Context(), job(promptA, picture(1)))
				if diff := cmp.Diff(sidecar.Sighting{Place: sidecar.PlaceQueued, Position: 1}, seen); diff != "" || err != nil {
					t.Error(diff, err)
				}
			})
		})
	}
}
