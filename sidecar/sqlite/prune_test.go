package sqlite_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite"
)

// copySize is how large every copy is in these tests.
const copySize = 100_000

func sizeOfCopy(string) int64 { return copySize }

// endedRun makes a run that ended n seconds after the first, with an item that
// shows a copy, and a graph of its own.
func endedRun(t testing.TB, store *sqlite.Store, scope sidecar.Scope, n int) sidecar.RunID {
	t.Helper()
	run := newRun(scope, n)
	graph := sidecar.NewBlob(fmt.Appendf(nil, "graph of %s", run.ID))
	run.Graph = graph.Digest
	err := store.Create(context.Background(), run, []sidecar.Event{told(run, sidecar.EventRunStarted)}, graph, sidecar.NewBlob([]byte("contract")))
	if err != nil {
		t.Fatal(err)
	}
	apply(t, store, run.ID, sidecar.Signal{Kind: sidecar.SignalHanding}, accepted(),
		sidecar.Signal{Kind: sidecar.SignalNodeStarted, Node: sidecar.NodeRef{ID: "7", Class: "KSampler"}})
	_, err = store.Update(context.Background(), run.ID, func(r *sidecar.Run) ([]sidecar.Event, error) {
		events := r.Apply(sidecar.Signal{Kind: sidecar.SignalFinished}, birth.Add(time.Duration(n)*time.Second))
		if len(r.Items) > 0 {
			r.Items[0].Artifact = json.RawMessage(`{"serve_artifact": "` + refOf(run.ID) + `"}`)
		}
		return events, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return run.ID
}

func refOf(id sidecar.RunID) string { return "prompt-" + string(id) + "/a.png" }

func pin(t testing.TB, store *sqlite.Store, id sidecar.RunID) {
	t.Helper()
	pinned := true
	_, err := store.Update(context.Background(), id, func(r *sidecar.Run) ([]sidecar.Event, error) {
		return r.Edit(sidecar.Edit{Pinned: &pinned}, birth), nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func prune(t testing.TB, store *sqlite.Store, keep sidecar.Retention, now time.Time) sidecar.Pruned {
	t.Helper()
	pruned, err := store.Prune(context.Background(), keep, now, sizeOfCopy)
	if err != nil {
		t.Fatal(err)
	}
	return pruned
}

// leftOf lists the numbers of the runs that are left.
func leftOf(t *testing.T, store *sqlite.Store, scope sidecar.Scope) []int {
	t.Helper()
	_, ids := runIDs(t, store, sidecar.RunFilter{Scope: scope})
	var numbers []int
	for _, id := range ids {
		var n int
		if _, err := fmt.Sscanf(string(id[len("run_alic"):]), "%d", &n); err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	return numbers
}

// consistent looks that nothing hangs in the air.
func consistent(t testing.TB, store *sqlite.Store) {
	t.Helper()
	sound(t, store)
	for what, query := range map[string]string{
		"blobs that nothing names": "SELECT count(*) FROM blobs WHERE sha256 NOT IN (SELECT graph FROM run_state UNION SELECT contract FROM run_state)",
		"names without a blob": `SELECT count(*) FROM (SELECT graph AS d FROM run_state UNION SELECT contract FROM run_state)
			WHERE d <> '' AND d NOT IN (SELECT sha256 FROM blobs)`,
		"items without a run":     "SELECT count(*) FROM gallery_items WHERE run_id NOT IN (SELECT run_id FROM runs)",
		"slots without a run":     "SELECT count(*) FROM output_slots WHERE run_id NOT IN (SELECT run_id FROM runs)",
		"nodes without a run":     "SELECT count(*) FROM node_runs WHERE run_id NOT IN (SELECT run_id FROM runs)",
		"events without a run":    "SELECT count(*) FROM events WHERE run_id <> '' AND run_id NOT IN (SELECT run_id FROM runs)",
		"states without a run":    "SELECT count(*) FROM run_state WHERE run_id NOT IN (SELECT run_id FROM runs)",
		"callbacks without a run": "SELECT count(*) FROM cursors WHERE substr(consumer, 10) NOT IN (SELECT run_id FROM runs)",
	} {
		if n := count(t, store, query); n != 0 {
			t.Errorf("%d %s", n, what)
		}
	}
}

func TestPrune(t *testing.T) {
	for _, c := range []struct {
		name string
		keep sidecar.Retention
		left []int
	}{
		{"nothing_without_limits", sidecar.Retention{}, []int{1, 2, 3, 4, 5, 6, 7, 8}},
		{"by_age", sidecar.Retention{Age: 5500 * time.Millisecond}, []int{2, 5, 6, 7, 8}},
		{"exactly_as_old", sidecar.Retention{Age: 6 * time.Second}, []int{2, 5, 6, 7, 8}},
		{"by_number", sidecar.Retention{Runs: 2}, []int{2, 6, 7, 8}},
		{"more_than_there_are", sidecar.Retention{Runs: 100}, []int{1, 2, 3, 4, 5, 6, 7, 8}},
		{"by_bytes", sidecar.Retention{Bytes: 3*copySize + copySize/2}, []int{2, 5, 6, 7, 8}},
		{"by_more_bytes_than_there_are", sidecar.Retention{Bytes: 1 << 40}, []int{1, 2, 3, 4, 5, 6, 7, 8}},
		{"the_strictest_counts", sidecar.Retention{Runs: 4, Age: time.Second, Bytes: 1 << 40}, []int{2, 8}},
		{"all_that_may_go", sidecar.Retention{Bytes: 1}, []int{2, 8}},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := fresh(t)
			for n := 1; n <= 7; n++ {
				endedRun(t, store, "alice", n)
			}
			pin(t, store, newRun("alice", 2).ID)
			create(t, store, newRun("alice", 8)) // runs
			pruned := prune(t, store, c.keep, birth.Add(10*time.Second))
			diff(t, c.left, leftOf(t, store, "alice"))
			gone := 8 - len(c.left)
			if pruned.Runs != gone || pruned.Items != 2*gone || pruned.Blobs != gone || pruned.Copies != gone ||
				pruned.Bytes < int64(gone)*copySize || pruned.Bytes > int64(gone)*(copySize+20_000) {
				t.Errorf("got %+v for %d runs", pruned, gone)
			}
			consistent(t, store)
			if again := prune(t, store, c.keep, birth.Add(10*time.Second)); again.Runs != 0 {
				t.Errorf("then %+v", again)
			}
		})
	}
}

func TestPruneLeavesACleanLog(t *testing.T) {
	ctx := context.Background()
	store := fresh(t)
	appendAll(t, store, health("", 1), health("", 2))
	for n := 1; n <= 3; n++ {
		endedRun(t, store, "alice", n)
	}
	young := health("", 3)
	young.At = birth.Add(time.Hour)
	appendAll(t, store, young)
	version := store.Version("alice")
	prune(t, store, sidecar.Retention{Runs: 1}, birth.Add(time.Hour))

	t.Run("lists_are_known_to_have_changed", func(t *testing.T) {
		if store.Version("alice") == version {
			t.Error("the version stayed")
		}
	})
	path := store.Path()
	closeStore(t, store)
	store = open(t, path) // nothing is in memory now
	t.Run("who_reads_on_is_told_of_what_is_gone", func(t *testing.T) {
		if _, err := store.Events(ctx, "alice", "", 2, 0); !errors.Is(err, sidecar.ErrTrimmed) {
			t.Errorf("got %v", err)
		}
		if records := events(t, store, "alice", "", store.Head()-1, 0); len(records) != 1 {
			t.Errorf("got %d records", len(records))
		}
	})
	t.Run("the_kept_run_has_all_its_events", func(t *testing.T) {
		if records := events(t, store, "alice", newRun("alice", 3).ID, 0, 0); len(records) < 4 {
			t.Errorf("got %d", len(records))
		}
	})
	t.Run("copies_are_doomed_until_they_are_gone", func(t *testing.T) {
		refs, err := store.Doomed(ctx, "", 1)
		if err != nil || len(refs) != 1 {
			t.Fatalf("got %v, %v", refs, err)
		}
		if err := store.Spare(ctx, refs); err != nil {
			t.Fatal(err)
		}
		rest, err := store.Doomed(ctx, "", 10)
		diff(t, []string{refOf(newRun("alice", 2).ID)}, rest)
		if err != nil || slices.Contains(rest, refs[0]) {
			t.Errorf("%v is doomed still, %v", refs, err)
		}
	})
	consistent(t, store)
}

// TestPruneTrimsWhatBelongsToNobody: a prefix of the chain of events without a
// run, whose rest stays verifiable.
func TestPruneTrimsWhatBelongsToNobody(t *testing.T) {
	store := fresh(t)
	var old []sidecar.Event
	for n := range 1200 {
		e := health("", 1)
		e.At = birth.Add(time.Duration(n) * time.Millisecond)
		old = append(old, e)
	}
	appendAll(t, store, old...)
	endedRun(t, store, "alice", 60)
	young := health("", 1)
	young.At = birth.Add(time.Hour)
	appendAll(t, store, young)
	prune(t, store, sidecar.Retention{Age: time.Second}, birth.Add(2*time.Minute))
	if n := count(t, store, "SELECT count(*) FROM events"); n != 1 {
		t.Errorf("%d events are left", n)
	}
	appendAll(t, store, young)
	consistent(t, store)
	row(t, store, "UPDATE sidecar_meta SET value = x'00' WHERE key = 'base_hash'")
	if report := verify(t, store); len(report.Faults) == 0 {
		t.Error("another base was not found")
	}
}

// TestPruneBesideWriters: who writes meanwhile loses nothing, whatever the
// order.
func TestPruneBesideWriters(t *testing.T) {
	store := fresh(t)
	choose := rand.New(rand.NewPCG(*seed, 3))
	made := 0
	for round := range 5 {
		done := make(chan error, 1)
		go func() {
			_, err := store.Prune(context.Background(), sidecar.Retention{Runs: 5}, birth.Add(time.Hour), sizeOfCopy)
			done <- err
		}()
		for range choose.IntN(12) {
			endedRun(t, store, "alice", made)
			made++
		}
		if err := <-done; err != nil {
			t.Fatal(round, err)
		}
	}
	prune(t, store, sidecar.Retention{Runs: 5}, birth.Add(time.Hour))
	want := []int{}
	for n := made - 5; n < made; n++ {
		want = append(want, n)
	}
	diff(t, want, leftOf(t, store, "alice"))
	consistent(t, store)
}

func TestDeleteRun(t *testing.T) {
	ctx := context.Background()
	store := fresh(t)
	ended := endedRun(t, store, "alice", 1)
	other := endedRun(t, store, "alice", 2)
	active := create(t, store, newRun("alice", 3)).ID

	t.Run("of_another_scope_is_not_found", func(t *testing.T) {
		if _, err := store.DeleteRun(ctx, "bobby", ended); !errors.Is(err, sidecar.ErrNotFound) {
			t.Errorf("got %v", err)
		}
		read(t, store, ended)
	})
	t.Run("unknown_is_not_found", func(t *testing.T) {
		if _, err := store.DeleteRun(ctx, "alice", "run_x"); !errors.Is(err, sidecar.ErrNotFound) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("an_active_one_stays", func(t *testing.T) {
		run, err := store.DeleteRun(ctx, "alice", active)
		if !errors.Is(err, sidecar.ErrUnfinished) || run == nil || run.ID != active {
			t.Errorf("got %v, %v", run, err)
		}
		read(t, store, active)
	})
	t.Run("an_ended_one_goes_and_is_told_of", func(t *testing.T) {
		head := store.Head()
		if run, err := store.DeleteRun(ctx, "alice", ended); err != nil || run.ID != ended {
			t.Errorf("got %v, %v", run, err)
		}
		if _, err := store.Run(ctx, ended); !errors.Is(err, sidecar.ErrNotFound) {
			t.Errorf("got %v", err)
		}
		records := events(t, store, "alice", "", head, 0)
		if len(records) != 1 || records[0].Type != sidecar.EventRunDeleted {
			t.Errorf("got %+v", records)
		}
		refs, err := store.Doomed(ctx, "", 10)
		diff(t, []string{refOf(ended)}, refs)
		if err != nil {
			t.Error(err)
		}
	})
	t.Run("a_pinned_one_goes_too", func(t *testing.T) {
		pin(t, store, other)
		if _, err := store.DeleteRun(ctx, "alice", other); err != nil {
			t.Error(err)
		}
	})
	consistent(t, store)
}

// TestPruneLeavesWhatIsWaitedFor: the outputs of a run are there for the runs
// that follow it.
func TestPruneLeavesWhatIsWaitedFor(t *testing.T) {
	store := fresh(t)
	for n := 1; n <= 3; n++ {
		endedRun(t, store, "alice", n)
	}
	child := create(t, store, newRun("alice", 4)).ID
	row(t, store, "UPDATE run_state SET parent = '"+string(newRun("alice", 2).ID)+"' WHERE run_id = '"+string(child)+"'")
	prune(t, store, sidecar.Retention{Runs: 1}, birth.Add(time.Hour))
	diff(t, []int{2, 3, 4}, leftOf(t, store, "alice"))
	apply(t, store, child, sidecar.Signal{Kind: sidecar.SignalCancel})
	prune(t, store, sidecar.Retention{Bytes: 1}, birth.Add(time.Hour))
	diff(t, []int{}, append([]int{}, leftOf(t, store, "alice")...))
	consistent(t, store)
}

// TestGraphThatIsReplaced: of a run that got another one the first goes, unless
// somebody else has it.
func TestGraphThatIsReplaced(t *testing.T) {
	store := fresh(t)
	second := sidecar.NewBlob([]byte("second"))
	if err := store.Create(context.Background(), newRun("bobby", 1), nil, append(blobsOfRuns(), second)...); err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= 2; n++ {
		id := newRun("bobby", 1).ID
		if n == 1 {
			id = create(t, store, newRun("alice", 1)).ID
		}
		_, err := store.Update(context.Background(), id, func(r *sidecar.Run) ([]sidecar.Event, error) {
			r.Graph = second.Digest
			return []sidecar.Event{told(r, sidecar.EventRunProgress)}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		_, err = store.Blob(context.Background(), sidecar.DigestOf([]byte("graph")))
		if gone := errors.Is(err, sidecar.ErrNotFound); gone != (n == 2) {
			t.Errorf("after %d runs: %v", n, err)
		}
	}
	consistent(t, store)
}

// TestPruneWhatTheReferenceLeft: its runs have no state of ours until then.
func TestPruneWhatTheReferenceLeft(t *testing.T) {
	path := filepath.Join(t.TempDir(), "serve.sqlite")
	raw(t, path, referenceSchema+referenceRows)
	store := open(t, path)
	pruned := prune(t, store, sidecar.Retention{Runs: 1}, time.Now())
	_, ids := runIDs(t, store, sidecar.RunFilter{Scope: "alice"})
	diff(t, []sidecar.RunID{"run_5", "run_4", "run_3"}, ids)
	if pruned.Runs != 2 || pruned.Items != 1 {
		t.Errorf("got %+v", pruned)
	}
	consistent(t, store)
}

func TestPlansOfPruning(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	closeStore(t, open(t, path))
	store := open(t, path) // a start looks at all there is when a file is new
	for n := range 4 {
		endedRun(t, store, "alice", n)
	}
	prune(t, store, sidecar.Retention{Runs: 3, Age: time.Hour, Bytes: 1 << 30}, birth.Add(time.Hour))
	if _, err := store.DeleteRun(context.Background(), "alice", newRun("alice", 3).ID); err != nil {
		t.Fatal(err)
	}
	refs, err := store.Doomed(context.Background(), "", 1)
	if err := errors.Join(err, store.Spare(context.Background(), refs)); err != nil {
		t.Fatal(err)
	}
	holdPlans(t, store)
}
