package routes

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// passLife is how long a browser stays signed in.
	passLife = 30 * 24 * time.Hour
	// passRounds make it slow to guess the token from a pass.
	passRounds = 200_000
	// revokedKept bounds what is remembered of those who signed out.
	revokedKept = 4096
)

// passes gives out what stands for the token in a cookie: an end, a random
// part, and a code over both under a key made from the token. It outlives a
// restart, and is worth nothing under another token.
type passes struct {
	key func() ([]byte, error)

	mu      sync.Mutex
	revoked map[string]time.Time // ends of the passes that signed out
}

func newPasses(token string) *passes {
	return &passes{
		key: sync.OnceValues(func() ([]byte, error) {
			return pbkdf2.Key(sha256.New, token, []byte("studio-sidecar sign-in"), passRounds, sha256.Size)
		}),
		revoked: map[string]time.Time{},
	}
}

func (p *passes) issue(now time.Time) (string, error) {
	body := strconv.FormatInt(now.Add(passLife).Unix(), 10) + "." + strings.ToLower(rand.Text())
	code, err := p.code(body)
	return body + "." + code, err
}

func (p *passes) code(body string) (string, error) {
	key, err := p.key()
	if err != nil {
		return "", fmt.Errorf("derive the key of sign-ins: %w", err)
	}
	mac := hmac.New(sha256.New, key)
	_, _ = mac.Write([]byte(body))
	return hex.EncodeToString(mac.Sum(nil)), nil
}

func (p *passes) valid(pass string, now time.Time) bool {
	end, ok := p.end(pass)
	if !ok || !now.Before(end) {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, out := p.revoked[pass]
	return !out
}

// end reads until when a pass of ours is good.
func (p *passes) end(pass string) (time.Time, bool) {
	at := strings.LastIndexByte(pass, '.')
	if at < 0 || len(pass) > 200 {
		return time.Time{}, false
	}
	code, err := p.code(pass[:at])
	if err != nil || !hmac.Equal([]byte(code), []byte(pass[at+1:])) {
		return time.Time{}, false
	}
	seconds, _, _ := strings.Cut(pass, ".")
	end, err := strconv.ParseInt(seconds, 10, 64)
	return time.Unix(end, 0), err == nil
}

// revoke remembers, until the process ends, that a pass signed out.
func (p *passes) revoke(pass string, now time.Time) {
	end, ok := p.end(pass)
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for old, end := range p.revoked {
		if !now.Before(end) || len(p.revoked) >= revokedKept {
			delete(p.revoked, old)
		}
	}
	p.revoked[pass] = end
}

const (
	triesBurst = 10 // wrong tries that are free
	triesPause = 10 * time.Second
	// triesKept bounds how many senders are told apart; beyond it newcomers
	// share one count.
	triesKept = 4096
)

// tries bounds wrong tokens by the network that they come from: each costs a
// pause, and a few may be open at once.
type tries struct {
	mu   sync.Mutex
	paid map[netip.Prefix]time.Time // when all wrong tries are paid off
}

// take counts a try, or tells how long to wait for the next.
func (t *tries) take(from netip.Prefix, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	from = t.place(from, now)
	paid := t.paid[from]
	if paid.Before(now) {
		paid = now
	}
	if open := paid.Sub(now) + triesPause; open > triesBurst*triesPause {
		return open - triesBurst*triesPause
	}
	t.paid[from] = paid.Add(triesPause)
	return 0
}

// place makes room for a sender.
func (t *tries) place(from netip.Prefix, now time.Time) netip.Prefix {
	if t.paid == nil {
		t.paid = map[netip.Prefix]time.Time{}
	}
	if _, known := t.paid[from]; known || len(t.paid) < triesKept {
		return from
	}
	for other, paid := range t.paid {
		if paid.Before(now) {
			delete(t.paid, other)
		}
	}
	if len(t.paid) < triesKept {
		return from
	}
	return netip.Prefix{}
}

// giveBack takes the count of a right try back.
func (t *tries) giveBack(from netip.Prefix) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if paid, known := t.paid[from]; known {
		t.paid[from] = paid.Add(-triesPause)
	}
}

// sender is the network that a call comes from: an IPv4 address, or the part of
// an IPv6 one that a provider gives out. Behind a trusted proxy it is the one
// that the proxy tells.
func (c *call) sender() netip.Prefix {
	addr := remote(c.r)
	if c.hop {
		if told, err := netip.ParseAddr(lastOf(c.r.Header.Get("X-Forwarded-For"))); err == nil {
			addr = told.Unmap()
		}
	}
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	prefix, err := addr.WithZone("").Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return prefix
}
