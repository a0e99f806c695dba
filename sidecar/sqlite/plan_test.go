package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite"
)

// busy uses every method of a store, so that all its statements are prepared.
func busy(t *testing.T, store *sqlite.Store, from int) {
	t.Helper()
	ctx := context.Background()
	for n := from; n < from+3; n++ {
		run := create(t, store, newRun("alice", n))
		run = apply(t, store, run.ID, sidecar.Signal{Kind: sidecar.SignalHanding}, accepted(),
			sidecar.Signal{Kind: sidecar.SignalNodeStarted, Node: sidecar.NodeRef{ID: "1"}},
			sidecar.Signal{Kind: sidecar.SignalNodeFinished, Node: sidecar.NodeRef{ID: "1"}})
		if item, err := store.DeleteItem(ctx, "alice", run.Items[0].ID); item == nil || err != nil {
			t.Fatal(item, err)
		}
		if n > from {
			apply(t, store, run.ID, sidecar.Signal{Kind: sidecar.SignalCancel})
		}
		events(t, store, "alice", run.ID, 0, 1)
	}
	appendAll(t, store, health("", 1))
	events(t, store, "alice", "", 0, 0)
	for _, filter := range runFilters() {
		runIDs(t, store, filter)
		if _, err := store.CountRuns(ctx, filter); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := store.View(ctx, newRun("alice", from).ID, sidecar.ViewParts{Contract: true, Graph: true}); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []sidecar.PageKind{sidecar.PageEvents, sidecar.PageNodes, sidecar.PageSlots} {
		if _, err := store.Page(ctx, newRun("alice", from).ID, kind, 0); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := store.Deltas(ctx, newRun("alice", from).ID, 1); err != nil {
		t.Log(err) // the statements count
	}
	if _, err := store.RetainedFrom(ctx, "alice", newRun("alice", from).ID); err != nil {
		t.Fatal(err)
	}
	itemIDs(t, store, sidecar.ItemFilter{Scope: "alice", Limit: 1})
	if _, err := store.Unfinished(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Blob(ctx, sidecar.DigestOf([]byte("graph"))); err != nil {
		t.Fatal(err)
	}
	ctx = sidecar.WithOrder(ctx, &sidecar.Order{Command: newCommand("alice", from)})
	if err := store.AddUpload(ctx, newUpload(from)); err != nil {
		t.Fatal(err)
	}
	if _, err := store.AnswerCommand(ctx, answered("alice", from)); err != nil {
		t.Fatal(err)
	}
	for _, session := range []sidecar.SessionID{"", "alice"} {
		if _, err := store.Commands(ctx, sidecar.CommandFilter{Session: session, Limit: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := store.ExpireCommands(ctx, birth); err != nil {
		t.Fatal(err)
	}
	if err := store.SaveSession(ctx, sidecar.Session{ID: "s", Scope: "alice"}); err != nil {
		t.Fatal(err)
	}
}

// runFilters has each condition alone and with each other.
func runFilters() []sidecar.RunFilter {
	filters := []sidecar.RunFilter{{Scope: "alice", Limit: 1}}
	conditions := []func(*sidecar.RunFilter){
		func(f *sidecar.RunFilter) { f.Active = true },
		func(f *sidecar.RunFilter) { f.Status = sidecar.StatusError },
		func(f *sidecar.RunFilter) { f.Workflow = "solid" },
		func(f *sidecar.RunFilter) { f.Workflow, f.Contract = "solid", "default" },
		func(f *sidecar.RunFilter) { f.Since = birth },
		func(f *sidecar.RunFilter) { f.Until = birth.Add(time.Hour) },
		func(f *sidecar.RunFilter) { f.RootOnly = true },
		func(f *sidecar.RunFilter) { f.Parent = "run_parent" },
		func(f *sidecar.RunFilter) { f.Metrics = true },
		func(f *sidecar.RunFilter) { f.After = sidecar.Cursor{CreatedAt: birth.Add(time.Minute), ID: "run"} },
	}
	for i, with := range conditions {
		for _, too := range conditions[i:] {
			f := filters[0]
			with(&f)
			too(&f)
			filters = append(filters, f)
		}
	}
	return filters
}

func planOf(t *testing.T, store *sqlite.Store, text string) (steps []string) {
	t.Helper()
	err := store.Do(context.Background(), func(tx *sqlite.Tx) error {
		return tx.Query("EXPLAIN QUERY PLAN "+text, func(row interface{ Scan(...any) error }) error {
			var id, parent, unused int
			var detail string
			err := row.Scan(&id, &parent, &unused, &detail)
			steps = append(steps, detail)
			return err
		}, make([]any, strings.Count(text, "?"))...)
	})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return steps
}

func TestPlans(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	store := open(t, path)
	busy(t, store, 0)
	closeStore(t, store)
	store = open(t, path) // the tail is empty now: events are read from the table
	events(t, store, "alice", "", 0, 0)
	events(t, store, "alice", newRun("alice", 0).ID, 0, 0)
	busy(t, store, 3)
	if seen := holdPlans(t, store); seen < 30 {
		t.Errorf("only %d statements were looked at", seen)
	}
}

// holdPlans looks that no statement that was prepared so far scans a table that
// grows.
func holdPlans(t *testing.T, store *sqlite.Store) (seen int) {
	t.Helper()
	texts, err := store.Texts(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	// A scan is what the whole of a table needs. These are small for ever, or
	// indexes of the few rows that are meant.
	small := regexp.MustCompile(`^SCAN (scopes|CONSTANT ROW|\(subquery-\d+\)|\w+ USING (COVERING )?INDEX run_state_unfinished|[joa] VIRTUAL TABLE INDEX \d+:|json_each VIRTUAL TABLE INDEX \d+:)$`)
	for _, text := range texts {
		if verb, _, _ := strings.Cut(strings.TrimSpace(text), " "); slices.Contains([]string{"BEGIN", "COMMIT", "ROLLBACK"}, verb) || strings.HasPrefix(verb, "BEGIN") {
			continue
		}
		seen++
		steps := planOf(t, store, text)
		for _, step := range steps {
			if strings.HasPrefix(step, "SCAN") && !small.MatchString(step) {
				t.Errorf("%s\n\t%s", text, step)
			}
			if strings.Contains(step, "TEMP B-TREE FOR ORDER BY") && strings.Contains(text, "LIMIT") && !strings.Contains(text, "UNION") {
				t.Errorf("%s\n\tsorts more than its page", text)
			}
			// Who counts a scope walks it, along an index.
			if strings.HasSuffix(step, "(scope_key=?)") && !strings.Contains(text, "LIMIT") && !strings.Contains(text, "count(*)") {
				t.Errorf("%s\n\t%s: walks a whole scope", text, step)
			}
		}
		if strings.Contains(text, "r.status = 'submitted'") && strings.Count(strings.Join(steps, "\n"), "status=?") != 2 {
			t.Errorf("%s\n\t%v: walks more than the active runs", text, steps)
		}
		if testing.Verbose() {
			t.Logf("%s\n\t%s", strings.Join(strings.Fields(text), " "), strings.Join(steps, "\n\t"))
		}
	}
	return seen
}

func TestPragmas(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "state.db")
	closeStore(t, open(t, path))
	for _, c := range []struct {
		name, dsn string
		want      map[string]string
	}{
		{"writer", sqlite.WriterDSN(path, false), map[string]string{"synchronous": "2", "query_only": "0"}},
		{"ephemeral", sqlite.WriterDSN(path, true), map[string]string{"synchronous": "0", "query_only": "0"}},
		{"reader", sqlite.ReaderDSN(path), map[string]string{"query_only": "1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.want["busy_timeout"], c.want["journal_mode"], c.want["foreign_keys"] = "5000", "wal", "1"
			if c.name != "reader" {
				c.want["journal_size_limit"] = "67108864"
			}
			db, err := sql.Open("sqlite", c.dsn)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			for range 4 {
				conn, err := db.Conn(ctx) // kept, so that the next is another
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				for pragma, want := range c.want {
					var got string
					if err := conn.QueryRowContext(ctx, "PRAGMA "+pragma).Scan(&got); err != nil || got != want {
						t.Errorf("%s = %s, want %s (%v)", pragma, got, want, err)
					}
				}
			}
		})
	}
	t.Run("a_writers_transaction_locks_at_once", func(t *testing.T) {
		one, err1 := sql.Open("sqlite", sqlite.WriterDSN(path, false))
		two, err2 := sql.Open("sqlite", strings.Replace(sqlite.WriterDSN(path, false), "busy_timeout(5000)", "busy_timeout(1)", 1))
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		defer one.Close()
		defer two.Close()
		tx, err := one.BeginTx(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := two.BeginTx(ctx, nil); err == nil {
			t.Error("two transactions at once")
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("a_reader_cannot_write", func(t *testing.T) {
		db, err := sql.Open("sqlite", sqlite.ReaderDSN(path))
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if _, err := db.Exec("DELETE FROM runs"); err == nil {
			t.Error("it did")
		}
	})
}
