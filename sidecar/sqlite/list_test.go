package sqlite_test

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite"
)

// runIDs walks the pages of a list of runs.
func runIDs(t *testing.T, store *sqlite.Store, filter sidecar.RunFilter) (pages int, ids []sidecar.RunID) {
	t.Helper()
	for {
		page, err := store.Runs(context.Background(), filter)
		if err != nil {
			t.Fatal(err)
		}
		pages++
		ids = append(ids, idsOf(page.Runs)...)
		if !page.More {
			return pages, ids
		}
		last := page.Runs[len(page.Runs)-1]
		filter.After = sidecar.Cursor{CreatedAt: last.CreatedAt, ID: string(last.ID)}
	}
}

func itemIDs(t *testing.T, store *sqlite.Store, filter sidecar.ItemFilter) (pages int, ids []sidecar.ItemID) {
	t.Helper()
	for {
		page, err := store.Items(context.Background(), filter)
		if err != nil {
			t.Fatal(err)
		}
		pages++
		for _, item := range page.Items {
			ids = append(ids, item.ID)
		}
		if !page.More {
			return pages, ids
		}
		last := page.Items[len(page.Items)-1]
		filter.After = sidecar.Cursor{CreatedAt: last.CreatedAt, ID: string(last.ID)}
	}
}

func TestRuns(t *testing.T) {
	ctx := context.Background()
	store := fresh(t)
	var want []sidecar.RunID
	for n := range 7 {
		run := newRun("alice", n)
		if n > 3 {
			run.CreatedAt = birth // the same for three of them: the id decides
		}
		want = append(want, create(t, store, run).ID)
	}
	create(t, store, newRun("bobby", 1))
	slices.SortFunc(want, func(a, b sidecar.RunID) int {
		x, y := read(t, store, a), read(t, store, b)
		if c := y.CreatedAt.Compare(x.CreatedAt); c != 0 {
			return c
		}
		return cmp.Compare(b, a)
	})

	t.Run("pages_are_complete_and_in_order", func(t *testing.T) {
		for limit := 1; limit <= 8; limit++ {
			pages, got := runIDs(t, store, sidecar.RunFilter{Scope: "alice", Limit: limit})
			diff(t, want, got)
			if wanted := max(1, (len(want)+limit-1)/limit); pages != wanted {
				t.Errorf("limit %d: %d pages, want %d", limit, pages, wanted)
			}
		}
	})
	t.Run("a_scope_sees_its_own", func(t *testing.T) {
		_, got := runIDs(t, store, sidecar.RunFilter{Scope: "bobby"})
		diff(t, []sidecar.RunID{newRun("bobby", 1).ID}, got)
		_, got = runIDs(t, store, sidecar.RunFilter{Scope: "carol"})
		diff(t, []sidecar.RunID(nil), got)
	})
	t.Run("lists_carry_no_parts", func(t *testing.T) {
		page, err := store.Runs(ctx, sidecar.RunFilter{Scope: "alice", Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		run := page.Runs[0]
		if run.Slots != nil || run.Items != nil || run.Nodes != nil || run.Phase != sidecar.PhaseSubmitting {
			t.Errorf("got %+v", run)
		}
	})
	t.Run("active_leaves_out_what_has_ended", func(t *testing.T) {
		apply(t, store, want[2], sidecar.Signal{Kind: sidecar.SignalCancel})
		_, got := runIDs(t, store, sidecar.RunFilter{Scope: "alice", Active: true, Limit: 2})
		diff(t, slices.Concat(want[:2], want[3:]), got)
	})
}

// row writes to the file as another program does.
func row(t testing.TB, store *sqlite.Store, text string, args ...any) {
	t.Helper()
	db, err := sql.Open("sqlite", sqlite.WriterDSN(store.Path(), false))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := db.ExecContext(context.Background(), text, args...); err != nil {
		t.Fatal(err)
	}
}

func itemRow(t testing.TB, store *sqlite.Store, scope, id, createdAt string) {
	t.Helper()
	row(t, store, `INSERT INTO gallery_items (item_id, run_id, session_id, scope_key, workflow, contract, status,
		output_type, inputs_json, created_at, updated_at) VALUES (?, 'run_x', ?, ?, 'w', 'k', 'done', 'image', '{}', ?, ?)`,
		id, scope, scope, createdAt, createdAt)
}

func TestItems(t *testing.T) {
	store := fresh(t)
	// In the order of the list. The texts of some are not ours; one is none.
	rows := [][2]string{
		{"n", "not a time"},
		{"m", "2026-03-04T05:06:07.100Z"},
		{"l", "2026-03-04T05:06:07.089Z"},
		{"k", "2026-03-04T05:06:07.089Z"},
		{"j", "2026-03-04T05:06:07.089123+00:00"},
		{"i", "2026-03-04T05:06:07.089"},
		{"h", "2026-03-04 05:06:07"},
		{"g", "2026-03-04"},
		{"f", ""},
	}
	var want []sidecar.ItemID
	for _, r := range slices.Backward(rows) {
		itemRow(t, store, "alice", r[0], r[1])
	}
	for _, r := range rows {
		want = append(want, sidecar.ItemID(r[0]))
	}
	itemRow(t, store, "bobby", "z", "2026-03-04T05:06:07.089Z")

	t.Run("pages_are_complete_and_in_order_whatever_the_times", func(t *testing.T) {
		for limit := 1; limit <= len(rows)+1; limit++ {
			_, got := itemIDs(t, store, sidecar.ItemFilter{Scope: "alice", Limit: limit})
			diff(t, want, got)
		}
	})
	t.Run("a_scope_sees_its_own", func(t *testing.T) {
		_, got := itemIDs(t, store, sidecar.ItemFilter{Scope: "bobby"})
		diff(t, []sidecar.ItemID{"z"}, got)
	})
	t.Run("a_cursor_of_a_row_that_is_gone_still_cuts", func(t *testing.T) {
		if item, err := store.DeleteItem(context.Background(), "alice", "l"); item == nil || err != nil {
			t.Fatal(item, err)
		}
		_, got := itemIDs(t, store, sidecar.ItemFilter{Scope: "alice", After: sidecar.Cursor{CreatedAt: birth, ID: "l"}})
		diff(t, want[3:], got)
	})
	t.Run("a_cursor_cuts_by_its_own_time_when_the_row_has_another", func(t *testing.T) {
		cursor := sidecar.Cursor{CreatedAt: birth.Add(-time.Hour), ID: "m"}
		_, got := itemIDs(t, store, sidecar.ItemFilter{Scope: "alice", After: cursor})
		diff(t, []sidecar.ItemID{"h", "g", "f"}, got)
	})
}

func TestItemsWithoutLimit(t *testing.T) {
	store := fresh(t)
	err := store.Do(context.Background(), func(tx *sqlite.Tx) error {
		for n := range 1001 {
			_, err := tx.Exec(`INSERT INTO gallery_items (item_id, run_id, session_id, scope_key, workflow, contract, status,
				output_type, inputs_json, created_at, updated_at) VALUES (?, 'r', 's', 'alice', 'w', 'k', 'done', 'image', '{}', ?, '')`,
				fmt.Sprintf("i%04d", n), sidecar.FormatTime(birth))
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, limit := range []int{0, -1, 1001} {
		page, err := store.Items(context.Background(), sidecar.ItemFilter{Scope: "alice", Limit: limit})
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Items) != 1000 || !page.More {
			t.Errorf("limit %d: %d items, more %v", limit, len(page.Items), page.More)
		}
	}
}

func TestOddRows(t *testing.T) {
	store := fresh(t)
	now := sidecar.FormatTime(birth)
	row(t, store, `INSERT INTO runs VALUES ('r1','s','alice','w','k','completed','p','{broken','[1]','e',?,?)`, now, now)
	row(t, store, `INSERT INTO runs VALUES ('r2','s','alice','w','k','strange',NULL,'','null',NULL,?,?)`, now, now)
	row(t, store, `INSERT INTO runs VALUES ('r3','s','alice','w','k','completed',7,'{"x": NaN, "y": "NaN \" -Infinity"}',' {"z": -Infinity} ',NULL,?,?)`, now, now)
	row(t, store, `INSERT INTO output_slots VALUES ('s1','r1','s','alice','w','k','o','image','done',NULL,'wide',2.0,NULL,'xx',?,?)`, now, now)

	t.Run("json_that_is_none_reads_as_the_reference_reads_it", func(t *testing.T) {
		run := read(t, store, "r1")
		diff(t, json.RawMessage("{}"), run.Inputs)
		diff(t, json.RawMessage("[1]"), run.Result)
		diff(t, []sidecar.Slot{{ID: "s1", Name: "o", Type: "image", Status: "done", Height: 2, CreatedAt: birth, UpdatedAt: birth}}, run.Slots)
	})
	t.Run("a_null_result_is_absent_and_a_strange_status_is_finished", func(t *testing.T) {
		run := read(t, store, "r2")
		if run.Result != nil || string(run.Inputs) != "{}" || run.Status != "strange" || run.Phase != sidecar.PhaseFinished {
			t.Errorf("got %+v", run)
		}
	})
	t.Run("numbers_that_only_python_writes_become_null", func(t *testing.T) {
		run := read(t, store, "r3")
		diff(t, `{"x": null, "y": "NaN \" -Infinity"}`, string(run.Inputs))
		diff(t, ` {"z": null} `, string(run.Result))
	})
	t.Run("a_run_without_our_state_reads_as_if_it_had_one", func(t *testing.T) {
		want := sidecar.State{
			Phase: sidecar.PhaseFinished, Outcome: sidecar.OutcomeCompleted, Prompt: "p", Accepted: true, Attempt: 1, FinishedAt: birth,
		}
		diff(t, want, read(t, store, "r1").State)
	})
}

func TestTimesOfOthersSurviveAnUpdate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	store := open(t, path)
	row(t, store, `INSERT INTO runs VALUES ('r1','s','alice','w','k','running','p','{"x": NaN}',NULL,NULL,'yesterday','2026-03-04T05:06:07.089123+00:00')`)
	row(t, store, `INSERT INTO gallery_items VALUES ('i1','r1','s','alice','w','k','pending','image',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'{','{','{',NULL,'noon','later')`)
	_, err := store.Update(context.Background(), "r1", func(r *sidecar.Run) ([]sidecar.Event, error) {
		r.Error = "changed"
		r.Items[0].Status = sidecar.ItemDone
		return []sidecar.Event{told(r, sidecar.EventRunProgress)}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	n := count(t, store, `
		SELECT count(*) FROM runs AS r, gallery_items AS i
		WHERE r.error = 'changed' AND r.created_at = 'yesterday' AND r.updated_at = '2026-03-04T05:06:07.089123+00:00'
			AND r.inputs_json = '{"x": NaN}'
			AND i.status = 'done' AND i.created_at = 'noon' AND i.updated_at = 'later' AND i.artifact_json = '{'`)
	if n != 1 {
		t.Error("something that was not changed was rewritten")
	}
}

func TestDeleteItem(t *testing.T) {
	ctx := context.Background()

	running := func(t *testing.T) (*sqlite.Store, *sidecar.Run) {
		store := fresh(t)
		run := create(t, store, newRun("alice", 1))
		return store, apply(t, store, run.ID, sidecar.Signal{Kind: sidecar.SignalHanding}, accepted())
	}

	t.Run("a_late_result_does_not_bring_it_back", func(t *testing.T) {
		store, run := running(t)
		gone := run.Items[0].ID
		if item, err := store.DeleteItem(ctx, "alice", gone); item == nil || err != nil {
			t.Fatal(item, err)
		}
		apply(t, store, run.ID, sidecar.Signal{Kind: sidecar.SignalFinished})
		_, got := itemIDs(t, store, sidecar.ItemFilter{Scope: "alice"})
		diff(t, []sidecar.ItemID{run.Items[1].ID}, got)
		sound(t, store)
	})
	t.Run("that_of_a_finished_run_goes_alone", func(t *testing.T) {
		store, run := running(t)
		run = apply(t, store, run.ID, sidecar.Signal{Kind: sidecar.SignalFinished})
		if item, err := store.DeleteItem(ctx, "alice", run.Items[0].ID); item == nil || err != nil {
			t.Fatal(item, err)
		}
		got := read(t, store, run.ID)
		if len(got.Items) != 1 || len(got.Deleted) != 0 || !got.UpdatedAt.Equal(run.UpdatedAt) {
			t.Errorf("got %+v", got)
		}
		sound(t, store)
	})
	t.Run("it_is_told", func(t *testing.T) {
		store, run := running(t)
		for _, ended := range []bool{false, true} {
			if ended {
				run = apply(t, store, run.ID, sidecar.Signal{Kind: sidecar.SignalFinished})
			}
			id := run.Items[0].ID
			if item, err := store.DeleteItem(ctx, "alice", id); item == nil || item.ID != id || err != nil {
				t.Fatal(item, err)
			}
			records, err := store.Events(ctx, "alice", run.ID, store.Head()-1, 0)
			if err != nil || len(records) != 1 {
				t.Fatalf("%d events, %v", len(records), err)
			}
			var told struct {
				Revision int64
				Type     sidecar.EventType
				Targets  map[string]json.RawMessage
			}
			if err := json.Unmarshal(records[0].JSON, &told); err != nil {
				t.Fatal(err)
			}
			if told.Type != sidecar.EventRunProgress || told.Revision != run.Revision+1 || string(told.Targets["items/"+string(id)]) != "null" {
				t.Errorf("told as %s", records[0].JSON)
			}
			run = read(t, store, run.ID)
			if run.Revision != told.Revision {
				t.Errorf("revision %d after event %d", run.Revision, told.Revision)
			}
		}
		sound(t, store)
	})
	t.Run("another_scopes_item_stays", func(t *testing.T) {
		store, run := running(t)
		version := store.Version("alice")
		for scope, id := range map[sidecar.Scope]sidecar.ItemID{"bobby": run.Items[0].ID, "alice": "gallery_none"} {
			if item, err := store.DeleteItem(ctx, scope, id); item != nil || err != nil {
				t.Error(scope, item, err)
			}
		}
		diff(t, run, read(t, store, run.ID))
		if store.Version("alice") != version {
			t.Error("the version moved")
		}
	})
	t.Run("the_scopes_version_grows", func(t *testing.T) {
		store, run := running(t)
		alice, bobby := store.Version("alice"), store.Version("bobby")
		if item, err := store.DeleteItem(ctx, "alice", run.Items[0].ID); item == nil || err != nil {
			t.Fatal(item, err)
		}
		if store.Version("alice") <= alice || store.Version("bobby") != bobby {
			t.Error("versions are wrong")
		}
	})
	t.Run("an_item_of_nobodys_run_goes", func(t *testing.T) {
		store := fresh(t)
		itemRow(t, store, "alice", "orphan", "x")
		if item, err := store.DeleteItem(ctx, "alice", "orphan"); item == nil || err != nil {
			t.Fatal(item, err)
		}
		if n := count(t, store, "SELECT count(*) FROM gallery_items"); n != 0 {
			t.Errorf("%d items", n)
		}
	})
}
