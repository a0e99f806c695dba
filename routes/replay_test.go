package routes_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/comfygit-ai/studio-sidecar/manifest"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

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

// A client that was given a session with its first answer repeats with the
// session. Its key opens the session, so that is kept in one place.
func TestLoneKeyWithItsSession(t *testing.T) {
	r := start(t)
	key := strings.Repeat("k", 16)
	const body = `{"wait": true}`
	first := r.ask("POST", runPath, body, keyName, key, "X-ComfyGit-Studio-Session", "")
	cookie, _, _ := strings.Cut(first.header.Get("Set-Cookie"), ";")
	if first.status != 200 || cookie == "" {
		t.Fatalf("%d %v", first.status, first.header)
	}
	same(t, first, r.ask("POST", runPath, body, keyName, key, "X-ComfyGit-Studio-Session", "", "Cookie", cookie))
	same(t, first, r.ask("POST", runPath, body, keyName, key, "X-ComfyGit-Studio-Session", ""))
	if a := r.ask("POST", runPath, `{}`, keyName, key, "X-ComfyGit-Studio-Session", "", "Cookie", cookie); a.status != 409 {
		t.Errorf("another request: %d %s", a.status, a.body)
	}
	if other := r.ask("POST", runPath, body, keyName, key); other.json(t)["run_id"] == first.json(t)["run_id"] || other.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("another session: %s", other.body)
	}
	if n := len(r.fake.Submissions().ByPrompt); n != 2 {
		t.Errorf("%d prompts", n)
	}
	stored, err := r.store.Command(t.Context(), "", key)
	must(t, err)
	if kept := fmt.Sprint(stored.Answer.Header); strings.Contains(kept, string(stored.Session)) {
		t.Errorf("the session is kept in the answer: %v", kept)
	}
}

// A long answer is rendered again, a call that changed nothing is made again.
func TestWhatIsNotKept(t *testing.T) {
	r := start(t)
	run := "/runs/" + r.run(`{"wait": true}`)["run_id"].(string)
	long := `"` + strings.Repeat("x", 300<<10) + `"`
	r.exec.results = func(sidecar.Job) []sidecar.Result {
		return []sidecar.Result{{
			Result: manifest.Result{Name: "image", Type: "image", NodeID: "2", Artifacts: []manifest.Artifact{{Raw: json.RawMessage(long)}}},
			Files:  []sidecar.File{{}},
		}}
	}
	first := r.ask("POST", runPath, `{"wait": true}`, keyName, "a")
	if first.status != 200 || len(first.body) < 300<<10 {
		t.Fatalf("%d, %d bytes", first.status, len(first.body))
	}
	for range 2 {
		same(t, first, r.ask("POST", runPath, `{"wait": true}`, keyName, "a"))
	}
	if runs, prompts := r.counts(); runs != 2 || prompts != 2 {
		t.Errorf("%d runs, %d prompts", runs, prompts)
	}
	for _, key := range []string{"b", "c", "d"} {
		if a := r.ask("PATCH", run, `{"pinned": false}`, keyName, key); a.status != 200 {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	kept, err := r.store.Commands(t.Context(), sidecar.CommandFilter{})
	must(t, err)
	if len(kept.Commands) != 1 || kept.Commands[0].Answer != nil {
		t.Errorf("kept: %+v", kept.Commands)
	}
}

// While a client waits for its run, what it sent is not kept in memory.
func TestBodyOfAWaiterIsLetGo(t *testing.T) {
	r := start(t)
	const size = 16 << 20
	body := `{"wait": true}` + strings.Repeat(" ", size)
	held := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	r.fake.Hold()
	defer r.fake.Release()
	before := held()
	answered := make(chan reply, 1)
	go func() { answered <- r.ask("POST", runPath, body, keyName, "k") }()
	eventually(t, "the run exists and nobody holds the turn", func() bool {
		runs, _ := r.counts()
		return runs == 1 && r.handler.Turns() == 0
	})
	eventually(t, "the body is let go", func() bool { return held()-before < size/2 })
	r.fake.Release()
	if a := <-answered; a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
	runtime.KeepAlive(body)
}
