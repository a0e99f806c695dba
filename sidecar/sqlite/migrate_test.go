//go:build linux

package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite"
)

// versionFile makes a state database as the version of a schema left it.
func versionFile(t *testing.T, version int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state.db")
	raw(t, path, "PRAGMA journal_mode = WAL; "+string(readFile(t, versionText(version))))
	return path
}

func versionText(version int) string {
	return filepath.Join("testdata", "versions", fmt.Sprintf("v%d.sql", version))
}

// everything is all that a file holds, and how it is made.
func everything(t *testing.T, path string) (schema, rows string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	lines := func(query string) (all []string) {
		t.Helper()
		found, err := db.Query(query)
		if err != nil {
			t.Fatal(err)
		}
		columns, err := found.Columns()
		for err == nil && found.Next() {
			cells, dest := make([]any, len(columns)), make([]any, len(columns))
			for i := range cells {
				dest[i] = &cells[i]
			}
			err = found.Scan(dest...)
			all = append(all, strings.TrimSpace(fmt.Sprintln(cells...)))
		}
		if err := errors.Join(err, found.Err(), found.Close()); err != nil {
			t.Fatal(err)
		}
		sort.Strings(all)
		return all
	}
	made := lines(`
		SELECT m.type, m.name, c.name, c.type, c."notnull", c.dflt_value, c.pk FROM sqlite_schema AS m, pragma_table_info(m.name) AS c WHERE m.type = 'table'
		UNION ALL
		SELECT m.type, m.name, x.name, x.desc, m.tbl_name, NULL, x.seqno FROM sqlite_schema AS m, pragma_index_xinfo(m.name) AS x WHERE m.type = 'index'
		UNION ALL
		SELECT type, name, sql, NULL, NULL, NULL, NULL FROM sqlite_schema WHERE type = 'trigger'`)
	var held []string
	for _, table := range lines("SELECT name FROM sqlite_schema WHERE type = 'table'") {
		for _, row := range lines("SELECT * FROM \"" + table + "\"") {
			if strings.HasPrefix(row, "life ") {
				continue // a copy has none
			}
			held = append(held, table+" "+row)
		}
	}
	return strings.Join(made, "\n"), strings.Join(held, "\n")
}

// TestMigrations brings files of every version up to date, this one's included.
func TestMigrations(t *testing.T) {
	fresh := filepath.Join(t.TempDir(), "state.db")
	closeStore(t, open(t, fresh))
	schema, _ := everything(t, fresh)
	for version := 1; version <= sqlite.SchemaVersion; version++ {
		t.Run(fmt.Sprintf("from_%d", version), func(t *testing.T) {
			path := versionFile(t, version)
			_, before := everything(t, path)
			store := open(t, path)
			sound(t, store)
			statuses := map[sidecar.RunID]sidecar.Status{}
			_, ids := runIDs(t, store, sidecar.RunFilter{Scope: "alice"})
			for _, id := range ids {
				statuses[id] = read(t, store, id).Status
			}
			diff(t, map[sidecar.RunID]sidecar.Status{
				newRun("alice", 1).ID: sidecar.StatusCompleted, newRun("alice", 2).ID: sidecar.StatusCancelled, newRun("alice", 3).ID: sidecar.StatusRunning,
			}, statuses)
			want := newRun("alice", 3)
			got := read(t, store, want.ID)
			if d := cmp.Diff(want, got, sameRun, cmpopts.IgnoreFields(sidecar.Run{}, "State", "Slots", "Items", "PromptID", "UpdatedAt", "Status", "Result")); d != "" {
				t.Error(d)
			}
			if got.Graph != want.Graph || got.Prompt != want.Prompt || got.Attempt != 1 || len(got.Slots) != 2 || len(got.Items) != 2 {
				t.Errorf("got %+v", got)
			}
			if version >= 2 {
				if n := count(t, store, "SELECT count(*) FROM files WHERE state = 'ready'"); n != 1 {
					t.Errorf("%d uploads", n)
				}
			}
			if version >= 3 {
				if told, err := store.Deliveries(context.Background(), 0); err != nil || len(told) != 1 {
					t.Errorf("callbacks %v, %v", told, err)
				}
			}
			if version >= 4 {
				command(t, store, "alice", 1)
			}
			apply(t, store, want.ID, sidecar.Signal{Kind: sidecar.SignalCancel}, sidecar.Signal{Kind: sidecar.SignalSettled})
			prune(t, store, sidecar.Retention{Runs: 1}, time.Now())
			consistent(t, store)
			closeStore(t, store)
			if now, _ := everything(t, path); version < sqlite.SchemaVersion {
				diff(t, schema, now)
			}
			copies, err := filepath.Glob(path + ".v*")
			if version == sqlite.SchemaVersion {
				if err != nil || len(copies) != 0 {
					t.Errorf("copies %v, %v", copies, err)
				}
				return
			}
			diff(t, []string{fmt.Sprintf("%s.v%d-1.backup", path, version)}, copies)
			_, copied := everything(t, copies[0])
			diff(t, before, copied)
		})
	}
}

// TestNumbersOfOlderVersions: those left them to SQLite.
func TestNumbersOfOlderVersions(t *testing.T) {
	path := versionFile(t, 7)
	raw(t, path, "UPDATE sqlite_sequence SET seq = 99 WHERE name = 'events'")
	store := open(t, path)
	if head := store.Head(); head != 99 {
		t.Errorf("head %d, and numbers up to 99 were given", head)
	}
	if report := verify(t, store); len(report.Faults) != 1 {
		t.Errorf("what is missing was told before, and now: %+v", report.Faults)
	}
}

// TestMigrationsOfOddFiles: what others did to a file's schema does not keep it
// from being brought up to date.
func TestMigrationsOfOddFiles(t *testing.T) {
	for name, odd := range map[string]string{
		"a_view_of_nothing":  "CREATE VIEW v AS SELECT a FROM nowhere",
		"without_an_index":   "DROP INDEX run_state_unfinished",
		"without_a_sequence": "DELETE FROM sqlite_sequence; DELETE FROM sidecar_meta WHERE key = 'trimmed_to'",
	} {
		t.Run(name, func(t *testing.T) {
			path := versionFile(t, 7)
			raw(t, path, odd)
			store := open(t, path)
			if head := store.Head(); head != 14 {
				t.Errorf("head %d", head)
			}
			create(t, store, newRun("alice", 9))
			sound(t, store)
			if n := count(t, store, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'"); n != 1 {
				t.Error("it is not intact")
			}
		})
	}
}

// TestVerifyOfOlderVersions: there SQLite's own number tells what is missing.
func TestVerifyOfOlderVersions(t *testing.T) {
	path := versionFile(t, 7)
	raw(t, path, "UPDATE sqlite_sequence SET seq = 99 WHERE name = 'events'")
	reader, err := sqlite.OpenReader(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	report, err := reader.Verify(context.Background())
	if err := errors.Join(err, reader.Close()); err != nil {
		t.Fatal(err)
	}
	if len(report.Faults) != 1 || !strings.Contains(report.Faults[0].Message, "the newest 85 events are missing") {
		t.Errorf("got %+v", report)
	}
}

// writeNothing only opens, which brings a file up to date.
func writeNothing(*sqlite.Store) error {
	fmt.Println("open")
	return nil
}

// TestKilledWhileMigrating: whenever it is, the next start brings the file up
// to date, with all that it held.
func TestKilledWhileMigrating(t *testing.T) {
	choose := random()
	kills, ready := fully(8, 20), 0
	for range kills {
		path := versionFile(t, 1)
		child := start(t, "open", path)
		alarm := time.NewTimer(time.Duration(choose.IntN(120)) * time.Millisecond)
		<-alarm.C
		if len(child.kill(t)) > 0 {
			ready++
		}
		store := open(t, path)
		sound(t, store)
		if n := count(t, store, "SELECT count(*) FROM runs"); n != 3 {
			t.Errorf("%d runs", n)
		}
		closeStore(t, store)
	}
	t.Logf("%d kills, %d of them after the end: all files were brought up to date", kills, ready)
}
