package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/comfygit-ai/studio-sidecar/internal/need"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite"
)

// hold keeps the writer busy until release is called, so that what is called
// meanwhile becomes one group.
func hold(t *testing.T, store *sqlite.Store) (release func()) {
	t.Helper()
	begun, end, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- store.Do(context.Background(), func(*sqlite.Tx) error {
			close(begun)
			<-end
			return nil
		})
	}()
	<-begun
	return func() {
		close(end)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// note writes a row that a test can count.
func note(tx *sqlite.Tx, name string) error {
	_, err := tx.Exec("INSERT INTO sessions VALUES (?, 's', 'c', 'u')", name)
	return err
}

func notes(t *testing.T, store *sqlite.Store, like string) int {
	t.Helper()
	return count(t, store, "SELECT count(*) FROM sessions WHERE session_id LIKE '"+like+"'")
}

// together makes one group of the functions, in this order, and returns their
// errors. It works in a bubble alone, which knows when a caller waits.
func together(t *testing.T, store *sqlite.Store, changes ...func(*sqlite.Tx) error) []error {
	t.Helper()
	release := hold(t, store)
	errs := make([]error, len(changes))
	var calls sync.WaitGroup
	for i, change := range changes {
		calls.Go(func() { errs[i] = store.Do(context.Background(), change) })
		synctest.Wait()
	}
	release()
	calls.Wait()
	return errs
}

// bubble runs a subtest in a bubble of its own.
func bubble(t *testing.T, name string, test func(*testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

func TestGroups(t *testing.T) {
	t.Run("many_writers_share_transactions", func(t *testing.T) {
		store := fresh(t)
		before := store.Stats()
		const writers, each = 64, 20
		var calls sync.WaitGroup
		for w := range writers {
			calls.Go(func() {
				for n := range each {
					if err := store.Do(context.Background(), func(tx *sqlite.Tx) error {
						return note(tx, fmt.Sprintf("n%d-%d", w, n))
					}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		calls.Wait()
		after := store.Stats()
		made, transactions := after.Calls-before.Calls, after.Transactions-before.Transactions
		if made != writers*each || transactions > made/4 {
			t.Errorf("%d calls in %d transactions", made, transactions)
		}
		t.Logf("%d calls in %d transactions", made, transactions)
		if n := notes(t, store, "n%"); n != writers*each {
			t.Errorf("%d rows", n)
		}
	})

	bubble(t, "who_fails_before_writing_fails_alone", func(t *testing.T) {
		store := fresh(t)
		refused := errors.New("refused")
		before := store.Stats()
		errs := together(t, store,
			func(tx *sqlite.Tx) error { return note(tx, "a") },
			func(*sqlite.Tx) error { return refused },
			func(tx *sqlite.Tx) error { return note(tx, "b") })
		diff(t, []bool{true, false, true}, []bool{errs[0] == nil, errs[1] == nil, errs[2] == nil})
		after := store.Stats()
		if errs[1] != refused || notes(t, store, "_") != 2 {
			t.Errorf("got %v", errs)
		}
		// One for the function that held the writer, one for the group.
		if after.Rollbacks != before.Rollbacks || after.Transactions != before.Transactions+2 {
			t.Errorf("from %+v to %+v", before, after)
		}
	})

	bubble(t, "who_fails_after_writing_leaves_nothing_and_harms_nobody", func(t *testing.T) {
		store := fresh(t)
		refused := errors.New("refused")
		var changes []func(*sqlite.Tx) error
		for i := range 12 {
			changes = append(changes, func(tx *sqlite.Tx) error {
				if err := note(tx, fmt.Sprintf("n%02d", i)); err != nil {
					return err
				}
				if i%3 == 0 { // more often than groups are run again
					return refused
				}
				return nil
			})
		}
		for i, err := range together(t, store, changes...) {
			if (err == refused) != (i%3 == 0) || err != nil && err != refused {
				t.Errorf("%d: %v", i, err)
			}
		}
		if n := notes(t, store, "n__"); n != 8 {
			t.Errorf("%d rows", n)
		}
	})

	bubble(t, "events_of_a_group_run_again_are_numbered_without_gaps", func(t *testing.T) {
		store := fresh(t)
		tell := func(then error) func(*sqlite.Tx) error {
			return func(tx *sqlite.Tx) error {
				if err := tx.Append(sidecar.Event{Type: sidecar.EventHealthChanged, At: birth}); err != nil {
					return err
				}
				return then
			}
		}
		together(t, store, tell(nil), tell(errors.New("no")), tell(nil), tell(errors.New("no")), tell(nil))
		var got []sidecar.Seq
		for _, record := range events(t, store, "alice", "", 0, 0) {
			got = append(got, record.Seq)
		}
		diff(t, []sidecar.Seq{1, 2, 3}, got)
		sound(t, store)
	})

	bubble(t, "a_panic_is_the_callers_error", func(t *testing.T) {
		store := fresh(t)
		errs := together(t, store,
			func(tx *sqlite.Tx) error { return note(tx, "a") },
			func(tx *sqlite.Tx) error {
				if err := note(tx, "b"); err != nil {
					return err
				}
				panic("at the disco")
			},
			func(*sqlite.Tx) error { panic("before writing") })
		if errs[0] != nil || errs[1] == nil || !strings.Contains(errs[1].Error(), "at the disco") || errs[2] == nil {
			t.Errorf("got %v", errs)
		}
		if notes(t, store, "a") != 1 || notes(t, store, "b") != 0 {
			t.Error("the wrong rows are there")
		}
	})

	bubble(t, "a_storage_error_fails_the_group_even_when_it_is_swallowed", func(t *testing.T) {
		store := fresh(t)
		own, broken := errors.New("own"), errors.New("broken")
		errs := together(t, store,
			func(*sqlite.Tx) error { return own },
			func(tx *sqlite.Tx) error { return note(tx, "a") },
			func(tx *sqlite.Tx) error { tx.Fail(broken); return nil },
			func(tx *sqlite.Tx) error { return note(tx, "b") })
		if errs[0] != own {
			t.Errorf("who failed before anybody wrote got %v", errs[0])
		}
		for _, err := range errs[1:] {
			var told *sidecar.Error
			if !errors.As(err, &told) || told.Code != sidecar.CodeStorage || !errors.Is(err, broken) || !strings.Contains(told.Message, store.Path()) {
				t.Errorf("got %v", err)
			}
		}
		if store.Trouble() == nil {
			t.Error("there is no trouble")
		}
		until(t, "the trouble ends by itself", func() bool { return store.Trouble() == nil })
		if notes(t, store, "_") != 0 {
			t.Error("something was written")
		}
	})

	bubble(t, "who_writes_nothing_does_not_end_the_trouble", func(t *testing.T) {
		store := fresh(t)
		do := func(change func(*sqlite.Tx) error) error { return store.Do(context.Background(), change) }
		if do(func(tx *sqlite.Tx) error { tx.Fail(errors.New("broken")); return nil }) == nil {
			t.Fatal("nothing failed")
		}
		if err := do(func(*sqlite.Tx) error { return nil }); err != nil || store.Trouble() == nil {
			t.Errorf("got %v, trouble %v", err, store.Trouble())
		}
		if err := do(func(tx *sqlite.Tx) error { return note(tx, "a") }); err != nil || store.Trouble() != nil {
			t.Errorf("got %v, trouble %v", err, store.Trouble())
		}
	})

	bubble(t, "a_wrong_statement_is_the_callers_error", func(t *testing.T) {
		store := fresh(t)
		errs := together(t, store,
			func(tx *sqlite.Tx) error { return note(tx, "a") },
			func(tx *sqlite.Tx) error { _, err := tx.Exec("INSERT INTO nowhere VALUES (1)"); return err },
			func(tx *sqlite.Tx) error {
				_, err := tx.Exec("INSERT INTO sessions VALUES ('x', NULL, '', '')")
				return err
			})
		var told *sidecar.Error
		if errs[0] != nil || errs[1] == nil || errs[2] == nil || errors.As(errs[1], &told) || store.Trouble() != nil {
			t.Errorf("got %v, trouble %v", errs, store.Trouble())
		}
	})
}

// TestBubble: the store works where time is a test's own.
func TestBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := sqlite.Open(context.Background(), sqlite.Options{Ephemeral: true})
		if err != nil {
			t.Fatal(err)
		}
		defer closeStore(t, store)
		create(t, store, newRun("alice", 1))
		release := hold(t, store)
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		if err := store.Do(ctx, func(*sqlite.Tx) error { return nil }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		release()
	})
}

// until waits for a condition.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(30 * time.Second)
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s: it does not", what)
		}
	}
}

func TestReopen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "in", "a folder with ?#%", "state.db")
	store := open(t, path)
	run := create(t, store, newRun("alice", 1))
	run = apply(t, store, run.ID, sidecar.Signal{Kind: sidecar.SignalHanding}, accepted())
	records := events(t, store, "alice", "", 0, 0)
	version := store.Version("alice")
	closeStore(t, store)

	store = open(t, path)
	diff(t, run, read(t, store, run.ID))
	diff(t, records, events(t, store, "alice", "", 0, 0))
	if store.Head() != sidecar.Seq(len(records)) {
		t.Errorf("head %d", store.Head())
	}
	if store.Version("alice") == version {
		t.Error("a version of the life before came again")
	}
	apply(t, store, run.ID, sidecar.Signal{Kind: sidecar.SignalCancel})
	sound(t, store)
}

func TestLock(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "state.db")
	store := open(t, path)

	t.Run("a_second_process_is_told_who_holds_it", func(t *testing.T) {
		_, err := sqlite.Open(ctx, sqlite.Options{Path: path, LockWait: -1})
		var told *sidecar.Error
		if !errors.As(err, &told) || told.Code != sidecar.CodeStorage || !strings.Contains(told.Message, path) || !strings.Contains(told.Message, "process ") {
			t.Errorf("got %v", err)
		}
		create(t, store, newRun("alice", 1))
	})
	t.Run("a_link_leads_to_the_same_lock", func(t *testing.T) {
		link := filepath.Join(t.TempDir(), "link.db")
		need.That(t, os.Symlink(path, link) == nil, "symbolic links")
		if _, err := sqlite.Open(ctx, sqlite.Options{Path: link, LockWait: -1}); err == nil {
			t.Error("opened twice")
		}
	})
	t.Run("waiting_ends_with_the_context", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
		defer cancel()
		_, err := sqlite.Open(ctx, sqlite.Options{Path: path, LockWait: time.Hour})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("who_waits_gets_it_when_it_is_free", func(t *testing.T) {
		opened := make(chan error)
		go func() {
			next, err := sqlite.Open(ctx, sqlite.Options{Path: path, LockWait: time.Minute})
			if err == nil {
				err = next.Close()
			}
			opened <- err
		}()
		closeStore(t, store)
		if err := <-opened; err != nil {
			t.Error(err)
		}
	})
	t.Run("a_store_that_was_overtaken_stops_writing", func(t *testing.T) {
		store := open(t, path)
		row(t, store, "UPDATE sidecar_meta SET value = value + 1 WHERE key = 'epoch'")
		err := store.Do(ctx, func(tx *sqlite.Tx) error { return note(tx, "late") })
		var told *sidecar.Error
		if !errors.As(err, &told) || told.Code != sidecar.CodeStorage || store.Trouble() == nil {
			t.Errorf("got %v", err)
		}
	})
}
