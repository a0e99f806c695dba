package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite"
)

// referenceSchema is what the reference runs at each open.
const referenceSchema = `
	PRAGMA journal_mode=WAL;
	CREATE TABLE IF NOT EXISTS serve_state_meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
	INSERT INTO serve_state_meta (key, value) VALUES ('schema_version', '2')
		ON CONFLICT(key) DO UPDATE SET value = excluded.value;
	CREATE TABLE IF NOT EXISTS sessions (session_id TEXT PRIMARY KEY, scope_key TEXT NOT NULL, created_at TEXT NOT NULL, updated_at TEXT NOT NULL);
	CREATE TABLE IF NOT EXISTS runs (run_id TEXT PRIMARY KEY, session_id TEXT NOT NULL, scope_key TEXT NOT NULL,
		workflow TEXT NOT NULL, contract TEXT NOT NULL, status TEXT NOT NULL, prompt_id TEXT, inputs_json TEXT NOT NULL,
		raw_result_json TEXT, error TEXT, created_at TEXT NOT NULL, updated_at TEXT NOT NULL);
	CREATE TABLE IF NOT EXISTS gallery_items (item_id TEXT PRIMARY KEY, run_id TEXT NOT NULL, session_id TEXT NOT NULL,
		scope_key TEXT NOT NULL, workflow TEXT NOT NULL, contract TEXT NOT NULL, status TEXT NOT NULL, output_type TEXT NOT NULL,
		slot_id TEXT, output_name TEXT, prompt_id TEXT, filename TEXT, url TEXT, width INTEGER, height INTEGER,
		inputs_json TEXT NOT NULL, artifact_json TEXT, raw_result_json TEXT, error TEXT, created_at TEXT NOT NULL, updated_at TEXT NOT NULL);
	CREATE TABLE IF NOT EXISTS output_slots (slot_id TEXT PRIMARY KEY, run_id TEXT NOT NULL, session_id TEXT NOT NULL,
		scope_key TEXT NOT NULL, workflow TEXT NOT NULL, contract TEXT NOT NULL, output_name TEXT NOT NULL, output_type TEXT NOT NULL,
		status TEXT NOT NULL, prompt_id TEXT, width INTEGER, height INTEGER, error TEXT, raw_result_json TEXT,
		created_at TEXT NOT NULL, updated_at TEXT NOT NULL);
	CREATE INDEX IF NOT EXISTS idx_gallery_items_scope_created_item ON gallery_items(scope_key, created_at DESC, item_id DESC);
	CREATE INDEX IF NOT EXISTS idx_gallery_items_scope_run ON gallery_items(scope_key, run_id);
	CREATE INDEX IF NOT EXISTS idx_runs_scope_status_created ON runs(scope_key, status, created_at DESC);
	CREATE INDEX IF NOT EXISTS idx_output_slots_scope_run ON output_slots(scope_key, run_id);`

const referenceRows = `
	INSERT INTO sessions VALUES ('s', 'alice', '2025-01-01T00:00:00.000Z', '2025-01-02T00:00:00.000Z');
	INSERT INTO runs VALUES ('run_1', 's', 'alice', 'w', 'k', 'completed', 'p1', '{"a":1}', '{"b":2}', NULL, '2025-01-01T00:00:01.000Z', '2025-01-01T00:01:01.000Z');
	INSERT INTO runs VALUES ('run_2', 's', 'alice', 'w', 'k', 'error', NULL, '{}', NULL, 'e', '2025-01-01T00:00:02.000Z', '2025-01-01T00:01:02.000Z');
	INSERT INTO runs VALUES ('run_3', 's', 'alice', 'w', 'k', 'cancelled', 'p3', '{}', NULL, NULL, '2025-01-01T00:00:03.000Z', '2025-01-01T00:01:03.000Z');
	INSERT INTO runs VALUES ('run_4', 's', 'alice', 'w', 'k', 'running', 'p4', '{}', NULL, NULL, '2025-01-01T00:00:04.000Z', '2025-01-01T00:01:04.000Z');
	INSERT INTO runs VALUES ('run_5', 's', 'alice', 'w', 'k', 'submitted', NULL, '{}', NULL, NULL, '2025-01-01T00:00:05.000Z', '2025-01-01T00:01:05.000Z');
	INSERT INTO output_slots VALUES ('slot_run_4_0_o', 'run_4', 's', 'alice', 'w', 'k', 'o', 'image', 'running', 'p4', 1, 1, NULL, NULL, '2025-01-01T00:00:04.000Z', '2025-01-01T00:00:04.000Z');
	INSERT INTO gallery_items VALUES ('gallery_1', 'run_1', 's', 'alice', 'w', 'k', 'done', 'image', NULL, 'o', 'p1', 'f', 'u', 3, 4, '{}', '{"f":1}', NULL, NULL, '2025-01-01T00:00:01.000Z', '2025-01-01T00:01:01.000Z');`

// raw works on a file as another program would.
func raw(t testing.TB, path, text string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.Exec(text)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

// dump is all that the reference's tables hold and how they are made.
func dump(t testing.TB, path string) string {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var out strings.Builder
	for _, query := range []string{
		"SELECT * FROM serve_state_meta ORDER BY 1", "SELECT * FROM sessions ORDER BY 1", "SELECT * FROM runs ORDER BY 1",
		"SELECT * FROM gallery_items ORDER BY 1", "SELECT * FROM output_slots ORDER BY 1",
		`SELECT m.name, c.* FROM sqlite_schema AS m, pragma_table_info(m.name) AS c
			WHERE m.name IN ('serve_state_meta', 'sessions', 'runs', 'gallery_items', 'output_slots') ORDER BY 1, 2`,
		`SELECT m.name, c.* FROM sqlite_schema AS m, pragma_index_xinfo(m.name) AS c WHERE m.name LIKE 'idx%' ORDER BY 1, 2`,
	} {
		rows, err := db.Query(query)
		if err != nil {
			t.Fatal(err)
		}
		columns, err := rows.Columns()
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			cells := make([]any, len(columns))
			dest := make([]any, len(columns))
			for i := range cells {
				dest[i] = &cells[i]
			}
			if err := rows.Scan(dest...); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(&out, cells...)
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

func TestFileOfTheReference(t *testing.T) {
	path := filepath.Join(t.TempDir(), "serve.sqlite")
	raw(t, path, referenceSchema+referenceRows)
	want := dump(t, path)
	store := open(t, path)

	t.Run("all_rows_are_there", func(t *testing.T) {
		_, runs := runIDs(t, store, sidecar.RunFilter{Scope: "alice"})
		diff(t, []sidecar.RunID{"run_5", "run_4", "run_3", "run_2", "run_1"}, runs)
		_, items := itemIDs(t, store, sidecar.ItemFilter{Scope: "alice"})
		diff(t, []sidecar.ItemID{"gallery_1"}, items)
	})
	t.Run("what_ended_reads_as_ended", func(t *testing.T) {
		for id, want := range map[sidecar.RunID]sidecar.Outcome{
			"run_1": sidecar.OutcomeCompleted, "run_2": sidecar.OutcomeFailed, "run_3": sidecar.OutcomeCancelled,
		} {
			if run := read(t, store, id); run.Phase != sidecar.PhaseFinished || run.Outcome != want || run.FinishedAt != run.UpdatedAt {
				t.Errorf("got %+v", run.State)
			}
		}
	})
	t.Run("what_runs_is_adopted", func(t *testing.T) {
		runs, err := store.Unfinished(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		diff(t, []sidecar.RunID{"run_4", "run_5"}, idsOf(runs))
		diff(t, sidecar.State{Phase: sidecar.PhaseQueued, Accepted: true, Prompt: "p4", Attempt: 1}, runs[0].State)
		diff(t, sidecar.State{Phase: sidecar.PhaseSubmitting}, runs[1].State)
	})
	t.Run("a_copy_was_made_before", func(t *testing.T) {
		diff(t, want, dump(t, path+".v0-1.backup"))
	})
	t.Run("it_goes_back_as_it_came", func(t *testing.T) {
		closeStore(t, store)
		diff(t, want, dump(t, path))
		raw(t, path, referenceSchema)
		diff(t, want, dump(t, path))
	})
	t.Run("a_second_start_makes_no_copy", func(t *testing.T) {
		closeStore(t, open(t, path))
		copies, err := filepath.Glob(path + ".v*")
		if err != nil || len(copies) != 1 {
			t.Errorf("got %v, %v", copies, err)
		}
	})
}

// TestReferenceStaysOpen: what a reference makes that was there before us is
// taken up at the next start, though it never opens the file again.
func TestReferenceStaysOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "serve.sqlite")
	raw(t, path, referenceSchema+referenceRows)
	theirs, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	if _, err := theirs.Exec(referenceSchema); err != nil {
		t.Fatal(err)
	}
	closeStore(t, open(t, path))
	for i, scope := range []string{"alice", "bobby", "zoe"} {
		_, err := theirs.Exec("INSERT INTO runs VALUES (?, 's', ?, 'w', 'k', 'running', 'p9', '{}', NULL, NULL, '2025-01-01T00:00:09.000Z', '2025-01-01T00:01:09.000Z')",
			fmt.Sprintf("run_%d", 6+i), scope)
		if err != nil {
			t.Fatal(err)
		}
	}
	store := open(t, path)
	runs, err := store.Unfinished(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	diff(t, []sidecar.RunID{"run_4", "run_5", "run_6", "run_7", "run_8"}, idsOf(runs))
}

func TestNewFileIsMadeAsTheReferenceMakesIt(t *testing.T) {
	folder := t.TempDir()
	theirs, ours := filepath.Join(folder, "theirs"), filepath.Join(folder, "ours")
	raw(t, theirs, referenceSchema)
	closeStore(t, open(t, ours))
	diff(t, dump(t, theirs), dump(t, ours))
}

func TestOlderFileOfTheReference(t *testing.T) {
	path := filepath.Join(t.TempDir(), "serve.sqlite")
	older := func(t *testing.T) {
		t.Helper()
		raw(t, path, referenceSchema+`
			DROP TABLE gallery_items;
			CREATE TABLE gallery_items (item_id TEXT PRIMARY KEY, run_id TEXT NOT NULL, session_id TEXT NOT NULL, scope_key TEXT NOT NULL,
				workflow TEXT NOT NULL, contract TEXT NOT NULL, status TEXT NOT NULL, output_type TEXT NOT NULL, output_name TEXT,
				prompt_id TEXT, filename TEXT, url TEXT, width INTEGER, height INTEGER, inputs_json TEXT NOT NULL, artifact_json TEXT,
				raw_result_json TEXT, error TEXT, created_at TEXT NOT NULL, updated_at TEXT NOT NULL);
			UPDATE serve_state_meta SET value = '1';
			INSERT INTO gallery_items VALUES ('old1','run_old','s','alice','solid','default','done','image','image','p','f.png','u',3,4,
				'{}','{"filename":"f.png"}','not json',NULL,'2025-01-01T00:00:00.000Z','2025-01-01T00:00:00.000Z')`)
	}
	check := func(t *testing.T) {
		t.Helper()
		store := open(t, path)
		page, err := store.Items(context.Background(), sidecar.ItemFilter{Scope: "alice"})
		if err != nil || len(page.Items) != 1 || page.Items[0].Result != nil || page.Items[0].Filename != "f.png" {
			t.Errorf("got %+v, %v", page, err)
		}
		closeStore(t, store)
		if text := dump(t, path); !strings.Contains(text, "schema_version 2") || !strings.Contains(text, "gallery_items 20 slot_id TEXT") ||
			!strings.Contains(text, "idx_gallery_items_scope_created_item 0") {
			t.Errorf("got\n%s", text)
		}
	}
	t.Run("is_brought_up_to_date", func(t *testing.T) { older(t); check(t) })
	t.Run("even_when_it_was_ours_before", func(t *testing.T) { older(t); check(t) })
}

func TestForeignChanges(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "serve.sqlite")
	store := open(t, path)
	ids := map[string]sidecar.RunID{}
	for n, name := range []string{"untouched", "ended", "vanished", "cancelling", "finished", "revived"} {
		run := create(t, store, newRun("alice", n))
		ids[name] = run.ID
		apply(t, store, run.ID, sidecar.Signal{Kind: sidecar.SignalHanding}, accepted())
	}
	apply(t, store, ids["cancelling"], sidecar.Signal{Kind: sidecar.SignalCancel})
	for _, name := range []string{"finished", "revived"} {
		apply(t, store, ids[name], sidecar.Signal{Kind: sidecar.SignalFinished})
	}
	before := map[string]*sidecar.Run{}
	for name, id := range ids {
		before[name] = read(t, store, id)
	}
	head := store.Head()
	closeStore(t, store)
	raw(t, path, `INSERT INTO gallery_items (item_id, run_id, session_id, scope_key, workflow, contract, status, output_type, inputs_json, artifact_json, created_at, updated_at)
		VALUES ('gallery_v', '`+string(ids["vanished"])+`', 's', 'alice', 'w', 'k', 'done', 'image', '{}', '{"serve_artifact":"p/of_the_vanished.png"}', '2026-01-01T00:00:00.000Z', '2026-01-01T00:00:00.000Z')`)
	raw(t, path, referenceSchema+`
		UPDATE runs SET status = 'error', error = 'theirs', updated_at = '2027-01-01T00:00:00.000Z' WHERE run_id = '`+string(ids["ended"])+`';
		UPDATE runs SET status = 'running', prompt_id = 'p9', updated_at = '2027-01-01T00:00:00.000Z' WHERE run_id = '`+string(ids["revived"])+`';
		DELETE FROM runs WHERE run_id = '`+string(ids["vanished"])+`';
		INSERT INTO runs VALUES ('run_new', 's', 'alice', 'w', 'k', 'running', 'p8', '{}', NULL, NULL, '2027-01-01T00:00:00.000Z', '2027-01-01T00:00:00.000Z')`)
	store = open(t, path)

	t.Run("a_run_that_it_ended_is_finished", func(t *testing.T) {
		run := read(t, store, ids["ended"])
		if run.Phase != sidecar.PhaseFinished || run.Outcome != sidecar.OutcomeFailed || run.Error != "theirs" ||
			run.Revision != before["ended"].Revision+1 || run.FinishedAt.IsZero() {
			t.Errorf("got %+v", run)
		}
	})
	t.Run("a_run_that_is_gone_is_forgotten", func(t *testing.T) {
		if _, err := store.Run(ctx, ids["vanished"]); !errors.Is(err, sidecar.ErrNotFound) {
			t.Errorf("got %v", err)
		}
		if n := count(t, store, "SELECT count(*) FROM run_state WHERE run_id = '"+string(ids["vanished"])+"'"); n != 0 {
			t.Error("its state is still there")
		}
		for _, table := range []string{"output_slots", "gallery_items"} {
			if n := count(t, store, "SELECT count(*) FROM "+table+" WHERE run_id = '"+string(ids["vanished"])+"'"); n != 0 {
				t.Errorf("%d rows of %s are still there", n, table)
			}
		}
		copies, err := store.Doomed(ctx, "", 10)
		if err != nil {
			t.Fatal(err)
		}
		diff(t, []string{"p/of_the_vanished.png"}, copies)
	})
	t.Run("a_run_that_it_left_running_is_adopted", func(t *testing.T) {
		diff(t, sidecar.State{Phase: sidecar.PhaseQueued, Accepted: true, Prompt: "p8", Attempt: 1}, read(t, store, "run_new").State)
	})
	t.Run("a_run_that_it_revived_is_followed_again", func(t *testing.T) {
		run := read(t, store, ids["revived"])
		if run.Phase != sidecar.PhaseQueued || run.Outcome != "" || run.Prompt != "p9" || !run.FinishedAt.IsZero() {
			t.Errorf("got %+v", run.State)
		}
	})
	t.Run("what_it_did_not_touch_stays", func(t *testing.T) {
		for _, name := range []string{"untouched", "cancelling", "finished"} {
			diff(t, before[name], read(t, store, ids[name]))
		}
	})
	t.Run("readers_begin_anew", func(t *testing.T) {
		for _, id := range []sidecar.RunID{"", ids["ended"]} {
			if _, err := store.Events(ctx, "alice", id, head-1, 0); !errors.Is(err, sidecar.ErrTrimmed) {
				t.Errorf("run %q: got %v", id, err)
			}
		}
		records, err := store.Events(ctx, "alice", ids["untouched"], 0, 0)
		if err != nil || len(records) == 0 {
			t.Errorf("got %v, %v", records, err)
		}
	})
	t.Run("the_chains_go_on", func(t *testing.T) {
		apply(t, store, ids["revived"], sidecar.Signal{Kind: sidecar.SignalFinished})
		sound(t, store)
	})
	t.Run("another_start_finds_nothing_to_do", func(t *testing.T) {
		want := read(t, store, ids["ended"])
		closeStore(t, store)
		store = open(t, path)
		diff(t, want, read(t, store, ids["ended"]))
	})
}

func TestOddPlaces(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		name string
		path func(t *testing.T) string
	}{
		{"a_folder", func(t *testing.T) string { return t.TempDir() }},
		{"below_a_file", func(t *testing.T) string {
			file := filepath.Join(t.TempDir(), "file")
			write(t, file, nil)
			return filepath.Join(file, "state.db")
		}},
		{"nowhere", func(*testing.T) string { return "" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := c.path(t)
			store, err := sqlite.Open(ctx, sqlite.Options{Path: path})
			if err == nil {
				closeStore(t, store)
				t.Fatal("opened")
			}
			if !strings.Contains(err.Error(), path) {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("an_empty_file_is_a_new_one", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "state.db")
		write(t, path, nil)
		create(t, open(t, path), newRun("alice", 1))
	})
}

func TestEphemeral(t *testing.T) {
	ctx := context.Background()
	t.Setenv("TMPDIR", t.TempDir())
	places := func() []string {
		found, err := filepath.Glob(filepath.Join(os.TempDir(), "*"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	ephemeral := func(t *testing.T) *sqlite.Store {
		t.Helper()
		store, err := sqlite.Open(ctx, sqlite.Options{Ephemeral: true})
		if err != nil {
			t.Fatal(err)
		}
		return store
	}
	t.Run("it_works_and_leaves_nothing", func(t *testing.T) {
		store := ephemeral(t)
		create(t, store, newRun("alice", 1))
		if info, err := os.Stat(filepath.Dir(store.Path())); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("got %v, %v", info, err)
		}
		closeStore(t, store)
		diff(t, []string(nil), places())
	})
	t.Run("the_next_start_sweeps_what_the_dead_left_and_nothing_else", func(t *testing.T) {
		alive := ephemeral(t)
		dead := filepath.Join(os.TempDir(), "studio-sidecar-state-dead")
		other := filepath.Join(os.TempDir(), "somebody-elses")
		for _, folder := range []string{dead, other} {
			if err := os.Mkdir(folder, 0o700); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(folder, "state.db"), []byte("x"))
			write(t, filepath.Join(folder, "state.db.lock"), []byte("1"))
		}
		next := ephemeral(t)
		want := []string{other, filepath.Dir(alive.Path()), filepath.Dir(next.Path())}
		slices.Sort(want)
		diff(t, want, places())
		create(t, alive, newRun("alice", 1))
		closeStore(t, alive)
		closeStore(t, next)
		diff(t, []string{other}, places())
	})
}
