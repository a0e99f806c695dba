package sidecar

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMailbox(t *testing.T) {
	t.Run("a_poke_is_heard_though_the_box_is_full", func(t *testing.T) {
		var all mailboxes
		box := all.open("run_1")
		for range 2 * mailboxMax {
			box.put(News{Kind: NewsQueue})
		}
		all.poke("run_1")
		<-box.ready
		if news, poked := box.take(); len(news) != mailboxMax || !poked {
			t.Errorf("%d news, poked %v", len(news), poked)
		}
	})
	t.Run("a_closed_box_is_not_found", func(t *testing.T) {
		var all mailboxes
		all.address("p", all.open("run_1"))
		all.close("run_1")
		if all.of("p") != nil || len(all.all()) != 0 {
			t.Error("it is still there")
		}
	})
}

func TestBells(t *testing.T) {
	var all bells
	first, second := all.open("run_1"), all.open("run_1")
	rung := first.Wait()
	all.ring("run_1")
	<-rung
	if first != second {
		t.Error("one run has two bells")
	}
	all.close("run_1")
	all.close("run_1")
	all.ring("run_1") // nobody waits
	if len(all.byRun) != 0 {
		t.Error("a bell that nobody waits for is kept")
	}
}

func TestLive(t *testing.T) {
	var s Studio
	s.live.follow("run_1", "anna")
	s.live.forget("run_1")
	s.live.progress("run_1", Progress{Value: 1})
	s.live.preview("run_1", Preview{Data: []byte("x")})
	if len(s.live.runs) != 0 {
		t.Error("late news of a run is kept for ever")
	}
}

// TestStepped: who reads the latest values alone learns which nodes counted
// steps before.
func TestStepped(t *testing.T) {
	var s Studio
	s.live.follow("run_1", "anna")
	at := func(node NodeID, limit float64, told ...NodeID) Progress {
		return Progress{Node: NodeRef{ID: node}, Max: limit, Total: 5, Stepped: told}
	}
	seen := map[int][]NodeID{}
	for i, p := range []Progress{at("1", 1), at("2", 20), at("2", 20), at("3", 1), at("4", 7), at("5", 1, "2", "x")} {
		s.live.progress("run_1", p)
		live, _ := s.Live("run_1")
		seen[i] = live.Progress.Stepped
	}
	want := map[int][]NodeID{0: nil, 1: {"2"}, 2: {"2"}, 3: {"2"}, 4: {"2", "4"}, 5: {"2", "x"}}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Error(diff)
	}
}
