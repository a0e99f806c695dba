package routes_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/routes"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

const runPath = "/contracts/solid/default/run"

func TestRunAnswers(t *testing.T) {
	r := start(t)

	t.Run("completed", func(t *testing.T) {
		a := r.ask("POST", runPath, `{"wait": true, "inputs": {"width": 48, "seed": 7}}`)
		if a.status != http.StatusOK {
			t.Fatalf("status %d: %s", a.status, a.body)
		}
		golden(t, "run_completed", a.body)
	})
	t.Run("accepted", func(t *testing.T) {
		a := r.ask("POST", runPath, `{"width": 48}`)
		if a.status != http.StatusOK {
			t.Fatalf("status %d: %s", a.status, a.body)
		}
		doc := a.json(t)
		if doc["status"] != "submitted" {
			t.Errorf("status %v, want submitted", doc["status"])
		}
		doc["phase"] = ""
		slot := doc["output_slots"].([]any)[0].(map[string]any)
		item := doc["gallery_items"].([]any)[0].(map[string]any)
		got := map[string]any{
			"slot": slot["status"], "item": item["status"], "slot result": slot["rawResult"].(map[string]any)["status"],
			"item result": item["rawResult"].(map[string]any)["status"], "same id": item["id"] == "gallery_"+doc["run_id"].(string),
		}
		want := map[string]any{
			"slot": "pending", "item": "pending", "slot result": "pending", "item result": "submitted", "same id": true,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("invalid", func(t *testing.T) {
		a := r.ask("POST", runPath, `{"inputs": {"width": 5}}`)
		if a.status != http.StatusBadRequest {
			t.Fatalf("status %d", a.status)
		}
		golden(t, "run_invalid", a.body)
	})
	t.Run("numbers_keep_their_digits", func(t *testing.T) {
		a := r.ask("POST", runPath, `{"wait": true, "inputs": {"seed": 18446744073709551615}}`)
		if n := bytes.Count(a.body, []byte(`"seed":18446744073709551615`)); n != 1 {
			t.Errorf("the number stands %d times in %s", n, a.body)
		}
	})
	t.Run("shown", func(t *testing.T) {
		id := r.run(`{"wait": true}`)["run_id"].(string)
		a := r.get("/runs/" + id)
		doc := a.json(t)
		if diff := cmp.Diff([]string{"gallery_items", "output_slots", "run", "session_id", "state", "timings"}, keys(doc)); diff != "" {
			t.Error(diff)
		}
		run := doc["run"].(map[string]any)
		if run["run_id"] != id || run["status"] != "completed" || run["phase"] != "finished" || run["session_id"] != "anna" {
			t.Errorf("run %v", run)
		}
	})
}

func TestRunFailures(t *testing.T) {
	cases := []struct {
		name   string
		fault  comfyfake.Fault
		status int
		code   string
	}{
		{"rejected", comfyfake.Fault{Kind: comfyfake.Answer, Method: "POST", Route: "/prompt", Status: 400, Body: `{"error":{"type":"prompt_no_outputs","message":"no outputs"},"node_errors":{}}`}, 400, "comfyui_rejected_request"},
		{"rejected_otherwise", comfyfake.Fault{Kind: comfyfake.Answer, Method: "POST", Route: "/prompt", Status: 403, Body: `{"error":"no"}`}, 502, "comfyui_rejected_request"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := start(t)
			release := r.fake.Fault(c.fault)
			defer release()
			a := r.ask("POST", runPath, `{"wait": true}`)
			doc := a.json(t)
			if a.status != c.status || doc["error"] != c.code {
				t.Fatalf("%d %s, want %d %s: %s", a.status, doc["error"], c.status, c.code, a.body)
			}
			for _, name := range []string{"message", "run_id", "output_slots", "gallery_items"} {
				if doc[name] == nil {
					t.Errorf("no %s in %s", name, a.body)
				}
			}
			if shown := r.get("/runs/" + doc["run_id"].(string)).json(t)["run"].(map[string]any); shown["status"] != "error" {
				t.Errorf("the run is %v", shown["status"])
			}
		})
	}
}

func TestRunWithoutComfyUI(t *testing.T) {
	r := start(t)
	must(t, r.fake.Close())
	a := r.ask("POST", runPath, `{"wait": true}`)
	doc := a.json(t)
	if a.status != http.StatusBadGateway || doc["error"] != "comfyui_unavailable" || doc["comfy_url"] != comfyURL {
		t.Fatalf("%d %s", a.status, a.body)
	}
	far := r.ask("POST", runPath, `{"wait": true}`, "X-Forwarded-For", "10.0.0.1")
	for _, a := range []reply{far, r.get("/runs", "X-Forwarded-For", "10.0.0.1"), r.get("/gallery", "X-Forwarded-For", "10.0.0.1")} {
		if bytes.Contains(a.body, []byte("comfy_url")) {
			t.Errorf("a caller from elsewhere is told of ComfyUI's address: %s", a.body)
		}
	}
}

func TestRunBodies(t *testing.T) {
	r := start(t, func(o *routes.Options) { o.MaxRequestBytes = 1 << 20 })
	deep := strings.Repeat(`{"a":`, 80) + "1" + strings.Repeat("}", 80)
	cases := []struct {
		name, body, kind string
		status           int
		message          string
	}{
		{"cut_off", `{`, "", 400, "Invalid JSON body: "},
		{"two_values", `{} {}`, "", 400, "Invalid JSON body: "},
		{"given_twice", `{"wait": true, "wait": true}`, "", 400, "Invalid JSON body: "},
		{"input_given_twice", `{"inputs": {"width": 64, "width": 16}}`, "", 400, "Invalid JSON body: "},
		{"not_a_number", `{"inputs": {"width": NaN}}`, "", 400, "Invalid JSON body: "},
		{"too_deep", deep, "", 400, "Invalid JSON body: "},
		{"not_utf8", "{\"a\": \"\xff\"}", "", 400, "Invalid JSON body: "},
		{"list", `[]`, "", 400, "Request body must be a JSON object."},
		{"text", `"x"`, "", 400, "Request body must be a JSON object."},
		{"inputs_list", `{"inputs": []}`, "", 400, "'inputs' must be a JSON object."},
		{"inputs_null", `{"inputs": null}`, "", 400, "'inputs' must be a JSON object."},
		{"other_charset", `{}`, "application/json; charset=latin-1", 400, "The request body has to be UTF-8, not latin-1."},
		{"wait_number", `{"wait": 1}`, "", 400, "'wait' must be true or false."},
		{"wait_null", `{"wait": null}`, "", 400, "'wait' must be true or false."},
		{"timeout_zero", `{"timeout_seconds": 0}`, "", 400, "'timeout_seconds' must be a number of seconds above 0."},
		{"timeout_negative", `{"timeout_seconds": -1}`, "", 400, "'timeout_seconds' must be a number of seconds above 0."},
		{"timeout_infinite", `{"timeout_seconds": 1e400}`, "", 400, "'timeout_seconds' must be a number of seconds above 0."},
		{"timeout_word", `{"timeout_seconds": "inf"}`, "", 400, "'timeout_seconds' must be a number of seconds above 0."},
		{"timeout_spelt", `{"timeout_seconds": "1_0"}`, "", 400, "'timeout_seconds' must be a number of seconds above 0."},
		{"timeout_null", `{"timeout_seconds": null}`, "", 400, "'timeout_seconds' must be a number of seconds above 0."},
		{"timeout_true", `{"timeout_seconds": true}`, "", 400, "'timeout_seconds' must be a number of seconds above 0."},
		{"poll_list", `{"poll_interval_seconds": []}`, "", 400, "'poll_interval_seconds' must be a number of seconds above 0."},
		{"too_large", `{"inputs": {"x": "` + strings.Repeat("x", 1<<20) + `"}}`, "", 413, "Request body is too large. This cg serve instance accepts contract requests up to 1 MiB."},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			a := r.ask("POST", runPath, c.body, "Content-Type", c.kind)
			doc := a.json(t)
			message, _ := doc["message"].(string)
			if a.status != c.status || !strings.HasPrefix(message, c.message) {
				t.Errorf("%d %q, want %d %q", a.status, message, c.status, c.message)
			}
			if hint, _ := doc["hint"].(string); hint == "" {
				t.Errorf("no hint in %s", a.body)
			}
		})
	}
	t.Run("nothing_was_stored", func(t *testing.T) {
		if runs := r.get("/runs").json(t)["runs"].([]any); len(runs) != 0 {
			t.Errorf("%d runs", len(runs))
		}
	})
}

func TestRunBodiesThatRun(t *testing.T) {
	r := start(t)
	for name, body := range map[string]string{
		"empty": "", "null": " null ", "byte_order_mark": "\ufeff{\"width\": 64}", "controls_only": `{"wait": false, "timeout_seconds": "5", "poll_interval_seconds": 0.05}`,
		"text_flag": `{"wait": "true"}`, "large_timeout": `{"timeout_seconds": 1e300}`,
	} {
		t.Run(name, func(t *testing.T) {
			if a := r.ask("POST", runPath, body); a.status != http.StatusOK {
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
}

func TestChunkedBodyBeyondTheLimit(t *testing.T) {
	r := start(t, func(o *routes.Options) { o.MaxRequestBytes = 1 << 20 })
	req, err := http.NewRequest("POST", r.server.URL+runPath, onlyReader{strings.NewReader(strings.Repeat(" ", 2<<20))})
	must(t, err)
	if a := r.send(req); a.status != http.StatusRequestEntityTooLarge {
		t.Errorf("%d %s", a.status, a.body)
	}
}

type onlyReader struct{ r *strings.Reader }

func (o onlyReader) Read(p []byte) (int, error) { return o.r.Read(p) }

func TestUnknownContracts(t *testing.T) {
	r := start(t)
	cases := []struct{ path, show, run string }{
		{"nope/default", "Workflow 'nope' does not declare contracts.", "Workflow 'nope' is not tracked in the manifest."},
		{"bare/default", "Workflow 'bare' does not declare contracts.", "Workflow 'bare' does not declare an execution contract."},
		{"solid/nope", "Workflow 'solid' does not declare contract 'nope'.", "Workflow 'solid' does not declare contract 'nope'."},
		{"a/b/c/d", "Workflow 'a/b/c' does not declare contracts.", "Workflow 'a/b/c' is not tracked in the manifest."},
	}
	for _, c := range cases {
		t.Run(c.path, func(t *testing.T) {
			show, run := r.get("/contracts/"+c.path), r.ask("POST", "/contracts/"+c.path+"/run", "{}")
			got := []any{show.status, show.json(t)["error"], show.json(t)["message"], run.status, run.json(t)["error"], run.json(t)["message"], run.json(t)["hint"]}
			want := []any{400, "bad_request", c.show, 400, "bad_request", c.run, "Look at /contracts for what can be run."}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNamesWithSlashesAndPercent(t *testing.T) {
	r := start(t)
	for _, path := range []string{"/contracts/a%2Fb%20%25/default", "/contracts/a/b%20%25/default", "/contracts/a%2fb %25/default"} {
		path = strings.ReplaceAll(path, " ", "%20")
		if got := r.get(path).json(t)["workflow"]; got != "a/b %" {
			t.Errorf("%s shows %v", path, got)
		}
		if a := r.ask("POST", path+"/run", `{"wait": true}`); a.json(t)["status"] != "completed" {
			t.Errorf("%s/run: %s", path, a.body)
		}
	}
}

func TestEndOfTheWait(t *testing.T) {
	r := start(t)
	r.fake.Hold()
	defer r.fake.Release()
	a := r.ask("POST", runPath, `{"wait": true, "timeout_seconds": 0.2}`)
	doc := a.json(t)
	if a.status != http.StatusGatewayTimeout || doc["error"] != "timeout" {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if !strings.HasPrefix(doc["message"].(string), "Timed out waiting for ComfyUI prompt ") {
		t.Errorf("message %q", doc["message"])
	}
	id := doc["run_id"].(string)
	if status := r.get("/runs/" + id).json(t)["run"].(map[string]any)["status"]; status != "running" {
		t.Errorf("the run is %v, and not running", status)
	}
	r.fake.Release()
	eventually(t, "the run completes", func() bool {
		return r.get("/runs/" + id).json(t)["run"].(map[string]any)["status"] == "completed"
	})
}

func TestCancel(t *testing.T) {
	r := start(t)
	r.fake.Hold()
	defer r.fake.Release()

	waiting := make(chan reply, 1)
	go func() { waiting <- r.ask("POST", runPath, `{"wait": true}`) }()
	var id string
	eventually(t, "the run is running", func() bool {
		runs := r.get("/runs?active=true").json(t)["runs"].([]any)
		if len(runs) == 0 {
			return false
		}
		id = runs[0].(map[string]any)["run_id"].(string)
		return runs[0].(map[string]any)["status"] == "running"
	})

	if a := r.ask("POST", "/runs/"+id+"/cancel", "", "X-ComfyGit-Studio-Session", "other"); a.status != http.StatusNotFound {
		t.Errorf("a stranger's cancel: %d", a.status)
	}
	a := r.ask("POST", "/runs/"+id+"/cancel", `{"x": 1}`)
	doc := a.json(t)
	if a.status != 200 || doc["status"] != "cancelled" || len(doc["gallery_items"].([]any)) != 0 {
		t.Errorf("cancel: %d %s", a.status, a.body)
	}
	answer := <-waiting
	if answer.status != http.StatusConflict || answer.json(t)["error"] != "run_cancelled" || answer.json(t)["run"] == nil {
		t.Errorf("who waited got %d %s", answer.status, answer.body)
	}
	if again := r.ask("POST", "/runs/"+id+"/cancel", ""); again.status != 200 {
		t.Errorf("again: %d", again.status)
	}
	r.fake.Release()
	done := r.run(`{"wait": true}`)["run_id"].(string)
	if a := r.ask("POST", "/runs/"+done+"/cancel", ""); a.status != 409 || a.json(t)["error"] != "run_not_cancellable" || a.json(t)["run"] == nil {
		t.Errorf("cancel of a completed run: %d %s", a.status, a.body)
	}
}

// Who waits for a run hears of its cancel after who cancelled it, and the same.
func TestCancelIsAnsweredBeforeTheWait(t *testing.T) {
	r := start(t)
	r.fake.Hold()
	defer r.fake.Release()
	waiting := make(chan reply, 1)
	go func() { waiting <- r.ask("POST", runPath, `{"wait": true}`) }()
	var id string
	eventually(t, "the run is executed", func() bool {
		for _, one := range r.get("/runs?active=true").json(t)["runs"].([]any) {
			run := one.(map[string]any)
			if id = run["run_id"].(string); run["phase"] == "executing" {
				return true
			}
		}
		return false
	})
	release := r.fake.Fault(comfyfake.Fault{Kind: comfyfake.Hang, Method: "POST", Route: "/interrupt"})
	cancelled := make(chan reply, 1)
	go func() { cancelled <- r.ask("POST", "/runs/"+id+"/cancel", "") }()
	eventually(t, "the run is cancelled", func() bool {
		return r.get("/runs/" + id).json(t)["run"].(map[string]any)["status"] == "cancelled"
	})
	for range 20 { // time enough for an answer that does not wait
		r.get("/runs/" + id)
	}
	select {
	case a := <-waiting:
		t.Errorf("who waited was answered first: %d %s", a.status, a.body)
	case a := <-cancelled:
		t.Errorf("the cancel did not ask ComfyUI: %d %s", a.status, a.body)
	default:
	}
	release()
	if a := <-cancelled; a.status != http.StatusOK {
		t.Errorf("the cancel: %d %s", a.status, a.body)
	}
	if a := <-waiting; a.status != http.StatusConflict || a.json(t)["error"] != "run_cancelled" {
		t.Errorf("who waited: %d %s", a.status, a.body)
	}
}

// A client that leaves ends its wait alone.
func TestClientLeaves(t *testing.T) {
	r := start(t)
	r.fake.Hold()
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "POST", r.server.URL+runPath, strings.NewReader(`{"wait": true}`))
	must(t, err)
	req.Header.Set("X-ComfyGit-Studio-Session", "anna")
	gone := make(chan error, 1)
	go func() {
		_, err := r.server.Client().Do(req)
		gone <- err
	}()
	eventually(t, "the run exists", func() bool { return len(r.get("/runs").json(t)["runs"].([]any)) == 1 })
	leave()
	<-gone
	r.fake.Release()
	eventually(t, "the run completes", func() bool {
		return r.get("/runs").json(t)["runs"].([]any)[0].(map[string]any)["status"] == "completed"
	})
}

func TestBodyThatComesByteByByte(t *testing.T) {
	r := start(t)
	conn := r.dialRaw()
	body := `{"wait": true}`
	_, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", runPath, len(body))
	must(t, err)
	for i := range body {
		_, err := conn.Write([]byte{body[i]})
		must(t, err)
	}
	head := make([]byte, 15)
	_, err = conn.Read(head)
	must(t, err)
	if string(head) != "HTTP/1.1 200 OK" {
		t.Errorf("answer %q", head)
	}
}
