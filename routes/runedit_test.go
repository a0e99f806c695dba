package routes_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

func TestEditRun(t *testing.T) {
	r := start(t)
	id := r.run(`{"wait": true}`)["run_id"].(string)
	path := "/runs/" + id
	patch := func(body string) reply { return r.ask("PATCH", path, body, "Content-Type", "application/json") }
	run := func(a reply) map[string]any { return a.json(t)["run"].(map[string]any) }

	t.Run("title_and_pin_are_shown_everywhere", func(t *testing.T) {
		updated := run(r.get(path))["updatedAt"]
		a := patch(`{"title": "Dünen", "pinned": true}`)
		if a.status != 200 {
			t.Fatalf("%d %s", a.status, a.body)
		}
		for where, got := range map[string]map[string]any{
			"answer": run(a), "run": run(r.get(path)), "list": r.get("/runs").json(t)["runs"].([]any)[0].(map[string]any),
		} {
			if got["title"] != "Dünen" || got["pinned"] != true || got["updatedAt"] != updated {
				t.Errorf("%s: %v", where, got)
			}
		}
	})
	t.Run("one_field_leaves_the_other", func(t *testing.T) {
		if got := run(patch(`{"pinned": false}`)); got["title"] != "Dünen" || got["pinned"] != nil {
			t.Errorf("got %v", got)
		}
	})
	t.Run("null_takes_the_title_away", func(t *testing.T) {
		if got := run(patch(`{"title": null}`)); got["title"] != nil {
			t.Errorf("got %v", got)
		}
	})
	t.Run("the_same_again_is_no_change", func(t *testing.T) {
		before := run(patch(`{"pinned": true}`))["revision"]
		if diff := cmp.Diff(before, run(patch(`{"pinned": true}`))["revision"]); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("what_is_no_edit_is_refused_and_changes_nothing", func(t *testing.T) {
		before := r.get(path).body
		for _, body := range []string{
			``, `{}`, `[]`, `{`, `{"title": 1}`, `{"pinned": null}`, `{"pinned": "true"}`, `{"colour": "red"}`, `{"title": "a", "status": "completed"}`,
			`{"title": "` + strings.Repeat("x", 201) + `"}`, `{"title": "a\nb"}`, `{"title": "\u0000"}`,
		} {
			a := patch(body)
			if hint, _ := a.json(t)["hint"].(string); a.status != 400 || hint == "" || strings.Contains(hint, "inputs") {
				t.Errorf("%s: %d %s", body, a.status, a.body)
			}
		}
		if diff := cmp.Diff(string(before), string(r.get(path).body)); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("a_long_body_is_told_its_own_limit", func(t *testing.T) {
		for name, key := range map[string]string{"without_a_key": "", "with_a_key": "k"} {
			a := r.ask("PATCH", path, `{"title": "a"}`+strings.Repeat(" ", 64<<10), keyName, key)
			if a.status != 413 || !strings.Contains(string(a.body), "64 KiB") || strings.Contains(string(a.body), "--max-request-mb") {
				t.Errorf("%s: %d %s", name, a.status, a.body)
			}
		}
		if a := r.ask("POST", path+"/cancel", strings.Repeat(" ", 64<<10+1), keyName, "k"); a.status != 413 {
			t.Errorf("cancel: %d %s", a.status, a.body)
		}
	})
	t.Run("another_revision_than_the_one_meant_is_refused", func(t *testing.T) {
		tag := r.get(path).header.Get("ETag")
		for i, want := range []int{200, 412} {
			body := fmt.Sprintf(`{"title": "title %d"}`, i)
			a := r.ask("PATCH", path, body, "Content-Type", "application/json", "If-Match", tag)
			if a.status != want || want == 200 && a.header.Get("ETag") != r.get(path).header.Get("ETag") {
				t.Errorf("%d: %d %v", i, a.status, a.header)
			}
		}
		if a := r.ask("DELETE", path, "", "If-Match", tag); a.status != 412 {
			t.Errorf("delete: %d", a.status)
		}
		if title := run(r.get(path))["title"]; title != "title 0" {
			t.Errorf("title %v", title)
		}
	})
	t.Run("of_another_session_is_not_found", func(t *testing.T) {
		if a := r.ask("PATCH", path, `{"pinned": true}`, "X-ComfyGit-Studio-Session", "other"); a.status != 404 {
			t.Errorf("%d", a.status)
		}
	})
}

func TestDeleteRun(t *testing.T) {
	r := start(t)
	stream := r.listen("/events")
	id := r.run(`{"wait": true}`)["run_id"].(string)
	t.Run("of_another_session_is_not_found", func(t *testing.T) {
		if a := r.ask("DELETE", "/runs/"+id, "", "X-ComfyGit-Studio-Session", "other"); a.status != 404 {
			t.Errorf("%d", a.status)
		}
	})
	t.Run("it_goes_with_its_items", func(t *testing.T) {
		a := r.ask("DELETE", "/runs/"+id, "", keyName, "delete-it")
		if a.status != 200 || a.json(t)["deleted"] != true || a.header.Get("Set-Cookie") == "" {
			t.Fatalf("%d %s", a.status, a.body)
		}
		same(t, a, r.ask("DELETE", "/runs/"+id, "", keyName, "delete-it"))
		if a := r.get("/runs/" + id); a.status != 404 {
			t.Errorf("then %d", a.status)
		}
		for list, name := range map[string]string{"/runs": "runs", "/gallery": "items"} {
			if rest := r.get(list).json(t)[name].([]any); len(rest) != 0 {
				t.Errorf("%s: %v", list, rest)
			}
		}
		if a := r.ask("DELETE", "/runs/"+id, ""); a.status != 404 {
			t.Errorf("again %d", a.status)
		}
	})
	t.Run("those_who_listen_are_told", func(t *testing.T) {
		for {
			m, ok := stream.next()
			if !ok {
				t.Fatal("the stream ended")
			}
			if m.Name != "run_deleted" {
				continue
			}
			var doc struct{ Targets map[string]any }
			must(t, json.Unmarshal([]byte(m.Data), &doc))
			if diff := cmp.Diff(map[string]any{"runs/" + id: nil}, doc.Targets); diff != "" {
				t.Error(diff)
			}
			return
		}
	})
}

func TestDeleteRunThatHasNotEnded(t *testing.T) {
	r := start(t)
	r.fake.Hold()
	r.fake.Fault(comfyfake.Fault{Kind: comfyfake.IgnoreInterrupt})
	defer r.fake.Release()
	id := r.running()
	refused := func(hint string) {
		t.Helper()
		a := r.ask("DELETE", "/runs/"+id, "")
		doc := a.json(t)
		if told, _ := doc["hint"].(string); a.status != 409 || doc["error"] != "run_not_finished" || !strings.Contains(told, hint) || doc["run"] == nil {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	refused("Cancel it first")
	r.ask("POST", "/runs/"+id+"/cancel", "")
	refused("'phase' is 'finished'")
	if a := r.get("/runs/" + id); a.status != 200 {
		t.Errorf("then %d", a.status)
	}
}
