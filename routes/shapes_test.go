package routes_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/comfygit-ai/studio-sidecar/routes"
)

func TestRefusedRunsAnswerWithLists(t *testing.T) {
	r := start(t, func(o *routes.Options) { o.MaxRequestBytes = 1 << 20 })
	for path, body := range map[string]string{
		"/contracts/solid/default/run": "{", "/contracts/none/default/run": "{}", "/contracts/solid/none/run": "{}",
		"/contracts/bare/default/run": `{"wait": 1}`,
	} {
		doc := r.ask("POST", path, body).json(t)
		for _, list := range []string{"output_slots", "gallery_items"} {
			if items, ok := doc[list].([]any); !ok || len(items) != 0 {
				t.Errorf("%s %s: %s is %v", path, body, list, doc[list])
			}
		}
	}
	large := r.ask("POST", "/contracts/solid/default/run", `{"x": "`+string(make([]byte, 1<<20))+`"}`).json(t)
	if _, ok := large["output_slots"]; ok || large["error"] != "request_too_large" {
		t.Errorf("too large: %v", large)
	}
}

func TestFoldersOfAForeignPanelAreForbidden(t *testing.T) {
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "assets", "deep"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "index.html"), nil, 0o644))
	r := start(t, func(o *routes.Options) { o.StaticDir = dir })
	for path, want := range map[string]int{"/assets": 403, "/assets/": 403, "/assets/deep": 403, "/assets/none": 404, "/assets/none/": 404} {
		if a := r.get(path); a.status != want || a.header.Get("Content-Type") != "application/json; charset=utf-8" {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
}
