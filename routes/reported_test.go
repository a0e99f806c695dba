package routes_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

// TestWatchersComeWhenTheyLike: whoever listens from the beginning, in the
// middle or after the end hears how the run ended.
func TestWatchersComeWhenTheyLike(t *testing.T) {
	r := start(t)
	r.fake.Hold()
	defer r.fake.Release()
	id := r.run(`{"inputs":{"width":64}}`)["run_id"].(string)
	path := "/runs/" + id + "/events?after=0"
	first := r.listen(path)
	first.first("node_started")
	second := r.listen(path)
	r.fake.Release()
	heard := map[string][]message{"from the beginning": first.until("run_completed"), "in the middle": second.until("run_completed")}
	heard["after the end"] = r.listen(path).until("run_completed")
	want := heard["after the end"]
	for who, got := range heard {
		if last := got[len(got)-1]; last != want[len(want)-1] {
			t.Errorf("%s: %+v, want %+v", who, last, want[len(want)-1])
		}
	}
	if got := heard["in the middle"]; len(got) != len(want) {
		t.Errorf("who came in the middle heard %d events, want %d", len(got), len(want))
	}
}

// TestLargeNumbersReachComfyUI: a seed keeps its digits on the whole way.
func TestLargeNumbersReachComfyUI(t *testing.T) {
	r := start(t)
	for _, seed := range []string{"9007199254740993", "9223372036854775808", "18446744073709551615"} {
		// ComfyUI refuses it, which does not matter here.
		a := r.ask("POST", runPath, `{"inputs": {"width": 64, "seed": `+seed+`}}`)
		sent := false
		for _, req := range r.fake.Requests() {
			sent = sent || req.Method == http.MethodPost && strings.HasSuffix(req.Path, "/prompt") && bytes.Contains(req.Body, []byte(`"color":`+seed+`}`))
		}
		if !sent {
			t.Errorf("%s was not sent: %d %s", seed, a.status, a.body)
		}
		id, _ := a.json(t)["run_id"].(string)
		if id == "" {
			runs := r.get("/runs").json(t)["runs"].([]any)
			id = runs[0].(map[string]any)["id"].(string)
		}
		if shown := r.get("/runs/" + id); !bytes.Contains(shown.body, []byte(`"seed":`+seed)) {
			t.Errorf("the run shows %s", shown.body)
		}
	}
}

// TestRefusedInputIsNamed: a client learns which of its inputs ComfyUI does not
// take.
func TestRefusedInputIsNamed(t *testing.T) {
	r := start(t)
	a := r.ask("POST", runPath, `{"inputs": {"width": 64, "seed": 99999999}}`)
	if a.status != http.StatusBadRequest {
		t.Fatalf("%d %s", a.status, a.body)
	}
	issues, _ := a.json(t)["issues"].([]any)
	if len(issues) != 1 || issues[0].(map[string]any)["input_name"] != "seed" || issues[0].(map[string]any)["code"] != "above_max" {
		t.Errorf("issues of %s", a.body)
	}
}

// TestBusyComfyUI: health tells of a run that does not stop.
func TestBusyComfyUI(t *testing.T) {
	r := start(t)
	health := r.get("/health").json(t)
	if n := health["queue"].(map[string]any)["leaving"]; n == nil || health["comfyui"].(map[string]any)["busy"] != nil {
		t.Errorf("health %v", health)
	}
}

// TestDoubtfulComfyUI: health tells what may be none, and calls it available.
func TestDoubtfulComfyUI(t *testing.T) {
	r := start(t)
	defer r.fake.Fault(comfyfake.Fault{Kind: comfyfake.Answer, Route: "/system_stats", Status: 200, Body: "<html>"})()
	told := func() map[string]any { return r.get("/health").json(t)["comfyui"].(map[string]any) }
	deadline := time.Now().Add(10 * time.Second)
	for told()["hint"] == nil && time.Now().Before(deadline) {
	}
	if got := told(); got["available"] != true || got["error"] != nil || got["hint"] == nil {
		t.Errorf("health %v", got)
	}
}
