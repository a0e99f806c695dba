package worker_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

func TestRefusedCallbackIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		answer  int
		refused bool
	}{"forbidden": {http.StatusForbidden, true}, "unknown": {http.StatusNotFound, true}, "taken": {0, false}} {
		t.Run(name, func(t *testing.T) {
			s := &sink{answer: func(n int) int {
				if n == 0 {
					return 0
				}
				return c.answer
			}}
			pair(t, setup{callbacks: true, between: s.between}, func(r *rig) {
				id := r.launch("picture")
				r.within(time.Minute, "it is told or given up", func() bool { return len(s.calls()) > 1 && r.left() == 0 })
				front, err := r.front.store.Run(context.Background(), id)
				must(r, err)
				prompt := front.Prompt
				doc := r.worker.ask("GET", "/proxy/runs/"+string(prompt), "", "Authorization", "Bearer "+token).json(t)
				if refused := doc["status"] == "error" && doc["error"] == "callback_failed" && doc["message"] != nil; refused != c.refused {
					t.Errorf("the worker says %v", doc)
				}
				if doc["outputs"] == nil || doc["warnings"] != nil {
					t.Errorf("outputs %v, warnings %v", doc["outputs"], doc["warnings"])
				}
				if run := r.ended(id, 5*time.Minute); run.Status != sidecar.StatusCompleted || len(run.Items) != 1 || run.Items[0].Status != sidecar.ItemDone {
					t.Errorf("front %s %q, items %+v", run.Status, run.Error, run.Items)
				}
			})
		})
	}
}
