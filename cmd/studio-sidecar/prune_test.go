//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/comfygit-ai/studio-sidecar/manifest"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite"
)

// pruneIn runs prune in the folder of an environment on a database with an
// ended run and an upload whose time is over.
func pruneIn(t *testing.T, env manifest.Environment, name string, args ...string) prunedDoc {
	t.Helper()
	t.Chdir(env.Dir)
	db := filepath.Join(t.TempDir(), "state.sqlite")
	store, err := sqlite.Open(t.Context(), sqlite.Options{Path: db})
	if err != nil {
		t.Fatal(err)
	}
	upload := &sidecar.Upload{
		ID: sidecar.UploadID(name[:len("upload_")+32]), Name: "a.png", State: sidecar.UploadReady, Size: 1, TokenHash: []byte{1},
		CreatedAt: time.Now().Add(-48 * time.Hour), ExpiresAt: time.Now().Add(-24 * time.Hour),
	}
	if err := errors.Join(fillState(t.Context(), store, "2"), store.AddUpload(t.Context(), upload), store.Close()); err != nil {
		t.Fatal(err)
	}
	var got, plan prunedDoc
	for _, p := range []struct {
		into *prunedDoc
		more []string
	}{{&plan, []string{"--dry-run"}}, {&got, nil}} {
		var out, told bytes.Buffer
		line := append(append([]string{"prune", "--json", "--keep-runs", "1", "--state-db", db}, args...), p.more...)
		if code := run(context.Background(), line, &out, &told); code != exitOK {
			t.Fatalf("%v ended with %d: %s", line, code, told.String())
		}
		if err := json.Unmarshal(out.Bytes(), p.into); err != nil {
			t.Fatal(err)
		}
	}
	if plan.DryRun = false; plan.Uploads != got.Uploads {
		t.Errorf("planned %+v, got %+v", plan, got)
	}
	return got
}

func TestPruneFindsUploadsAsServeDoes(t *testing.T) {
	const name = "upload_00000000000080000000000000000001_a.png"
	lay := func(t *testing.T) (env manifest.Environment, file string) {
		t.Helper()
		env, err := layDemo(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(env.InputDir()), 0o755); err != nil {
			t.Fatal(err)
		}
		return env, filepath.Join(env.InputDir(), name)
	}
	put := func(t *testing.T, file string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("of_the_environment_that_is_named", func(t *testing.T) {
		env, file := lay(t)
		put(t, file)
		if got := pruneIn(t, env, name, "--env-dir", env.Dir); got.Uploads != 1 || got.Runs != 1 {
			t.Errorf("%+v", got)
		}
		if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the file stays: %v", err)
		}
	})
	t.Run("not_of_one_that_happens_to_be_here", func(t *testing.T) {
		env, file := lay(t)
		put(t, file)
		if got := pruneIn(t, env, name); got.Uploads != 0 || got.Runs != 1 {
			t.Errorf("%+v", got)
		}
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
	})
	t.Run("beside_the_copies_where_the_input_folder_cannot_be_written", func(t *testing.T) {
		env, _ := lay(t)
		if err := os.Symlink("/proc/self", env.InputDir()); err != nil {
			t.Fatal(err)
		}
		beside := filepath.Join(t.TempDir(), "uploads", name)
		put(t, beside)
		got := pruneIn(t, env, name, "--env-dir", env.Dir, "--artifact-dir", filepath.Join(filepath.Dir(filepath.Dir(beside)), "artifacts"))
		if got.Uploads != 1 || got.Runs != 1 {
			t.Errorf("%+v", got)
		}
		if _, err := os.Stat(beside); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the file stays: %v", err)
		}
	})
}
