package protocol

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"strings"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// Authorization is the header that carries a token.
const Authorization = "Authorization"

const bearer = "Bearer "

// Bearer is the value of Authorization for a token; empty for none.
func Bearer(token string) string {
	if token == "" {
		return ""
	}
	return bearer + token
}

// Bears tells whether a value of Authorization carries the token. Without a
// token, every value does.
func Bears(value, token string) bool {
	if token == "" {
		return true
	}
	given, ok := strings.CutPrefix(value, bearer)
	return same(given, token) && ok
}

// same compares secrets in constant time, whatever their lengths.
func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// Tokens open callbacks: each run has its own, and a configured one opens all.
type Tokens struct {
	Secret     []byte // of this front door
	Configured string // empty: none
}

// Of is the token of a run.
func (t Tokens) Of(run sidecar.RunID) string {
	mac := hmac.New(sha256.New, t.Secret)
	_, _ = mac.Write([]byte("callback/" + string(run))) // a hash takes all
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// Open tells whether a value of Authorization may speak of a run.
func (t Tokens) Open(value string, run sidecar.RunID) bool {
	own := Bears(value, t.Of(run))
	return t.Configured != "" && Bears(value, t.Configured) || own
}

// CallbackURL is where a worker tells of a run; empty when base is.
func CallbackURL(base string, run sidecar.RunID) string {
	if base == "" {
		return ""
	}
	return strings.TrimRight(base, "/") + "/worker-callback/runs/" + string(run)
}
