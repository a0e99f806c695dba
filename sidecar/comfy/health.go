package comfy

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// healthWithin bounds a health check: somebody waits for it.
const healthWithin = 2 * time.Second

// Health asks ComfyUI for its version and how much it has to do. What answers
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
	if n, known := e.link.remaining(); known {
		h.Queue = n
		return h, nil
	}
	h.Queue, err = e.queueLength(ctx)
	return h, err
}

func (c *client) unhealthy(a answer, err error) sidecar.Failure {
	if a.ok() {
		f := c.unavailable(err)
		f.Status, f.URL = a.status, a.url
		return f
	}
	f := rejected(sidecar.CodeUnavailable, a)
	f.Message = "ComfyUI is not well: " + f.Message
	return f
}

// queueLength is the cheapest question there is.
func (e *Executor) queueLength(ctx context.Context) (int, error) {
	a, err := e.http.call(ctx, exchange{method: http.MethodGet, path: "/prompt", within: healthWithin})
	if err != nil {
		return 0, e.http.unreachable(err)
	}
	var doc struct {
		Info json.RawMessage `json:"exec_info"`
	}
	if a.object(&doc) != nil {
		return 0, nil // some proxies and old servers have no such route
	}
	var n amount
	if json.Unmarshal(members(doc.Info)["queue_remaining"], &n) != nil {
		return 0, nil
	}
	return int(n), nil
}
