package worker

import (
	"context"
	"net/http"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/protocol"
)

// Health asks the worker how it is, its ComfyUI included. Detail is its answer
// even where the error says that its ComfyUI is not well.
func (e *Executor) Health(ctx context.Context) (sidecar.Health, error) {
	a, err := e.http.ask(ctx, http.MethodGet, "/proxy/health")
	if err != nil {
		return sidecar.Health{}, e.http.unreachable(err)
	}
	if !a.OK() {
		return sidecar.Health{}, &sidecar.RefusedError{Failure: rejected(a)}
	}
	h := sidecar.Health{Detail: a.detail()}
	var doc protocol.Health
	if err := a.object(&doc); err != nil {
		return h, &sidecar.RefusedError{Failure: e.http.unavailable(err)}
	}
	e.heard(doc.EnvironmentRef)
	h.Version, h.Doubt = doc.Comfy.Version, doc.Comfy.Hint
	if !doc.Comfy.Available {
		return h, &sidecar.RefusedError{Failure: sidecar.Failure{
			Code: string(sidecar.CodeUnavailable), Message: unwell(doc.Comfy.Error), Proxy: true,
		}}
	}
	return h, nil
}

func unwell(why string) string {
	if why == "" {
		return "The worker's ComfyUI does not answer."
	}
	return why
}
