//go:build linux

package sqlite_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/comfygit-ai/studio-sidecar/internal/need"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite"
)

// crowdedDisk is a store on a disk of 28 MiB that has no space left, and a
// file that takes some of it. A part of the disk is reserved.
func crowdedDisk(t *testing.T, reserve int64) (store *sqlite.Store, rest string) {
	t.Helper()
	need.That(t, os.Getuid() == 0, "root, to mount a small disk")
	disk := t.TempDir()
	need.That(t, exec.Command("mount", "-t", "tmpfs", "-o", "size=28m", "tmpfs", disk).Run() == nil, "the right to mount a small disk")
	t.Cleanup(func() {
		if err := exec.Command("umount", disk).Run(); err != nil {
			t.Error(err)
		}
	})
	rest = filepath.Join(disk, "rest")
	write(t, rest, make([]byte, 6<<20))
	store, err := sqlite.Open(context.Background(), sqlite.Options{Path: filepath.Join(disk, "state.db"), LockWait: -1, Reserve: reserve})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, store) })
	for n := 1; err == nil; n++ {
		err = put(store, endedLarge(n))
	}
	refused(t, err, store.Path())
	return store, rest
}

// fillUp takes what is left of a disk.
func fillUp(t *testing.T, path string) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for n := 64 << 10; n > 0; {
		if _, err := file.Write(make([]byte, n)); err != nil {
			n /= 2
		}
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}

func endedLarge(n int) *sidecar.Run {
	run := newRun("alice", n)
	run.Phase, run.Status, run.FinishedAt = sidecar.PhaseFinished, sidecar.StatusCompleted, run.CreatedAt
	run.Workflow = strings.Repeat("w", 20_000)
	return run
}

// TestLogThatFillsTheDisk: what the server wrote itself is moved to where it
// takes less, and writing goes on, without a restart and without anybody who
// removes something.
func TestLogThatFillsTheDisk(t *testing.T) {
	store, rest := crowdedDisk(t, sqlite.DefaultReserve)
	// Nothing is free but what the log can be made to give.
	fillUp(t, filepath.Join(filepath.Dir(rest), "more"))
	until(t, "writing works again", func() bool { return store.Trouble() == nil })
	for n := range 20 {
		if err := put(store, endedLarge(1000+n)); err != nil {
			t.Fatalf("run %d: %v", n, err)
		}
	}
	if info, err := os.Stat(store.Path() + ".reserve"); err != nil || info.Size() != sqlite.DefaultReserve {
		t.Errorf("the reserve: %v, %v", info, err)
	}
	sound(t, store)
}

// TestReserve: on a disk without space runs can be deleted and pruned all the
// same, and then there is room for others.
func TestReserve(t *testing.T) {
	ctx := context.Background()
	keepTen := func(store *sqlite.Store) error {
		_, err := store.Prune(ctx, sidecar.Retention{Runs: 10}, birth.AddDate(0, 1, 0), func(string) int64 { return 0 })
		return err
	}
	t.Run("without_one_nothing_goes", func(t *testing.T) {
		store, _ := crowdedDisk(t, 0)
		refused(t, keepTen(store), store.Path())
	})
	for name, before := range map[string]func(path string) error{
		"a_start_without_space_uses_it": func(string) error { return nil },
		"and_for_its_lock_file":         func(path string) error { return os.Remove(path + ".lock") },
	} {
		t.Run(name, func(t *testing.T) {
			store, _ := crowdedDisk(t, sqlite.DefaultReserve)
			path := store.Path()
			closeStore(t, store)
			if err := before(path); err != nil {
				t.Fatal(err)
			}
			fillUp(t, filepath.Join(filepath.Dir(path), "more"))
			if _, err := sqlite.Open(ctx, sqlite.Options{Path: path, LockWait: -1}); err == nil {
				t.Error("it starts without space")
			}
			again, err := sqlite.Open(ctx, sqlite.Options{Path: path, LockWait: -1, Reserve: sqlite.DefaultReserve})
			if err != nil {
				t.Fatal(err)
			}
			if err := keepTen(again); err != nil {
				t.Error(err)
			}
			closeStore(t, again)
		})
	}
	for name, free := range map[string]func(*sqlite.Store) error{
		"pruning": keepTen,
		"deleting": func(store *sqlite.Store) error {
			for n := 1; n < 40; n++ {
				if _, err := store.DeleteRun(ctx, "alice", newRun("alice", n).ID); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			store, rest := crowdedDisk(t, sqlite.DefaultReserve)
			store.SetRefill(0)
			reserved := func() int64 {
				info, err := os.Stat(store.Path() + ".reserve")
				if err != nil {
					t.Fatal(err)
				}
				return info.Size()
			}
			if reserved() != sqlite.DefaultReserve {
				t.Errorf("%d bytes are reserved", reserved())
			}
			if err := free(store); err != nil {
				t.Fatal(err)
			}
			for n := 5000; n < 5010; n++ {
				if err := put(store, endedLarge(n)); err != nil {
					t.Error(err)
				}
			}
			sound(t, store)
			if err := os.Remove(rest); err != nil {
				t.Fatal(err)
			}
			deadline := time.Now().Add(30 * time.Second)
			for n := 6000; reserved() != sqlite.DefaultReserve; n++ {
				create(t, store, newRun("alice", n))
				if time.Now().After(deadline) {
					t.Fatalf("with space again %d bytes are reserved", reserved())
				}
			}
		})
	}
}
