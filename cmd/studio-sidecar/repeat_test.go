package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

// forgetful is a proxy that lets every request with a key reach the sidecar
// and loses the answer of each the first time.
type forgetful struct {
	*httptest.Server

	mu   sync.Mutex
	seen map[string]int // requests by their keys
}

func openForgetful(t *testing.T, to string) *forgetful {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	f := &forgetful{seen: map[string]int{}}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.FlushInterval = -1
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if key := r.Header.Get(keyHeader); key != "" && f.count(key) == 1 {
			proxy.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler) // cuts the connection
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

func (f *forgetful) count(key string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen[key]++
	return f.seen[key]
}

// keys tells how many there were, and whether each came twice at least.
func (f *forgetful) keys() (n int, repeated bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	repeated = true
	for _, times := range f.seen {
		repeated = repeated && times > 1
	}
	return len(f.seen), repeated
}

// TestRunRepeats: the command line sends again what was not answered, and it
// is done once.
func TestRunRepeats(t *testing.T) {
	fake, comfy := startFake(t, comfyfake.Options{})
	dir := t.TempDir()
	env, err := layDemo(dir)
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, env.Dir, comfy)
	way := openForgetful(t, p.url)
	r := &remote{base: way.URL, session: "me"}
	file := filepath.Join(dir, "photo.txt")
	if err := os.WriteFile(file, []byte("not much of a photo"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := r.upload(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	inputs := map[string]json.RawMessage{"steps": json.RawMessage("1"), "width": json.RawMessage("64"), "height": json.RawMessage("64")}
	launched, err := r.launch(t.Context(), "painting", "default", inputs)
	id := launched.ID
	if err != nil || id == "" {
		t.Fatal(id, err)
	}
	if end, err := r.follow(t.Context(), id, func(progressEvent) {}); err != nil || end.Status != "completed" {
		t.Fatal(end, err)
	}
	var runs struct{ Runs []any }
	p.must("GET", "/runs", "").decode(t, &runs)
	if n := len(fake.Submissions().ByPrompt); len(runs.Runs) != 1 || n != 1 {
		t.Errorf("%d runs, %d prompts", len(runs.Runs), n)
	}
	if n, repeated := way.keys(); n != 2 || !repeated {
		t.Errorf("%d keys, each repeated: %v", n, repeated)
	}
}

// repeatsUnanswered: the panel does so too, and nobody notices.
func repeatsUnanswered(t *testing.T, browser context.Context) {
	s := startStage(t)
	way := openForgetful(t, s.url)
	p := openTab(t, browser, way.URL, "/", 1400, 900, "/run", "/cancel", "/gallery/")
	p.ready()
	p.runSmall()
	p.finished()
	if n := len(s.prompts()); n != 1 {
		t.Errorf("%d prompts", n)
	}
	if n, repeated := way.keys(); n != 1 || !repeated {
		t.Errorf("%d keys, each repeated: %v", n, repeated)
	}
	p.until("no fault is told", `document.querySelector(".note.is-bad").hidden`)
}
