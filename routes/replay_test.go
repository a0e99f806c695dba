package routes_test

import "testing"

// What was done once, and not answered, is not done again after something else
// happened: the answer is the run as it now is.
func TestReplayDoesNothingTwice(t *testing.T) {
	r := start(t)
	run := "/runs/" + r.run(`{"wait": true}`)["run_id"].(string)
	r.mute.Store(true)
	first := r.ask("PATCH", run, `{"title": "first"}`, keyName, "k")
	r.mute.Store(false)
	if first.status != 200 {
		t.Fatalf("%d %s", first.status, first.body)
	}
	if a := r.ask("PATCH", run, `{"title": "second"}`); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	tag := r.get(run).header.Get("ETag")
	replay := r.ask("PATCH", run, `{"title": "first"}`, keyName, "k")
	shown, _ := replay.json(t)["run"].(map[string]any)
	if replay.status != 200 || replay.header.Get("Idempotent-Replayed") != "true" || shown["title"] != "second" {
		t.Errorf("%d %s", replay.status, replay.body)
	}
	if r.get(run).header.Get("ETag") != tag {
		t.Error("the run changed")
	}
}
