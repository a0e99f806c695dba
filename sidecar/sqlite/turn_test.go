package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite"
)

func TestCallersContext(t *testing.T) {
	store := fresh(t)

	t.Run("one_that_ended_before_writes_nothing", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		err := store.Do(ctx, func(tx *sqlite.Tx) error { return note(tx, "early") })
		if !errors.Is(err, context.Canceled) || notes(t, store, "early") != 0 {
			t.Errorf("got %v", err)
		}
	})
	bubble(t, "one_that_ends_while_it_waits_for_its_turn_writes_nothing", func(t *testing.T) {
		store := fresh(t)
		release := hold(t, store)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- store.Do(ctx, func(tx *sqlite.Tx) error { return note(tx, "queued") }) }()
		synctest.Wait()
		cancel()
		err := <-done
		release()
		if !errors.Is(err, context.Canceled) || notes(t, store, "queued") != 0 {
			t.Errorf("got %v", err)
		}
	})
	bubble(t, "one_that_ends_midway_beside_others_keeps_the_change", func(t *testing.T) {
		store := fresh(t)
		release := hold(t, store)
		ctx, cancel := context.WithCancel(context.Background())
		end, done := make(chan struct{}), make(chan error)
		go func() {
			done <- store.Do(ctx, func(tx *sqlite.Tx) error {
				cancel()
				<-end
				return note(tx, "shared")
			})
		}()
		synctest.Wait()
		release()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		close(end)
		// The next change waits for the one before it.
		if err := store.Do(context.Background(), func(tx *sqlite.Tx) error { return note(tx, "next") }); err != nil {
			t.Error(err)
		}
		if notes(t, store, "shared") != 1 {
			t.Error("the change is lost")
		}
	})
	t.Run("one_that_ends_midway_alone_learns_what_became_of_it", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		err := store.Do(ctx, func(tx *sqlite.Tx) error {
			cancel()
			return note(tx, "alone")
		})
		if err != nil || notes(t, store, "alone") != 1 {
			t.Errorf("got %v", err)
		}
	})
}

func TestClose(t *testing.T) {
	ctx := context.Background()

	bubble(t, "it_waits_for_who_writes", func(t *testing.T) {
		store := fresh(t)
		release := hold(t, store)
		closed := make(chan error, 1)
		go func() { closed <- store.Close() }()
		synctest.Wait()
		select {
		case err := <-closed:
			t.Fatalf("closed while somebody writes: %v", err)
		default:
		}
		if err := store.Do(ctx, func(*sqlite.Tx) error { return nil }); !errors.Is(err, sqlite.ErrClosed) {
			t.Errorf("got %v", err)
		}
		release()
		if err := <-closed; err != nil {
			t.Error(err)
		}
	})

	t.Run("calls_after_it_are_refused", func(t *testing.T) {
		store, err := sqlite.Open(ctx, sqlite.Options{Path: filepath.Join(t.TempDir(), "s.db")})
		if err != nil {
			t.Fatal(err)
		}
		closeStore(t, store)
		closeStore(t, store)
		_, read := store.Run(ctx, "run_x")
		_, verify := store.Verify(ctx)
		for _, err := range []error{read, verify, store.Do(ctx, func(*sqlite.Tx) error { return nil })} {
			if !errors.Is(err, sqlite.ErrClosed) {
				t.Errorf("got %v", err)
			}
		}
	})
	t.Run("what_was_taken_is_committed", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "s.db")
		store, err := sqlite.Open(ctx, sqlite.Options{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		release := hold(t, store)
		var calls sync.WaitGroup
		results := make([]error, 32)
		for i := range results {
			calls.Go(func() {
				results[i] = store.Do(ctx, func(tx *sqlite.Tx) error { return note(tx, fmt.Sprintf("n%02d", i)) })
			})
		}
		release()
		closeStore(t, store)
		calls.Wait()
		store = open(t, path)
		for i, err := range results {
			if err != nil && !errors.Is(err, sqlite.ErrClosed) {
				t.Errorf("%d: %v", i, err)
			}
			if there := notes(t, store, fmt.Sprintf("n%02d", i)) == 1; there != (err == nil) {
				t.Errorf("%d: answered %v, there %v", i, err, there)
			}
		}
	})
}
