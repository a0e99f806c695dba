//go:build linux

package sqlite_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite"
)

// fillEnded makes ended runs as fast as it goes.
func fillEnded(t *testing.T, store *sqlite.Store, runs int) {
	t.Helper()
	const writers = 32
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for n := w; n < runs; n += writers {
				run := newRun("alice", n)
				graph := sidecar.NewBlob(fmt.Appendf(nil, "graph of %d", n))
				run.Graph, run.Status, run.Phase, run.FinishedAt = graph.Digest, sidecar.StatusCompleted, sidecar.PhaseFinished, run.CreatedAt
				run.Items = []sidecar.Item{{
					ID: sidecar.ItemID("gallery_" + run.ID), Run: run.ID, Session: "alice", Scope: "alice", Status: sidecar.ItemDone,
					Artifact: []byte(`{"serve_artifact":"` + refOf(run.ID) + `"}`), CreatedAt: run.CreatedAt, UpdatedAt: run.CreatedAt,
				}}
				told := []sidecar.Event{told(run, sidecar.EventRunStarted), told(run, sidecar.EventRunProgress), told(run, sidecar.EventRunCompleted)}
				if err := store.Create(context.Background(), run, told, graph, sidecar.NewBlob([]byte("contract"))); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

// TestPruneHoldsNobodyUp: who writes while thousands of runs go waits for a
// short transaction, not for all of them.
func TestPruneHoldsNobodyUp(t *testing.T) {
	store := fresh(t)
	runs := fully(300, 5_000)
	fillEnded(t, store, runs)
	before := store.Stats().Transactions
	done := make(chan sidecar.Pruned, 1)
	began := time.Now()
	go func() { done <- prune(t, store, sidecar.Retention{Bytes: 1}, birth.Add(time.Hour)) }()
	var waits []time.Duration
	var pruned sidecar.Pruned
	for n := runs; pruned.Runs == 0; n++ {
		asked := time.Now()
		create(t, store, newRun("bobby", n))
		waits = append(waits, time.Since(asked))
		select {
		case pruned = <-done:
		default:
		}
	}
	took := time.Since(began)
	slices.Sort(waits)
	p99 := waits[len(waits)*99/100]
	t.Logf("%d runs pruned in %v, %d transactions; %d writers beside it waited %v (median), %v (p99), %v (longest)",
		pruned.Runs, took.Round(time.Millisecond), store.Stats().Transactions-before-int64(len(waits)), len(waits), waits[len(waits)/2], p99, waits[len(waits)-1])
	if pruned.Runs != runs || len(waits) < 5 {
		t.Errorf("%+v, %d writers", pruned, len(waits))
	}
	if p99 > time.Second {
		t.Errorf("somebody waited %v", p99)
	}
	consistent(t, store)
}

// pruneAll prunes a file down to five runs.
func pruneAll(store *sqlite.Store) error {
	fmt.Println("pruning")
	_, err := store.Prune(context.Background(), sidecar.Retention{Runs: 5}, birth.Add(time.Hour), sizeOfCopy)
	return err
}

// TestKilledWhilePruning: whenever it is, nothing hangs in the air, and the
// next time finishes it, copies included.
func TestKilledWhilePruning(t *testing.T) {
	choose := random()
	source := filepath.Join(t.TempDir(), "state.db")
	store := open(t, source)
	const runs = 200
	fillEnded(t, store, runs)
	closeStore(t, store)
	kills, between := fully(4, 50), 0
	for range kills {
		path := filepath.Join(t.TempDir(), "state.db")
		write(t, path, readFile(t, source))
		child := start(t, "prune", path)
		child.lines.Scan()
		alarm := time.NewTimer(time.Duration(choose.IntN(300)) * time.Millisecond)
		<-alarm.C
		child.kill(t)
		store := open(t, path)
		consistent(t, store)
		if n := count(t, store, "SELECT count(*) FROM runs"); n > 5 && n < runs {
			between++
		}
		prune(t, store, sidecar.Retention{Runs: 5}, birth.Add(time.Hour))
		doomed, err := store.Doomed(context.Background(), "", 2*runs)
		if n := count(t, store, "SELECT count(*) FROM runs"); err != nil || n != 5 || len(doomed) != runs-5 {
			t.Errorf("%d runs and %d copies to remove, %v", n, len(doomed), err)
		}
		consistent(t, store)
		closeStore(t, store)
	}
	t.Logf("%d kills, %d of them in the middle: nothing hung in the air", kills, between)
}
