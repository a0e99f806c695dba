package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/artifact"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite"
)

// stateDB is a program of the scripts: "statedb make FILE N" makes a state
// database with N ended runs, a day apart, the newest a day old, each with a
// copy of its output in the folder artifacts beside it; "statedb hold FILE
// SIGN" opens it, says so by a file SIGN, and holds it until it is interrupted.
func stateDB() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	store, err := sqlite.Open(ctx, sqlite.Options{Path: os.Args[2]})
	if err == nil {
		switch os.Args[1] {
		case "make":
			err = fillState(ctx, store, os.Args[3])
		case "hold":
			if err = os.WriteFile(os.Args[3], nil, 0o644); err == nil {
				<-ctx.Done()
			}
		}
		err = errors.Join(err, store.Close())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

func fillState(ctx context.Context, store *sqlite.Store, count string) error {
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	copies, err := artifact.Open(filepath.Join(filepath.Dir(store.Path()), "artifacts"))
	if err != nil {
		return err
	}
	for i := range n {
		if err := addEnded(ctx, store, copies, i, time.Now().Add(-time.Duration(n-i)*24*time.Hour)); err != nil {
			return errors.Join(err, copies.Close())
		}
	}
	return copies.Close()
}

func addEnded(ctx context.Context, store *sqlite.Store, copies *artifact.Dir, n int, at time.Time) error {
	file, err := copies.Add(fmt.Sprintf("prompt%d", n), "a.png", strings.NewReader(strings.Repeat("x", 50_000)))
	if err != nil {
		return err
	}
	graph := sidecar.NewBlob(fmt.Appendf(nil, `{"%d": {}}`, n))
	id := fmt.Sprintf("run_%032d", n)
	run := &sidecar.Run{
		ID: sidecar.RunID(id), Session: "me", Scope: "me", Workflow: "w", Contract: "c", Status: sidecar.StatusCompleted,
		CreatedAt: at, UpdatedAt: at,
		State: sidecar.State{Phase: sidecar.PhaseFinished, Outcome: sidecar.OutcomeCompleted, Graph: graph.Digest, FinishedAt: at},
		Items: []sidecar.Item{{
			ID: sidecar.ItemID("gallery_" + id), Run: sidecar.RunID(id), Session: "me", Scope: "me", Workflow: "w", Contract: "c",
			Status: sidecar.ItemDone, Type: "image", CreatedAt: at, UpdatedAt: at,
			Artifact: json.RawMessage(`{"serve_artifact": "` + file.Ref + `"}`),
		}},
	}
	event := sidecar.Event{Run: run.ID, Scope: "me", Type: sidecar.EventRunCompleted, At: at, Revision: 1}
	return store.Create(ctx, run, []sidecar.Event{event}, graph)
}

// sidecarJSON runs a command beside whatever runs and decodes what it prints.
func sidecarJSON(t *testing.T, into any, args ...string) {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, into)
	}
	if err != nil {
		t.Fatalf("%v: %v in %s", args, err, out)
	}
}

// TestStateBesideAServer looks after the database of a server that works.
func TestStateBesideAServer(t *testing.T) {
	_, comfy := startFake(t, comfyfake.Options{StepDelay: time.Millisecond})
	dir := t.TempDir()
	env, err := layDemo(dir)
	if err != nil {
		t.Fatal(err)
	}
	db := filepath.Join(dir, "state.sqlite")
	p := start(t, env.Dir, comfy, "--state", "local", "--state-db", db, "--artifact-dir", filepath.Join(dir, "artifacts"))
	const runs = 3
	for range runs {
		body := `{"inputs": {"steps": 1, "width": 64, "height": 64}, "wait": true}`
		if a := p.must("POST", "/contracts/painting/default/run", body); a.status != 200 {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	t.Run("verify", func(t *testing.T) {
		var got verdict
		sidecarJSON(t, &got, "verify", "--json", "--state-db", db)
		if !got.Sound || got.Runs != runs || got.Events < 3*runs {
			t.Errorf("%+v", got)
		}
	})
	t.Run("backup", func(t *testing.T) {
		to := filepath.Join(t.TempDir(), "copy.sqlite")
		var got struct{ Runs, Events int }
		sidecarJSON(t, &got, "backup", to, "--json", "--state-db", db)
		var copied verdict
		sidecarJSON(t, &copied, "verify", "--json", "--state-db", to)
		if got.Runs != runs || !copied.Sound || copied.Runs != runs || copied.Events != got.Events {
			t.Errorf("%+v, %+v", got, copied)
		}
	})
	t.Run("a_dry_run_tells_what_the_real_one_does", func(t *testing.T) {
		var plan, done prunedDoc
		sidecarJSON(t, &plan, "prune", "--json", "--dry-run", "--keep-runs", "1", "--state-db", db)
		if plan.Runs != runs-1 || plan.Bytes == 0 {
			t.Errorf("%+v", plan)
		}
		p.end(syscall.SIGTERM)
		sidecarJSON(t, &done, "prune", "--json", "--keep-runs", "1", "--state-db", db, "--env-dir", env.Dir)
		done.DryRun = true
		if diff := cmp.Diff(plan, done); diff != "" {
			t.Errorf("-plan +done: %s", diff)
		}
	})
}

// TestServeKeepsWhatItIsToldTo: a server prunes by itself, soon after its start.
func TestServeKeepsWhatItIsToldTo(t *testing.T) {
	_, comfy := startFake(t, comfyfake.Options{})
	dir := t.TempDir()
	env, err := layDemo(dir)
	if err != nil {
		t.Fatal(err)
	}
	db := filepath.Join(dir, "state.sqlite")
	store, err := sqlite.Open(t.Context(), sqlite.Options{Path: db})
	if err == nil {
		err = errors.Join(fillState(t.Context(), store, "5"), store.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, env.Dir, comfy, "--state", "local", "--state-db", db, "--artifact-dir", filepath.Join(dir, "artifacts"), "--keep-days", "2.5")
	eventually(t, 30*time.Second, "three runs and their copies go", func() bool {
		var list struct{ Runs []any }
		p.must("GET", "/runs", "").decode(t, &list)
		copies, err := filepath.Glob(filepath.Join(dir, "artifacts", "prompt*", "a.png"))
		return err == nil && len(list.Runs) == 2 && len(copies) == 2
	})
}

func TestByteSize(t *testing.T) {
	for text, want := range map[string]byteSize{
		"0": 0, "500000": 500000, "1k": 1000, "20GB": 20e9, "20 gib": 20 << 30, "1B": 1, "3MiB": 3 << 20, "2TB": 2e12,
	} {
		var got byteSize
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "x", "-1", "1.5GB", "9223372036854775807k", "1 zb"} {
		var got byteSize
		if err := got.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is %d", text, got)
		}
	}
}
