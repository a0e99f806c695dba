package manifest

import (
	"slices"
	"strings"
)

// Graph is a prompt in ComfyUI's API format. Nodes, keys and numbers keep their
// order and their text, byte for byte; a Graph is never changed in place.
type Graph struct{ nodes []node }

// node is one node as written.
type node struct {
	key []byte // quoted
	id  string
	raw []byte
}

// Warning is a remark on a graph's file that hinders nothing.
type Warning struct {
	Key     string `json:"key"`
	Message string `json:"message"`
}

func (g Graph) clone() Graph { return Graph{nodes: slices.Clone(g.nodes)} }

// Bytes is the graph's text. It is what ComfyUI is sent, and may hold NaN where
// the file did, which ComfyUI reads and JSON forbids.
func (g Graph) Bytes() []byte {
	size := 2
	for _, n := range g.nodes {
		size += len(n.key) + len(n.raw) + 2
	}
	out := append(make([]byte, 0, size), '{')
	for i, n := range g.nodes {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, n.key...)
		out = append(out, ':')
		out = append(out, n.raw...)
	}
	return append(out, '}')
}

// MarshalJSON is Bytes. Note that encoding/json refuses the result where a file
// holds NaN, and re-escapes <, > and & in it.
func (g Graph) MarshalJSON() ([]byte, error) { return g.Bytes(), nil }

// UnmarshalJSON reads what Bytes wrote.
func (g *Graph) UnmarshalJSON(raw []byte) error {
	parsed, _, err := ParseGraph(raw)
	if err != nil {
		return err
	}
	*g = parsed
	return nil
}

func (n node) text(key string) string {
	if _, v, ok := find(n.raw, key); ok {
		return unquote(v)
	}
	return ""
}

func (g Graph) ids() map[string]bool {
	ids := make(map[string]bool, len(g.nodes))
	for _, n := range g.nodes {
		ids[n.id] = true
	}
	return ids
}

func (g Graph) index(id string) int {
	return slices.IndexFunc(g.nodes, func(n node) bool { return n.id == id })
}

// setInput replaces the value of an input that the node has.
func (g Graph) setInput(at int, key string, value []byte) bool {
	n := &g.nodes[at]
	inputs, text, ok := find(n.raw, "inputs")
	if !ok {
		return false
	}
	field, _, ok := find(text, key)
	if !ok {
		return false
	}
	n.raw = splice(n.raw, inputs.start+field.start, inputs.start+field.end, value)
	return true
}

func splice(text []byte, start, end int, with []byte) []byte {
	out := make([]byte, 0, len(text)-(end-start)+len(with))
	out = append(out, text[:start]...)
	out = append(out, with...)
	return append(out, text[end:]...)
}

// withMember adds a member at the end of an object.
func withMember(object []byte, key, value string) []byte {
	end := len(object) - 1
	addition := `"` + key + `":` + value
	if len(members(object)) > 0 {
		addition = "," + addition
	}
	return splice(object, end, end, []byte(addition))
}

// WithMeta gives every node without `_meta` an empty one. Nodes of other
// authors read it without looking whether it is there.
func (g Graph) WithMeta() Graph {
	g = g.clone()
	for i := range g.nodes {
		if _, _, ok := find(g.nodes[i].raw, "_meta"); !ok {
			g.nodes[i].raw = withMember(g.nodes[i].raw, "_meta", "{}")
		}
	}
	return g
}

// StampPrefixes adds "_token" to the filename_prefix of each SaveImage behind
// an image output, once, so that ComfyUI saves anew instead of answering from
// its cache. A prefix that is linked to another node, or no text, is left
// alone; an empty one becomes ComfyUI's own.
func (g Graph) StampPrefixes(outputs []Output, token string) Graph {
	g = g.clone()
	for i, n := range g.nodes {
		if !stampable(outputs, n.id) || n.text("class_type") != "SaveImage" {
			continue
		}
		_, inputs, ok := find(n.raw, "inputs")
		if !ok {
			continue
		}
		_, prefix, ok := find(inputs, "filename_prefix")
		if !ok || !(prefix[0] == '"' || prefix[0] == 'n') {
			continue
		}
		text := unquote(prefix)
		if text == "" {
			text = "ComfyUI"
		}
		if strings.HasSuffix(text, "_"+cleanToken(token)) {
			continue // another sidecar stamped it for the same run
		}
		g.setInput(i, "filename_prefix", appendQuoted(nil, text+"_"+cleanToken(token)))
	}
	return g
}
