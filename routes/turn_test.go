package routes_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite"
)

// Many at once with one key: one effect, and everybody is answered alike.
func TestKeysAtOnce(t *testing.T) {
	r := start(t)
	const commands, each = 8, 6
	answers := make([][]reply, commands)
	var all sync.WaitGroup
	for i := range commands {
		answers[i] = make([]reply, each)
		body := fmt.Sprintf(`{"width": %d, "wait": %v}`, 16+i, i%2 == 0)
		for j := range each {
			all.Go(func() { answers[i][j] = r.ask("POST", runPath, body, keyName, fmt.Sprintf("k%d", i)) })
		}
	}
	all.Wait()
	for i, list := range answers {
		first := 0
		for _, a := range list {
			if a.status != 200 || string(a.body) != string(list[0].body) {
				t.Errorf("command %d: %d %s\nand %d %s", i, list[0].status, list[0].body, a.status, a.body)
			}
			if a.header.Get("Idempotent-Replayed") == "" {
				first++
			}
		}
		if first != 1 {
			t.Errorf("command %d: %d answers are not replays", i, first)
		}
	}
	if runs, prompts := r.counts(); runs != commands || prompts != commands {
		t.Errorf("%d runs and %d prompts for %d commands", runs, prompts, commands)
	}
	eventually(t, "nobody waits for a turn any more", func() bool { return r.handler.Turns() == 0 })
}

// While one client waits for a run, another one with its key waits as well, and
// who leaves is not answered for ever.
func TestReplayBesideTheFirst(t *testing.T) {
	r := start(t)
	r.fake.Hold()
	defer r.fake.Release()
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "POST", r.server.URL+runPath, strings.NewReader(`{"wait": true}`))
	must(t, err)
	req.Header.Set("X-ComfyGit-Studio-Session", "anna")
	req.Header.Set(keyName, "k")
	gone := make(chan error, 1)
	go func() {
		_, err := r.server.Client().Do(req)
		gone <- err
	}()
	eventually(t, "the run exists and nobody holds the turn", func() bool {
		runs, _ := r.counts()
		return runs == 1 && r.handler.Turns() == 0
	})
	second := make(chan reply, 1)
	go func() { second <- r.ask("POST", runPath, `{"wait": true}`, keyName, "k") }()
	leave()
	<-gone
	r.fake.Release()
	if a := <-second; a.status != 200 || a.json(t)["status"] != "completed" {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := r.ask("POST", runPath, `{"wait": true}`, keyName, "k"); a.status != 200 || a.json(t)["status"] != "completed" {
		t.Errorf("a third: %d %s", a.status, a.body)
	}
	if runs, prompts := r.counts(); runs != 1 || prompts != 1 {
		t.Errorf("%d runs, %d prompts", runs, prompts)
	}
}

// TestStopBesideTheFirst: who waits for another request with its key when the
// server stops is told that, and not that something went wrong.
func TestStopBesideTheFirst(t *testing.T) {
	r := start(t)
	writing, write := make(chan struct{}), make(chan struct{})
	held := make(chan error, 1)
	go func() {
		held <- r.store.Do(context.Background(), func(*sqlite.Tx) error {
			close(writing)
			<-write
			return nil
		})
	}()
	<-writing
	first := make(chan reply, 1)
	go func() { first <- r.ask("POST", runPath, "{}", keyName, "k") }()
	eventually(t, "the first has the turn", func() bool { return r.handler.Turns() == 1 })
	ctx, stop := context.WithCancel(t.Context())
	stop()
	req := httptest.NewRequestWithContext(ctx, "POST", runPath, strings.NewReader("{}"))
	req.Host, req.RemoteAddr = "localhost", "127.0.0.1:5"
	for name, value := range map[string]string{"X-ComfyGit-Studio-Session": "anna", "Content-Type": "application/json", keyName: "k"} {
		req.Header.Set(name, value)
	}
	second := httptest.NewRecorder()
	r.handler.ServeHTTP(second, req)
	if body := second.Body.String(); second.Code != http.StatusGatewayTimeout || !strings.Contains(body, "The server stops.") {
		t.Errorf("the second: %d %s", second.Code, body)
	}
	close(write)
	must(t, <-held)
	if a := <-first; a.status != 200 {
		t.Errorf("the first: %d %s", a.status, a.body)
	}
}
