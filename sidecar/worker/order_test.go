package worker_test

import (
	"encoding/json"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
	"github.com/comfygit-ai/studio-sidecar/sidecar/protocol"
)

// journal notes what reaches a worker.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) note(req *http.Request) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, req.Method+" "+req.URL.Path)
}

func (j *journal) seen() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]string(nil), j.lines...)
}

func TestAReferenceWorkerIsAskedForItsRunsAlone(t *testing.T) {
	var heard journal
	w := &referenceWorker{}
	before := func(next http.Handler, out http.ResponseWriter, req *http.Request) {
		heard.note(req)
		if req.URL.Path == "/proxy/runs/wp-1" {
			out.Header().Set("Content-Type", "application/json")
			_, err := out.Write([]byte(`{"status": "completed", "prompt_id": "wp-1", "outputs": [{"name": "out", "type": "image", "artifacts": []}]}`))
			must(t, err)
			return
		}
		w.before(next, out, req)
	}
	pair(t, setup{before: before}, func(r *rig) {
		r.front.ask("GET", "/health", "")
		<-time.After(10 * time.Second) // of the bubble
		if a := r.front.ask("POST", "/contracts/picture/default/run", `{"wait": true, "poll_interval_seconds": 0.25}`); a.status != 200 {
			t.Fatalf("%d %s", a.status, a.body)
		}
		want := []string{"POST /proxy/runs", "GET /proxy/runs/wp-1"}
		if diff := cmp.Diff(want, heard.seen()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		sent := map[string]string{}
		for name, value := range w.body {
			sent[name] = string(value)
		}
		for name, want := range map[string]string{"wait": "true", "poll_interval_seconds": "0.25", "timeout_seconds": "43200.0", "uploads": "[]"} {
			if sent[name] != want {
				t.Errorf("%s is %s", name, sent[name])
			}
		}
		if _, told := sent["callback"]; told || sent["prompt_id"] != "" {
			t.Errorf("sent %v", sent)
		}
	})
}

func TestACallerWhoWaitsNeedsNoCallback(t *testing.T) {
	w := &referenceWorker{}
	pair(t, setup{before: w.before, callbacks: true}, func(r *rig) {
		r.front.ask("POST", "/contracts/picture/default/run", `{"wait": true, "timeout_seconds": 0.1}`)
		if _, told := w.body["callback"]; told {
			t.Errorf("sent %s", w.body["callback"])
		}
		r.front.ask("POST", "/contracts/picture/default/run", `{"wait": false}`)
		if _, told := w.body["callback"]; !told {
			t.Errorf("sent %v", w.body)
		}
	})
}

func TestHealthOfAWorkerIsAskedOnDemand(t *testing.T) {
	var heard journal
	before := func(next http.Handler, out http.ResponseWriter, req *http.Request) {
		heard.note(req)
		next.ServeHTTP(out, req)
	}
	pair(t, setup{before: before}, func(r *rig) {
		health := func(query string) (proxy, comfy map[string]any) {
			doc := r.front.ask("GET", "/health"+query, "").json(t)
			return doc["proxy"].(map[string]any), doc["comfyui"].(map[string]any)
		}
		for _, query := range []string{"", "?check_proxy=0", "?check_proxy=2"} {
			proxy, comfy := health(query)
			if proxy["health_check"] != "deferred" || proxy["available"] != nil || comfy["status"] != "deferred" || comfy["available"] != false {
				t.Errorf("%s: %v, %v", query, proxy, comfy)
			}
		}
		if got := heard.seen(); len(got) != 0 {
			t.Errorf("the worker was asked %v", got)
		}
		for _, query := range []string{"?check_proxy=1", "?check_proxy=TRUE", "?check_proxy=yes", "?check_proxy=on"} {
			if proxy, comfy := health(query); proxy["health_check"] != "checked" || proxy["available"] != true || comfy["available"] != true {
				t.Errorf("%s: %v, %v", query, proxy, comfy)
			}
		}
		if _, comfy := health(""); comfy["available"] != true || comfy["status"] != "deferred" {
			t.Errorf("what was seen is told: %v", comfy)
		}
		defer r.fake.Fault(comfyfake.Fault{Kind: comfyfake.Answer, Route: "/system_stats", Status: 200, Body: "<html>"})()
		<-time.After(time.Second) // of the bubble: what was seen counts no more
		if _, comfy := health("?check_proxy=1"); comfy["hint"] == nil || comfy["available"] != true {
			t.Errorf("the worker's doubt is not told: %v", comfy)
		}
	})
}

func TestAWorkerOfOursIsMetByItsAnswers(t *testing.T) {
	var heard journal
	before := func(next http.Handler, out http.ResponseWriter, req *http.Request) {
		heard.note(req)
		next.ServeHTTP(out, req)
	}
	pair(t, setup{before: before}, func(r *rig) {
		<-time.After(10 * time.Second) // of the bubble
		run := r.ended(r.launch("picture"), 20*time.Second)
		got := heard.seen()
		if len(got) < 2 || got[0] != "POST /proxy/runs" || got[1] != "GET /proxy/events" && got[1] != "GET /proxy/health" {
			t.Errorf("requests %v", got)
		}
		if len(run.Nodes) != 2 {
			t.Errorf("the first run's nodes are %v", run.Nodes)
		}
	})
}

func TestReportsOfAnEnd(t *testing.T) {
	for status, c := range map[string]struct {
		payload string
		error   string
		result  map[string]any
	}{
		"error": {
			`{"status": "error", "error": "comfyui_execution_failed", "message": "m", "phase": "finished", "outcome": "failed"}`, "m",
			map[string]any{"status": "error", "error": "comfyui_execution_failed", "message": "m"},
		},
		"upper_case":   {`{"status": "FAILED", "message": "m"}`, "m", map[string]any{"status": "FAILED", "message": "m"}},
		"no_reason":    {`{"status": "timeout"}`, "Generation failed", map[string]any{"status": "timeout"}},
		"cancelled":    {`{"status": "cancelled", "message": "m", "error": "e"}`, "m", map[string]any{"status": "cancelled", "message": "m", "error": "e"}},
		"cancelled_so": {`{"status": "cancelled"}`, "interrupted in ComfyUI", map[string]any{"status": "cancelled", "message": "interrupted in ComfyUI"}},
	} {
		t.Run(status, func(t *testing.T) {
			w := &referenceWorker{}
			pair(t, setup{before: w.before, callbacks: true}, func(r *rig) {
				id := r.launch("picture")
				if a := r.front.callback("/worker-callback/runs/"+string(id), c.payload, "cbtok"); a.status != 200 {
					t.Fatalf("%d %s", a.status, a.body)
				}
				run := r.ended(id, time.Minute)
				var got map[string]any
				must(t, json.Unmarshal(run.Result, &got))
				c.result["run_id"], c.result["prompt_id"] = string(id), "wp-1"
				if diff := cmp.Diff(c.result, got); diff != "" || run.Error != c.error {
					t.Errorf("error %q, result (-want +got):\n%s", run.Error, diff)
				}
			})
		})
	}
}

func TestOutputsStayAsTheyWereTold(t *testing.T) {
	const told = `[{"name": "out", "type": "image", "own": 1, "artifacts": [{"filename": "a.png", "more": true}, "x"]}, {"name": "beyond", "type": "file"}]`
	w := &referenceWorker{}
	pair(t, setup{before: w.before, callbacks: true}, func(r *rig) {
		id := r.launch("picture")
		r.front.callback("/worker-callback/runs/"+string(id), `{"status": "completed", "outputs": `+told+`}`, "cbtok")
		run := r.ended(id, time.Minute)
		var got struct{ Outputs any }
		must(t, json.Unmarshal(run.Result, &got))
		var want any
		must(t, json.Unmarshal([]byte(told), &want))
		if diff := cmp.Diff(want, got.Outputs); diff != "" || run.Status != sidecar.StatusCompleted || len(run.Items) != 1 {
			t.Errorf("%s, %d items, outputs (-want +got):\n%s", run.Status, len(run.Items), diff)
		}
	})
}

func TestWhatAWorkerSaysOfItself(t *testing.T) {
	header := http.Header{}
	if _, ours := protocol.Abilities(header); ours {
		t.Error("silence is taken for a worker of ours")
	}
	protocol.TellAbilities(header, 42)
	if head, ours := protocol.Abilities(header); head != 42 || !ours {
		t.Errorf("head %d, %v", head, ours)
	}
}

func TestAGraphWithoutNodesIsForComfyUIToRefuse(t *testing.T) {
	pair(t, setup{}, func(r *rig) {
		for _, prompt := range []string{`{}`, `{ }`} {
			a := r.worker.ask("POST", "/proxy/runs", `{"prompt": `+prompt+`}`, "Authorization", "Bearer "+token)
			if doc := a.json(t); a.status != 400 || doc["error"] != "comfyui_rejected_request" || doc["message"] != "Prompt has no outputs" {
				t.Errorf("%s: %d %s", prompt, a.status, a.body)
			}
		}
	})
}
