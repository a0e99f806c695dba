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

const token = "t0ken-of-the-server"

func withToken(o *routes.Options) { o.Token = token }

// signIn signs in as a panel does and returns the cookies that came.
func (r *rig) signIn(t *testing.T, headers ...string) []*http.Cookie {
	t.Helper()
	a := r.ask("POST", "/studio-session", `{"passcode": "`+token+`"}`, append(headers, "Content-Type", "application/json")...)
	if a.status != http.StatusOK || a.json(t)["studio_session"].(map[string]any)["authenticated"] != true {
		t.Fatalf("sign in: %d %s", a.status, a.body)
	}
	return (&http.Response{Header: a.header}).Cookies()
}

func TestSignIn(t *testing.T) {
	r := start(t, withToken, own)
	state := func(headers ...string) map[string]any {
		a := r.get("/studio-session", headers...)
		if a.status != 200 {
			t.Fatalf("state: %d %s", a.status, a.body)
		}
		return a.json(t)["studio_session"].(map[string]any)
	}
	if s := state(); s["authenticated"] != false || s["studio_auth_mode"] != "passcode" || s["studio_enabled"] != true {
		t.Errorf("before: %v", s)
	}
	wrong := r.ask("POST", "/studio-session", `{"passcode": "guess"}`)
	if wrong.status != http.StatusUnauthorized || wrong.header.Get("Set-Cookie") != "" {
		t.Errorf("a wrong token: %d %v", wrong.status, wrong.header)
	}
	cookies := r.signIn(t)
	if len(cookies) != 1 {
		t.Fatalf("cookies %v", cookies)
	}
	cookie := cookies[0]
	if strings.Contains(cookie.Value, token) || !cookie.HttpOnly || cookie.SameSite != http.SameSiteLaxMode || cookie.Path != "/" || cookie.Secure {
		t.Errorf("cookie %v", cookie)
	}
	pass := cookie.Name + "=" + cookie.Value
	if s := state("Cookie", pass); s["authenticated"] != true {
		t.Errorf("afterwards: %v", s)
	}
	for path, want := range map[string]int{"/": 200, "/runs": 200, "/contracts": 200, "/openapi.json": 200, "/assets/js/app.js": 200, "/outputs/view": 400, "/runs/x/preview": 404} {
		if a := r.get(path, "Cookie", pass); a.status != want {
			t.Errorf("%s with the cookie: %d", path, a.status)
		}
	}
	if a := r.ask("HEAD", "/events", "", "Cookie", pass); a.status != 200 {
		t.Errorf("stream with the cookie: %d", a.status)
	}
	forged := regexp.MustCompile(`^\d+`).ReplaceAllString(cookie.Value, "99999999999")
	for _, value := range []string{forged, cookie.Value + "0", "x", "", "1.x." + strings.Repeat("0", 64)} {
		if a := r.get("/runs", "Cookie", cookie.Name+"="+value); a.status != http.StatusUnauthorized {
			t.Errorf("cookie %q: %d", value, a.status)
		}
	}
	out := r.ask("DELETE", "/studio-session", "", "Cookie", pass)
	if gone := (&http.Response{Header: out.header}).Cookies(); out.status != 200 || len(gone) != 1 || gone[0].MaxAge != -1 {
		t.Errorf("sign out: %d %v", out.status, gone)
	}
	if a := r.get("/runs", "Cookie", pass); a.status != http.StatusUnauthorized {
		t.Errorf("a cookie that signed out: %d", a.status)
	}
}

func TestSignInWithoutToken(t *testing.T) {
	r := start(t)
	for _, a := range []reply{r.get("/studio-session"), r.ask("POST", "/studio-session", `{"passcode": "x"}`), r.ask("DELETE", "/studio-session", "")} {
		s := a.json(t)["studio_session"].(map[string]any)
		if a.status != 200 || s["authenticated"] != true || s["studio_auth_mode"] != "none" {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
}

// A pass is good for as long as the token is the same, over restarts too.
func TestPassOutlivesRestart(t *testing.T) {
	cookie := start(t, withToken).signIn(t)[0]
	pass := cookie.Name + "=" + cookie.Value
	if a := start(t, withToken).get("/runs", "Cookie", pass); a.status != 200 {
		t.Errorf("the same token: %d", a.status)
	}
	if a := start(t, func(o *routes.Options) { o.Token = token + "2" }).get("/runs", "Cookie", pass); a.status != http.StatusUnauthorized {
		t.Errorf("another token: %d", a.status)
	}
}

func TestSignInPage(t *testing.T) {
	r := start(t, withToken, own, func(o *routes.Options) { o.PublicPrefix, o.PublicUIPrefix = "/api", "/studio" })
	html := []string{"Accept", "text/html,*/*"}
	for _, path := range []string{"/", "/nowhere"} {
		a := r.get(path, html...)
		if a.status != http.StatusUnauthorized || !strings.Contains(string(a.body), `action="/api/studio-session"`) || strings.Contains(string(a.body), "demo") {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
		if !strings.Contains(a.header.Get("Content-Security-Policy"), "form-action 'self'") || a.header.Get("Cache-Control") != "no-store" {
			t.Errorf("headers %v", a.header)
		}
	}
	form := append(html, "Content-Type", "application/x-www-form-urlencoded")
	wrong := r.ask("POST", "/studio-session", "passcode=gue%3Css", form...)
	if wrong.status != http.StatusUnauthorized || !strings.Contains(string(wrong.body), "not the token") {
		t.Errorf("wrong: %d %s", wrong.status, wrong.body)
	}
	right := r.ask("POST", "/studio-session", "passcode="+token, form...)
	cookies := (&http.Response{Header: right.header}).Cookies()
	if right.status != http.StatusSeeOther || right.header.Get("Location") != "/studio/" || len(cookies) != 2 {
		t.Fatalf("right: %d %v", right.status, right.header)
	}
	if paths := cookies[0].Path + " " + cookies[1].Path; paths != "/api /studio" {
		t.Errorf("cookies for %s", paths)
	}
	a := r.get("/studio/", "Cookie", cookies[1].Name+"="+cookies[1].Value)
	if a.status != 200 || !strings.Contains(string(a.body), "authMode&#34;:&#34;endpoint") {
		t.Errorf("the panel: %d %s", a.status, a.body)
	}
}

// The reference's panel shows its own form, and learns of the environment when
// it has signed in.
func TestForeignPanelSignsIn(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "index.html"), []byte("<html><head>"), 0o644))
	r := start(t, withToken, func(o *routes.Options) { o.StaticDir = dir })
	if a := r.get("/"); a.status != 200 || !strings.Contains(string(a.body), `"authMode": "endpoint", "endpointName": ""`) {
		t.Errorf("before: %d %s", a.status, a.body)
	}
	cookie := r.signIn(t)[0]
	if a := r.get("/", "Cookie", cookie.Name+"="+cookie.Value); !strings.Contains(string(a.body), `"endpointName": "demo"`) {
		t.Errorf("afterwards: %s", a.body)
	}
	if a := r.get("/health"); a.status != http.StatusUnauthorized {
		t.Errorf("the API: %d", a.status)
	}
}

func TestSignInCookieBehindHTTPS(t *testing.T) {
	r := start(t, withToken, func(o *routes.Options) { o.LaunchSecret = "s3cret" })
	cookie := r.signIn(t, routes.LaunchSecretHeader, "s3cret", "X-Forwarded-Proto", "https", "X-Forwarded-Host", "studio.example")[0]
	if !cookie.Secure {
		t.Errorf("cookie %v", cookie)
	}
}

func TestReadinessTellsNoSecrets(t *testing.T) {
	r := start(t, withToken)
	if a := r.get("/readyz"); string(a.body) != `{"ok":true}` {
		t.Errorf("to everybody: %s", a.body)
	}
	if a := r.get("/readyz", "Authorization", "Bearer "+token); !strings.Contains(string(a.body), "manifest") {
		t.Errorf("with the token: %s", a.body)
	}
}

// Wrong tries cost time, those of one sender alone; who is signed in does not
// notice.
func TestWrongTriesAreBounded(t *testing.T) {
	r := start(t, withToken, func(o *routes.Options) { o.LaunchSecret = "s3cret" })
	cookie := r.signIn(t)[0]
	from := func(who string) []string {
		return []string{routes.LaunchSecretHeader, "s3cret", "X-Forwarded-For", who}
	}
	for i := range 10 {
		header := append(from("10.0.0.1"), "Authorization", "Bearer guess")
		if a := r.get("/runs", header...); a.status != http.StatusUnauthorized {
			t.Errorf("try %d: %d", i, a.status)
		}
	}
	for name, header := range map[string][]string{"wrong": {"Authorization", "Bearer guess"}, "right": {"Authorization", "Bearer " + token}} {
		a := r.get("/runs", append(from("10.0.0.1"), header...)...)
		if a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") == "" || a.json(t)["error"] != "too_many_tries" {
			t.Errorf("%s after too many: %d %s", name, a.status, a.body)
		}
	}
	if a := r.ask("POST", "/studio-session", `{"passcode": "x"}`, from("10.0.0.1")...); a.status != http.StatusTooManyRequests {
		t.Errorf("at the other door: %d", a.status)
	}
	if a := r.get("/runs", append(from("10.0.0.2"), "Authorization", "Bearer "+token)...); a.status != 200 {
		t.Errorf("another sender: %d", a.status)
	}
	if a := r.get("/runs", append(from("10.0.0.1"), "Cookie", cookie.Name+"="+cookie.Value)...); a.status != 200 {
		t.Errorf("who is signed in: %d", a.status)
	}
}
