package sqlite_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite"
)

// TestPruneLeavesWhatIsToBeTold: who asked to be told of a run's end can still
// fetch it.
func TestPruneLeavesWhatIsToBeTold(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "state.db")
	store := open(t, path)
	for n := 1; n <= 3; n++ {
		endedRun(t, store, "alice", n)
	}
	told := newRun("alice", 2).ID
	row(t, store, "INSERT INTO cursors (consumer, target) VALUES (?, '{}')", "callback/"+string(told))
	all := sidecar.Retention{Bytes: 1}
	closeStore(t, store)
	if plan, err := reader(t, path).Plan(ctx, all, birth.Add(time.Hour), sizeOfCopy); err != nil || plan.Runs != 2 {
		t.Errorf("planned %+v, %v", plan, err)
	}
	store = open(t, path)
	prune(t, store, all, birth.Add(time.Hour))
	diff(t, []int{2}, leftOf(t, store, "alice"))
	consistent(t, store)
	deliveries, err := store.Deliveries(ctx, 0)
	if err != nil || len(deliveries) != 1 {
		t.Fatalf("%v, %v", deliveries, err)
	}
	if err := store.DropDelivery(ctx, deliveries[0]); err != nil {
		t.Fatal(err)
	}
	if pruned := prune(t, store, all, birth.Add(time.Hour)); pruned.Runs != 1 {
		t.Errorf("then %+v", pruned)
	}
	t.Run("not_for_ever", func(t *testing.T) {
		late := endedRun(t, store, "alice", 4)
		row(t, store, "INSERT INTO cursors (consumer, target) VALUES (?, '{}')", "callback/"+string(late))
		if pruned := prune(t, store, all, birth.Add(7*24*time.Hour)); pruned.Runs != 0 {
			t.Errorf("within a week %+v", pruned)
		}
		closeStore(t, store)
		now := birth.Add(7*24*time.Hour + 4*time.Second)
		plan, err := reader(t, path).Plan(ctx, all, now, sizeOfCopy)
		store = open(t, path)
		if pruned := prune(t, store, all, now); err != nil || pruned.Runs != 1 || plan.Blobs != pruned.Blobs || plan.Runs != 1 {
			t.Errorf("after it %+v, planned %+v, %v", pruned, plan, err)
		}
		consistent(t, store)
	})
}

func TestDeleteRunDropsItsCallback(t *testing.T) {
	store := fresh(t)
	id := endedRun(t, store, "alice", 1)
	row(t, store, "INSERT INTO cursors (consumer, target) VALUES (?, '{}')", "callback/"+string(id))
	if _, err := store.DeleteRun(context.Background(), "alice", id); err != nil {
		t.Fatal(err)
	}
	consistent(t, store)
}

// TestDoomedByResults: of an item that was deleted before its run ended only
// the result names the copy.
func TestDoomedByResults(t *testing.T) {
	const prompt = "3d3a3a2e-6a3f-4c4e-9df0-1a2b3c4d5e6f"
	for _, c := range []struct {
		name, result string
		want         []string
	}{
		{"an_own_copy", `{"outputs":[{"artifacts":[{"serve_artifact":"` + prompt + `/b.png"}]}]}`, []string{prompt + "/b.png"}},
		{"of_another_prompt", `{"outputs":[{"artifacts":[{"serve_artifact":"another/b.png"}]}]}`, nil},
		{"elsewhere_in_it", `{"outputs":[{"raw":{"artifacts":[{"serve_artifact":"` + prompt + `/b.png"}]}}]}`, nil},
		{"of_no_known_form", `{"outputs":["x",1,null,{"artifacts":["y",{"serve_artifact":7}]}]}`, nil},
		{"not_json", `{`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state.db")
			store := open(t, path)
			id := endedRun(t, store, "alice", 1)
			row(t, store, "UPDATE runs SET raw_result_json = ? WHERE run_id = ?", c.result, string(id))
			want := append(append([]string{}, c.want...), refOf(id))
			all := sidecar.Retention{Bytes: 1}
			closeStore(t, store)
			plan, err := reader(t, path).Plan(context.Background(), all, birth, sizeOfCopy)
			if err != nil || plan.Copies != len(want) || plan.Bytes < int64(len(want))*copySize {
				t.Errorf("planned %+v, %v", plan, err)
			}
			store = open(t, path)
			if pruned := prune(t, store, all, birth); pruned.Copies != len(want) || pruned.Bytes != plan.Bytes {
				t.Errorf("got %+v, planned %+v", pruned, plan)
			}
			refs, err := store.Doomed(context.Background(), "", 10)
			if err != nil {
				t.Fatal(err)
			}
			diff(t, want, refs)
		})
	}
}

// TestDeletedItemDoomsItsCopy, once no other item shows it.
func TestDeletedItemDoomsItsCopy(t *testing.T) {
	ctx := context.Background()
	store := fresh(t)
	id := endedRun(t, store, "alice", 1)
	items := read(t, store, id).Items
	row(t, store, "UPDATE gallery_items SET artifact_json = ? WHERE run_id = ?", string(items[0].Artifact), string(id))
	for n, want := range [][]string{nil, {refOf(id)}} {
		if item, err := store.DeleteItem(ctx, "alice", items[n].ID); item == nil || err != nil {
			t.Fatal(item, err)
		}
		refs, err := store.Doomed(ctx, "", 10)
		if err != nil {
			t.Fatal(err)
		}
		diff(t, want, refs)
	}
	consistent(t, store)
}

// between runs something when a reader has begun and has no connection yet.
type between struct {
	context.Context
	call func()
}

func (c between) Done() <-chan struct{} {
	c.call()
	return c.Context.Done()
}

// TestEventsBesideAPrune: a reader whose events go while it begins is told so.
func TestEventsBesideAPrune(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	store := open(t, path)
	for n := 1; n <= 3; n++ {
		endedRun(t, store, "alice", n)
	}
	closeStore(t, store)
	store = open(t, path) // nothing is in memory now
	var once sync.Once
	ctx := between{context.Background(), func() {
		once.Do(func() { prune(t, store, sidecar.Retention{Runs: 1}, birth.Add(time.Hour)) })
	}}
	if records, err := store.Events(ctx, "alice", "", 1, 0); !errors.Is(err, sidecar.ErrTrimmed) {
		t.Errorf("got %d records, %v", len(records), err)
	}
	if n := count(t, store, "SELECT count(*) FROM runs"); n != 1 {
		t.Errorf("%d runs: nothing went in between", n)
	}
}

// TestPruneInShortTransactions: others write between two steps.
func TestPruneInShortTransactions(t *testing.T) {
	store := fresh(t)
	const runs, kept = 110, 2
	for n := range runs {
		endedRun(t, store, "alice", n)
	}
	store.SetPruneTime(0)
	before := store.Stats().Transactions
	pruned := prune(t, store, sidecar.Retention{Runs: runs - 10}, birth.Add(time.Hour))
	want := int64((10+sqlite.PruneStep-1)/sqlite.PruneStep + 1) // the last is for events of nobody
	if got := store.Stats().Transactions - before; pruned.Runs != 10 || got != want {
		t.Errorf("%d transactions for %d runs, want %d", got, pruned.Runs, want)
	}
	done := make(chan error, 1)
	go func() {
		_, err := store.Prune(context.Background(), sidecar.Retention{Runs: kept}, birth.Add(time.Hour), sizeOfCopy)
		done <- err
	}()
	inBetween := 0
	for ended := false; !ended; {
		err := store.Do(context.Background(), func(tx *sqlite.Tx) error {
			left := 0
			err := tx.Query("SELECT count(*) FROM runs", func(row interface{ Scan(...any) error }) error { return row.Scan(&left) })
			if left > kept && left < runs-10 {
				inBetween++
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-done:
			if ended = true; err != nil {
				t.Fatal(err)
			}
		default:
		}
	}
	t.Logf("%d writers came in between", inBetween)
	if inBetween == 0 {
		t.Error("nobody came in between")
	}
	diff(t, []int{runs - 2, runs - 1}, leftOf(t, store, "alice"))
	consistent(t, store)
}

// TestSizeOfARunThatChanges: what it was while it was measured is not kept.
func TestSizeOfARunThatChanges(t *testing.T) {
	store := fresh(t)
	id := endedRun(t, store, "alice", 1)
	item := read(t, store, id).Items[0].ID
	measured := 0
	_, err := store.Prune(context.Background(), sidecar.Retention{Bytes: 1 << 40}, birth, func(string) int64 {
		measured++
		if gone, err := store.DeleteItem(context.Background(), "alice", item); gone == nil || err != nil {
			t.Error(gone, err)
		}
		return copySize
	})
	if err != nil || measured != 1 {
		t.Fatal(measured, err)
	}
	known := "SELECT count(*) FROM run_state WHERE bytes IS NOT NULL"
	if n := count(t, store, known); n != 0 {
		t.Error("a size of before was kept")
	}
	prune(t, store, sidecar.Retention{Bytes: 1 << 40}, birth)
	if n := count(t, store, known); n != 1 {
		t.Error("the size was not kept then")
	}
}

// TestPruneEndsWhatever cannot be removed.
func TestPruneEndsWhatever(t *testing.T) {
	store := fresh(t)
	for n := 1; n <= 20; n++ {
		endedRun(t, store, "alice", n)
	}
	row(t, store, "DELETE FROM runs WHERE run_id = ?", string(newRun("alice", 1).ID))
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	pruned, err := store.Prune(ctx, sidecar.Retention{Runs: 1}, birth.Add(time.Hour), sizeOfCopy)
	if err != nil || pruned.Runs != 18 {
		t.Errorf("got %+v, %v", pruned, err)
	}
	diff(t, []int{20}, leftOf(t, store, "alice"))
}

// TestPruneByAgeWithoutRuns: events that belong to no run go all the same.
func TestPruneByAgeWithoutRuns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	store := open(t, path)
	young := health("", 3)
	young.At = birth.Add(time.Hour)
	appendAll(t, store, health("", 1), health("", 2), young)
	closeStore(t, store)
	keep, now := sidecar.Retention{Age: time.Hour}, birth.Add(90*time.Minute)
	plan, err := reader(t, path).Plan(context.Background(), keep, now, sizeOfCopy)
	store = open(t, path)
	if pruned := prune(t, store, keep, now); err != nil || pruned.Events != 2 || plan.Events != 2 {
		t.Errorf("got %+v, planned %+v, %v", pruned, plan, err)
	}
	if n := count(t, store, "SELECT count(*) FROM events"); n != 1 {
		t.Errorf("%d events are left", n)
	}
	consistent(t, store)
}

// TestPruneThatKeepsAll does not look at the file at all.
func TestPruneThatKeepsAll(t *testing.T) {
	store := fresh(t)
	ctx, stop := context.WithCancel(context.Background())
	stop()
	if _, err := store.Prune(ctx, sidecar.Retention{}, birth, sizeOfCopy); err != nil {
		t.Error(err)
	}
	if _, err := store.Prune(ctx, sidecar.Retention{Runs: 1}, birth, sizeOfCopy); !errors.Is(err, context.Canceled) {
		t.Errorf("with a limit: %v", err)
	}
}
