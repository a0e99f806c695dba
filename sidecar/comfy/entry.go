package comfy

import (
	"encoding/json"

	"github.com/comfygit-ai/studio-sidecar/manifest"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// entry is a prompt as ComfyUI keeps it in its queue and in its records:
// [number, id, graph, extra_data, outputs]. The graph is passed over: it may be
// large, and a queue has many.
type entry struct {
	number  amount
	id      loose
	extra   json.RawMessage
	outputs json.RawMessage // nil when they were not told
}

// entryOf reads a JSON value that was read before; what is no list is an empty
// entry.
func entryOf(raw json.RawMessage) (e entry) {
	parts := append(elementsOf(raw), make([]json.RawMessage, 5)...)
	if len(parts[0]) > 0 {
		_ = e.number.UnmarshalJSON(parts[0]) // takes everything
	}
	e.id, e.extra, e.outputs = loose(text(parts[1])), parts[3], parts[4]
	return e
}

func entriesOf(list []json.RawMessage) []entry {
	entries := make([]entry, len(list))
	for i, raw := range list {
		entries[i] = entryOf(raw)
	}
	return entries
}

func (e *entry) prompt() sidecar.PromptID { return sidecar.PromptID(e.id) }

func (e *entry) run() sidecar.RunID { return sidecar.RunID(text(members(e.extra)["studio_run"])) }

// What ComfyUI keeps of a prompt holds its graph, which may be tens of megabytes.
// So it is taken apart without copies, where that can be: not where it holds NaN,
// or is very deep.

// objectOf are the members of the object that an answer is.
func objectOf(a answer) (map[string]json.RawMessage, error) {
	if found, ok := fieldsOf(a.Body); ok && a.OK() {
		return found, nil
	}
	var found map[string]json.RawMessage
	err := a.object(&found)
	return found, err
}

func fieldsOf(raw []byte) (map[string]json.RawMessage, bool) {
	fields, err := manifest.ParseObject(raw, manifest.Limits{Depth: plainDepth})
	if err != nil {
		return nil, false
	}
	found := make(map[string]json.RawMessage, len(fields))
	for _, f := range fields {
		found[f.Name] = f.Value
	}
	return found, true
}

// plainDepth is how deep what is taken apart without copies may be.
const plainDepth = 500

// elementsOf are those of an array; other values have none.
func elementsOf(raw json.RawMessage) []json.RawMessage {
	if found, ok := manifest.Elements(raw); ok {
		return found
	}
	return items(raw)
}
