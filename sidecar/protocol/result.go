package protocol

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"strings"

	"github.com/comfygit-ai/studio-sidecar/manifest"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// toldOutput is an output in a worker's words, whatever their types.
type toldOutput struct {
	place     int
	raw       json.RawMessage
	members   map[string]json.RawMessage
	name      string
	artifacts []json.RawMessage
	taken     bool
}

// ResultsOf sorts the outputs in a worker's answer into the declared ones, by
// name, else by place; those that nobody declared follow. Outputs and artifacts
// are kept in the worker's words; what is no object is none.
func ResultsOf(declared []manifest.Output, answer json.RawMessage) ([]sidecar.Result, error) {
	var doc struct {
		Outputs []json.RawMessage `json:"outputs"`
	}
	if err := json.Unmarshal(answer, &doc); err != nil {
		return nil, fmt.Errorf("read a worker's outputs: %w", err)
	}
	var told []*toldOutput
	for _, raw := range doc.Outputs {
		if members := membersOf(raw); members != nil {
			told = append(told, &toldOutput{len(told), raw, members, textOf(members["name"]), listOf(members["artifacts"]), false})
		}
	}
	results := make([]sidecar.Result, 0, max(len(declared), len(told)))
	for i, out := range declared {
		res := sidecar.Result{Result: manifest.Result{Name: out.Name, Type: out.Type, NodeID: out.NodeID, Artifacts: []manifest.Artifact{}}}
		if out.Selector != "" {
			res.Selector = &out.Selector
		}
		results = append(results, filled(res, toldFor(told, out.Name, i)))
	}
	for _, out := range told {
		if !out.taken {
			res := sidecar.Result{Result: manifest.Result{Name: out.name, Type: textOf(out.members["type"]), Artifacts: []manifest.Artifact{}}}
			results = append(results, filled(res, out))
		}
	}
	return results, nil
}

// toldFor finds what was told of a declared output; nil for nothing.
func toldFor(told []*toldOutput, name string, place int) *toldOutput {
	for _, out := range told {
		if out.name == name && !out.taken {
			return out
		}
	}
	if place < len(told) && told[place].name == "" && !told[place].taken {
		return told[place]
	}
	return nil
}

// filled adds to a result what was told of it.
func filled(res sidecar.Result, out *toldOutput) sidecar.Result {
	if out == nil {
		res.Untold = true
		return res
	}
	out.taken = true
	res.Told, res.Place = out.raw, out.place
	for _, raw := range out.artifacts {
		if members := membersOf(raw); members != nil {
			a, f := readArtifact(members)
			f.Told = raw
			res.Artifacts, res.Files = append(res.Artifacts, a), append(res.Files, f)
		}
	}
	return res
}

func readArtifact(members map[string]json.RawMessage) (manifest.Artifact, sidecar.File) {
	a := manifest.Artifact{
		Filename: pointerTo(members["filename"]), Subfolder: pointerTo(members["subfolder"]), Type: pointerTo(members["type"]),
		Text: textOf(members["text"]), Raw: members["raw"],
	}
	return a, sidecar.File{Width: sizeOf(members["width"]), Height: sizeOf(members["height"])}
}

// ArtifactOf is the id of a file at the worker; empty when it has none.
func ArtifactOf(f sidecar.File) string { return textOf(membersOf(f.Told)["proxy_artifact_id"]) }

// FieldOf is the part of a callback that holds the k-th file of the i-th
// output.
func FieldOf(f sidecar.File, i, k int) string {
	if field := textOf(membersOf(f.Told)["upload_field"]); field != "" {
		return field
	}
	return fmt.Sprintf("artifact_%d_%d", i, k)
}

// NameOf is what the worker calls a file; empty when it does not say.
func NameOf(f sidecar.File) string { return textOf(membersOf(f.Told)["filename"]) }

// KindOf trusts what the bytes of a file tell; where they tell little, what
// the worker does.
func KindOf(sniffed, told string) string {
	kind, _, err := mime.ParseMediaType(told)
	if err == nil && (sniffed == "application/octet-stream" || strings.HasPrefix(sniffed, "text/plain")) {
		return kind
	}
	return sniffed
}

func membersOf(raw json.RawMessage) map[string]json.RawMessage {
	var members map[string]json.RawMessage
	if !bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) || json.Unmarshal(raw, &members) != nil {
		return nil
	}
	return members
}

func listOf(raw json.RawMessage) []json.RawMessage {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return nil
	}
	return list
}

func textOf(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

func pointerTo(raw json.RawMessage) *string {
	var s *string
	if json.Unmarshal(raw, &s) != nil {
		return nil
	}
	return s
}

func sizeOf(raw json.RawMessage) int {
	var n int
	if json.Unmarshal(raw, &n) != nil || n < 0 {
		return 0
	}
	return n
}
