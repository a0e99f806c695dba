package manifest

import (
	"encoding/json"
	"path"
	"slices"
	"strings"
)

// Result is what a run gave for one declared output.
type Result struct {
	Name      string     `json:"name"`
	Type      string     `json:"type"`
	NodeID    string     `json:"node_id"`
	Selector  *string    `json:"selector"`
	Artifacts []Artifact `json:"artifacts"`
}

// Artifact is one file or text of a result. Filename, Subfolder and Type are nil
// where ComfyUI did not say them; Text is set for texts only.
type Artifact struct {
	Filename  *string         `json:"filename"`
	Subfolder *string         `json:"subfolder"`
	Type      *string         `json:"type"`
	Text      string          `json:"text,omitempty"`
	Raw       json.RawMessage `json:"raw"` // the item as ComfyUI gave it; what is no object stands under "value"
}

// The keys under which nodes put their results, in the order in which they are
// looked at. "animated" and the like are remarks on another key.
var (
	fileKeys  = []string{"images", "videos", "gifs", "audio", "audios", "files"}
	modelKeys = []string{"3d", "result", "latents"}
)

// resultKeys lists where an output of that type finds its items.
func resultKeys(outputType string) []string {
	switch strings.ToLower(outputType) {
	case "image":
		return []string{"images"}
	case "video":
		return []string{"videos", "gifs", "images"}
	case "audio":
		return []string{"audio", "audios"}
	case "file", "3d", "mesh", "model":
		return append([]string{"files"}, modelKeys...)
	case "string", "text":
		return append([]string{"text"}, fileKeys...)
	case "latent":
		return append([]string{"latents"}, fileKeys...)
	}
	return slices.Concat(fileKeys, modelKeys, []string{"text"})
}

// Collect sorts a history's outputs, by node id, into the declared outputs, in
// their order. A node without results gives a Result without artifacts. A file
// output that finds nothing under the known keys takes files from keys that are
// unknown here.
func Collect(outputs []Output, nodes map[string]json.RawMessage) []Result {
	results := make([]Result, 0, len(outputs))
	for _, out := range outputs {
		r := Result{Name: out.Name, Type: out.Type, NodeID: out.NodeID, Artifacts: collect(out.Type, nodes[out.NodeID])}
		if out.Selector != "" {
			r.Selector = &out.Selector
		}
		results = append(results, r)
	}
	return results
}

func collect(outputType string, node json.RawMessage) []Artifact {
	s := scanner{text: node, limit: maxDepth, lenient: true}
	node, err := s.whole()
	if err != nil {
		return []Artifact{}
	}
	found := under(node, resultKeys(outputType))
	if len(found) > 0 {
		return found
	}
	switch strings.ToLower(outputType) {
	case "file":
		return unknownFiles(node)
	case "3d", "mesh", "model": // what else the node shows of it
		return under(node, fileKeys)
	}
	return found
}

// under is what a node put under any of the keys.
func under(node []byte, keys []string) []Artifact {
	found := []Artifact{}
	for _, key := range keys {
		if _, value, ok := find(node, key); ok {
			found = appendNew(found, itemsOf(key, value))
		}
	}
	return found
}

// appendNew leaves out files that another key named already: SaveGLB of newer
// versions writes the same file under files and 3d.
func appendNew(found, more []Artifact) []Artifact {
	known := len(found)
	for _, a := range more {
		twin := func(b Artifact) bool {
			return a.Filename != nil && equal(a.Filename, b.Filename) && equal(a.Subfolder, b.Subfolder) && equal(a.Type, b.Type)
		}
		if !slices.ContainsFunc(found[:known], twin) {
			found = append(found, a)
		}
	}
	return found
}

func equal(a, b *string) bool {
	return a == b || a != nil && b != nil && *a == *b
}

func itemsOf(key string, value []byte) []Artifact {
	items, ok := elements(value)
	if !ok && key == "text" && value[0] == '"' {
		items = [][]byte{value}
	}
	var out []Artifact
	for _, item := range items {
		switch {
		case key == "result":
			if a, ok := previewed(item); ok {
				out = append(out, a)
			}
		case item[0] == '{':
			out = append(out, fileArtifact(item))
		case key == "text":
			out = append(out, textArtifact(item))
		default:
			out = append(out, valueArtifact(item))
		}
	}
	return out
}

func fileArtifact(item []byte) Artifact {
	return Artifact{
		Filename:  memberText(item, "filename"),
		Subfolder: memberText(item, "subfolder"),
		Type:      memberText(item, "type"),
		Raw:       slices.Clone(item),
	}
}

func valueArtifact(item []byte) Artifact {
	return Artifact{Raw: marshalled(Values{{"value", item}})}
}

func textArtifact(item []byte) Artifact {
	a := valueArtifact(item)
	a.Text = string(item)
	if item[0] == '"' {
		a.Text = unquote(item)
	}
	return a
}

// previewed reads an item of Preview3D's result: the path of a model below the
// output folder. The camera beside it is no artifact.
func previewed(item []byte) (Artifact, bool) {
	if item[0] != '"' {
		return Artifact{}, false
	}
	name := strings.ReplaceAll(unquote(item), `\`, "/")
	if path.Ext(name) == "" {
		return Artifact{}, false
	}
	folder, file := path.Split(name)
	folder, kind := strings.TrimSuffix(folder, "/"), "output"
	a := valueArtifact(item)
	a.Filename, a.Subfolder, a.Type = &file, &folder, &kind
	return a, true
}

// unknownFiles takes whatever names a file.
func unknownFiles(node []byte) []Artifact {
	out := []Artifact{}
	for _, m := range members(node) {
		if slices.Contains(fileKeys, m.name) {
			continue
		}
		items, _ := elements(node[m.start:m.end])
		for _, item := range items {
			if a := fileArtifact(item); a.Filename != nil {
				out = append(out, a)
			}
		}
	}
	return out
}

// memberText is a member as text, or nil where it is missing or null.
func memberText(object []byte, name string) *string {
	_, value, ok := find(object, name)
	if !ok || value[0] == 'n' {
		return nil
	}
	text := string(value)
	switch value[0] {
	case '"':
		text = unquote(value)
	case 't':
		text = "True"
	case 'f':
		text = "False"
	}
	return &text
}

// The extensions by which a file is known whatever its output's type says.
var extensions = []struct {
	kind   string
	suffix []string
}{
	{"video", []string{".mp4", ".webm", ".mov", ".mkv"}},
	{"audio", []string{".wav", ".mp3", ".m4a", ".flac", ".ogg"}},
	{"image", []string{".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp"}},
}

// Kind tells how a gallery shows a file: image, video, audio or json, which is
// everything else.
func Kind(outputType, filename string) string {
	lower := strings.ToLower(filename)
	for _, e := range extensions {
		if strings.EqualFold(outputType, e.kind) || slices.ContainsFunc(e.suffix, func(s string) bool { return strings.HasSuffix(lower, s) }) {
			return e.kind
		}
	}
	return "json"
}
