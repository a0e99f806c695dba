package protocol_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/manifest"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/protocol"
)

func TestTokens(t *testing.T) {
	tokens := protocol.Tokens{Secret: []byte("s")}
	own := protocol.Bearer(tokens.Of("run_1"))
	for value, want := range map[string]bool{own: true, tokens.Of("run_1"): false, protocol.Bearer(tokens.Of("run_2")): false, "": false, "Bearer ": false} {
		if tokens.Open(value, "run_1") != want {
			t.Errorf("%q opens: %v", value, !want)
		}
	}
	tokens.Configured = "c"
	if !tokens.Open("Bearer c", "run_1") || !tokens.Open(own, "run_1") || tokens.Open("Bearer ", "run_1") || tokens.Open("bearer c", "run_1") {
		t.Error("a configured token opens beside the run's own, and nothing else does")
	}
	if !protocol.Bears("", "") || protocol.Bears("", "x") || !protocol.Bears("Bearer x", "x") {
		t.Error("without a token everything is open")
	}
}

func TestSubmissionKeepsTheGraph(t *testing.T) {
	graph := json.RawMessage(`{"1":{"inputs":{"a":18446744073709551615,"b":1.0,"c":NaN,"d":"<&>"}}}`)
	body, err := protocol.Submission{Prompt: graph}.Body()
	must(t, err)
	if got := string(body[:len(graph)+10]); got != `{"prompt":`+string(graph) {
		t.Errorf("body %s", body)
	}
}

func TestResultsOf(t *testing.T) {
	declared := []manifest.Output{{Name: "a", Type: "image", NodeID: "1"}, {Name: "b", Type: "image", NodeID: "2"}}
	answer := `{"outputs": ["x", {"name": "b", "artifacts": [{"filename": "f.png", "width": 3, "proxy_artifact_id": "i"}, "y", {"filename": null}]}, {"name": "z"}]}`
	results, err := protocol.ResultsOf(declared, json.RawMessage(answer))
	must(t, err)
	var got []int
	for _, res := range results {
		got = append(got, len(res.Artifacts))
	}
	if diff := cmp.Diff([]int{0, 2, 0}, got); diff != "" {
		t.Errorf("artifacts (-want +got):\n%s", diff)
	}
	file := results[1].Files[0]
	if protocol.ArtifactOf(file) != "i" || protocol.NameOf(file) != "f.png" || file.Width != 3 || protocol.FieldOf(file, 1, 0) != "artifact_1_0" {
		t.Errorf("file %+v", file)
	}
	if _, err := protocol.ResultsOf(declared, json.RawMessage(`[]`)); err == nil {
		t.Error("no object is taken for an answer")
	}
}

func TestIDs(t *testing.T) {
	const prompt = sidecar.PromptID("01234567-89ab-4def-8123-456789abcdef")
	run := sidecar.RunOfPrompt(prompt)
	if run == "" || sidecar.PromptOfRun(run) != prompt {
		t.Errorf("run %q", run)
	}
	for _, odd := range []sidecar.PromptID{"", "wp-1", "01234567-89AB-4DEF-8123-456789ABCDEF", "{01234567-89ab-4def-8123-456789abcdef}"} {
		if got := sidecar.RunOfPrompt(odd); got != "" {
			t.Errorf("%q: %q", odd, got)
		}
	}
}

// TestArtifactIDs: ids have the reference's form, and lead back to their run.
func TestArtifactIDs(t *testing.T) {
	form := regexp.MustCompile(`^artifact_[0-9a-f]{32}$`)
	for _, prompt := range []sidecar.PromptID{"01234567-89ab-4def-8123-456789abcdef", "ffffffff-ffff-ffff-ffff-ffffffffffff", "01234567-89ab-4def-ffff-ffffffffff00"} {
		run := &sidecar.Run{ID: sidecar.RunOfPrompt(prompt), Status: sidecar.StatusCompleted}
		run.Prompt = prompt
		file := `{"filename":"a.png","subfolder":"","type":"output"}`
		run.Result = json.RawMessage(`{"outputs":[{"name":"text","artifacts":[{"text":"x"}]},{"name":"a","artifacts":[` + strings.Repeat(file+",", 299) + file + `]}]}`)
		outputs, err := protocol.OutputsOf(run)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for n, a := range outputs[1].Artifacts {
			if seen[a.ID] || form.MatchString(a.ID) != (n < 256) || a.URL != "/proxy/artifacts/"+a.ID {
				t.Errorf("file %d of %s is %s at %s", n, prompt, a.ID, a.URL)
			}
			seen[a.ID] = true
			if !slices.Contains(slices.Collect(protocol.RunsOfArtifact(a.ID)), run.ID) {
				t.Errorf("%s does not lead to its run", a.ID)
			}
		}
		if outputs[0].Artifacts[0].ID != "" || !seen["artifact_"+strings.ReplaceAll(string(prompt), "-", "")] {
			t.Errorf("ids %v", seen)
		}
	}
	for _, odd := range []string{"", "artifact_", "artifact_x", "x_0123456789ab4def8123456789abcdef"} {
		if got := slices.Collect(protocol.RunsOfArtifact(odd)); len(got) != 0 {
			t.Errorf("%q: %q", odd, got)
		}
	}
}

func TestSecondsHaveAFraction(t *testing.T) {
	for given, want := range map[time.Duration]string{5 * time.Second: "5.0", 50 * time.Millisecond: "0.05", 12 * time.Hour: "43200.0"} {
		if got, err := protocol.Seconds(given).MarshalJSON(); err != nil || string(got) != want {
			t.Errorf("%s is %s, %v", given, got, err)
		}
	}
}

func TestFailureOfRun(t *testing.T) {
	f := protocol.FailureOfRun(protocol.Run{Status: "error", Message: "m", Comfy: json.RawMessage(`{"status":{}}`)}, "p")
	if f.Code != "comfyui_execution_failed" || string(f.Detail) != `{"message":"m","prompt_id":"p","status":{}}` {
		t.Errorf("%s %s", f.Code, f.Detail)
	}
	if f = protocol.FailureOfRun(protocol.Run{Status: "FAILED"}, "p"); f.Message != "Proxy execution failed" || string(f.Detail) != `{"message":"Proxy execution failed","prompt_id":"p"}` {
		t.Errorf("%q %s", f.Message, f.Detail)
	}
}
