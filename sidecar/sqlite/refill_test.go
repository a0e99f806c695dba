//go:build linux

package sqlite_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite"
)

// slowReserve is a store whose reserve is being filled, and a pipe in its
// place, which takes nothing before somebody reads.
func slowReserve(t *testing.T) (store *sqlite.Store, pipe string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state.db")
	store, err := sqlite.Open(context.Background(), sqlite.Options{Path: path, Reserve: sqlite.DefaultReserve})
	if err != nil {
		t.Fatal(err)
	}
	pipe = path + ".reserve"
	if err := errors.Join(os.Remove(pipe), syscall.Mkfifo(pipe, 0o600)); err != nil {
		t.Fatal(err)
	}
	store.SpendReserve()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	for n := range 2 {
		if err := store.Do(ctx, func(tx *sqlite.Tx) error { return tx.Create(newRun("alice", n), nil) }); err != nil {
			t.Fatalf("the reserve held somebody up: %v", err)
		}
	}
	return store, pipe
}

// TestRefill: nobody waits for it.
func TestRefill(t *testing.T) {
	t.Run("who_finds_no_space_gets_what_it_took", func(t *testing.T) {
		store, pipe := slowReserve(t)
		times := 0
		err := store.Do(context.Background(), func(tx *sqlite.Tx) error {
			if times++; times > 1 {
				return tx.Create(newRun("alice", 7), nil)
			}
			tx.Fail(syscall.ENOSPC)
			reader, err := os.Open(pipe)
			return errors.Join(err, reader.Close()) // writing fails from now on
		})
		if err != nil || times != 2 {
			t.Errorf("run %d times: %v", times, err)
		}
		closeStore(t, store)
	})
	t.Run("close_ends_it", func(t *testing.T) {
		store, pipe := slowReserve(t)
		reader, err := os.Open(pipe)
		if err != nil {
			t.Fatal(err)
		}
		closed := make(chan error, 1)
		go func() { closed <- store.Close() }()
		for deadline := time.Now().Add(time.Minute); !errors.Is(put(store, newRun("alice", 9)), sqlite.ErrClosed); {
			if time.Now().After(deadline) {
				t.Fatal("it does not close")
			}
		}
		if n, err := io.Copy(io.Discard, reader); err != nil || n >= sqlite.DefaultReserve {
			t.Errorf("%d bytes were reserved while it closed, %v", n, err)
		}
		if err := errors.Join(<-closed, reader.Close()); err != nil {
			t.Error(err)
		}
	})
}
