package routes_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/manifest"
	"github.com/comfygit-ai/studio-sidecar/routes"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// What ComfyUI gave stands in answers as it was given, but for addresses.
func TestStoredDocuments(t *testing.T) {
	cases := []struct {
		name, raw string
		direct    string // as a caller on this machine sees it; "" is raw
		far       string // as others do; "" is direct
	}{
		{name: "numbers", raw: `{"a":18446744073709551615,"b":1.0,"c":1e5,"d":-0.10,"e":[1,2,[3]],"f":null,"g":true}`},
		{name: "texts", raw: `{"a":"\u0000\"\\ } ] , : { [","\u00e9":"é","":""}`},
		{name: "empty", raw: `{"a":{},"b":[],"c":[{}],"d":[[]]}`},
		{
			name: "addresses", raw: `{"url":"/outputs/view?filename=a","n":[{"upload_url":"/uploads/u?token=t","k":1}],"o":"/outputs/view"}`,
			direct: `{"url":"/p/outputs/view?filename=a","n":[{"upload_url":"/p/uploads/u?token=t","k":1}],"o":"/outputs/view"}`,
		},
		{
			name: "other_addresses", raw: `{"url":"http://x/outputs/view","a":{"url":"/other","b":{"url":null,"c":{"url":7}}},"url2":"/outputs/view"}`,
		},
		{name: "prefixed_before", raw: `{"url":"/p/outputs/view?filename=a","x":"/outputs/view"}`},
		{
			name: "escaped", raw: `{"url":"\/outputs\/view?filename=\u0061&x=\"","z":"/outputs/view"}`,
			direct: `{"url":"/p/outputs/view?filename=a&x=\"","z":"/outputs/view"}`,
		},
		{name: "inputs", raw: `{"inputs":{"url":"/outputs/view?filename=a"},"a":{"inputs":["/outputs/view"]}}`},
		{
			name: "backend", raw: `{"a":1,"comfy_url":"http://c","b":{"proxy_url":"http://p"},"c":[{"comfy_url":"x","d":2}]}`,
			far: `{"a":1,"b":{},"c":[{"d":2}]}`,
		},
		{name: "backend_first", raw: `{"comfy_url":"http://c","b":1}`, far: `{"b":1}`},
		{name: "backend_alone", raw: `{"comfy_url":{"deep":["x"]}}`, far: `{}`},
	}
	r := start(t, func(o *routes.Options) { o.PublicPrefix = "/p" })
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r.exec.results = func(sidecar.Job) []sidecar.Result {
				return []sidecar.Result{{
					Result: manifest.Result{Name: "image", Type: "image", NodeID: "2", Artifacts: []manifest.Artifact{{Raw: json.RawMessage(c.raw)}}},
					Files:  []sidecar.File{{}},
				}}
			}
			id := r.run(`{"wait": true}`)["run_id"].(string)
			if c.direct == "" {
				c.direct = c.raw
			}
			if c.far == "" {
				c.far = c.direct
			}
			if diff := cmp.Diff(c.direct, rawArtifact(t, r.get("/runs/"+id))); diff != "" {
				t.Errorf("to a direct caller: %s", diff)
			}
			if diff := cmp.Diff(c.far, rawArtifact(t, r.get("/runs/"+id, "X-Forwarded-For", "10.0.0.1"))); diff != "" {
				t.Errorf("to others: %s", diff)
			}
		})
	}
}

// rawArtifact is what an answer shows of ComfyUI's own item, in all its places
// alike.
func rawArtifact(t *testing.T, a reply) string {
	t.Helper()
	var doc struct {
		Run struct {
			Result struct {
				Outputs []struct {
					Artifacts []struct{ Raw json.RawMessage }
				}
			} `json:"raw_result"`
		}
		Items []struct {
			Artifact struct{ Raw json.RawMessage }
		} `json:"gallery_items"`
	}
	if err := json.Unmarshal(a.body, &doc); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
	raw := doc.Run.Result.Outputs[0].Artifacts[0].Raw
	if !bytes.Equal(raw, doc.Items[0].Artifact.Raw) {
		t.Errorf("%s and %s", raw, doc.Items[0].Artifact.Raw)
	}
	return string(raw)
}

// An answer that is kept for one class of callers is not shown to the other.
func TestKeptAnswersKnowTheirCallers(t *testing.T) {
	r := start(t)
	must(t, r.fake.Close())
	r.ask("POST", runPath, `{}`)
	for range 2 {
		for _, path := range []string{"/runs", "/gallery"} {
			direct, far := r.get(path), r.get(path, "X-Forwarded-For", "10.0.0.1")
			if !strings.Contains(string(direct.body), "comfy_url") || strings.Contains(string(far.body), "comfy_url") {
				t.Errorf("%s: direct %s\nfar %s", path, direct.body, far.body)
			}
			if direct.header.Get("ETag") == far.header.Get("ETag") {
				t.Errorf("%s: both have the ETag %s", path, far.header.Get("ETag"))
			}
		}
	}
}
