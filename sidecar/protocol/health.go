package protocol

import "encoding/json"

// Health is a worker's word on itself.
type Health struct {
	OK             bool            `json:"ok"`
	Role           string          `json:"role"`
	Environment    string          `json:"environment"`
	EnvironmentRef json.RawMessage `json:"environment_ref"`
	ComfyURL       string          `json:"comfy_url,omitempty"`
	Comfy          Comfy           `json:"comfyui"`
	Version        string          `json:"version,omitempty"`
}

// Comfy is how a worker's ComfyUI is.
type Comfy struct {
	Available bool   `json:"available"`
	Version   string `json:"version,omitempty"`
	Error     string `json:"error,omitempty"`
	// Hint is told of one that may be none, though it answers well.
	Hint string `json:"hint,omitempty"`
}

// digestOf is the contract digest in an environment_ref; empty when unknown.
func digestOf(ref json.RawMessage) string {
	var doc struct {
		Digest string `json:"contract_digest"`
	}
	if json.Unmarshal(ref, &doc) != nil {
		return ""
	}
	return doc.Digest
}

// Differ tells that two environments are known to offer other contracts.
func Differ(a, b json.RawMessage) bool {
	x, y := digestOf(a), digestOf(b)
	return x != "" && y != "" && x != y
}

// Match is whether two environments offer the same contracts: true or false,
// or null where one of them is not known.
func Match(a, b json.RawMessage) json.RawMessage {
	x, y := digestOf(a), digestOf(b)
	switch {
	case x == "" || y == "":
		return json.RawMessage("null")
	case x == y:
		return json.RawMessage("true")
	}
	return json.RawMessage("false")
}
