package routes

import (
	"net/netip"
	"time"
)

type (
	Tries  = tries
	Passes = passes
)

const (
	TriesBurst = triesBurst
	TriesPause = triesPause
	TriesKept  = triesKept
	PassLife   = passLife
)

// Turns is how many commands are being carried out.
func (s *Server) Turns() int {
	s.turns.mu.Lock()
	defer s.turns.mu.Unlock()
	return len(s.turns.held)
}

func NewPasses(token string) *passes { return newPasses(token) }

func (t *tries) Take(from netip.Prefix, now time.Time) time.Duration { return t.take(from, now) }
func (t *tries) GiveBack(from netip.Prefix)                          { t.giveBack(from) }
func (t *tries) Senders() int                                        { return len(t.paid) }

func (p *passes) Issue(now time.Time) (string, error)   { return p.issue(now) }
func (p *passes) Valid(pass string, now time.Time) bool { return p.valid(pass, now) }
func (p *passes) Revoke(pass string, now time.Time)     { p.revoke(pass, now) }
