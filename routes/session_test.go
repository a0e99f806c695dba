package routes_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/comfygit-ai/studio-sidecar/routes"
)

func TestSessionChoice(t *testing.T) {
	r := start(t)
	anon := "anon"
	cases := []struct{ name, cookie, header, want string }{
		{"cookie_before_header", "comfygit_studio_session=c1", "h1", "c1"},
		{"header", "", "h1", "h1"},
		{"bad_cookie_good_header", "comfygit_studio_session=a.b", "h1", "h1"},
		{"last_of_two_cookies", "comfygit_studio_session=one; comfygit_studio_session=two", "", "two"},
		{"quoted_cookie", `comfygit_studio_session="quoted"`, "", "quoted"},
		{"longest", "", strings.Repeat("a", 128), strings.Repeat("a", 128)},
		{"too_long", "", strings.Repeat("a", 129), anon},
		{"dot", "", "a.b", anon}, {"slash", "", "a/b", anon}, {"tag", "", "<x>", anon}, {"umlaut", "", "größe", anon},
		{"dash", "", "-", "-"}, {"none", "", "", anon},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			a := r.get("/runs", "X-ComfyGit-Studio-Session", c.header, "Cookie", c.cookie)
			got := a.json(t)["session_id"].(string)
			if c.want == anon {
				if !regexp.MustCompile(`^anon_[0-9a-f]{32}$`).MatchString(got) {
					t.Errorf("session %q", got)
				}
			} else if got != c.want {
				t.Errorf("session %q, want %q", got, c.want)
			}
			if want := "comfygit_studio_session=" + got + "; Path=/; Max-Age=31536000; HttpOnly; SameSite=Lax"; a.header.Get("Set-Cookie") != want {
				t.Errorf("cookie %q", a.header.Get("Set-Cookie"))
			}
		})
	}
}

func TestCookiesAreSetWhereTheReferenceSetsThem(t *testing.T) {
	r := start(t)
	for _, c := range []struct {
		method, path string
		status       int
		cookie       bool
	}{
		{"GET", "/health", 200, false}, {"GET", "/contracts", 200, false}, {"GET", "/outputs/view", 400, false}, {"GET", "/nowhere", 404, false},
		{"GET", "/gallery", 200, true}, {"GET", "/gallery?limit=x", 400, true}, {"GET", "/runs/none", 404, true},
		{"DELETE", "/gallery/none", 404, true}, {"POST", "/runs/none/cancel", 404, true}, {"POST", "/contracts/none/x/run", 400, true},
	} {
		a := r.ask(c.method, c.path, "")
		if a.status != c.status || (a.header.Get("Set-Cookie") != "") != c.cookie {
			t.Errorf("%s %s: %d, cookie %q", c.method, c.path, a.status, a.header.Get("Set-Cookie"))
		}
	}
}

func TestSessionsSeeTheirOwn(t *testing.T) {
	r := start(t)
	id := r.run(`{"wait": true}`)["run_id"].(string)
	for _, who := range []string{"berta", ""} {
		if n := len(r.get("/runs", "X-ComfyGit-Studio-Session", who).json(t)["runs"].([]any)); n != 0 {
			t.Errorf("%q sees %d runs of anna", who, n)
		}
		a := r.get("/runs/"+id, "X-ComfyGit-Studio-Session", who)
		if a.status != http.StatusNotFound || a.json(t)["message"] != "Run '"+id+"' was not found." {
			t.Errorf("%q: %d %s", who, a.status, a.body)
		}
	}
	if a := r.get("/runs/"+id, "X-ComfyGit-Studio-Session", "", "Cookie", "comfygit_studio_session=anna"); a.status != 200 {
		t.Errorf("anna by cookie: %d", a.status)
	}
}

func TestSharedGallery(t *testing.T) {
	r := start(t, func(o *routes.Options) { o.Shared = true })
	r.run(`{"wait": true}`)
	for _, who := range []string{"berta", ""} {
		doc := r.get("/gallery", "X-ComfyGit-Studio-Session", who).json(t)
		if len(doc["items"].([]any)) != 1 || doc["gallery"] != "shared" {
			t.Errorf("%q sees %v", who, doc)
		}
	}
	if doc := r.get("/gallery", "X-ComfyGit-Studio-Session", "berta").json(t); doc["session_id"] != "berta" {
		t.Errorf("a kept answer shows the session %v", doc["session_id"])
	}
}

func TestCookieFollowsPrefixAndScheme(t *testing.T) {
	r := start(t, func(o *routes.Options) {
		o.PublicPrefix = "/studio/api/"
		o.LaunchSecret = "s3cret"
	})
	a := r.get("/runs", routes.LaunchSecretHeader, "s3cret", "X-Forwarded-Proto", "https", "X-Forwarded-Host", "studio.example")
	if c := a.header.Get("Set-Cookie"); !strings.Contains(c, "; Path=/studio/api;") || !strings.Contains(c, "; Secure") {
		t.Errorf("cookie %q", c)
	}
	if c := r.get("/runs", "X-Forwarded-Proto", "https").header.Get("Set-Cookie"); strings.Contains(c, "Secure") {
		t.Errorf("an untrusted hop made the cookie %q", c)
	}
}
