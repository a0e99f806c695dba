package routes_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/routes"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// asked starts a run with a body and returns its receipt.
func (r *rig) asked(body string) map[string]any {
	r.t.Helper()
	a := r.ask("POST", runPath, body)
	if a.status != http.StatusOK {
		r.t.Fatalf("%s: %d %s", body, a.status, a.body)
	}
	return a.json(r.t)
}

func (r *rig) shown(id string) map[string]any {
	r.t.Helper()
	return r.get("/runs/" + id).json(r.t)["run"].(map[string]any)
}

func (r *rig) ended(id, status string) map[string]any {
	r.t.Helper()
	eventually(r.t, "run "+id+" is "+status, func() bool { return r.shown(id)["status"] == status })
	return r.shown(id)
}

func pick(doc map[string]any, names ...string) map[string]any {
	out := map[string]any{}
	for _, name := range names {
		if v, ok := doc[name]; ok {
			out[name] = v
		}
	}
	return out
}

func TestHeldRuns(t *testing.T) {
	r := start(t)
	soon := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	for name, c := range map[string]struct {
		body string
		want map[string]any
	}{
		"rfc 3339":      {`{"not_before": "` + soon.Format(time.RFC3339) + `"}`, map[string]any{"wait_reason": "time", "not_before": sidecar.FormatTime(soon)}},
		"epoch seconds": {fmt.Sprintf(`{"inputs": {}, "not_before": %d.5}`, soon.Unix()), map[string]any{"wait_reason": "time", "not_before": sidecar.FormatTime(soon.Add(time.Second / 2))}},
		"approval":      {`{"needs_approval": true, "hold": true}`, map[string]any{"wait_reason": "approval", "needs_approval": true, "hold": true}},
	} {
		t.Run(name, func(t *testing.T) {
			receipt := r.asked(c.body)
			want := map[string]any{"status": "submitted", "phase": "held", "prompt_id": nil, "queue": c.want, "gallery_items": []any{}}
			if diff := cmp.Diff(want, pick(receipt, "status", "phase", "prompt_id", "queue", "gallery_items")); diff != "" {
				t.Error(diff)
			}
			if n := len(receipt["output_slots"].([]any)); n != 1 {
				t.Errorf("%d slots", n)
			}
			id := receipt["run_id"].(string)
			if diff := cmp.Diff(c.want, r.shown(id)["queue"]); diff != "" {
				t.Error(diff)
			}
			if a := r.ask("POST", "/runs/"+id+"/cancel", ""); a.status != 200 {
				t.Errorf("cancel: %d %s", a.status, a.body)
			}
			r.ended(id, "cancelled")
		})
	}
	t.Run("bad values are told before anything is stored", func(t *testing.T) {
		before := len(r.get("/runs").json(t)["runs"].([]any))
		for _, body := range []string{
			`{"hold": 1}`, `{"needs_approval": "yes"}`, `{"not_before": "tomorrow"}`, `{"not_before": true}`, `{"not_before": -1}`,
			`{"not_before": 1e13}`, `{"not_before": "NaN"}`, `{"needs_approval": true, "not_before": "0000-01-01T00:00:00+10:00"}`, `{"after": "run_1"}`, `{"after": {}}`, `{"after": {"run_id": 1}}`,
			`{"after": {"run_id": "run_none"}}`, `{"after": {"run_id": "run_none", "inputs": ["x"]}}`,
			`{"after": {"run_id": "run_none", "inputs": {"width": 1}}}`, `{"after": {"run_id": "run_none", "output": "x"}}`,
		} {
			a := r.ask("POST", runPath, body)
			if doc := a.json(t); a.status != 400 || doc["error"] != "bad_request" || doc["hint"] == nil {
				t.Errorf("%s: %d %s", body, a.status, a.body)
			}
		}
		if n := len(r.get("/runs").json(t)["runs"].([]any)); n != before {
			t.Errorf("%d runs were stored", n-before)
		}
	})
	t.Run("an input of such a name stays one", func(t *testing.T) {
		r.writeManifest(strings.Replace(pyproject, `name = "width"`, `name = "hold"`, 1))
		receipt := r.ask("POST", runPath, `{"hold": 32}`).json(t)
		if receipt["queue"] != nil {
			t.Errorf("it is held: %v", receipt)
		}
		r.ended(receipt["run_id"].(string), "completed")
		r.writeManifest(pyproject)
	})
}

func TestApproveAndReject(t *testing.T) {
	r := start(t)
	held := func() string { return r.asked(`{"needs_approval": true}`)["run_id"].(string) }
	id := held()
	for _, step := range []struct {
		session, verb string
		status        int
		code          any
	}{
		{"bert", "approve", 404, "not_found"}, {"anna", "front", 409, "run_not_waiting"},
		{"anna", "approve", 200, nil}, {"anna", "approve", 200, nil}, {"anna", "reject", 409, "run_not_waiting"},
	} {
		a := r.ask("POST", "/runs/"+id+"/"+step.verb, "", "X-ComfyGit-Studio-Session", step.session)
		if a.status != step.status || a.json(t)["error"] != step.code {
			t.Errorf("%s: %d %s", step.verb, a.status, a.body)
		}
	}
	r.ended(id, "completed")
	id = held()
	a := r.ask("POST", "/runs/"+id+"/reject", "")
	want := map[string]any{"status": "error", "outcome": "rejected", "phase": "finished", "error": "The run was not approved."}
	if diff := cmp.Diff(want, pick(a.json(t)["run"].(map[string]any), "status", "outcome", "phase", "error")); diff != "" {
		t.Error(diff)
	}
	if items := a.json(t)["gallery_items"].([]any); len(items) != 1 {
		t.Errorf("items: %v", items)
	}
}

func TestFollowUpOverHTTP(t *testing.T) {
	r := start(t)
	r.fake.Hold()
	parent := r.asked(`{}`)["run_id"].(string)
	child := r.asked(`{"after": {"run_id": "` + parent + `"}, "inputs": {"width": 32}}`)["run_id"].(string)
	want := map[string]any{"wait_reason": "parent", "after": map[string]any{"run_id": parent, "inputs": map[string]any{}}}
	if diff := cmp.Diff(want, r.shown(child)["queue"]); diff != "" {
		t.Error(diff)
	}
	r.fake.Release()
	r.ended(child, "completed")
	list := r.get("/runs/" + parent + "/children").json(t)
	if runs := list["runs"].([]any); len(runs) != 1 || runs[0].(map[string]any)["run_id"] != child || list["has_more"] != false {
		t.Errorf("children: %v", list)
	}
	if a := r.get("/runs/"+parent+"/children", "X-ComfyGit-Studio-Session", "bert"); a.status != 404 {
		t.Errorf("another's: %d", a.status)
	}
}

// TestFollowUpOfWhatDidNotComplete is told at once, and leaves a run that says
// why.
func TestFollowUpOfWhatDidNotComplete(t *testing.T) {
	r := start(t)
	for _, c := range []struct {
		name   string
		parent func() string
		says   string
	}{
		{"cancelled", func() string {
			id := r.asked(`{"needs_approval": true}`)["run_id"].(string)
			r.ask("POST", "/runs/"+id+"/cancel", "")
			return id
		}, "did not complete: it is cancelled"},
		{"rejected", func() string {
			id := r.asked(`{"needs_approval": true}`)["run_id"].(string)
			r.ask("POST", "/runs/"+id+"/reject", "")
			return id
		}, "did not complete: it is error"},
		{"follows_a_rejected_one", func() string {
			first := r.asked(`{"needs_approval": true}`)["run_id"].(string)
			r.ask("POST", "/runs/"+first+"/reject", "")
			return r.ask("POST", runPath, `{"after": {"run_id": "`+first+`"}}`).json(t)["run_id"].(string)
		}, "did not complete: it is error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			parent := c.parent()
			a := r.ask("POST", runPath, `{"after": {"run_id": "`+parent+`"}}`)
			doc := a.json(t)
			if a.status != 409 || doc["error"] != "run_rejected" || !strings.Contains(doc["message"].(string), c.says) ||
				!strings.Contains(doc["message"].(string), parent) {
				t.Fatalf("%d %s", a.status, a.body)
			}
			run := r.shown(doc["run_id"].(string))
			if run["status"] != "error" || run["outcome"] != "rejected" {
				t.Errorf("%v", run)
			}
		})
	}
	if report, err := r.store.Verify(t.Context()); err != nil || len(report.Faults) > 0 {
		t.Errorf("%+v, %v", report, err)
	}
}

func TestQueueOverHTTP(t *testing.T) {
	r := start(t)
	r.ask("POST", "/queue/pause", "")
	first, second := r.asked(`{}`)["run_id"].(string), r.asked(`{"inputs": {"seed": 3}}`)["run_id"].(string)
	held := r.asked(`{"needs_approval": true}`)["run_id"].(string)
	r.ask("POST", runPath, `{}`, "X-ComfyGit-Studio-Session", "bert")
	if a := r.ask("POST", "/runs/"+second+"/front", ""); a.json(t)["run"].(map[string]any)["queue_position"].(fmt.Stringer).String() != "0" {
		t.Errorf("front: %d %s", a.status, a.body)
	}
	list := func(doc map[string]any, name string) (ids []string) {
		for _, e := range doc["runs"].(map[string]any)[name].([]any) {
			entry := e.(map[string]any)
			ids = append(ids, fmt.Sprint(entry["run_id"], " ", entry["queue_position"], " ", entry["wait_reason"]))
		}
		return ids
	}
	q := r.get("/queue").json(t)
	if diff := cmp.Diff([]string{second + " 0 <nil>", first + " 1 <nil>"}, list(q, "waiting")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{held + " <nil> approval"}, list(q, "held")); diff != "" {
		t.Error(diff)
	}
	numbers := `map[held:1 in_flight:0 limits:map[waiting:1000 waiting_per_session:200] paused:true waiting:3 window:4]`
	for name, doc := range map[string]any{"the queue": q, "health": r.get("/health").json(t)["queue"]} {
		if got := fmt.Sprint(pick(doc.(map[string]any), "held", "in_flight", "limits", "paused", "waiting", "window")); got != numbers {
			t.Errorf("%s: %s", name, got)
		}
	}
	if q := r.ask("POST", "/queue/resume", "").json(t); q["paused"] != false {
		t.Errorf("resumed: %v", q)
	}
	r.ended(first, "completed")
	r.ended(second, "completed")
}

// TestWaitForWhatWasNotHandedOver: a time that is up names the run and what it
// waits for, where there is no prompt to name.
func TestWaitForWhatWasNotHandedOver(t *testing.T) {
	r := start(t)
	r.ask("POST", "/queue/pause", "")
	for hold, waits := range map[string]string{
		`"hold": false`: "it waits for its turn.", `"needs_approval": true`: "it waits for approval.",
		fmt.Sprintf(`"not_before": %d`, time.Now().Unix()+3600): "it waits for the time that it was told to wait for.",
	} {
		a := r.ask("POST", runPath, `{"inputs": {}, "wait": true, "timeout_seconds": 0.1, `+hold+`}`)
		doc := a.json(t)
		if want := fmt.Sprintf("Timed out waiting for run '%v', which ComfyUI does not have yet: %s", doc["run_id"], waits); a.status != 504 || doc["message"] != want {
			t.Errorf("%s: %d %s", hold, a.status, a.body)
		}
	}
	id := r.run(`{"timeout_seconds": 0.1}`)["run_id"].(string)
	if run := r.ended(id, "error"); run["error"] != "Timed out waiting for its turn; the run was not handed over." {
		t.Errorf("%v", run)
	}
}

// TestTimesThatAreNone: the hint says how to write the one that was meant.
func TestTimesThatAreNone(t *testing.T) {
	r := start(t)
	for value, hint := range map[string]string{
		`"2030-01-31T08:00:00"`: "with its zone", `"1893456000"`: "as a number", `true`: "as a number",
		`1893456000000`: "divide milliseconds by 1000", `"2999-01-01T00:00:00Z"`: "within the next hundred years",
	} {
		a := r.ask("POST", runPath, `{"inputs": {}, "not_before": `+value+`}`)
		if told, _ := a.json(t)["hint"].(string); a.status != 400 || !strings.Contains(told, hint) {
			t.Errorf("%s: %d %s", value, a.status, a.body)
		}
	}
}

func TestTooManyWait(t *testing.T) {
	r := setup{name: "demo", limits: sidecar.Limits{Waiting: 3, PerSession: 2}}.start(t, func(*routes.Options) {})
	r.ask("POST", "/queue/pause", "")
	for range 2 {
		r.asked(`{}`)
	}
	a := r.ask("POST", runPath, `{}`)
	if doc := a.json(t); a.status != 429 || doc["error"] != "queue_full" || doc["hint"] == nil || a.header.Get("Retry-After") != "5" {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
	if n := len(r.get("/runs").json(t)["runs"].([]any)); n != 2 {
		t.Errorf("%d runs are stored", n)
	}
	for who, status := range map[string]int{"bert": 200, "anna": 429} {
		if a := r.ask("POST", runPath, `{}`, "X-ComfyGit-Studio-Session", who); a.status != status {
			t.Errorf("%s: %d %s", who, a.status, a.body)
		}
	}
	if a := r.ask("POST", runPath, `{}`, "X-ComfyGit-Studio-Session", "carl"); a.status != 429 || !strings.Contains(string(a.body), "--max-waiting.") {
		t.Errorf("carl: %d %s", a.status, a.body)
	}
	r.ask("POST", "/queue/resume", "")
	eventually(t, "there is room again", func() bool { return r.ask("POST", runPath, `{}`).status == 200 })
}

// queueExchanges ask every route of the dispatcher.
func queueExchanges(r *rig, missing string) []exchange {
	run := r.run(`{"wait": true}`)["run_id"].(string)
	r.ask("POST", "/queue/pause", "")
	hold := func(body string) string { return "/runs/" + r.asked(body)["run_id"].(string) }
	run = "/runs/" + run
	return []exchange{
		{path: run + "/children", status: 200}, {path: missing + "/children", status: 404},
		{method: "POST", path: "/queue/pause", status: 200}, {path: "/queue", status: 200},
		{method: "POST", path: hold(`{}`) + "/front", status: 200}, {path: "/queue", status: 200},
		{method: "POST", path: "/queue/resume", status: 200}, {method: "POST", path: run + "/front", status: 409},
		{method: "POST", path: runPath, body: `{"inputs": {}, "hold": true, "not_before": "2999-01-01T00:00:00Z"}`, status: 400},
		{method: "POST", path: runPath, body: fmt.Sprintf(`{"inputs": {}, "not_before": %d, "after": {"run_id": %q}}`, time.Now().Unix()+3600, run[len("/runs/"):]), status: 200},
		{path: "/queue", status: 200}, {path: "/runs", status: 200},
		{method: "POST", path: hold(`{"needs_approval": true}`) + "/approve", status: 200}, {method: "POST", path: missing + "/approve", status: 404},
		{method: "POST", path: hold(`{"needs_approval": true}`) + "/reject", status: 200}, {method: "POST", path: run + "/reject", status: 409},
	}
}
