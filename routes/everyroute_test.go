package routes_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/comfygit-ai/studio-sidecar/routes"
)

// served is a server in a role with the routes that it mounts.
type served struct {
	*rig
	routes []routes.Route
}

// everyRole starts a server in each role.
func everyRole(t *testing.T) map[string]served {
	return map[string]served{
		"studio": {start(t), append(routes.Table(), routes.Route{Method: "POST", Path: "/worker-callback/runs/{run_id}"})},
		"worker": {start(t, func(o *routes.Options) { o.Role = routes.RoleProxy }), workerRoutes()},
	}
}

// workerRoutes are those of a worker that asks for no token: with one it
// answers to every name, since a page elsewhere does not know it.
func workerRoutes() []routes.Route {
	return slices.DeleteFunc(routes.ProxyTable(), func(r routes.Route) bool { return !strings.HasPrefix(r.Path, "/proxy/") })
}

var variable = regexp.MustCompile(`\{[^}]*\}`)

// direct asks the handler itself, so that nothing on the way changes the path.
func (r *rig) direct(method, path string, headers ...string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(method, "http://127.0.0.1"+path, http.NoBody)
	req.RemoteAddr = "127.0.0.1:4000"
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
			continue
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	r.handler.ServeHTTP(w, req)
	return w
}

func TestForeignHostsOnEveryRoute(t *testing.T) {
	hosts := []string{
		"evil.example", "evil.example:8190", "127.0.0.1.evil.example", "localhost.evil.example", "evil.example.", "localhostx", "xlocalhost",
		"127.0.0.1.", "0.0.0.0", "192.168.0.7", "10.1.2.3:80", "169.254.169.254", "[fe80::1]", "[::2]:80", "[::ffff:10.0.0.1]", "2130706433",
		"0x7f.1", "127.1", "metadata.internal", "xn--lcalhost-54a", "a_b", "user@localhost",
	}
	asked := 0
	for role, s := range everyRole(t) {
		for _, route := range s.routes {
			for _, host := range hosts {
				asked++
				if w := s.direct(route.Method, variable.ReplaceAllString(route.Path, "x"), "Host", host); w.Code != http.StatusMisdirectedRequest {
					t.Errorf("%s: %s %s for the host %s: %d", role, route.Method, route.Path, host, w.Code)
				}
			}
		}
	}
	t.Logf("%d requests", asked)
}

func TestForeignSitesOnEveryRoute(t *testing.T) {
	sites := [][]string{
		{"Origin", "http://evil.example"}, {"Origin", "https://127.0.0.1.evil.example"}, {"Origin", "http://localhost:1"},
		{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "null"},
		{"Origin", "null", "Sec-Fetch-Site", "cross-site"}, {"Origin", "http://evil.example", "Sec-Fetch-Site", "cross-site"},
	}
	asked := 0
	for role, s := range everyRole(t) {
		for _, route := range s.routes {
			path := variable.ReplaceAllString(route.Path, "x")
			for _, site := range sites {
				// A GET changes nothing; only streams and pages without an origin
				// are refused.
				stream := strings.HasSuffix(route.Path, "/events") && route.Path != "/runs/{run_id}/events"
				alone := site[1] == "same-site"
				nameless := strings.Contains(strings.Join(site, " "), "Origin null")
				if route.Method == "GET" && !nameless && (!stream || alone) {
					continue
				}
				asked++
				w := s.direct(route.Method, path, site...)
				if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "cross_site_request") {
					t.Errorf("%s: %s %s from %v: %d %s", role, route.Method, path, site, w.Code, w.Body)
				}
				if got := w.Header().Get("Access-Control-Allow-Origin"); got != "" {
					t.Errorf("%s: %s %s invites %s", role, route.Method, path, got)
				}
			}
		}
	}
	t.Logf("%d requests", asked)
}

// hostileNames are what no file, run, item or contract is called.
var hostileNames = []string{
	"..", ".", "...", "../secret", "../../secret", "../../../../etc/passwd", "/etc/passwd", "//etc/passwd", `..\secret`, `\\host\share`, `C:\secret`, "C:secret",
	"./../secret", "a/../../secret", "a/./../../secret", "..;/secret", "..%2fsecret", "%2e%2e/secret", "%2e%2e%2fsecret", "..%5csecret", "%252e%252e%252fsecret",
	"..%c0%af..%c0%afsecret", "..%ef%bc%8fsecret", "\x00", "secret\x00.png", "%00", "secret%00.png", "\n", "\r\nX-Evil: 1", "%0d%0aX-Evil:%201", " ", "  secret", "secret ",
	".hidden", ".cec/pyproject.toml", ".git/config", "~", "~root", "$HOME", "${PATH}", "`id`", "$(id)", "|id", ";id", "&id", "*", "?", "[a-z]", "{a,b}",
	"CON", "NUL", "aux.txt", "COM1", "con.png", "a:b", "secret::$DATA", "\u202egnp.exe", "\ufeffsecret", "e\u0301", "\U0001f600", "\xed\xa0\xbd", "\xff\xfe", "\xc3\x28",
	"<script>alert(1)</script>", `"><img src=x onerror=alert(1)>`, "'; DROP TABLE runs; --", "1 OR 1=1", strings.Repeat("a", 300), strings.Repeat("../", 100) + "secret", "file:///etc/passwd", "http://evil.example/x.png", "@evil.example",
}

func TestHostileNamesOnEveryRoute(t *testing.T) {
	const secret = "what nobody is shown"
	asked := 0
	for role, s := range everyRole(t) {
		for _, dir := range []string{filepath.Dir(s.artifacts), s.env, filepath.Dir(s.env), filepath.Join(s.env, ".cec"), s.uploads} {
			must(t, os.WriteFile(filepath.Join(dir, "secret"), []byte(secret), 0o644))
		}
		var places []routes.Route // with a query, too
		for _, route := range s.routes {
			if strings.Contains(route.Path, "{") {
				places = append(places, route)
			}
		}
		if role == "studio" {
			for _, query := range []string{"serve_artifact={x}", "serve_artifact=p%2F{x}", "filename={x}", "filename={x}&type=input", "filename=a.png&subfolder={x}", "filename=a.png&type={x}"} {
				places = append(places, routes.Route{Method: "GET", Path: "/outputs/view?" + query})
			}
		}
		for _, route := range places {
			for _, name := range hostileNames {
				escaped := url.PathEscape(name)
				if strings.Contains(route.Path, "?") {
					escaped = url.QueryEscape(name)
				}
				asked++
				w := s.direct(route.Method, variable.ReplaceAllLiteralString(route.Path, escaped))
				body := w.Body.String()
				if w.Code < 400 || w.Code >= 500 {
					t.Errorf("%s: %s %s with %q: %d %.200s", role, route.Method, route.Path, name, w.Code, body)
				}
				if strings.Contains(body, secret) || strings.Contains(body, "schema_version") || strings.Contains(body, "root:") || w.Header().Get("X-Evil") != "" {
					t.Errorf("%s: %s %s with %q tells %.200s", role, route.Method, route.Path, name, body)
				}
				if strings.Contains(w.Header().Get("Content-Type"), "html") {
					t.Errorf("%s: %s %s with %q answers with a page", role, route.Method, route.Path, name)
				}
			}
		}
	}
	t.Logf("%d names, %d requests", len(hostileNames), asked)
}
