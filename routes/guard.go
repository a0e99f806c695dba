package routes

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
)

// LaunchSecretHeader carries the secret that a proxy on this machine was
// started with; see Options.LaunchSecret.
const LaunchSecretHeader = "X-Studio-Launch-Secret"

// guard decides which requests are heard at all.
type guard struct {
	loopback bool
	anyName  bool            // the token of a worker vouches for its callers
	names    map[string]bool // hosts that are ours beside loopback and addresses
	proxies  []netip.Prefix
	secret   string
	token    string
	passes   *passes
	tries    tries
	cross    *http.CrossOriginProtection
}

func newGuard(o Options) (*guard, error) {
	g := &guard{
		loopback: o.Loopback, anyName: o.Role == RoleProxy && o.ProxyToken != "", names: map[string]bool{}, proxies: o.TrustedProxies,
		secret: o.LaunchSecret, token: o.Token, passes: newPasses(o.Token), cross: http.NewCrossOriginProtection(),
	}
	for _, host := range o.PublicHosts {
		if !ValidHost(host) {
			return nil, fmt.Errorf("public host %q: give a host name, without scheme and path", host)
		}
		g.names[strings.ToLower(hostName(host))] = true
	}
	if own, err := os.Hostname(); err == nil && !o.Loopback {
		own = strings.ToLower(own)
		g.names[own], g.names[own+".local"] = true, true
	}
	return g, nil
}

// ValidHost tells whether New takes a public host: a name or an address, and a
// port that does not count.
func ValidHost(host string) bool { return hostName(host) != "" && !strings.ContainsAny(host, "/ ") }

// admit checks who asks and through what, before anything is looked at.
func (c *call) admit() error {
	c.direct = remote(c.r).IsLoopback() && !forwarded(c.r)
	c.secure = c.r.TLS != nil
	launched := c.guard.launched(c.r)
	// A browser on this machine may come from a trusted address as well: only
	// the secret vouches for a name that is not ours.
	if !launched && !c.guard.knows(c.r.Host) {
		return unknownHost(c.r.Host)
	}
	if c.hop = launched || c.guard.trusts(remote(c.r)); c.hop {
		c.takeForwarded()
		if !launched && !c.guard.knows(c.r.Host) {
			return unknownHost(c.r.Host)
		}
	}
	if err := c.guard.cross.Check(c.r); err != nil {
		return crossSite(err)
	}
	// A page without an origin, such as a sandboxed frame, has no business here.
	if c.r.Header.Get("Origin") == "null" && c.r.Header.Get("Sec-Fetch-Site") != "same-origin" {
		return crossSite(nil)
	}
	return nil
}

func unknownHost(host string) *fault {
	return &fault{
		code:    codeHost,
		message: fmt.Sprintf("This server does not answer to the host name '%s'.", hostName(host)),
		hint:    "If the name is meant, start the server with --public-host " + hostName(host) + ".",
	}
}

// same compares secrets in constant time, whatever their lengths.
func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

func crossSite(err error) *fault {
	return &fault{
		code: codeCrossSite, message: "A page of another site may not do this.",
		hint: "Use the panel of this server, or a client that is no browser.", cause: err,
	}
}

// sameSite refuses pages of other sites where a GET costs something, such as a
// stream that stays open.
func (c *call) sameSite() error {
	if c.r.Header.Get("Sec-Fetch-Site") == "cross-site" {
		return crossSite(nil)
	}
	origin := c.r.Header.Get("Origin")
	if origin == "" {
		return nil
	}
	u, err := url.Parse(origin)
	if err != nil || !strings.EqualFold(u.Host, c.r.Host) {
		return crossSite(err)
	}
	return nil
}

// launched tells whether the request comes from the proxy that started this
// server.
func (g *guard) launched(r *http.Request) bool {
	given := r.Header.Get(LaunchSecretHeader)
	return g.secret != "" && given != "" && same(given, g.secret)
}

func (g *guard) trusts(addr netip.Addr) bool {
	return slices.ContainsFunc(g.proxies, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// takeForwarded makes the request what it was before a trusted proxy passed it
// on. A proxy without these headers leaves it as it is.
func (c *call) takeForwarded() {
	if host := lastOf(c.r.Header.Get("X-Forwarded-Host")); host != "" {
		r := *c.r
		r.Host = host
		c.r = &r
	}
	switch lastOf(c.r.Header.Get("X-Forwarded-Proto")) {
	case "https":
		c.secure = true
	case "http":
		c.secure = false
	}
}

// lastOf is what the nearest proxy wrote.
func lastOf(list string) string {
	return strings.TrimSpace(list[strings.LastIndexByte(list, ',')+1:])
}

func forwarded(r *http.Request) bool {
	for _, name := range []string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Prefix", "Forwarded", "Via", "X-Real-Ip", LaunchSecretHeader} {
		if r.Header.Get(name) != "" {
			return true
		}
	}
	return false
}

// knows tells whether a Host header names this server. A page elsewhere can
// make its own name point to this machine, but cannot change the name that a
// browser then asks for.
func (g *guard) knows(host string) bool {
	name := strings.ToLower(hostName(host))
	if g.anyName || name == "localhost" || strings.HasSuffix(name, ".localhost") || g.names[name] {
		return true
	}
	addr, err := netip.ParseAddr(name)
	if err != nil {
		return false
	}
	return !g.loopback || addr.Unmap().IsLoopback()
}

// hostName is a Host header without its port and brackets.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.Trim(host, "[]")
}
