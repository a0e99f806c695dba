package sidecar

import "testing"

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
