package routes_test

import (
	"fmt"
	"sync"
	"testing"
)

// What decides on a run takes a key and heeds If-Match, as every change does.
func TestDecisionsAreMadeOnce(t *testing.T) {
	r := start(t)
	held := func() (path, tag string) {
		path = "/runs/" + r.run(`{"needs_approval": true}`)["run_id"].(string)
		return path, r.get(path).header.Get("ETag")
	}
	t.Run("another_revision", func(t *testing.T) {
		path, tag := held()
		for _, what := range []string{"/approve", "/reject"} {
			if a := r.ask("POST", path+what, "", "If-Match", `"99"`); a.status != 412 || r.get(path).header.Get("ETag") != tag {
				t.Errorf("%s: %d %s", what, a.status, a.body)
			}
		}
	})
	t.Run("approve_and_reject_at_once", func(t *testing.T) {
		path, tag := held()
		statuses := make([]int, 8)
		var all sync.WaitGroup
		for i := range statuses {
			all.Go(func() {
				statuses[i] = r.ask("POST", path+[]string{"/approve", "/reject"}[i%2], "", "If-Match", tag).status
			})
		}
		all.Wait()
		won := map[int]int{}
		for _, status := range statuses {
			won[status]++
		}
		if won[200] != 1 || won[412] != len(statuses)-1 {
			t.Errorf("answers %v", won)
		}
	})
	t.Run("a_key_is_replayed", func(t *testing.T) {
		for i, what := range []string{"/approve", "/reject"} {
			path, tag := held()
			key := fmt.Sprint("k", i)
			first := r.ask("POST", path+what, "", "If-Match", tag, keyName, key)
			if first.status != 200 {
				t.Fatalf("%s: %d %s", what, first.status, first.body)
			}
			same(t, first, r.ask("POST", path+what, "", "If-Match", tag, keyName, key))
		}
	})
	t.Run("an_answer_that_was_lost", func(t *testing.T) {
		for i, what := range []string{"/approve", "/reject"} {
			path, tag := held()
			key := fmt.Sprint("l", i)
			r.mute.Store(true)
			first := r.ask("POST", path+what, "", "If-Match", tag, keyName, key)
			r.mute.Store(false)
			replay := r.ask("POST", path+what, "", "If-Match", tag, keyName, key)
			if first.status != 200 || replay.status != 200 || first.json(t)["run_id"] != replay.json(t)["run_id"] {
				t.Errorf("%s: %d %s, then %d %s", what, first.status, first.body, replay.status, replay.body)
			}
		}
	})
	t.Run("a_paused_queue", func(t *testing.T) {
		first := r.ask("POST", "/queue/pause", "", keyName, "p")
		same(t, first, r.ask("POST", "/queue/pause", "", keyName, "p"))
		r.ask("POST", "/queue/resume", "", keyName, "q")
		same(t, first, r.ask("POST", "/queue/pause", "", keyName, "p"))
		if paused := r.get("/queue").json(t)["paused"]; paused != false {
			t.Errorf("a replay paused the queue: %v", paused)
		}
	})
}
