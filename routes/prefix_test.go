package routes_test

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/comfygit-ai/studio-sidecar/routes"
)

const (
	apiPrefix = "/api/v2/comfygit/studio/runtime"
	uiPrefix  = "/api/v2/comfygit/studio/ui"
)

func mounted(o *routes.Options) {
	own(o)
	o.PublicPrefix, o.PublicUIPrefix, o.LaunchSecret = apiPrefix, uiPrefix, "s3cret"
}

// bare finds addresses of ours in any text, JSON escapes included.
var bare = regexp.MustCompile(`(.{0,60})(/outputs/view|/uploads/|/assets/|/studio-session|/runs/|/contracts/)`)

// unprefixed lists the addresses in an answer that lack the public prefix.
// Messages speak of routes by their names, and the description has its own way
// to say where its paths are.
func unprefixed(a reply) []string {
	body := string(a.body)
	body = regexp.MustCompile(`"(message|hint)":"(\\.|[^"\\])*"`).ReplaceAllString(body, `""`)
	var out []string
	for _, text := range []string{body, a.header.Get("Location"), a.header.Get("Content-Location"), a.header.Get("Link")} {
		for _, m := range bare.FindAllStringSubmatch(text, -1) {
			if !strings.HasSuffix(m[1], apiPrefix) && !strings.HasSuffix(m[1], uiPrefix) {
				out = append(out, m[0])
			}
		}
	}
	for _, cookie := range (&http.Response{Header: a.header}).Cookies() {
		if cookie.Path != apiPrefix && cookie.Path != uiPrefix {
			out = append(out, "cookie at "+cookie.Path)
		}
	}
	return out
}

// way is how a browser's request reaches the server.
type way struct {
	strip   bool
	headers []string
}

var ways = map[string]way{
	"as_it_is": {}, "stripped": {strip: true},
	"plugin": {strip: true, headers: []string{routes.LaunchSecretHeader, "s3cret", "X-Forwarded-Host", "lan-box:8188", "X-Forwarded-Proto", "http", "X-Forwarded-Prefix", apiPrefix}},
	"plugin_behind_a_proxy": {headers: []string{
		routes.LaunchSecretHeader, "s3cret", "X-Forwarded-For", "203.0.113.9, 10.0.0.1", "X-Forwarded-Host", "studio.example, studio.example", "X-Forwarded-Proto", "https, https",
	}},
}

// follow asks each address that an answer gives, and reports those that lack
// the prefix or lead nowhere.
func follow(t *testing.T, r *rig, w way) {
	t.Helper()
	send := func(method, path, body string) reply {
		if w.strip {
			path = strings.TrimPrefix(strings.TrimPrefix(path, apiPrefix), uiPrefix)
		}
		return r.ask(method, path, body, append([]string{"Content-Type", "application/json"}, w.headers...)...)
	}
	seen, queue := map[string]bool{}, []string{apiPrefix + "/runs", apiPrefix + "/gallery", apiPrefix + "/contracts", apiPrefix + "/health", uiPrefix + "/"}
	look := func(name string, a reply) {
		for _, address := range unprefixed(a) {
			t.Errorf("%s → %d gives %s", name, a.status, address)
		}
		for _, m := range regexp.MustCompile(`(?:`+apiPrefix+`|`+uiPrefix+`)/[^"\\<>\s]*`).FindAllString(string(a.body), -1) {
			queue = append(queue, strings.ReplaceAll(m, "&amp;", "&"))
		}
	}
	id := send("POST", apiPrefix+runPath, `{"wait": true}`).json(t)["run_id"].(string)
	look("preview run", send("POST", apiPrefix+"/contracts/solid/preview/run", `{"wait": true}`))
	for _, c := range [][3]string{
		{"POST", runPath, `{"wait": true}`}, {"POST", runPath, `{}`}, {"POST", runPath, `{"inputs": {"width": "x"}}`}, {"POST", "/uploads/prepare", `{"filename": "a.png"}`},
		{"GET", "/runs/" + id, ""}, {"POST", "/runs/" + id + "/cancel", ""}, {"DELETE", "/gallery/none", ""}, {"GET", "/nowhere", ""}, {"GET", "/studio-session", ""},
		{"POST", "/studio-session", `{"passcode": "x"}`}, {"DELETE", "/studio-session", ""}, {"GET", "/outputs/view?filename=none", ""},
	} {
		look(c[0]+" "+c[1], send(c[0], apiPrefix+c[1], c[2]))
	}
	for len(queue) > 0 {
		path := queue[0]
		queue = queue[1:]
		if seen[path] {
			continue
		}
		seen[path] = true
		a := send("GET", path, "")
		if a.status != 200 && !strings.Contains(path, "/uploads/") && !strings.HasSuffix(path, "/assets/v-") {
			t.Errorf("%s: %d %.200s", path, a.status, a.body)
		}
		if strings.Contains(a.header.Get("Content-Type"), "json") || strings.Contains(a.header.Get("Content-Type"), "html") {
			look(path, a)
		}
	}
	if len(seen) < 8 {
		t.Errorf("only %d addresses were found", len(seen))
	}
}

func TestAddressesThroughEveryWay(t *testing.T) {
	for name, w := range ways {
		t.Run(name, func(t *testing.T) { follow(t, start(t, mounted), w) })
	}
	t.Run("failed_runs", func(t *testing.T) {
		r := start(t, mounted)
		must(t, r.fake.Close())
		for _, path := range []string{runPath, "/contracts/solid/preview/run"} {
			for _, address := range unprefixed(r.ask("POST", path, `{"wait": true}`)) {
				t.Error(address)
			}
		}
	})
	t.Run("foreign_panel", func(t *testing.T) {
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, "index.html"), []byte("<html><head>"), 0o644))
		r := start(t, mounted, func(o *routes.Options) { o.StaticDir = dir })
		if a := r.get("/"); !strings.Contains(string(a.body), `"apiBasePath": "`+apiPrefix+`"`) {
			t.Errorf("%s", a.body)
		}
	})
	t.Run("description", func(t *testing.T) {
		if doc := start(t, mounted).get("/openapi.json").json(t); doc["servers"].([]any)[0].(map[string]any)["url"] != apiPrefix {
			t.Errorf("servers %v", doc["servers"])
		}
	})
}

// A stream tells no address that lacks the prefix.
func TestStreamsCarryThePrefix(t *testing.T) {
	r := start(t, mounted)
	stream := r.listen(apiPrefix + "/events")
	r.ask("POST", "/contracts/solid/preview/run", `{}`)
	for _, m := range stream.until("run_completed") {
		for _, address := range unprefixed(reply{body: []byte(m.Data)}) {
			t.Errorf("%s gives %s", m.Name, address)
		}
	}
}

func TestForeignHosts(t *testing.T) {
	r := start(t, func(o *routes.Options) { o.PublicHosts = []string{"studio.example"} })
	for _, host := range []string{
		"evil.example", "evil.example:8190", "studio.example.evil.example", "evil-studio.example", "xstudio.example", "studio.example.", "127.0.0.1.nip.io",
		"localhost.evil.example", "localhost.", "192.168.0.1", "192.168.0.1:8190", "10.0.0.1", "169.254.169.254", "[fe80::1]:80", "[2001:db8::1]", "0.0.0.0",
		"2130706433", "0x7f000001", "rebind.network", "metadata.google.internal",
	} {
		for _, c := range [][2]string{{"GET", "/runs"}, {"POST", runPath}, {"DELETE", "/gallery/x"}, {"HEAD", "/events"}, {"GET", "/openapi.json"}, {"POST", "/studio-session"}} {
			if a := r.ask(c[0], c[1], "", "Host", host); a.status != http.StatusMisdirectedRequest {
				t.Errorf("%s %s at %s: %d", c[0], c[1], host, a.status)
			}
		}
	}
}

// No page of another site, and none without an origin, reaches any route in a
// way that changes or keeps open something.
func TestNoRouteIsForOtherSites(t *testing.T) {
	r := start(t)
	at := examples(r)
	for _, route := range routes.Table() {
		path := route.Path
		if p, ok := at[path]; ok {
			path = p
		}
		path = strings.NewReplacer("{upload_id}", "none").Replace(path)
		if a := r.ask(route.Method, path, "", "Origin", "null"); a.status != http.StatusForbidden {
			t.Errorf("%s %s from null: %d", route.Method, path, a.status)
		}
		if route.Method == "GET" && !strings.HasSuffix(path, "/events") {
			continue
		}
		for name, headers := range map[string][]string{
			"another site": {"Origin", "http://evil.example"}, "a cross-site page": {"Sec-Fetch-Site", "cross-site"}, "another port": {"Origin", "http://127.0.0.1:1"},
		} {
			if a := r.ask(route.Method, path, "", headers...); a.status != http.StatusForbidden {
				t.Errorf("%s %s from %s: %d", route.Method, path, name, a.status)
			}
		}
	}
	// A page of ours that hides where it is from is still ours.
	if a := r.ask("POST", "/runs/none/cancel", "", "Origin", "null", "Sec-Fetch-Site", "same-origin"); a.status != http.StatusNotFound {
		t.Errorf("our own page: %d", a.status)
	}
}

// A page that a ComfyUI shows on a plain-http address of the local network:
// its browser sends neither Sec-Fetch-Site nor a name that this server knows.
func TestLocalNetworkThroughThePlugin(t *testing.T) {
	r := start(t, mounted)
	hop := []string{"Host", "127.0.0.1:8190", "X-Forwarded-Host", "192.168.1.20:8188", "X-Forwarded-Proto", "http", "X-Forwarded-For", "192.168.1.77", "Origin", "http://192.168.1.20:8188", routes.LaunchSecretHeader, "s3cret"}
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{"GET", apiPrefix + "/contracts", "", 200}, {"POST", apiPrefix + runPath, `{}`, 200}, {"DELETE", apiPrefix + "/gallery/none", "", 404},
		{"HEAD", apiPrefix + "/events", "", 200}, {"GET", uiPrefix + "/", "", 200},
	} {
		if a := r.ask(c.method, c.path, c.body, hop...); a.status != c.status {
			t.Errorf("%s %s: %d %.200s", c.method, c.path, a.status, a.body)
		}
	}
}
