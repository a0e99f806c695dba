package sqlite_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite"
)

func health(scope sidecar.Scope, n int) sidecar.Event {
	return sidecar.Event{
		Scope: scope, Type: sidecar.EventHealthChanged, At: birth, Targets: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n)),
	}
}

func appendAll(t testing.TB, store *sqlite.Store, told ...sidecar.Event) {
	t.Helper()
	if err := store.Append(context.Background(), told...); err != nil {
		t.Fatal(err)
	}
}

func seqs(records []sidecar.Record) []sidecar.Seq {
	var out []sidecar.Seq
	for _, r := range records {
		out = append(out, r.Seq)
	}
	return out
}

// TestEvents asks everything twice: of the tail in memory, and of the table.
func TestEvents(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	store := open(t, path)
	alice, bobby := newRun("alice", 1), newRun("bobby", 1)
	create(t, store, alice)            // 1
	create(t, store, bobby)            // 2
	appendAll(t, store, health("", 3)) // 3: for everybody
	appendAll(t, store, told(alice, sidecar.EventRunProgress), health("bobby", 5), health("alice", 6))
	store2 := func() *sqlite.Store { closeStore(t, store); return open(t, path) }

	check := func(t *testing.T, store *sqlite.Store) {
		for _, c := range []struct {
			name  string
			scope sidecar.Scope
			run   sidecar.RunID
			after sidecar.Seq
			limit int
			want  []sidecar.Seq
		}{
			{"a_scopes_own_and_those_for_everybody", "alice", "", 0, 0, []sidecar.Seq{1, 3, 4, 6}},
			{"another_scopes", "bobby", "", 0, 0, []sidecar.Seq{2, 3, 5}},
			{"nobodys", "", "", 0, 0, []sidecar.Seq{3}},
			{"after_a_number", "alice", "", 3, 0, []sidecar.Seq{4, 6}},
			{"at_most_so_many", "alice", "", 0, 2, []sidecar.Seq{1, 3}},
			{"after_the_newest", "alice", "", 6, 0, nil},
			{"before_the_first", "alice", "", -5, 1, []sidecar.Seq{1}},
			{"of_a_run", "alice", alice.ID, 0, 0, []sidecar.Seq{1, 4}},
			{"of_a_run_after_a_number", "alice", alice.ID, 1, 0, []sidecar.Seq{4}},
			{"of_a_run_of_another_scope", "bobby", alice.ID, 0, 0, nil},
		} {
			t.Run(c.name, func(t *testing.T) {
				diff(t, c.want, seqs(events(t, store, c.scope, c.run, c.after, c.limit)))
			})
		}
		t.Run("beyond_the_newest_is_trimmed", func(t *testing.T) {
			for _, run := range []sidecar.RunID{"", alice.ID} {
				if _, err := store.Events(context.Background(), "alice", run, 7, 0); !errors.Is(err, sidecar.ErrTrimmed) {
					t.Errorf("got %v", err)
				}
			}
		})
		t.Run("records_are_the_events_json", func(t *testing.T) {
			want := told(alice, sidecar.EventRunStarted)
			diff(t, sidecar.Record{Seq: 1, Run: alice.ID, Scope: "alice", Type: want.Type, JSON: want.JSON()},
				events(t, store, "alice", "", 0, 1)[0])
			diff(t, string(health("", 3).JSON()), string(events(t, store, "alice", "", 2, 1)[0].JSON))
		})
	}
	t.Run("tail", func(t *testing.T) { check(t, store) })
	store = store2()
	t.Run("table", func(t *testing.T) { check(t, store) })
	sound(t, store)
}

func TestTailAndTableAgree(t *testing.T) {
	store := fresh(t)
	const all = 3*sqlite.TailLength + 7
	for n := 1; n <= all; {
		var batch []sidecar.Event
		for ; n <= all && len(batch) < 100; n++ {
			batch = append(batch, health("alice", n))
		}
		appendAll(t, store, batch...)
	}
	for after := sidecar.Seq(0); after < all; {
		records := events(t, store, "alice", "", after, 333)
		for _, r := range records {
			if after++; r.Seq != after || string(r.JSON) != string(health("alice", int(after)).JSON()) {
				t.Fatalf("after %d came %d: %s", after-1, r.Seq, r.JSON)
			}
		}
		if len(records) == 0 {
			t.Fatalf("nothing after %d", after)
		}
	}
}

func TestTrimmed(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "state.db")
	store := open(t, path)
	run := create(t, store, newRun("alice", 1))
	appendAll(t, store, health("alice", 2), told(run, sidecar.EventRunProgress))
	row(t, store, "UPDATE run_state SET retained_from = 3, base_hash = (SELECT hash FROM events WHERE seq = 1)")
	row(t, store, "DELETE FROM events WHERE seq = 1")
	row(t, store, "UPDATE sidecar_meta SET value = 1 WHERE key IN ('trimmed_to', 'reset_to')")
	closeStore(t, store)
	store = open(t, path)
	for _, id := range []sidecar.RunID{"", run.ID} {
		if _, err := store.Events(ctx, "alice", id, 0, 0); !errors.Is(err, sidecar.ErrTrimmed) {
			t.Errorf("run %q: got %v", id, err)
		}
	}
	diff(t, []sidecar.Seq{2, 3}, seqs(events(t, store, "alice", "", 1, 0)))
	diff(t, []sidecar.Seq{3}, seqs(events(t, store, "alice", run.ID, 2, 0)))
	sound(t, store)
}

func TestChanged(t *testing.T) {
	store := fresh(t)
	changed := store.Changed()
	if err := store.SaveSession(context.Background(), sidecar.Session{ID: "s", Scope: "alice"}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-changed:
		t.Error("it rang without events")
	default:
	}
	appendAll(t, store, health("", 1))
	select {
	case <-changed:
	default:
		t.Error("it did not ring")
	}
	if store.Head() != 1 {
		t.Errorf("head %d", store.Head())
	}
}

// TestReaders: every reader sees the same log, whenever it looks.
func TestReaders(t *testing.T) {
	store := fresh(t)
	const all = 300
	read := func() (got []sidecar.Seq, err error) {
		for len(got) < all {
			changed := store.Changed()
			var after sidecar.Seq
			if len(got) > 0 {
				after = got[len(got)-1]
			}
			records, err := store.Events(context.Background(), "alice", "", after, 7)
			if err != nil {
				return got, err
			}
			got = append(got, seqs(records)...)
			if len(records) == 0 {
				<-changed
			}
		}
		return got, nil
	}
	var readers, writers sync.WaitGroup
	want := make([]sidecar.Seq, all)
	for i := range want {
		want[i] = sidecar.Seq(i + 1)
	}
	for range 8 {
		readers.Go(func() {
			got, err := read()
			if err != nil {
				t.Error(err)
			}
			diff(t, want, got)
		})
	}
	for range 4 {
		writers.Go(func() {
			for n := range all / 4 {
				if err := store.Append(context.Background(), health("alice", n)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	readers.Wait()
}

func TestVersion(t *testing.T) {
	ctx := context.Background()
	store := fresh(t)
	grows := func(scope sidecar.Scope, change func()) bool {
		t.Helper()
		before := store.Version(scope)
		change()
		return store.Version(scope) > before
	}
	alice, shared := newRun("alice", 1), newRun(sidecar.SharedScope, 1)
	for _, c := range []struct {
		name               string
		alice, bob, shared bool
		change             func()
	}{
		{"create", true, false, false, func() { create(t, store, alice) }},
		{"update", true, false, false, func() { apply(t, store, alice.ID, sidecar.Signal{Kind: sidecar.SignalHanding}) }},
		{"a_shared_run", false, false, true, func() { create(t, store, shared) }},
		{"an_event_for_everybody", true, true, true, func() { appendAll(t, store, health("", 1)) }},
		{"an_event_of_a_scope", false, true, false, func() { appendAll(t, store, health("bobby", 1)) }},
		{"a_session", false, false, false, func() {
			if err := store.SaveSession(ctx, sidecar.Session{ID: "a", Scope: "alice"}); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := make([]bool, 3)
			got[2] = grows(sidecar.SharedScope, func() {
				got[1] = grows("bobby", func() { got[0] = grows("alice", func() { c.change() }) })
			})
			diff(t, []bool{c.alice, c.bob, c.shared}, got)
		})
	}
	t.Run("scopes_beyond_number_only_grow", func(t *testing.T) {
		before := store.Version("alice")
		for n := 0; n < sqlite.MaxVersions+10; n += 500 {
			err := store.Do(ctx, func(tx *sqlite.Tx) error {
				for i := range 500 {
					tx.Touch(sidecar.Scope(fmt.Sprintf("scope-%d", n+i)))
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if store.Version("alice") < before || !grows("alice", func() { appendAll(t, store, health("alice", 1)) }) {
			t.Error("a version went back")
		}
	})
}

func TestSaveSession(t *testing.T) {
	store := fresh(t)
	for _, scope := range []sidecar.Scope{"alice", sidecar.SharedScope} {
		if err := store.SaveSession(context.Background(), sidecar.Session{ID: "a", Scope: scope}); err != nil {
			t.Fatal(err)
		}
	}
	if n := count(t, store, "SELECT count(*) FROM sessions WHERE session_id = 'a' AND scope_key = 'shared' AND created_at LIKE '____-__-__T__:__:__.___Z'"); n != 1 {
		t.Errorf("%d rows", n)
	}
}

func TestAppendRefusesWhatIsNoEvent(t *testing.T) {
	store := fresh(t)
	ctx := context.Background()
	bad := health("alice", 1)
	bad.Targets = json.RawMessage("{")
	lost := health("alice", 1)
	lost.Run = "run_x"
	if err := store.Append(ctx, health("alice", 1), bad); err == nil {
		t.Error("accepted")
	}
	if err := store.Append(ctx, lost); !errors.Is(err, sidecar.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	if store.Head() != 0 || len(events(t, store, "alice", "", 0, 0)) != 0 {
		t.Error("something was kept")
	}
}
