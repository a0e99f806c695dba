package routes_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/comfygit-ai/studio-sidecar/routes"
)

func TestTriesComeBack(t *testing.T) {
	var tr routes.Tries
	from, now := netip.MustParsePrefix("10.0.0.1/32"), time.Unix(1_000_000, 0)
	for i := range routes.TriesBurst {
		if wait := tr.Take(from, now); wait != 0 {
			t.Fatalf("try %d has to wait %v", i, wait)
		}
	}
	if wait := tr.Take(from, now); wait != routes.TriesPause {
		t.Errorf("one too many waits %v", wait)
	}
	now = now.Add(routes.TriesPause)
	if wait := tr.Take(from, now); wait != 0 {
		t.Errorf("a pause later it waits %v", wait)
	}
	if wait := tr.Take(from, now); wait == 0 {
		t.Error("one pause gave two tries")
	}
	for range 3 * routes.TriesBurst {
		tr.GiveBack(from)
	}
	tr.GiveBack(netip.MustParsePrefix("10.0.0.2/32"))
}

func TestTriesAreBounded(t *testing.T) {
	var tr routes.Tries
	now := time.Unix(1_000_000, 0)
	for i := range routes.TriesKept + 1000 {
		tr.Take(netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 32), now)
	}
	if n := tr.Senders(); n > routes.TriesKept+1 {
		t.Errorf("%d senders are kept", n)
	}
	if wait := tr.Take(netip.MustParsePrefix("11.0.0.1/32"), now); wait == 0 {
		t.Error("newcomers are not bounded")
	}
	if wait := tr.Take(netip.MustParsePrefix("11.0.0.1/32"), now.Add(time.Hour*24)); wait != 0 {
		t.Errorf("a day later they wait %v", wait)
	}
}

func TestPassesEnd(t *testing.T) {
	p, now := routes.NewPasses("t0ken"), time.Unix(1_000_000, 0)
	pass, err := p.Issue(now)
	if err != nil {
		t.Fatal(err)
	}
	if !p.Valid(pass, now.Add(routes.PassLife-time.Second)) || p.Valid(pass, now.Add(routes.PassLife)) {
		t.Error("the pass does not end when it should")
	}
	other, err := p.Issue(now)
	if err != nil || other == pass {
		t.Errorf("two passes alike: %v", err)
	}
	p.Revoke(pass, now)
	if p.Valid(pass, now) || !p.Valid(other, now) {
		t.Error("signing out reached the wrong pass")
	}
}
