package manifest_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/manifest"
)

func graphOf(t testing.TB, text string) manifest.Graph {
	t.Helper()
	g, _, err := manifest.ParseGraph([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestStampPrefixes(t *testing.T) {
	save := func(prefix string) string {
		return `{"2":{"class_type":"SaveImage","inputs":{"filename_prefix":` + prefix + `,"images":["1",0]}}}`
	}
	image := manifest.Output{Name: "o", Type: "image", NodeID: "2"}
	cases := []struct {
		fact    string
		graph   string
		outputs []manifest.Output
		want    string
	}{
		{"text is stamped", save(`"a"`), []manifest.Output{image}, save(`"a_t1"`)},
		{"two outputs stamp once", save(`"a"`), []manifest.Output{image, image}, save(`"a_t1"`)},
		{"type in any case", save(`"a"`), []manifest.Output{{Type: "IMAGE", NodeID: "2"}}, save(`"a_t1"`)},
		{"empty becomes ComfyUI's own", save(`""`), []manifest.Output{image}, save(`"ComfyUI_t1"`)},
		{"null as empty", save(`null`), []manifest.Output{image}, save(`"ComfyUI_t1"`)},
		{"a link is left alone", save(`["7",0]`), []manifest.Output{image}, save(`["7",0]`)},
		{"a number is left alone", save(`5`), []manifest.Output{image}, save(`5`)},
		{"a video output does not stamp", save(`"a"`), []manifest.Output{{Type: "video", NodeID: "2"}}, save(`"a"`)},
		{"another node does not stamp", save(`"a"`), []manifest.Output{{Type: "image", NodeID: "1"}}, save(`"a"`)},
		{"another class is left alone", `{"2":{"class_type":"PreviewImage","inputs":{"filename_prefix":"a"}}}`, []manifest.Output{image}, `{"2":{"class_type":"PreviewImage","inputs":{"filename_prefix":"a"}}}`},
	}
	for _, c := range cases {
		t.Run(c.fact, func(t *testing.T) {
			g := graphOf(t, c.graph)
			if got := string(g.StampPrefixes(c.outputs, "t/1").Bytes()); got != c.want {
				t.Errorf("stamped to %s, want %s", got, c.want)
			}
			if got := string(g.Bytes()); got != c.graph {
				t.Errorf("the original changed to %s", got)
			}
		})
	}
}

func TestWithMeta(t *testing.T) {
	g := graphOf(t, `{"1":{"class_type":"A","inputs":{},"_meta":{"title":"t"}},"2":{"class_type":"B","inputs":{}}}`)
	want := `{"1":{"class_type":"A","inputs":{},"_meta":{"title":"t"}},"2":{"class_type":"B","inputs":{},"_meta":{}}}`
	if got := string(g.WithMeta().Bytes()); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestGraphSurvivesItsOwnText(t *testing.T) {
	g := graphOf(t, `{"1": {"class_type": "A", "inputs": {"x": 7.50, "s": "\ud83d"}}}`)
	var again manifest.Graph
	if err := again.UnmarshalJSON(g.Bytes()); err != nil {
		t.Fatal(err)
	}
	if string(again.Bytes()) != string(g.Bytes()) {
		t.Errorf("%s became %s", g.Bytes(), again.Bytes())
	}
}

func TestCollect(t *testing.T) {
	file := func(name string) string { return `{"filename":"` + name + `","subfolder":"s","type":"output"}` }
	cases := []struct {
		fact, kind, node string
		want             []string // file names, or = and a text
	}{
		{"images", "image", `{"images":[` + file("a.png") + `,` + file("b.png") + `],"animated":[true]}`, []string{"a.png", "b.png"}},
		{"an image output ignores other keys", "image", `{"gifs":[` + file("a.gif") + `],"text":["x"]}`, nil},
		{"videos, gifs and images in this order", "video", `{"images":[` + file("c.webp") + `],"gifs":[` + file("b.gif") + `],"videos":[` + file("a.mp4") + `]}`, []string{"a.mp4", "b.gif", "c.webp"}},
		{"audio and audios", "audio", `{"audios":[` + file("b.mp3") + `],"audio":[` + file("a.flac") + `]}`, []string{"a.flac", "b.mp3"}},
		{"a mesh for a file output", "file", `{"3d":[` + file("m.glb") + `]}`, []string{"m.glb"}},
		{"files and 3d name the same file once", "file", `{"files":[` + file("m.glb") + `],"3d":[` + file("m.glb") + `]}`, []string{"m.glb"}},
		{"the preview of a mesh", "file", `{"result":["3d\\m.glb",{"camera":1},null]}`, []string{"m.glb"}},
		{"what a node shows of a mesh that it does not give", "3D", `{"images":[` + file("a.png") + `],"text":["x"]}`, []string{"a.png"}},
		{"a mesh, not what shows it", "mesh", `{"images":[` + file("a.png") + `],"3d":[` + file("m.glb") + `]}`, []string{"m.glb"}},
		{"latents", "file", `{"latents":[` + file("l.latent") + `]}`, []string{"l.latent"}},
		{"an unknown key for a file output", "file", `{"splats":[` + file("s.ply") + `],"images":[` + file("p.png") + `],"size":[4]}`, []string{"s.ply"}},
		{"a text", "string", `{"text":["one","two"]}`, []string{"=one", "=two"}},
		{"a text that is no list", "text", `{"text":"one"}`, []string{"=one"}},
		{"an unknown type takes everything", "json", `{"text":["t"],"images":[` + file("a.png") + `]}`, []string{"a.png", "=t"}},
		{"no object", "image", `"x"`, nil},
		{"no list", "image", `{"images":"x"}`, nil},
		{"nothing", "image", ``, nil},
	}
	for _, c := range cases {
		t.Run(c.fact, func(t *testing.T) {
			nodes := map[string]json.RawMessage{"5": json.RawMessage(c.node)}
			results := manifest.Collect([]manifest.Output{{Name: "o", Type: c.kind, NodeID: "5"}}, nodes)
			var got []string
			for _, a := range results[0].Artifacts {
				if a.Filename != nil {
					got = append(got, *a.Filename)
				} else {
					got = append(got, "="+a.Text)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCollectKeepsOddItems(t *testing.T) {
	nodes := map[string]json.RawMessage{"10": json.RawMessage(`{"images":["text",5,null,{"filename":null,"type":"output"},{"filename":7,"subfolder":1}]}`)}
	got, err := json.Marshal(manifest.Collect([]manifest.Output{{Name: "still", Type: "image", NodeID: "10", NumericID: true, Selector: "slot:1"}}, nodes))
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"name":"still","type":"image","node_id":"10","selector":"slot:1","artifacts":[` +
		`{"filename":null,"subfolder":null,"type":null,"raw":{"value":"text"}},` +
		`{"filename":null,"subfolder":null,"type":null,"raw":{"value":5}},` +
		`{"filename":null,"subfolder":null,"type":null,"raw":{"value":null}},` +
		`{"filename":null,"subfolder":null,"type":"output","raw":{"filename":null,"type":"output"}},` +
		`{"filename":"7","subfolder":"1","type":null,"raw":{"filename":7,"subfolder":1}}]}]`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
}

func TestKind(t *testing.T) {
	cases := []struct{ kind, file, want string }{
		{"image", "a.png", "image"}, {"image", "a.mp4", "video"}, {"VIDEO", "a.png", "video"}, {"file", "A.FLAC", "audio"},
		{"audio", "x", "audio"}, {"file", "m.glb", "json"}, {"string", "", "json"}, {"file", "a.JPEG", "image"},
	}
	for _, c := range cases {
		if got := manifest.Kind(c.kind, c.file); got != c.want {
			t.Errorf("Kind(%s, %s) = %s, want %s", c.kind, c.file, got, c.want)
		}
	}
}

func TestIssueSurvivesStorage(t *testing.T) {
	for _, want := range []manifest.Issue{
		{Code: "below_min", Message: "m", Severity: manifest.SeverityError, InputName: "x", NodeID: "1", APINodeID: "2:1"},
		{Code: "unknown_contract_input", Message: "m", Severity: manifest.SeverityWarning, InputName: "x"},
		{Code: "unknown_contract_input", Message: "m", Severity: manifest.SeverityWarning},
	} {
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got manifest.Issue
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if want.InputName == "" && !strings.Contains(string(text), `"input_name":""`) {
			t.Errorf("the name that was given is not told: %s", text)
		}
	}
}

func TestOutputNeedsItsFields(t *testing.T) {
	var out manifest.Output
	if err := json.Unmarshal([]byte(`{"name":"o","type":"image"}`), &out); err == nil {
		t.Errorf("read as %+v", out)
	}
}

func TestDigestSpellsAsPython(t *testing.T) {
	// What sha256 is taken of: {"1": {"class_type": "A", "inputs": {"a": [1.0, 7.5, 1e-05, 1e+16, 0, -0.0, Infinity], "s": "\\u00fc\\ud83d\\n\\u007f/", "z": 2}}}
	g := graphOf(t, `{"1": {"inputs": {"z": 1, "s": "\u00fc\ud83d\n\u007f\/", "a": [1E0, 7.50, 0.00001, 1e16, -0, -0.0, 1e400], "z": 2}, "class_type": "A"}}`)
	const want = "e5a2e4b5124ebf0299fc05334a428c7b8d729d87678ed9265110cc92c4ca61a8"
	if got := (&manifest.Contract{}).Bind(g, nil).Digest; got != want {
		t.Errorf("digest is %s, want %s", got, want)
	}
}
