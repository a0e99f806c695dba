package routes

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// addresses makes every address that stands in an answer.
type addresses struct {
	prefix string // public prefix, "" or "/…" without a slash at its end
	key    []byte // of the proofs; a restart makes new ones
}

const proofParam = "proof"

func newAddresses(prefix string) addresses {
	key := make([]byte, sha256.Size)
	// crypto/rand.Read ends the process rather than fail.
	_, _ = rand.Read(key)
	return addresses{prefix: prefix, key: key}
}

// public is the address that a browser reaches a path of ours under: the prefix
// in front of it, once, and a proof behind it where the file is not for all.
// What is no path of ours stays as it is.
func (a addresses) public(path string) string {
	if !strings.HasPrefix(path, "/outputs/view") && !strings.HasPrefix(path, "/uploads/") {
		return path
	}
	if a.prefix != "" && strings.HasPrefix(path, a.prefix+"/") {
		return path
	}
	return a.prefix + a.proven(path)
}

// proven adds a proof to the address of a file that is only shown to whom a
// run's item was shown: an <img> sends no header, and in a frame perhaps no
// cookie.
func (a addresses) proven(path string) string {
	if !restrictedText(path) || strings.Contains(path, "&"+proofParam+"=") {
		return path
	}
	_, query, _ := strings.Cut(path, "?")
	values, err := url.ParseQuery(query)
	if err != nil || !restricted(values.Get("type")) {
		return path
	}
	return path + "&" + proofParam + "=" + a.proof(values)
}

// restricted tells the kinds of files that are not meant for everybody.
func restricted(kind string) bool { return kind == "temp" || kind == "input" }

func restrictedText(s string) bool {
	return strings.Contains(s, "type=temp") || strings.Contains(s, "type=input")
}

func (a addresses) proof(file url.Values) string {
	mac := hmac.New(sha256.New, a.key)
	for _, name := range []string{"filename", "subfolder", "type"} {
		_, _ = fmt.Fprintf(mac, "%d:%s", len(file.Get(name)), file.Get(name))
	}
	return hex.EncodeToString(mac.Sum(nil)[:12])
}

func (a addresses) proves(file url.Values) bool {
	return hmac.Equal([]byte(file.Get(proofParam)), []byte(a.proof(file)))
}

var prefixForm = regexp.MustCompile(`^(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*$`)

// cleanPrefix brings a prefix into the form "/a/b"; "" and "/" are none.
func cleanPrefix(flag, prefix string) (string, error) {
	if !ValidPrefix(prefix) {
		return "", fmt.Errorf("%s %q: use letters, digits and ._~- between single slashes", flag, prefix)
	}
	return plainPrefix(prefix), nil
}

// ValidPrefix tells whether New takes a prefix: letters, digits and ._~- between
// single slashes, or nothing.
func ValidPrefix(prefix string) bool { return prefixForm.MatchString(plainPrefix(prefix)) }

func plainPrefix(prefix string) string { return strings.TrimRight("/"+strings.Trim(prefix, "/"), "/") }

// below strips a prefix from an escaped path; the prefix itself is "/".
func below(path, prefix string) (string, bool) {
	rest, ok := strings.CutPrefix(path, prefix)
	switch {
	case !ok:
		return "", false
	case rest == "":
		return "/", true
	}
	return rest, rest[0] == '/'
}
