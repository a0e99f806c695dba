//go:build unix

package routes_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// hold locks the environment as a program that changes it does.
func (r *rig) hold(owner string) (release func()) {
	r.t.Helper()
	file, err := os.OpenFile(filepath.Join(r.env, ".comfygit.lock"), os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o644)
	must(r.t, err)
	must(r.t, syscall.Flock(int(file.Fd()), syscall.LOCK_EX))
	_, err = file.WriteString(owner)
	must(r.t, err)
	return func() { must(r.t, file.Close()) }
}

func TestEnvironmentBusy(t *testing.T) {
	r := start(t)
	d := describe(t, r)
	release := r.hold(`{"pid": 4711, "operation": "sync", "acquired_at": "2026-01-02T03:04:05Z"}`)
	for _, c := range [][2]string{{"GET", "/contracts"}, {"GET", "/contracts/solid/default"}, {"POST", runPath}} {
		a := r.ask(c[0], c[1], map[string]string{"POST": "{}"}[c[0]], "X-Request-ID", "my-request", "Content-Type", "application/json")
		if a.status != 503 || a.header.Get("Retry-After") != "1" || a.header.Get("X-Request-ID") != "my-request" {
			t.Errorf("%v: %d %v", c, a.status, a.header)
		}
		doc := a.json(t)
		for _, text := range []string{"message", "hint"} {
			if doc[text] == "" {
				t.Errorf("%v: no %s", c, text)
			}
			delete(doc, text)
		}
		want := map[string]any{
			"error": "environment_busy", "retryable": true, "request_id": "my-request",
			"owner": map[string]any{"pid": json.Number("4711"), "operation": "sync", "acquired_at": "2026-01-02T03:04:05Z"},
		}
		if diff := cmp.Diff(want, doc); diff != "" {
			t.Errorf("%v: %s", c, diff)
		}
		d.check(c[0], c[1], "{}", a, "Content-Type", "application/json")
	}
	for _, path := range []string{"/health", "/runs", "/gallery", "/openapi.json", "/livez"} {
		if a := r.get(path); a.status != 200 {
			t.Errorf("%s: %d", path, a.status)
		}
	}
	if n := len(r.get("/runs").json(t)["runs"].([]any)); n != 0 {
		t.Errorf("%d runs were stored", n)
	}
	release()
	if a := r.ask("POST", runPath, `{"wait": true}`); a.status != 200 {
		t.Errorf("afterwards: %d %s", a.status, a.body)
	}
}
