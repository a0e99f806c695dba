package sidecar

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestQueue(t *testing.T) {
	drain := func(q *queue) (order []RunID) {
		for {
			id, ok := q.pop(time.Time{})
			if !ok {
				return order
			}
			order = append(order, id)
			q.release()
		}
	}
	t.Run("sessions take turns", func(t *testing.T) {
		q := queue{window: 1}
		for _, id := range []RunID{"a1", "a2", "a3"} {
			q.push(&Run{Session: "a", ID: id}, false)
		}
		q.push(&Run{Session: "b", ID: "b1"}, false)
		q.push(&Run{Session: "c", ID: "c1"}, false)
		if diff := cmp.Diff([]RunID{"a1", "b1", "c1", "a2", "a3"}, drain(&q)); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("the window bounds what is in flight", func(t *testing.T) {
		q := queue{window: 2}
		for _, id := range []RunID{"1", "2", "3"} {
			q.push(&Run{Session: "a", ID: id}, false)
		}
		q.pop(time.Time{})
		q.pop(time.Time{})
		if id, ok := q.pop(time.Time{}); ok {
			t.Errorf("%s went out beyond the window", id)
		}
		q.release()
		if id, _ := q.pop(time.Time{}); id != "3" {
			t.Errorf("got %q", id)
		}
	})
	t.Run("who cannot begin yet wakes nobody", func(t *testing.T) {
		now := time.Now()
		q := queue{window: 1}
		rings := func(run *Run) bool {
			bell := q.bell.Wait()
			q.push(run, false)
			select {
			case <-bell:
				return true
			default:
				return false
			}
		}
		if !rings(&Run{ID: "1"}) {
			t.Error("a turn is free")
		}
		q.pop(now)
		if rings(&Run{ID: "2"}) {
			t.Error("the window is full")
		}
		if !rings(&Run{ID: "3", State: State{DueAt: now.Add(time.Hour)}}) || rings(&Run{ID: "4", State: State{DueAt: now.Add(2 * time.Hour)}}) {
			t.Error("the first to be due has to be waited for, the second not")
		}
	})
	t.Run("whoever fills the window, it is told", func(t *testing.T) {
		now := time.Now()
		for name, enter := range map[string]func(*queue){
			"taken up": func(q *queue) { q.take(&Run{Session: "a", ID: "1"}) },
			"late": func(q *queue) {
				q.push(&Run{Session: "a", ID: "1", State: State{DueAt: now}}, false)
				q.pop(now)
			},
			"in turn": func(q *queue) {
				q.push(&Run{Session: "a", ID: "1"}, false)
				q.pop(now)
			},
		} {
			q := queue{window: 1}
			told := q.filled.Wait()
			enter(&q)
			select {
			case <-told:
			default:
				t.Errorf("%s: nobody was told", name)
			}
		}
	})
	t.Run("a removed run does not come out", func(t *testing.T) {
		q := queue{window: 9}
		q.push(&Run{Session: "a", ID: "a1"}, false)
		q.push(&Run{Session: "b", ID: "b1"}, false)
		if !q.remove("a1") || q.remove("a1") {
			t.Error("remove does not say what it did")
		}
		if diff := cmp.Diff([]RunID{"b1"}, drain(&q)); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("a place is how many come out before", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			q := queue{window: 1}
			owner := map[RunID]SessionID{}
			for i := range rapid.IntRange(1, 20).Draw(t, "runs") {
				session := SessionID(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "session"))
				id := RunID([]byte{'r', byte('a' + i)})
				owner[id] = session
				q.push(&Run{Session: session, ID: id}, false)
			}
			for i := range rapid.IntRange(0, 30).Draw(t, "moves") {
				id := rapid.SampledFrom(slices.Sorted(maps.Keys(owner))).Draw(t, "moved")
				if rapid.Bool().Draw(t, "to the front") {
					q.moveToFront(&Run{Session: owner[id], ID: id, State: State{Position: int64(i + 1)}})
				} else if q.remove(id) {
					q.push(&Run{Session: owner[id], ID: id}, false)
				}
			}
			places := map[RunID]int{}
			for id := range owner {
				places[id], _ = q.place(id)
			}
			order := q.order()
			for i, id := range order {
				if places[id] != i {
					t.Fatalf("%s is listed as number %d, its place is %d", id, i, places[id])
				}
			}
			drained := drain(&q)
			if len(drained) != len(owner) || len(order) != len(owner) {
				t.Fatalf("%d runs are listed and %d came out, of %d", len(order), len(drained), len(owner))
			}
			for i, id := range drained {
				if places[id] != i {
					t.Fatalf("%s came out as number %d, its place was %d", id, i, places[id])
				}
			}
		})
	})
}
