package routes_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/routes"
)

func TestTable(t *testing.T) {
	names := map[string]bool{}
	for _, route := range routes.Table() {
		if names[route.Name] || route.Name == "" || !strings.HasPrefix(route.Path, "/") {
			t.Errorf("route %+v", route)
		}
		names[route.Name] = true
	}
}

// examples are one address for each path of the table.
func examples(r *rig) map[string]string {
	done := r.run(`{"wait": true}`)["run_id"].(string)
	return map[string]string{
		"/runs/{run_id}": "/runs/" + done, "/runs/{run_id}/events": "/runs/" + done + "/events",
		"/runs/{run_id}/view":    "/runs/" + done + "/view",
		"/runs/{run_id}/preview": "/runs/" + done + "/preview", "/runs/{run_id}/cancel": "/runs/" + done + "/cancel",
		"/gallery/{item_id}": "/gallery/none", "/contracts/{workflow}/{contract}": "/contracts/solid/default",
		"/contracts/{workflow}/{contract}/run": runPath, "/contracts/{path:.+}/run": "/contracts/a/b%20%25/default/run",
		"/contracts/{path:.+/.+}": "/contracts/a/b%20%25/default", "/assets/{file:.*}": "/assets/x.js",
	}
}

func TestEveryGetAnswersHead(t *testing.T) {
	r := start(t)
	at := examples(r)
	for _, route := range routes.Table() {
		if route.Method != "GET" {
			continue
		}
		path := route.Path
		if p, ok := at[path]; ok {
			path = p
		}
		head := r.ask("HEAD", path, "")
		if len(head.body) != 0 {
			t.Errorf("HEAD %s has a body", path)
		}
		if strings.HasSuffix(path, "/events") {
			if head.status != 200 || head.header.Get("Content-Type") != "text/event-stream; charset=utf-8" {
				t.Errorf("HEAD %s: %d %v", path, head.status, head.header)
			}
			continue
		}
		get := r.get(path)
		for _, name := range []string{"Date", "X-Request-Id"} {
			get.header.Del(name)
			head.header.Del(name)
		}
		if get.status != head.status {
			t.Errorf("%s: GET %d, HEAD %d", path, get.status, head.status)
		}
		if get.status == 200 {
			if diff := cmp.Diff(get.header, head.header); diff != "" && path != "/health" {
				t.Errorf("%s: headers of GET and HEAD differ: %s", path, diff)
			}
		}
	}
}

func TestWrongMethods(t *testing.T) {
	r := start(t)
	for _, c := range []struct{ method, path, allow string }{
		{"POST", "/health", "GET,HEAD"}, {"DELETE", "/gallery", "GET,HEAD"}, {"PUT", "/runs", "GET,HEAD"}, {"POST", "/nowhere", "GET,HEAD"},
		{"PATCH", "/contracts", "GET,HEAD"}, {"POST", "/", "GET,HEAD"}, {"GET", "/gallery/x", "DELETE"}, {"GET", "/runs/x/cancel", "POST"},
		{"OPTIONS", "/contracts", "GET,HEAD"}, {"TRACE", "/health", "GET,HEAD"}, {"BREW", runPath, "POST"},
	} {
		a := r.ask(c.method, c.path, "")
		if a.status != http.StatusMethodNotAllowed || a.header.Get("Allow") != c.allow {
			t.Errorf("%s %s: %d, Allow %q", c.method, c.path, a.status, a.header.Get("Allow"))
		}
	}
}

// Whatever goes wrong, the client gets JSON that says what to do.
func TestErrorsSayWhatToDo(t *testing.T) {
	r := start(t)
	ended := "/runs/" + r.run(`{"wait": true}`)["run_id"].(string)
	for _, c := range []struct{ method, path, body string }{
		{"GET", "/nowhere", ""}, {"POST", "/health", ""}, {"GET", "/contracts/x/y", ""}, {"POST", runPath, "{"},
		{"GET", "/gallery?limit=0", ""}, {"GET", "/gallery?cursor=x", ""}, {"GET", "/outputs/view", ""}, {"GET", "/outputs/view?filename=none", ""},
		{"GET", "/outputs/view?serve_artifact=x/y", ""}, {"GET", "/outputs/view?filename=x&type=temp", ""}, {"GET", "/events?after=x", ""},
		{"GET", "/assets/none", ""}, {"GET", "/runs/none/preview", ""}, {"GET", "/runs/none", ""}, {"DELETE", "/runs/none", ""}, {"PATCH", "/runs/none", `{"pinned": true}`},
		{"POST", ended + "/cancel", ""}, {"POST", ended + "/front", ""}, {"POST", ended + "/approve", ""}, {"GET", "/runs?cursor=x", ""},
		{"PATCH", ended, "[]"}, {"POST", runPath, "[]"}, {"POST", "/uploads/prepare", "[]"}, {"POST", "/studio-session", "[]"},
	} {
		a := r.ask(c.method, c.path, c.body)
		doc := a.json(t)
		for _, name := range []string{"error", "message", "hint"} {
			if s, _ := doc[name].(string); s == "" {
				t.Errorf("%s %s: no %s in %s", c.method, c.path, name, a.body)
			}
		}
		if a.header.Get("Content-Type") != "application/json; charset=utf-8" || a.header.Get("X-Request-Id") == "" {
			t.Errorf("%s %s: headers %v", c.method, c.path, a.header)
		}
	}
}
