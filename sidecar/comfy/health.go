package comfy

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// healthWithin bounds a health check: somebody waits for it.
const healthWithin = 2 * time.Second

// doubt is told of what answers well and says nothing that only a ComfyUI says.
const doubt = "What answers at ComfyUI's address does not say that it is ComfyUI. Check the address if runs fail."

// Health asks ComfyUI for its version; how much it has to do the socket tells.
// Whatever answers well counts as one, as for the reference, with a doubt where
// the answer is no object. An error and broken JSON are a *RefusedError.
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
	h := sidecar.Health{}
	if err := a.object(&stats); err == nil {
		h.Version = string(stats.System.Version)
	} else if a.OK() && !a.brokenJSON() {
		h.Doubt = doubt
	} else {
		return h, &sidecar.RefusedError{Failure: e.http.unhealthy(a, err)}
	}
	h.Queue, _ = e.link.remaining() // 0 while there is no socket to tell it
	return h, nil
}

// brokenJSON reports whether the answer says that it is JSON, and is none.
func (a answer) brokenJSON() bool {
	return a.isJSON() && len(bytes.TrimSpace(a.Body)) > 0 && !json.Valid(a.Body)
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
