package sqlite_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite"
)

// birth is when the first run of a test was made.
var birth = time.Date(2026, 3, 4, 5, 6, 7, 89e6, time.UTC)

func open(t testing.TB, path string) *sqlite.Store {
	t.Helper()
	store, err := sqlite.Open(context.Background(), sqlite.Options{Path: path, LockWait: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, store) })
	return store
}

func closeStore(t testing.TB, store *sqlite.Store) {
	t.Helper()
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}

func fresh(t testing.TB) *sqlite.Store {
	t.Helper()
	return open(t, filepath.Join(t.TempDir(), "state.db"))
}

func reader(t *testing.T, path string) *sqlite.Reader {
	t.Helper()
	r, err := sqlite.OpenReader(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// newRun is the n-th run of a scope, a second after the one before it.
func newRun(scope sidecar.Scope, n int) *sidecar.Run {
	id := sidecar.RunID(fmt.Sprintf("run_%s%028d", scope[:4], n))
	at := birth.Add(time.Duration(n) * time.Second)
	return &sidecar.Run{
		ID: id, Session: sidecar.SessionID(scope), Scope: scope, Workflow: "solid", Contract: "default",
		Status: sidecar.StatusSubmitted, Inputs: json.RawMessage(`{"seed":18446744073709551615,"cfg":1.0}`),
		CreatedAt: at, UpdatedAt: at,
		State: sidecar.State{
			Phase: sidecar.PhaseSubmitting, Prompt: "3d3a3a2e-6a3f-4c4e-9df0-1a2b3c4d5e6f",
			Graph: sidecar.DigestOf([]byte("graph")), ContractRef: sidecar.DigestOf([]byte("contract")),
			EnvironmentRef: json.RawMessage(`{"environment":"e"}`), ManifestRevision: "sha256:00",
			PromptDigest: "sha256:11", Issues: json.RawMessage(`[{"code":"w"}]`), DueAt: at.Add(time.Hour),
		},
		Slots: []sidecar.Slot{
			{ID: sidecar.SlotID("slot_" + string(id) + "_0_image"), Index: 0, Name: "image", Type: "image",
				Status: sidecar.SlotPending, Width: 1, Height: 1, CreatedAt: at, UpdatedAt: at},
			{ID: sidecar.SlotID("slot_" + string(id) + "_1_text"), Index: 1, Name: "text", Type: "json",
				Status: sidecar.SlotPending, CreatedAt: at, UpdatedAt: at},
		},
	}
}

func told(run *sidecar.Run, kind sidecar.EventType) sidecar.Event {
	return sidecar.Event{
		Run: run.ID, Scope: run.Scope, Revision: run.Revision, Type: kind, At: run.UpdatedAt,
		Targets: json.RawMessage(`{"run":{"status":"` + string(run.Status) + `"}}`),
	}
}

// blobsOfRuns is what the runs of newRun name.
func blobsOfRuns() []sidecar.Blob {
	return []sidecar.Blob{sidecar.NewBlob([]byte("graph")), sidecar.NewBlob([]byte("contract"))}
}

func put(store *sqlite.Store, run *sidecar.Run) error {
	return store.Create(context.Background(), run, []sidecar.Event{told(run, sidecar.EventRunStarted)}, blobsOfRuns()...)
}

func create(t testing.TB, store *sqlite.Store, run *sidecar.Run) *sidecar.Run {
	t.Helper()
	if err := put(store, run); err != nil {
		t.Fatal(err)
	}
	return read(t, store, run.ID)
}

func read(t testing.TB, store *sqlite.Store, id sidecar.RunID) *sidecar.Run {
	t.Helper()
	run, err := store.Run(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// apply moves a run by signals, a second apart.
func apply(t testing.TB, store *sqlite.Store, id sidecar.RunID, signals ...sidecar.Signal) *sidecar.Run {
	t.Helper()
	var run *sidecar.Run
	for _, sig := range signals {
		var err error
		run, err = store.Update(context.Background(), id, func(r *sidecar.Run) ([]sidecar.Event, error) {
			return r.Apply(sig, r.UpdatedAt.Add(time.Second)), nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return run
}

func accepted() sidecar.Signal {
	return sidecar.Signal{Kind: sidecar.SignalAccepted, PromptID: "3d3a3a2e-6a3f-4c4e-9df0-1a2b3c4d5e6f"}
}

var sameRun = cmp.Options{cmpopts.EquateEmpty()}

func cmpDiff(want, got any) string { return cmp.Diff(want, got, sameRun) }

func diff(t testing.TB, want, got any) {
	t.Helper()
	if d := cmpDiff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func events(t testing.TB, store *sqlite.Store, scope sidecar.Scope, run sidecar.RunID, after sidecar.Seq, limit int) []sidecar.Record {
	t.Helper()
	records, err := store.Events(context.Background(), scope, run, after, limit)
	if err != nil {
		t.Fatal(err)
	}
	return records
}

func verify(t testing.TB, store *sqlite.Store) sqlite.Report {
	t.Helper()
	report, err := store.Verify(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func sound(t testing.TB, store *sqlite.Store) {
	t.Helper()
	if report := verify(t, store); len(report.Faults) > 0 {
		t.Errorf("%d faults: %+v", len(report.Faults), report.Faults[:min(3, len(report.Faults))])
	}
}

func TestMain(m *testing.M) {
	if child() {
		return
	}
	goleak.VerifyTestMain(m)
}

func TestStore(t *testing.T) {
	ctx := context.Background()

	t.Run("a_run_reads_as_it_was_created", func(t *testing.T) {
		store := fresh(t)
		want := newRun("alice", 1)
		got := create(t, store, want)
		if len(got.HeadHash) != 32 {
			t.Errorf("head hash %x", got.HeadHash)
		}
		want.HeadHash = got.HeadHash
		diff(t, want, got)
	})

	t.Run("create_keeps_the_callers_run_as_it_is", func(t *testing.T) {
		store := fresh(t)
		run := newRun("alice", 1)
		create(t, store, run)
		diff(t, newRun("alice", 1), run)
	})

	t.Run("a_second_create_is_refused_and_changes_nothing", func(t *testing.T) {
		store := fresh(t)
		want := create(t, store, newRun("alice", 1))
		again := newRun("alice", 1)
		again.Workflow = "other"
		err := store.Create(ctx, again, []sidecar.Event{told(again, sidecar.EventRunStarted)})
		if !errors.Is(err, sqlite.ErrExists) {
			t.Errorf("got %v", err)
		}
		diff(t, want, read(t, store, want.ID))
		if store.Head() != 1 {
			t.Errorf("head %d", store.Head())
		}
	})

	t.Run("a_blob_whose_digest_lies_is_refused", func(t *testing.T) {
		store := fresh(t)
		run := newRun("alice", 1)
		err := store.Create(ctx, run, nil, sidecar.Blob{Digest: sidecar.DigestOf([]byte("a")), Data: []byte("b")})
		if err == nil {
			t.Error("accepted")
		}
		if _, err := store.Run(ctx, run.ID); !errors.Is(err, sidecar.ErrNotFound) {
			t.Errorf("got %v", err)
		}
	})

	t.Run("update_returns_what_is_read_later", func(t *testing.T) {
		store := fresh(t)
		run := create(t, store, newRun("alice", 1))
		got := apply(t, store, run.ID, sidecar.Signal{Kind: sidecar.SignalHanding}, accepted(),
			sidecar.Signal{Kind: sidecar.SignalNodeStarted, Node: sidecar.NodeRef{ID: "7", Class: "KSampler"}})
		diff(t, read(t, store, run.ID), got)
		if got.Status != sidecar.StatusRunning || len(got.Items) != 2 || len(got.Nodes) != 1 {
			t.Errorf("got %+v", got)
		}
		sound(t, store)
	})

	t.Run("update_without_events_writes_nothing", func(t *testing.T) {
		store := fresh(t)
		want := create(t, store, newRun("alice", 1))
		version := store.Version("alice")
		got, err := store.Update(ctx, want.ID, func(r *sidecar.Run) ([]sidecar.Event, error) {
			r.Workflow = "changed"
			return nil, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		diff(t, want, got)
		diff(t, want, read(t, store, want.ID))
		if store.Version("alice") != version || store.Head() != 1 {
			t.Error("the version or the head moved")
		}
	})

	t.Run("update_hands_the_changes_error_back", func(t *testing.T) {
		store := fresh(t)
		want := create(t, store, newRun("alice", 1))
		refused := errors.New("refused")
		_, err := store.Update(ctx, want.ID, func(r *sidecar.Run) ([]sidecar.Event, error) {
			r.Status = sidecar.StatusError
			return []sidecar.Event{told(r, sidecar.EventRunFailed)}, refused
		})
		if err != refused {
			t.Errorf("got %v", err)
		}
		diff(t, want, read(t, store, want.ID))
	})

	t.Run("a_larger_transaction_is_all_or_nothing", func(t *testing.T) {
		store := fresh(t)
		refused := errors.New("refused")
		for _, answer := range []error{refused, nil} {
			err := store.Do(ctx, func(tx *sqlite.Tx) error {
				run := newRun("alice", 1)
				if err := tx.Create(run, []sidecar.Event{told(run, sidecar.EventRunStarted)}, blobsOfRuns()...); err != nil {
					return err
				}
				moved, err := tx.Update(run.ID, func(r *sidecar.Run) ([]sidecar.Event, error) {
					return r.Apply(sidecar.Signal{Kind: sidecar.SignalHanding}, birth), nil
				})
				if err != nil {
					return err
				}
				seen, err := tx.Run(run.ID)
				diff(t, moved, seen)
				if err != nil {
					return err
				}
				return answer
			})
			if err != answer {
				t.Errorf("got %v", err)
			}
			_, err = store.Run(ctx, newRun("alice", 1).ID)
			if answer != nil && !errors.Is(err, sidecar.ErrNotFound) || answer == nil && err != nil {
				t.Errorf("got %v", err)
			}
		}
		if store.Head() != 2 {
			t.Errorf("head %d", store.Head())
		}
		sound(t, store)
	})

	t.Run("what_is_unknown_is_not_found", func(t *testing.T) {
		store := fresh(t)
		_, run := store.Run(ctx, "run_x")
		_, update := store.Update(ctx, "run_x", func(*sidecar.Run) ([]sidecar.Event, error) { return nil, nil })
		_, blob := store.Blob(ctx, sidecar.DigestOf([]byte("x")))
		for _, err := range []error{run, update, blob} {
			if !errors.Is(err, sidecar.ErrNotFound) {
				t.Errorf("got %v", err)
			}
		}
	})

	t.Run("blobs_are_kept_once", func(t *testing.T) {
		store := fresh(t)
		create(t, store, newRun("alice", 1))
		create(t, store, newRun("alice", 2))
		data, err := store.Blob(ctx, sidecar.DigestOf([]byte("graph")))
		if err != nil || string(data) != "graph" {
			t.Errorf("got %q, %v", data, err)
		}
		if n := count(t, store, "SELECT count(*) FROM blobs"); n != 2 {
			t.Errorf("%d blobs", n)
		}
	})

	t.Run("unfinished_runs_come_oldest_first", func(t *testing.T) {
		store := fresh(t)
		for n := 3; n > 0; n-- {
			create(t, store, newRun("alice", n))
		}
		done := create(t, store, newRun("bobby", 0))
		apply(t, store, done.ID, sidecar.Signal{Kind: sidecar.SignalCancel})
		runs, err := store.Unfinished(ctx)
		if err != nil {
			t.Fatal(err)
		}
		diff(t, []sidecar.RunID{newRun("alice", 1).ID, newRun("alice", 2).ID, newRun("alice", 3).ID}, idsOf(runs))
	})

	t.Run("a_prompt_id_is_null_until_comfyui_is_asked", func(t *testing.T) {
		store := fresh(t)
		run := create(t, store, newRun("alice", 1))
		query := "SELECT count(*) FROM runs WHERE prompt_id IS NULL"
		if n := count(t, store, query); n != 1 {
			t.Errorf("%d", n)
		}
		apply(t, store, run.ID, sidecar.Signal{Kind: sidecar.SignalHanding})
		if n := count(t, store, query); n != 0 {
			t.Errorf("%d", n)
		}
	})
}

func idsOf(runs []*sidecar.Run) []sidecar.RunID {
	var ids []sidecar.RunID
	for _, run := range runs {
		ids = append(ids, run.ID)
	}
	return ids
}

func count(t testing.TB, store *sqlite.Store, query string) (n int) {
	t.Helper()
	err := store.Do(context.Background(), func(tx *sqlite.Tx) error {
		return tx.Query(query, func(row interface{ Scan(...any) error }) error { return row.Scan(&n) })
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
