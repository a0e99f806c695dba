package routes_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRunView(t *testing.T) {
	r := start(t)
	id := r.run(`{"wait": true, "width": 48}`)["run_id"].(string)
	eventually(t, "the run is finished", func() bool {
		return r.get("/runs/" + id + "/view").json(t)["run"].(map[string]any)["phase"] == "finished"
	})
	a := r.get("/runs/" + id + "/view")
	doc := a.json(t)

	t.Run("its parts are those of the run", func(t *testing.T) {
		shown := r.get("/runs/" + id).json(t)
		for _, name := range []string{"run", "output_slots", "gallery_items", "state", "session_id"} {
			if diff := cmp.Diff(shown[name], doc[name]); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
		if doc["live"] != false || doc["possibly_interrupted"] != false || doc["parent"] != nil || len(doc["children"].([]any)) != 0 {
			t.Errorf("%s", a.body)
		}
	})
	t.Run("the nodes say who made the files", func(t *testing.T) {
		files := map[string]any{}
		for _, n := range doc["nodes"].([]any) {
			n := n.(map[string]any)
			files[n["node"].(string)] = n["files"]
			if n["files"] != nil && n["bytes"] == nil {
				t.Errorf("the size of the file of node %v is not known", n["node"])
			}
		}
		if diff := cmp.Diff(map[string]any{"1": nil, "2": json.Number("1"), "3": nil}, files); diff != "" {
			t.Error(diff)
		}
		totals := doc["totals"].(map[string]any)
		if totals["nodes"] != json.Number("3") || totals["files"] != json.Number("1") || totals["bytes"] == json.Number("0") {
			t.Errorf("totals %v", totals)
		}
	})
	t.Run("the transitions lead from its beginning to its end", func(t *testing.T) {
		taken := doc["transitions"].([]any)
		at := ""
		for _, step := range taken {
			step := step.(map[string]any)
			if from, _ := step["from"].(string); from != at {
				t.Errorf("from %q after %q", from, at)
			}
			at = step["to"].(string)
		}
		last := taken[len(taken)-1].(map[string]any)
		if at != "finished" || last["revision"] != doc["revision"] || last["seq"] != doc["next"] || last["status"] != "completed" {
			t.Errorf("%v", taken)
		}
	})
	t.Run("times add up", func(t *testing.T) {
		timings := doc["timings"].(map[string]any)
		var times [3]time.Time
		for i, name := range []string{"acceptedAt", "startedAt", "finishedAt"} {
			var err error
			times[i], err = time.Parse(time.RFC3339, timings[name].(string))
			must(t, err)
		}
		waited, _ := timings["waitedSeconds"].(json.Number).Float64()
		executed, _ := timings["executedSeconds"].(json.Number).Float64()
		if waited != times[1].Sub(times[0]).Seconds() || executed != times[2].Sub(times[1]).Seconds() {
			t.Errorf("%v", timings)
		}
	})
	t.Run("documents come when asked for", func(t *testing.T) {
		if doc["graph"] != nil || doc["contract"] != nil || doc["graph_digest"] == nil || doc["contract_digest"] == nil {
			t.Errorf("%s", a.body)
		}
		with := r.get("/runs/" + id + "/view?include=contract,graph").json(t)
		if with["contract"].(map[string]any)["contract"] != "default" {
			t.Errorf("contract %v", with["contract"])
		}
		width := with["graph"].(map[string]any)["1"].(map[string]any)["inputs"].(map[string]any)["width"]
		if width != json.Number("48") {
			t.Errorf("graph %v", with["graph"])
		}
		if a := r.get("/runs/" + id + "/view?include=secrets"); a.status != http.StatusBadRequest {
			t.Errorf("another document: %d", a.status)
		}
	})
	t.Run("its tag begins with the revision", func(t *testing.T) {
		tag := a.header.Get("ETag")
		if !strings.HasPrefix(tag, `"`+string(doc["revision"].(json.Number))+"-") {
			t.Errorf("ETag %s of revision %v", tag, doc["revision"])
		}
		if a := r.get("/runs/"+id+"/view", "If-None-Match", tag); a.status != http.StatusNotModified {
			t.Errorf("unchanged: %d", a.status)
		}
	})
	t.Run("others do not see it", func(t *testing.T) {
		if a := r.get("/runs/"+id+"/view", "X-ComfyGit-Studio-Session", "bert"); a.status != http.StatusNotFound {
			t.Errorf("a stranger: %d", a.status)
		}
	})
}

func TestLiveRunView(t *testing.T) {
	r := start(t)
	r.fake.Hold()
	defer r.fake.Release()
	id := r.run(`{}`)["run_id"].(string)
	doc := r.get("/runs/" + id + "/view").json(t)
	if doc["live"] != true || doc["possibly_interrupted"] != false {
		t.Errorf("live %v, possibly_interrupted %v", doc["live"], doc["possibly_interrupted"])
	}
}

func TestRunFilters(t *testing.T) {
	r := start(t)
	first := r.run(`{"wait": true}`)["run_id"].(string)
	other := r.ask("POST", "/contracts/a/b%20%25/default/run", `{"wait": true}`).json(t)["run_id"].(string)
	r.ask("POST", "/contracts/solid/default/run", `{"width": "wide"}`)
	lists := func(query string) []string {
		t.Helper()
		a := r.get("/runs?" + query)
		if a.status != http.StatusOK {
			t.Fatalf("%s: %d %s", query, a.status, a.body)
		}
		var ids []string
		for _, run := range a.json(t)["runs"].([]any) {
			ids = append(ids, run.(map[string]any)["run_id"].(string))
		}
		return ids
	}
	born := r.get("/runs/" + first).json(t)["run"].(map[string]any)["createdAt"].(string)
	for query, want := range map[string][]string{
		"status=completed": {other, first}, "workflow=solid&status=completed": {first}, "workflow=a%2Fb+%25": {other},
		"workflow=solid&contract=preview": nil, "until=" + url.QueryEscape(born): nil, "parent=" + first: nil,
		"status=completed&root_only=1&since=" + url.QueryEscape(born): {other, first}, "status=running": nil,
	} {
		if diff := cmp.Diff(want, lists(query)); diff != "" {
			t.Errorf("%s: %s", query, diff)
		}
	}
	t.Run("pages go on where they ended", func(t *testing.T) {
		a := r.get("/runs?status=completed&limit=1").json(t)
		next := r.get("/runs?status=completed&limit=1&until=2100-01-01T00:00:00Z&cursor=" + a["next_cursor"].(string)).json(t)["runs"].([]any)
		if len(next) != 1 || next[0].(map[string]any)["run_id"] != first {
			t.Errorf("%v", next)
		}
	})
	t.Run("metrics and counts come when asked for", func(t *testing.T) {
		plain := r.get("/runs").json(t)
		if plain["counts"] != nil || plain["runs"].([]any)[0].(map[string]any)["metrics"] != nil {
			t.Errorf("%v", plain)
		}
		doc := r.get("/runs?metrics=1&counts=1").json(t)
		want := map[string]any{
			"submitted": json.Number("0"), "running": json.Number("0"), "completed": json.Number("2"),
			"error": json.Number("1"), "cancelled": json.Number("0"), "total": json.Number("3"),
		}
		if diff := cmp.Diff(want, doc["counts"]); diff != "" {
			t.Error(diff)
		}
		for _, run := range doc["runs"].([]any) {
			run := run.(map[string]any)
			view := r.get("/runs/" + run["run_id"].(string) + "/view").json(t)
			if diff := cmp.Diff(view["totals"], run["metrics"]); diff != "" {
				t.Errorf("of run %v: %s", run["run_id"], diff)
			}
		}
	})
	t.Run("nonsense is refused", func(t *testing.T) {
		for _, query := range []string{"status=done", "contract=default", "since=yesterday", "until=1"} {
			if a := r.get("/runs?" + query); a.status != http.StatusBadRequest || a.json(t)["hint"] == nil {
				t.Errorf("%s: %d %s", query, a.status, a.body)
			}
		}
	})
}

func TestEventList(t *testing.T) {
	r := start(t)
	id := r.run(`{"wait": true}`)["run_id"].(string)
	address := "/runs/" + id + "/events"
	whole := r.get(address, "Accept", "application/json").json(t)
	list := whole["events"].([]any)
	if list[0].(map[string]any)["type"] != "run_started" || whole["head"] != whole["next"] || whole["reset"] != nil {
		t.Fatalf("%v", whole)
	}
	t.Run("goes on behind a number", func(t *testing.T) {
		third := list[2].(map[string]any)["seq"].(json.Number)
		rest := r.get(address + "?format=json&after=" + string(third)).json(t)["events"].([]any)
		if diff := cmp.Diff(list[3:], rest); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("of the session", func(t *testing.T) {
		all := r.get("/events?format=json").json(t)
		if len(all["events"].([]any)) < len(list) || all["retained_from"] != json.Number("1") {
			t.Errorf("%v", all)
		}
	})
	t.Run("an unknown number is told", func(t *testing.T) {
		far := r.get(address + "?format=json&after=999999").json(t)
		if far["reset"] != "unknown" || len(far["events"].([]any)) != 0 || far["next"] != far["head"] {
			t.Errorf("%v", far)
		}
	})
	t.Run("trimmed events are told", func(t *testing.T) {
		r.trimmed.Store(true)
		defer r.trimmed.Store(false)
		if gone := r.get(address + "?format=json&after=1").json(t); gone["reset"] != "trimmed" {
			t.Errorf("%v", gone)
		}
	})
}
