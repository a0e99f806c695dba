package comfy

import (
	"context"
	"net/http"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// healthWithin bounds a health check: somebody waits for it.
const healthWithin = 2 * time.Second

// Health asks ComfyUI for its version; how much it has to do the socket tells.
// What answers
// without being a ComfyUI is a *RefusedError.
func (e *Executor) Health(ctx context.Context) (sidecar.Health, error) {
	a, err := e.http.call(ctx, exchange{method: http.MethodGet, path: "/system_stats", within: healthWithin})
	if err != nil {
		return sidecar.Health{}, e.http.unreachable(err)
	}
	var stats struct {
		System struct {
			Version loose `json:"comfyui_version"`
		} `json:"system"`
	}
	if err := a.object(&stats); err != nil {
		return sidecar.Health{}, &sidecar.RefusedError{Failure: e.http.unhealthy(a, err)}
	}
	h := sidecar.Health{Version: string(stats.System.Version)}
	h.Queue, _ = e.link.remaining() // 0 while there is no socket to tell it
	return h, nil
}

func (c *client) unhealthy(a answer, err error) sidecar.Failure {
	if a.OK() {
		f := c.unavailable(err)
		f.Status, f.URL = a.Status, a.URL
		return f
	}
	f := rejected(sidecar.CodeUnavailable, a)
	f.Message = "ComfyUI is not well: " + f.Message
	return f
}
