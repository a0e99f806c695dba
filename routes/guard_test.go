package routes_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/comfygit-ai/studio-sidecar/routes"
)

func TestHostNames(t *testing.T) {
	loopback := start(t, func(o *routes.Options) { o.PublicHosts = []string{"studio.example"} })
	wide := start(t, func(o *routes.Options) { o.Loopback = false })
	cases := []struct {
		host           string
		loopback, wide bool
	}{
		{"localhost", true, true}, {"localhost:8000", true, true}, {"127.0.0.1:1", true, true}, {"127.1.2.3", true, true}, {"[::1]:80", true, true},
		{"[::ffff:127.0.0.1]:1", true, true}, {"a.localhost", true, true}, {"STUDIO.example:9", true, false},
		{"evil.example", false, false}, {"127.0.0.1.evil.example", false, false}, {"localhost.evil.example", false, false}, {"192.168.1.9:8000", false, true}, {"[fe80::1]", false, true},
	}
	for _, c := range cases {
		for _, path := range []string{"/runs", "/livez", "/events", "/"} {
			method := "GET"
			if path == "/events" {
				method = "HEAD"
			}
			for r, want := range map[*rig]bool{loopback: c.loopback, wide: c.wide} {
				a := r.ask(method, path, "", "Host", c.host)
				if heard := a.status != http.StatusMisdirectedRequest; heard != want {
					t.Errorf("%s %s (loopback %v): %d", c.host, path, r == loopback, a.status)
				}
				if !want && method == "GET" && !strings.Contains(a.json(t)["hint"].(string), "--public-host") {
					t.Errorf("%s: no flag named in %s", c.host, a.body)
				}
			}
		}
	}
}

func TestCrossSite(t *testing.T) {
	r := start(t)
	own := "http://" + r.server.Listener.Addr().String()
	cases := []struct {
		name, method, path string
		headers            []string
		status             int
	}{
		{"foreign_origin_post", "POST", runPath, []string{"Origin", "http://evil.example"}, 403},
		{"null_origin_post", "POST", runPath, []string{"Origin", "null"}, 403},
		{"cross_site_post", "POST", runPath, []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"same_site_post", "POST", runPath, []string{"Sec-Fetch-Site", "same-site"}, 403},
		{"cross_site_delete", "DELETE", "/gallery/x", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"own_origin_post", "POST", "/runs/none/cancel", []string{"Origin", own}, 404},
		{"no_browser_post", "POST", "/runs/none/cancel", nil, 404},
		{"foreign_origin_get", "GET", "/health", []string{"Origin", "http://evil.example"}, 200},
		{"cross_site_stream", "HEAD", "/events", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"foreign_origin_stream", "HEAD", "/events", []string{"Origin", "http://evil.example"}, 403},
		{"null_origin_stream", "HEAD", "/events", []string{"Origin", "null"}, 403},
		{"own_stream", "HEAD", "/events", []string{"Origin", own, "Sec-Fetch-Site", "same-origin"}, 200},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			a := r.ask(c.method, c.path, "", c.headers...)
			if a.status != c.status {
				t.Errorf("%d, want %d: %s", a.status, c.status, a.body)
			}
			if a.header.Get("Access-Control-Allow-Origin") != "" {
				t.Error("other sites are invited")
			}
		})
	}
	if n := len(r.get("/runs").json(t)["runs"].([]any)); n != 0 {
		t.Errorf("%d runs were started by other sites", n)
	}
}

// The plugin's proxy passes a browser's Origin on with its own Host; what it
// says of the browser's host counts before any check.
func TestTrustedHop(t *testing.T) {
	for name, change := range map[string]func(*routes.Options){
		"by_secret": func(o *routes.Options) { o.LaunchSecret = "s3cret" },
		"by_address": func(o *routes.Options) {
			o.TrustedProxies, o.PublicHosts = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, []string{"lan-box"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, change)
			headers := []string{
				"X-Forwarded-Host", "first.example, lan-box:8188", "Origin", "http://lan-box:8188", routes.LaunchSecretHeader, "s3cret",
			}
			if a := r.ask("POST", "/runs/none/cancel", "", headers...); a.status != http.StatusNotFound {
				t.Errorf("%d %s", a.status, a.body)
			}
			headers[3] = "http://evil.example"
			if a := r.ask("POST", "/runs/none/cancel", "", headers...); a.status != http.StatusForbidden {
				t.Errorf("a foreign page through the hop: %d", a.status)
			}
		})
	}
	t.Run("rebound_name_at_a_trusted_address", func(t *testing.T) {
		r := start(t, func(o *routes.Options) { o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} })
		for _, headers := range [][]string{
			{"Host", "evil.example", "X-Forwarded-Host", "localhost"}, {"X-Forwarded-Host", "evil.example"}, {"Host", "evil.example"},
		} {
			if a := r.get("/runs", headers...); a.status != http.StatusMisdirectedRequest {
				t.Errorf("%v: %d", headers, a.status)
			}
		}
	})
	t.Run("wrong_secret", func(t *testing.T) {
		r := start(t, func(o *routes.Options) { o.LaunchSecret = "s3cret" })
		a := r.ask("POST", "/runs/none/cancel", "", "X-Forwarded-Host", "lan-box:8188", "Origin", "http://lan-box:8188", routes.LaunchSecretHeader, "guess")
		if a.status != http.StatusForbidden {
			t.Errorf("%d", a.status)
		}
	})
}

func TestToken(t *testing.T) {
	r := start(t, func(o *routes.Options) { o.Token = "t0ken" })
	for _, path := range []string{"/", "/runs", "/health", "/contracts", "/events", "/outputs/view", "/assets/x"} {
		for _, header := range []string{"", "Bearer wrong", "t0ken", "Basic t0ken", "bearert0ken", "bearer"} {
			if a := r.get(path, "Authorization", header); a.status != http.StatusUnauthorized || a.header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s with %q: %d", path, header, a.status)
			}
		}
	}
	for _, scheme := range []string{"Bearer", "bearer", "BEARER"} {
		if a := r.get("/runs", "Authorization", scheme+" t0ken"); a.status != 200 {
			t.Errorf("with the token after %s: %d", scheme, a.status)
		}
	}
	for _, path := range []string{"/livez", "/readyz"} {
		if a := r.get(path); a.status != 200 {
			t.Errorf("%s: %d", path, a.status)
		}
	}
}

func TestAddressOfComfyUI(t *testing.T) {
	r := start(t)
	if got := r.get("/health").json(t)["comfy_url"]; got != comfyURL {
		t.Errorf("a caller on this machine sees %v", got)
	}
	for _, header := range []string{"X-Forwarded-For", "Forwarded", "Via", "X-Forwarded-Host", "X-Real-IP"} {
		if a := r.get("/health", header, "1.2.3.4"); strings.Contains(string(a.body), "comfy.invalid") {
			t.Errorf("through a hop with %s: %s", header, a.body)
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	r := start(t)
	_, err := routes.New(routes.Options{PublicPrefix: "/a b", RoutePrefix: "/../x", PublicHosts: []string{"http://x/"}, StaticDir: "/nonexistent"})
	if err == nil {
		t.Fatal("nothing was said")
	}
	for _, part := range []string{"a studio is required", "public prefix", "route prefix", "public host", "panel folder"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is missing in %v", part, err)
		}
	}
	if _, err := routes.New(routes.Options{Studio: r.studio}); err != nil {
		t.Errorf("the defaults: %v", err)
	}
}
