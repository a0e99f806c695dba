package routes_test

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"net/http"
	"regexp"
	"slices"
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

// TestBusyComfyUI: health tells of a cancelled run that ComfyUI does not let go
// of, and the next one is taken all the same.
func TestBusyComfyUI(t *testing.T) {
	r := start(t)
	leaving := func() string {
		return fmt.Sprint(r.get("/health").json(t)["queue"].(map[string]any)["leaving"])
	}
	if n := leaving(); n != "0" {
		t.Errorf("%s leave before any ran", n)
	}
	r.fake.Fault(comfyfake.Fault{Kind: comfyfake.IgnoreInterrupt})
	r.fake.Hold()
	defer r.fake.Release()
	id := r.running()
	if a := r.ask("POST", "/runs/"+id+"/cancel", ""); a.json(t)["status"] != "cancelled" {
		t.Errorf("cancel: %d %s", a.status, a.body)
	}
	eventually(t, "it leaves", func() bool { return leaving() == "1" })
	next := r.run(`{}`)["run_id"].(string)
	r.fake.Release()
	eventually(t, "the next one is done", func() bool {
		return r.get("/runs/" + next).json(t)["run"].(map[string]any)["status"] == "completed"
	})
	eventually(t, "nothing is left", func() bool { return leaving() == "0" })
	if run := r.get("/runs/" + id).json(t)["run"].(map[string]any); run["status"] != "cancelled" {
		t.Errorf("the late end made it %v", run["status"])
	}
}

// running starts a run that stays where it is while ComfyUI is held.
func (r *rig) running() (id string) {
	r.t.Helper()
	id = r.run(`{}`)["run_id"].(string)
	eventually(r.t, "it executes", func() bool {
		return r.get("/runs/" + id).json(r.t)["run"].(map[string]any)["phase"] == "executing"
	})
	return id
}

// TestWaitingInComfyUIIsTold: a run that ComfyUI has and does not execute yet
// says so, and how many are before it.
func TestWaitingInComfyUIIsTold(t *testing.T) {
	r := start(t)
	r.fake.Hold()
	defer r.fake.Release()
	r.running()
	second, third := r.run(`{}`)["run_id"].(string), r.run(`{}`)["run_id"].(string)
	for id, before := range map[string]string{second: "1", third: "2"} {
		eventually(t, "it waits", func() bool {
			run := r.get("/runs/" + id).json(t)["run"].(map[string]any)
			return run["phase"] == "queued" && fmt.Sprint(run["queue_position"]) == before
		})
	}
}

// TestNothingOfABrowserReachesComfyUI: a ComfyUI that looks at where a request
// comes from has nothing to refuse.
func TestNothingOfABrowserReachesComfyUI(t *testing.T) {
	r := start(t).withLoader()
	own := "http://" + r.server.Listener.Addr().String()
	browser := []string{
		"Origin", own, "Referer", own + "/", "Cookie", "a=b", "Authorization", "Bearer x", "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "cors",
		"X-Forwarded-Host", "studio.example", "X-Forwarded-For", "203.0.113.9", "Accept-Language", "de",
	}
	s := r.prepare(`{"filename": "a.png"}`, browser...)
	if a := r.ask("PUT", s.URL, string(grayPNG(t, 4)), browser...); a.status != http.StatusOK {
		t.Fatalf("put: %d %s", a.status, a.body)
	}
	a := r.ask("POST", "/contracts/load/default/run", `{"wait": true, "inputs": {"picture": {"kind": "file_ref", "ref": "`+s.UploadID+`"}}}`, browser...)
	if a.status != http.StatusOK {
		t.Fatalf("run: %d %s", a.status, a.body)
	}
	r.get(a.json(t)["gallery_items"].([]any)[0].(map[string]any)["url"].(string), browser...)
	r.ask("POST", "/runs/"+r.run(`{}`)["run_id"].(string)+"/cancel", "", browser...)
	r.get("/health", browser...)
	seen := map[string]bool{}
	for _, req := range r.fake.Requests() {
		seen[req.Method+" "+req.Path] = true
		if req.Host != "comfy.invalid:8188" {
			t.Errorf("%s %s was for the host %s", req.Method, req.Path, req.Host)
		}
		for name := range req.Header {
			if slices.Contains(browser, name) {
				t.Errorf("%s %s told %s", req.Method, req.Path, name)
			}
		}
	}
	for _, want := range []string{"POST /prompt", "POST /upload/image", "GET /view", "GET /ws"} {
		if !seen[want] {
			t.Errorf("no %s among %v", want, seen)
		}
	}
}

// TestTwoFilesOfOneName: each run gets the file that was meant for it.
func TestTwoFilesOfOneName(t *testing.T) {
	r := start(t).withLoader()
	var files []string
	for _, width := range []int{4, 8} {
		s := r.prepare(`{"filename": "input.png"}`)
		if a := r.ask("PUT", s.URL, string(grayPNG(t, width))); a.status != http.StatusOK {
			t.Fatalf("put: %d %s", a.status, a.body)
		}
		a := r.ask("POST", "/contracts/load/default/run", `{"wait": true, "inputs": {"picture": {"kind": "file_ref", "ref": "`+s.UploadID+`"}}}`)
		if item := a.json(t)["gallery_items"].([]any)[0].(map[string]any); fmt.Sprint(item["width"]) != fmt.Sprint(width) {
			t.Errorf("of a picture %d wide came one of %v", width, item["width"])
		}
	}
	for _, req := range r.fake.Requests() {
		if m := loaded.FindSubmatch(req.Body); m != nil && strings.HasSuffix(req.Path, "/prompt") {
			files = append(files, string(m[1]))
		}
	}
	if len(files) != 2 || files[0] == files[1] {
		t.Errorf("ComfyUI loaded %v", files)
	}
}

var loaded = regexp.MustCompile(`"image": *"([^"]*)"`)

func grayPNG(t testing.TB, width int) []byte {
	t.Helper()
	var b bytes.Buffer
	must(t, png.Encode(&b, image.NewGray(image.Rect(0, 0, width, 4))))
	return b.Bytes()
}

// TestFileThatComfyUIDoesNotTake: whoever sends a file that is too large for
// ComfyUI learns so, and no run stays open.
func TestFileThatComfyUIDoesNotTake(t *testing.T) {
	r := start(t).withLoader()
	r.fake.Fault(comfyfake.Fault{Kind: comfyfake.Answer, Method: "POST", Route: "/upload/image", Status: http.StatusRequestEntityTooLarge})
	s := r.prepare(`{"filename": "large.png"}`)
	r.ask("PUT", s.URL, string(grayPNG(t, 4)))
	a := r.ask("POST", "/contracts/load/default/run", `{"wait": true, "inputs": {"picture": {"kind": "file_ref", "ref": "`+s.UploadID+`"}}}`)
	doc := a.json(t)
	if hint, _ := doc["hint"].(string); a.status < 400 || !strings.Contains(hint, "--max-upload-size") {
		t.Errorf("%d %s", a.status, a.body)
	}
	if run := r.get("/runs/" + doc["run_id"].(string)).json(t)["run"].(map[string]any); run["status"] != "error" {
		t.Errorf("the run is %v", run["status"])
	}
	for _, req := range r.fake.Requests() {
		if req.Method == "POST" && strings.HasSuffix(req.Path, "/prompt") {
			t.Error("a prompt was sent without its file")
		}
	}
}

// TestHealthOfAComfyUIThatFails: whatever ComfyUI answers, health is an answer.
func TestHealthOfAComfyUIThatFails(t *testing.T) {
	for _, status := range []int{400, 403, 404, 500, 503} {
		r := start(t)
		r.fake.Fault(comfyfake.Fault{Kind: comfyfake.Answer, Route: "/system_stats", Status: status, Body: "no"})
		r.fake.Fault(comfyfake.Fault{Kind: comfyfake.Refuse, Route: "/ws"})
		r.fake.DropSockets() // what is known counts no more
		eventually(t, "it is told", func() bool {
			a := r.get("/health")
			comfyui, _ := a.json(t)["comfyui"].(map[string]any)
			told, _ := comfyui["error"].(string)
			return a.status == http.StatusOK && comfyui["available"] == false && told != ""
		})
	}
}

// TestWaitAsText: a caller that says no in words does not wait.
func TestWaitAsText(t *testing.T) {
	r := start(t)
	r.fake.Hold()
	defer r.fake.Release()
	for body, status := range map[string]int{`{"wait": "false"}`: 200, `{"wait": "true", "timeout_seconds": 0.1}`: 504} {
		if a := r.ask("POST", runPath, body); a.status != status {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
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
