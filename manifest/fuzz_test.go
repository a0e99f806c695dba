package manifest_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/comfygit-ai/studio-sidecar/internal/bounded"
	"github.com/comfygit-ai/studio-sidecar/manifest"
)

// FuzzParseObject: whatever is accepted is JSON for others too, and comes out
// as it went in.
func FuzzParseObject(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":[1.50,{"b":null}],"c":"\ud83d\ude00"}`, "\xef\xbb\xbf{\"a\": -0e+1}", `{"a":1,"a":2}`, `{"a":"\ud83d"}`, "{\"\u2028\":true}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		bounded.Input(t, func() {
			values, err := manifest.ParseObject(raw, manifest.Limits{})
			if err != nil {
				return
			}
			text, err := values.MarshalJSON()
			if err != nil || !json.Valid(text) {
				t.Fatalf("%q was written as %q, %v", raw, text, err)
			}
			again, err := manifest.ParseObject(text, manifest.Limits{})
			if err != nil {
				t.Fatalf("%q was written as %q: %v", raw, text, err)
			}
			if second, _ := again.MarshalJSON(); !bytes.Equal(text, second) {
				t.Fatalf("%q became %q", text, second)
			}
			if !json.Valid(manifest.DisplayInputs(values)) {
				t.Fatalf("%q is shown as %q", raw, manifest.DisplayInputs(values))
			}
		})
	})
}

// FuzzGraph: a graph that is read is read the same from its own text, and a
// bound value stands where it should.
func FuzzGraph(f *testing.F) {
	for _, seed := range []string{
		`{"1":{"class_type":"A","inputs":{"f":1}}}`, `{"prompt":{"1":{"class_type":"A"}}}`, `{"output":{"class_type":"A","inputs":null},"_":1}`,
		`{"1":{"class_type":"A","inputs":{"f":[NaN]},"inputs":{"f":2}},"1":{"class_type":"B"}}`, `{"nodes":[],"links":[]}`, `{"a":{"prompt":[1,"x",{"1":{"class_type":"A"}}]}}`, "\xff\xfe{",
	} {
		f.Add([]byte(seed))
	}
	c := &manifest.Contract{Name: "c", Inputs: []manifest.Input{{Name: "x", Type: "integer", NodeID: "1", FieldKey: "f"}}}
	f.Fuzz(func(t *testing.T, raw []byte) {
		bounded.Input(t, func() {
			g, _, err := manifest.ParseGraph(raw)
			if err != nil {
				return
			}
			built := c.Bind(g, manifest.Values{{Name: "x", Value: json.RawMessage("77")}})
			built.Graph = built.Graph.WithMeta().StampPrefixes([]manifest.Output{{Type: "image", NodeID: "1"}}, "t")
			again, _, err := manifest.ParseGraph(built.Graph.Bytes())
			if err != nil {
				t.Fatalf("%q was written as %q: %v", raw, built.Graph.Bytes(), err)
			}
			if !bytes.Equal(again.Bytes(), built.Graph.Bytes()) {
				t.Fatalf("%q became %q", built.Graph.Bytes(), again.Bytes())
			}
			if !built.HasErrors() && !bytes.Contains(built.Graph.Bytes(), []byte("77")) {
				t.Fatalf("the value is not in %q", built.Graph.Bytes())
			}
		})
	})
}

// FuzzManifest: no text of a pyproject.toml does harm, and what is served is
// JSON.
func FuzzManifest(f *testing.F) {
	f.Add(declare("w", `inputs = [{ name = "a", type = "integer", node_id = 1, default = 18446744073709551615, min = nan, max = 1e400, enum_values = [1] }]`))
	f.Add(declare("\"\\ud83d\"", `inputs = [{ node_id = 2024-01-01 }]`))
	f.Add("[tool]\ncomfygit.workflows.a.execution_contract.contracts = { b = { outputs = [{ name = {}, type = [], node_id = 1.5 }] } }")
	f.Add("a = 0xFFFFFFFFFFFFFFFFFFFF\nb = -1e999\nc = [1, 99999999999999999999]")
	f.Fuzz(func(t *testing.T, text string) {
		bounded.Input(t, func() {
			s := open(t, write(t, map[string]string{"pyproject.toml": text})).Snapshot()
			if !json.Valid(s.JSON()) {
				t.Fatalf("served as %q", s.JSON())
			}
			s.Diagnose()
		})
	})
}
