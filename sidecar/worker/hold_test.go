package worker_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// TestHoldWhileTheWorkersComfyUIIsAway: a held run waits though the worker
// answers, and runs once when its ComfyUI is back.
func TestHoldWhileTheWorkersComfyUIIsAway(t *testing.T) {
	for _, callbacks := range []bool{false, true} {
		pair(t, setup{callbacks: callbacks}, func(r *rig) {
			r.lines.fake.to(nil)
			must(r, r.fake.Restart())
			<-time.After(time.Second) // the worker knows by then
			a := r.front.ask("POST", "/contracts/picture/default/run", `{"hold": true}`)
			if a.status != http.StatusOK {
				r.Fatalf("launch: %d %s", a.status, a.body)
			}
			id := sidecar.RunID(a.json(t)["run_id"].(string))
			<-time.After(time.Minute)
			run, err := r.front.store.Run(context.Background(), id)
			must(r, err)
			if run.WaitReason() != sidecar.WaitBackend || r.posts.Load() != 0 {
				r.Fatalf("run is %s/%s, waiting for %q: %s; %d submissions", run.Status, run.Phase, run.WaitReason(), run.Error, r.posts.Load())
			}
			r.lines.fake.to(r.toFake)
			if run := r.ended(id, time.Minute); run.Status != sidecar.StatusCompleted {
				r.Errorf("run is %s: %s", run.Status, run.Error)
			}
			if n := r.posts.Load(); n != 1 {
				r.Errorf("%d submissions", n)
			}
		})
	}
}
