package routes

import (
	"bytes"
	_ "embed" // the page to sign in at
	"html"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

const (
	// signInCookie stands for the token in a browser, which sends no header
	// with pictures and streams.
	signInCookie = "studio_sign_in"
	passcode     = "passcode"
	// passcodeBytes bounds the body that brings the token.
	passcodeBytes = 1 << 20
)

//go:embed signin.html
var signInHTML []byte

// signInPolicy lets the page to sign in at do nothing but that.
const signInPolicy = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'self'"

// enter answers by the route when the caller may come in. A browser that may
// not is shown where to sign in.
func (c *call) enter(r Route) error {
	if r.open || r.panel && c.panel.foreign {
		return c.perform(r)
	}
	err := c.authorized()
	switch {
	case err == nil:
		return c.perform(r)
	case r.panel && strings.Contains(c.r.Header.Get("Accept"), "text/html"):
		return c.signInPage(http.StatusUnauthorized, "")
	}
	c.w.Header().Set("WWW-Authenticate", "Bearer")
	return err
}

// authorized checks the token, which every route but liveness asks for where
// one is set, or the cookie that stands for it.
func (c *call) authorized() error {
	if c.guard.token == "" || c.signedIn() {
		return nil
	}
	if scheme, given, _ := strings.Cut(c.r.Header.Get("Authorization"), " "); given != "" && strings.EqualFold(scheme, "Bearer") {
		if err := c.tryToken(given); err == nil || statusOf(err.code) != http.StatusUnauthorized {
			return asError(err)
		}
	}
	return &fault{
		code: codeUnauthorized, message: "This server asks for its token.",
		hint: "Send it as 'Authorization: Bearer TOKEN', or sign in with it in a browser.",
	}
}

func asError(f *fault) error {
	if f == nil {
		return nil
	}
	return f
}

// tryToken compares what may be the token, as often as its sender may try.
func (c *call) tryToken(given string) *fault {
	from, now := c.sender(), time.Now()
	if wait := c.guard.tries.take(from, now); wait > 0 {
		c.w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
		return &fault{code: codeTries, message: "There were too many wrong tries to sign in.", hint: "Wait a minute, and look at the token that the server was started with."}
	}
	if same(given, c.guard.token) {
		c.guard.tries.giveBack(from)
		return nil
	}
	return &fault{code: codeUnauthorized, message: "This is not the token of this server.", hint: "Use the one that the server was started with."}
}

func (c *call) signedIn() bool {
	for _, cookie := range c.r.CookiesNamed(signInCookie) {
		if c.guard.passes.valid(cookie.Value, time.Now()) {
			return true
		}
	}
	return false
}

func (c *call) showSignIn() error {
	c.signInState(c.authorized() == nil)
	return nil
}

// signInState answers as the reference's hosted panel reads it.
func (c *call) signInState(authenticated bool) {
	mode := "none"
	if c.guard.token != "" {
		mode = passcode
	}
	t := text{}
	t.open('{')
	begin(&t, "studio_session")
	t.bool("authenticated", authenticated)
	t.bool("studio_enabled", true)
	t.str("studio_auth_mode", mode)
	t.close('}')
	t.close('}')
	c.json(http.StatusOK, t.b)
}

// signIn takes the token from a panel, as JSON, or from the page's own form.
func (c *call) signIn() error {
	given, form, err := c.givenPasscode()
	if err != nil {
		return err
	}
	if c.guard.token != "" {
		if f := c.tryToken(given); f != nil {
			if form {
				return c.signInPage(statusOf(f.code), f.message)
			}
			return f
		}
		pass, err := c.guard.passes.issue(time.Now())
		if err != nil {
			return err
		}
		c.setSignIn(pass, int(passLife/time.Second))
	}
	if !form {
		c.signInState(true)
		return nil
	}
	c.w.Header().Set("Location", c.uiPrefix+"/")
	c.w.WriteHeader(http.StatusSeeOther)
	return nil
}

func (c *call) givenPasscode() (given string, form bool, err error) {
	raw, err := c.readUpTo(passcodeBytes)
	if err != nil {
		return "", false, err
	}
	if kind, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type")); err == nil && kind == "application/x-www-form-urlencoded" {
		values, err := url.ParseQuery(string(raw))
		if err != nil {
			return "", true, &fault{code: sidecar.CodeBadRequest, message: "The form cannot be read.", hint: "Send it again.", cause: err}
		}
		return values.Get(passcode), true, nil
	}
	const wanted = `Send {"passcode": "TOKEN"}.`
	fields, err := parseBody(raw, wanted)
	if err != nil {
		return "", false, err
	}
	value, ok := fields.Get(passcode)
	if !ok || value[0] != '"' {
		return "", false, badRequest("'passcode' has to be a text.", wanted)
	}
	return unquote(value), false, nil
}

// signOut makes the caller's cookies worth nothing and takes them away.
func (c *call) signOut() error {
	for _, cookie := range c.r.CookiesNamed(signInCookie) {
		c.guard.passes.revoke(cookie.Value, time.Now())
	}
	c.setSignIn("", -1)
	c.signInState(c.guard.token == "")
	return nil
}

// setSignIn sets the cookie for the panel's page and for the API, which may
// stand under different prefixes.
func (c *call) setSignIn(value string, age int) {
	paths := []string{c.urls.prefix}
	if c.uiPrefix != c.urls.prefix {
		paths = append(paths, c.uiPrefix)
	}
	for _, path := range paths {
		if path == "" {
			path = "/"
		}
		http.SetCookie(c.w, &http.Cookie{
			Name: signInCookie, Value: value, Path: path, MaxAge: age,
			HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: c.secure,
		})
	}
}

// signInPage shows the form, with what was wrong about the last try.
func (c *call) signInPage(status int, problem string) error {
	h := c.w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", signInPolicy)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	page := bytes.ReplaceAll(signInHTML, []byte("__ACTION__"), []byte(html.EscapeString(c.urls.prefix+"/studio-session")))
	page = bytes.ReplaceAll(page, []byte("__PROBLEM__"), []byte(html.EscapeString(problem)))
	c.body(status, page)
	return nil
}
