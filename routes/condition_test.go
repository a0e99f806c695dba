package routes_test

import (
	"fmt"
	"regexp"
	"sync"
	"testing"
)

func TestRunTags(t *testing.T) {
	r := start(t)
	id := r.run(`{"wait": true}`)["run_id"].(string)
	first := r.get("/runs/" + id)
	tag := first.header.Get("ETag")
	want := fmt.Sprintf(`^"%v-[0-9a-f]{12}"$`, first.json(t)["run"].(map[string]any)["revision"])
	if !regexp.MustCompile(want).MatchString(tag) {
		t.Errorf("tag %s, want %s", tag, want)
	}
	for _, given := range []string{tag, "W/" + tag, `"x", ` + tag, "*"} {
		if a := r.get("/runs/"+id, "If-None-Match", given); a.status != 304 || len(a.body) != 0 || a.header.Get("ETag") != tag {
			t.Errorf("If-None-Match %s: %d", given, a.status)
		}
	}
	if a := r.get("/runs/"+id, "If-None-Match", `"x"`); a.status != 200 {
		t.Errorf("another tag: %d", a.status)
	}
	item := first.json(t)["gallery_items"].([]any)[0].(map[string]any)["id"].(string)
	if a := r.ask("DELETE", "/gallery/"+item, ""); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if a := r.get("/runs/"+id, "If-None-Match", tag); a.status != 200 || a.header.Get("ETag") == tag {
		t.Errorf("after a change: %d %s", a.status, a.header.Get("ETag"))
	}
}

func TestIfMatch(t *testing.T) {
	r := start(t)
	done := r.run(`{"wait": true}`)
	run := "/runs/" + done["run_id"].(string)
	item := "/gallery/" + done["gallery_items"].([]any)[0].(map[string]any)["id"].(string)
	tag := r.get(run).header.Get("ETag")

	t.Run("another_revision_is_refused_and_nothing_done", func(t *testing.T) {
		for _, given := range []string{`"0-x"`, `"99"`, `"what"`, `W/"0"`} {
			a := r.ask("DELETE", item, "", "If-Match", given, keyName, "k")
			doc := a.json(t)
			if shown, _ := doc["run"].(map[string]any); a.status != 412 || doc["error"] != "precondition_failed" || shown["revision"] == nil || doc["hint"] == nil {
				t.Errorf("If-Match %s: %d %s", given, a.status, a.body)
			}
		}
		if r.get(run).header.Get("ETag") != tag {
			t.Error("the run changed")
		}
	})
	t.Run("a_number_that_is_written_otherwise_is_another", func(t *testing.T) {
		revision := fmt.Sprint(r.get(run).json(t)["run"].(map[string]any)["revision"])
		for _, given := range []string{`"+` + revision + `"`, `"0` + revision + `"`, `" ` + revision + `"`} {
			if a := r.ask("DELETE", item, "", "If-Match", given); a.status != 412 {
				t.Fatalf("If-Match %s: %d %s", given, a.status, a.body)
			}
		}
	})
	t.Run("what_is_no_tag_is_told", func(t *testing.T) {
		if a := r.ask("DELETE", item, "", "If-Match", "7"); a.status != 400 {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
	t.Run("the_revision_before_the_state", func(t *testing.T) {
		if a := r.ask("POST", run+"/cancel", "", "If-Match", `"0"`); a.status != 412 {
			t.Errorf("another revision: %d %s", a.status, a.body)
		}
		if a := r.ask("POST", run+"/cancel", "", "If-Match", tag); a.status != 409 {
			t.Errorf("a completed run: %d %s", a.status, a.body)
		}
	})
	t.Run("the_right_one_passes_and_is_replayed", func(t *testing.T) {
		first := r.ask("DELETE", item, "", "If-Match", `"0", `+tag, keyName, "k")
		if first.status != 200 {
			t.Fatalf("%d %s", first.status, first.body)
		}
		same(t, first, r.ask("DELETE", item, "", "If-Match", `"0", `+tag, keyName, "k"))
	})
	t.Run("any", func(t *testing.T) {
		item := r.run(`{"wait": true}`)["gallery_items"].([]any)[0].(map[string]any)["id"].(string)
		if a := r.ask("DELETE", "/gallery/"+item, "", "If-Match", "*"); a.status != 200 {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
}

// What makes something new has no revision to compare with: it is not made.
func TestIfMatchOfNothing(t *testing.T) {
	r := start(t, own)
	for _, c := range [][2]string{{runPath, `{"wait": true}`}, {runPath, `{"width": 5}`}, {"/uploads/prepare", `{"filename": "a.png"}`}} {
		for _, key := range []string{"", "k"} {
			a := r.ask("POST", c[0], c[1], "If-Match", `"1"`, keyName, key)
			if doc := a.json(t); a.status != 412 || doc["error"] != "precondition_failed" || doc["hint"] == nil {
				t.Errorf("%s %s: %d %s", c[0], c[1], a.status, a.body)
			}
		}
	}
	if runs, prompts := r.counts(); runs != 0 || prompts != 0 {
		t.Errorf("%d runs, %d prompts", runs, prompts)
	}
	if kept := r.get("/commands").json(t)["commands"].([]any); len(kept) != 0 {
		t.Errorf("commands: %v", kept)
	}
}

// Of many who saw one revision, one changes it.
func TestIfMatchAtOnce(t *testing.T) {
	r := start(t)
	r.fake.Hold()
	defer r.fake.Release()
	run := "/runs/" + r.run(`{}`)["run_id"].(string)
	eventually(t, "the run begins", func() bool {
		return r.get(run).json(t)["run"].(map[string]any)["phase"] == "executing"
	})
	statuses, won := make([]int, 12), map[int]int{}
	eventually(t, "nothing else changes it meanwhile", func() bool {
		tag := r.get(run).header.Get("ETag")
		var all sync.WaitGroup
		for i := range statuses {
			all.Go(func() { statuses[i] = r.ask("POST", run+"/cancel", "", "If-Match", tag).status })
		}
		all.Wait()
		clear(won)
		for _, status := range statuses {
			won[status]++
		}
		return won[412] < len(statuses)
	})
	if won[200] != 1 || won[412] != len(statuses)-1 {
		t.Errorf("answers %v", won)
	}
}
