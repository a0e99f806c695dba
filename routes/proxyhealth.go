package routes

import (
	"encoding/json"
	"strings"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/protocol"
)

// proxyBackend tells how the worker is, in its own words.
func (c *call) proxyBackend(t *text, state sidecar.Condition, ref json.RawMessage) {
	var told map[string]json.RawMessage
	if json.Unmarshal(state.Detail, &told) != nil {
		told = nil
	}
	reached := told != nil && string(told["ok"]) != "false"
	begin(t, "proxy")
	t.bool("configured", true)
	t.bool("available", reached)
	t.str("health_check", "checked")
	if told == nil {
		t.optStr("error", state.Error)
	}
	for _, name := range []string{"configured", "available", "health_check"} {
		delete(told, name)
	}
	if doc, err := protocol.Encode(told); err == nil && told != nil {
		t.members(c.shape().rewrite(doc))
	}
	t.close('}')
	t.raw("proxy_environment_ref_match", protocol.Match(ref, told["environment_ref"]))
	if comfy := told["comfyui"]; len(comfy) > 0 && comfy[0] == '{' {
		t.raw("comfyui", comfy)
		return
	}
	backend(t, state)
}

// checksProxy tells that the worker is to be asked how it is.
func (c *call) checksProxy() bool {
	switch strings.ToLower(c.r.URL.Query().Get("check_proxy")) {
	case "1", "true", "yes", "on":
		return true
	}
	return false
}

// deferredBackend tells what is known of the worker's ComfyUI without asking.
func deferredBackend(t *text, state sidecar.Condition) {
	begin(t, "proxy")
	t.bool("configured", true)
	t.raw("available", []byte("null"))
	t.str("health_check", "deferred")
	t.close('}')
	t.raw("proxy_environment_ref_match", []byte("null"))
	begin(t, "comfyui")
	t.bool("available", state.Available)
	t.str("mode", "proxy")
	t.str("status", "deferred")
	t.close('}')
}
