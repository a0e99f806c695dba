package routes_test

import (
	"html"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/internal/need"
	"github.com/comfygit-ai/studio-sidecar/routes"
)

const ownIndex = `<!doctype html><meta name="studio-config" content="__STUDIO_CONFIG__"><script type="module" src="__STUDIO_BASE__js/app.js"></script>`

func own(o *routes.Options) {
	o.Static = fstest.MapFS{
		"index.html": {Data: []byte(ownIndex)}, "js/app.js": {Data: []byte("import './b.js'")}, "css/a.css": {Data: []byte("a{}")},
	}
}

func TestOwnPanel(t *testing.T) {
	r := start(t, own, func(o *routes.Options) { o.PublicPrefix, o.PublicUIPrefix = "/api", "/studio" })
	a := r.get("/")
	content := regexp.MustCompile(`content="([^"]*)"`).FindSubmatch(a.body)
	want := `{"apiBase":"/api","uiBase":"/studio","environment":"demo","version":"1.2.3","authMode":"none"}`
	if content == nil || html.UnescapeString(string(content[1])) != want {
		t.Errorf("config %s", a.body)
	}
	policy := a.header.Get("Content-Security-Policy")
	for _, part := range []string{"default-src 'none'", "script-src 'self';", "frame-ancestors 'self'", "base-uri 'self'"} {
		if !strings.Contains(policy, part) {
			t.Errorf("policy %q lacks %s", policy, part)
		}
	}
	src := string(regexp.MustCompile(`src="([^"]*)"`).FindSubmatch(a.body)[1])
	if !strings.HasPrefix(src, "/studio/assets/v-") {
		t.Errorf("script at %s", src)
	}
	js := r.get(src)
	if js.status != 200 || js.header.Get("Content-Type") != "application/javascript" || !strings.Contains(js.header.Get("Cache-Control"), "immutable") {
		t.Errorf("%s: %d %v", src, js.status, js.header)
	}
	other := r.get("/studio/assets/v-0/js/app.js")
	if other.status != 200 || other.header.Get("Cache-Control") != "no-cache" {
		t.Errorf("of another version: %d %v", other.status, other.header)
	}
	if a := r.get("/assets/css/a.css?v=1"); a.status != 200 || a.header.Get("Cache-Control") != "no-cache" {
		t.Errorf("with a version in the query: %d %v", a.status, a.header)
	}
	plain := r.get("/assets/css/a.css")
	if plain.status != 200 || r.get("/assets/css/a.css", "If-None-Match", plain.header.Get("ETag")).status != http.StatusNotModified {
		t.Errorf("without a version: %d %v", plain.status, plain.header)
	}
	for _, path := range []string{"/assets/", "/assets", "/assets/js", "/assets/index.html", "/assets/../index.html", "/assets/%2e%2e/x", "/assets/js%2f..%2f..%2fx", "/assets/none.js", "/assets//js/app.js"} {
		if a := r.get(path); a.status != http.StatusNotFound {
			t.Errorf("%s: %d", path, a.status)
		}
	}
}

func TestPageForBrowsersOnly(t *testing.T) {
	r := start(t, own)
	for path, want := range map[string]int{"/": 200, "/nowhere": 200, "/a/b": 200, "/runs/": 404, "/contracts/": 404, "/health/x": 404} {
		if a := r.get(path, "Accept", "text/html,*/*"); a.status != want {
			t.Errorf("%s for a browser: %d", path, a.status)
		}
	}
	if a := r.get("/nowhere", "Accept", "application/json"); a.status != 404 || a.json(t)["error"] != "not_found" {
		t.Errorf("for a program: %d %s", a.status, a.body)
	}
	if a := r.get("/", "Accept", "application/json"); a.status != 200 {
		t.Errorf("the page itself: %d", a.status)
	}
}

// A name in the page must not end the element that it stands in.
func TestNamesInPages(t *testing.T) {
	const name = `x"><script>alert(1)</script>ö`
	foreign := t.TempDir()
	must(t, os.WriteFile(filepath.Join(foreign, "index.html"), []byte("<html><head></head></html>"), 0o644))
	for kind, change := range map[string]func(*routes.Options){"own": own, "foreign": func(o *routes.Options) { o.StaticDir = foreign }} {
		t.Run(kind, func(t *testing.T) {
			r := setup{name: strings.ReplaceAll(name, "/", "∕")}.start(t, change)
			body := string(r.get("/").body)
			if strings.Contains(body, "<script>alert") || strings.Contains(body, `x">`) {
				t.Errorf("%s", body)
			}
		})
	}
}

func TestForeignPanel(t *testing.T) {
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "assets"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "assets", "x.js"), []byte("1"), 0o644))
	for source, want := range map[string]string{
		"<html><head><title>": `<html><head><script>window.__COMFYGIT_STUDIO_CONFIG__ = {"apiBasePath": "/p", "authMode": "none", "endpointName": "demo"};</script><title>`,
		"<html></head>":       `<html><script>window.__COMFYGIT_STUDIO_CONFIG__ = {"apiBasePath": "/p", "authMode": "none", "endpointName": "demo"};</script></head>`,
		"<p>":                 `<script>window.__COMFYGIT_STUDIO_CONFIG__ = {"apiBasePath": "/p", "authMode": "none", "endpointName": "demo"};</script><p>`,
	} {
		must(t, os.WriteFile(filepath.Join(dir, "index.html"), []byte(source), 0o644))
		r := start(t, func(o *routes.Options) { o.StaticDir, o.PublicPrefix = dir, "/p" })
		if diff := cmp.Diff(want, string(r.get("/").body)); diff != "" {
			t.Error(diff)
		}
		if a := r.get("/assets/x.js"); a.status != 200 || string(a.body) != "1" {
			t.Errorf("asset: %d %s", a.status, a.body)
		}
		if a := r.get("/assets/../index.html"); a.status != 404 {
			t.Errorf("outside of assets: %d", a.status)
		}
	}
}

func TestForeignPanelEndsAtItsFolder(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "assets"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "index.html"), nil, 0o644))
	must(t, os.WriteFile(filepath.Join(dir, "inside.js"), []byte("1"), 0o644))
	must(t, os.WriteFile(filepath.Join(outside, "secret"), []byte("1"), 0o644))
	need.That(t, os.Symlink(filepath.Join(outside, "secret"), filepath.Join(dir, "assets", "out.js")) == nil, "symbolic links")
	must(t, os.Symlink(filepath.Join("..", "inside.js"), filepath.Join(dir, "assets", "in.js")))
	r := start(t, func(o *routes.Options) { o.StaticDir = dir })
	for path, want := range map[string]int{"/assets/out.js": 404, "/assets/in.js": 200} {
		if a := r.get(path); a.status != want {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
}

func TestNoPanel(t *testing.T) {
	r := start(t)
	if a := r.get("/"); a.status != 404 || !strings.Contains(string(a.body), "--static-dir") {
		t.Errorf("%d %s", a.status, a.body)
	}
}
