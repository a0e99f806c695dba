package routes_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// withWorkflow adds a workflow whose outputs are given as type and node, in
// pairs.
func (r *rig) withWorkflow(name, graph string, outputs ...string) *rig {
	r.t.Helper()
	path := filepath.Join(r.env, ".cec", "pyproject.toml")
	text, err := os.ReadFile(path)
	must(r.t, err)
	var declared []string
	for i := 0; i < len(outputs); i += 2 {
		declared = append(declared, fmt.Sprintf(`{ name = "out%s", type = %q, node_id = %q }`, outputs[i+1], outputs[i], outputs[i+1]))
	}
	r.writeManifest(string(text) + fmt.Sprintf(`
[tool.comfygit.workflows.%[1]s.execution_contract]
api_prompt_file = "workflow_api/%[1]s.json"
[tool.comfygit.workflows.%[1]s.execution_contract.contracts.default]
inputs = []
outputs = [ %[2]s ]
`, name, strings.Join(declared, ", ")))
	must(r.t, os.WriteFile(filepath.Join(r.env, ".cec", "workflow_api", name+".json"), []byte(graph), 0o644))
	return r
}

// waited runs a workflow to its end.
func (r *rig) waited(workflow string) map[string]any {
	r.t.Helper()
	a := r.ask("POST", "/contracts/"+workflow+"/default/run", `{"wait": true}`)
	if a.status != http.StatusOK {
		r.t.Fatalf("%s: %d %s", workflow, a.status, a.body)
	}
	return a.json(r.t)
}

// kindsGraph makes a picture, a video of either container, a sound and a text.
const kindsGraph = `{"1":{"class_type":"EmptyImage","inputs":{"width":64,"height":32,"batch_size":2,"color":255}},
"2":{"class_type":"SaveImage","inputs":{"filename_prefix":"still","images":["1",0]}},
"3":{"class_type":"CreateVideo","inputs":{"images":["1",0],"fps":8.0}},
"4":{"class_type":"SaveVideo","inputs":{"video":["3",0],"filename_prefix":"film","format":"auto","codec":"auto"}},
"5":{"class_type":"SaveWEBM","inputs":{"images":["1",0],"filename_prefix":"film","codec":"vp9","fps":8.0,"crf":32.0}},
"6":{"class_type":"EmptyAudio","inputs":{"duration":1.0,"sample_rate":44100,"channels":2}},
"7":{"class_type":"SaveAudio","inputs":{"audio":["6",0],"filename_prefix":"sound"}},
"8":{"class_type":"PrimitiveString","inputs":{"value":"a word"}},
"9":{"class_type":"PreviewAny","inputs":{"source":["8",0]}}}`

// made fetches the files of a run's outputs: the name of each output, with the
// type and the bytes of a file, or with a text.
func (r *rig) made(doc map[string]any) (all [][3]string) {
	r.t.Helper()
	for _, output := range doc["outputs"].([]any) {
		output := output.(map[string]any)
		for _, a := range output["artifacts"].([]any) {
			made := [3]string{output["name"].(string), "text", ""}
			if address, isFile := a.(map[string]any)["url"].(string); isFile {
				file := r.get(address)
				if file.status != http.StatusOK {
					r.t.Errorf("%s: %d %s", address, file.status, file.body)
				}
				made[1], made[2] = file.header.Get("Content-Type"), string(file.body)
			} else {
				made[2], _ = a.(map[string]any)["text"].(string)
			}
			if made[2] == "" {
				r.t.Errorf("nothing in %v", a)
			}
			all = append(all, made)
		}
	}
	return all
}

// TestOutputsOfEveryKind: whatever a node makes is an output, with a file that
// can be fetched or with its text.
func TestOutputsOfEveryKind(t *testing.T) {
	r := start(t).withWorkflow("kinds", kindsGraph, "image", "2", "video", "4", "video", "5", "audio", "7", "string", "9")
	doc := r.waited("kinds")
	var kinds []string
	for _, made := range r.made(doc) {
		kinds = append(kinds, made[0]+" "+made[1])
	}
	want := []string{"out2 image/png", "out2 image/png", "out4 video/mp4", "out5 video/webm", "out7 audio/flac", "out9 text"}
	if diff := cmp.Diff(want, kinds); diff != "" || doc["status"] != "completed" {
		t.Errorf("%v %s", doc["status"], diff)
	}
	for _, slot := range doc["output_slots"].([]any) {
		if slot := slot.(map[string]any); slot["status"] != "done" {
			t.Errorf("%v is %v", slot["outputName"], slot["status"])
		}
	}
	if n := len(doc["gallery_items"].([]any)); n != len(want) {
		t.Errorf("%d items", n)
	}
}

// TestSameAgain: what ComfyUI has made before is shown again and said to be from
// its cache.
func TestSameAgain(t *testing.T) {
	graph := strings.Replace(kindsGraph, `"SaveImage","inputs":{"filename_prefix":"still",`, `"PreviewImage","inputs":{`, 1)
	r := start(t).withWorkflow("again", graph, "image", "2", "video", "4", "audio", "7", "string", "9")
	first, second := r.waited("again"), r.waited("again")
	if first["outcome"] == "cached" || second["outcome"] != "cached" || second["status"] != "completed" {
		t.Errorf("first %v, then %v, %v", first["outcome"], second["status"], second["outcome"])
	}
	if made := r.made(second); len(made) != 5 || !slices.Equal(r.made(first), made) {
		t.Errorf("%d outputs, others than before", len(made))
	}
}

// TestFirstOfSeveralOutputs: a run that has made one of its outputs has not
// ended.
func TestFirstOfSeveralOutputs(t *testing.T) {
	r := start(t).withWorkflow("two", `{"1":{"class_type":"EmptyImage","inputs":{"width":64,"height":32,"batch_size":1,"color":255}},
"2":{"class_type":"SaveImage","inputs":{"filename_prefix":"first","images":["1",0]}},
"3":{"class_type":"TrialSlow","inputs":{"image":["1",0],"steps":5}},
"4":{"class_type":"SaveImage","inputs":{"filename_prefix":"second","images":["3",0]}}}`, "image", "2", "image", "4")
	r.fake.Hold()
	defer r.fake.Release()
	answered := make(chan reply, 1)
	go func() { answered <- r.ask("POST", "/contracts/two/default/run", `{"wait": true}`) }()
	var shown map[string]any
	stepped := 0 // nodes that were let go
	eventually(t, "one output is made", func() bool {
		runs := r.get("/runs").json(t)["runs"].([]any)
		if len(runs) == 0 {
			return false
		}
		shown = r.get("/runs/" + runs[0].(map[string]any)["run_id"].(string) + "/view").json(t)
		finished, begun := 0, 0
		for _, node := range shown["nodes"].([]any) {
			node := node.(map[string]any)
			if node["finishedAt"] != nil && (node["node"] == "2" || node["node"] == "4") {
				finished++
			}
			begun++
		}
		if finished == 0 && begun > stepped { // each node waits at the gate
			stepped = begun
			r.fake.Step()
		}
		return finished == 1
	})
	if run := shown["run"].(map[string]any); run["status"] != "running" {
		t.Errorf("it is %v", run["status"])
	}
	select {
	case a := <-answered:
		t.Errorf("who waits is told %s", a.body)
	default:
	}
	r.fake.Release()
	doc := (<-answered).json(t)
	if n := len(doc["gallery_items"].([]any)); doc["status"] != "completed" || n != 2 {
		t.Errorf("%v with %d outputs", doc["status"], n)
	}
}
