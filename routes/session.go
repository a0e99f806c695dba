package routes

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

const (
	sessionCookie = "comfygit_studio_session"
	sessionHeader = "X-ComfyGit-Studio-Session"
	sessionAge    = 365 * 24 * 60 * 60 // seconds
	sessionLimit  = 128                // characters of an id
)

// visitor is a session and whether it was given with the request.
type visitor struct {
	sidecar.Session
	fresh bool
}

// session tells whose call it is, the cookie before the header, and sets the
// cookie of the answer. Whoever brings no id gets one.
func (c *call) session() visitor {
	id, fresh := c.givenSession(), false
	switch {
	case id == "" && c.assigned != "":
		id, fresh = c.assigned, true
	case id == "":
		id, fresh = newSession(), true
	}
	v := visitor{sidecar.Session{ID: sidecar.SessionID(id), Scope: sidecar.Scope(id)}, fresh}
	if c.opts.Shared {
		v.Scope = sidecar.SharedScope
	}
	path := c.urls.prefix
	if path == "" {
		path = "/"
	}
	http.SetCookie(c.w, &http.Cookie{
		Name: sessionCookie, Value: id, Path: path, MaxAge: sessionAge,
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: c.secure,
	})
	return v
}

// givenSession is the id that came with the request: of several cookies the
// last, as the reference reads them.
func (c *call) givenSession() string {
	id := ""
	for _, cookie := range c.r.CookiesNamed(sessionCookie) {
		if len(cookie.Value) <= sessionLimit && sane(cookie.Value) {
			id = cookie.Value
		}
	}
	if id != "" {
		return id
	}
	if id = c.r.Header.Get(sessionHeader); len(id) <= sessionLimit && sane(id) {
		return id
	}
	return ""
}

func newSession() string {
	var b [16]byte
	// crypto/rand.Read ends the process rather than fail.
	_, _ = rand.Read(b[:])
	return "anon_" + hex.EncodeToString(b[:])
}

// remember stores a session that came with a read which went well. A fault of
// the store does not spoil the read.
func (c *call) remember(v visitor) {
	if v.fresh {
		return
	}
	if err := c.studio.Remember(c.r.Context(), v.Session); err != nil {
		c.log.Warn("remember a session", "err", err, "request_id", c.id)
	}
}

// empty tells that nothing can be there for the visitor: nobody knew its id
// before.
func (v visitor) empty() bool { return v.fresh && v.Scope != sidecar.SharedScope }
