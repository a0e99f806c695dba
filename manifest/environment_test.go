package manifest_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/manifest"
)

func TestLocate(t *testing.T) {
	root := write(t, map[string]string{
		".metadata/version":                     "1",
		"environments/old/.cec/pyproject.toml":  "a = 1",
		"environments/old/ComfyUI/main.py":      "",
		"environments/new/pyproject.toml":       "a = 1",
		"environments/new/workflow_api/g.json":  "{}",
		"environments/late/readme":              "",
		"environments/later/.cec/workflows/x":   "",
		"environments/both/.cec/pyproject.toml": "a = 1",
		"environments/both/pyproject.toml":      "a = 1",
	})
	env := func(name, folder string) manifest.Environment {
		dir := filepath.Join(root, "environments", name)
		return manifest.Environment{Name: name, Dir: dir, Manifest: filepath.Join(dir, folder), Workspace: root}
	}
	cases := map[string]manifest.Environment{
		"old": env("old", ".cec"), "old/.cec": env("old", ".cec"), "old/ComfyUI": env("old", ".cec"),
		"new": env("new", ""), "new/workflow_api": env("new", ""), "late": env("late", ""), "later": env("later", ".cec"), "both": env("both", ".cec"),
	}
	for dir, want := range cases {
		t.Run(dir, func(t *testing.T) {
			got, err := manifest.Locate(filepath.Join(root, "environments", dir))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("folders", func(t *testing.T) {
		e := env("old", ".cec")
		if got, want := e.InputDir(), filepath.Join(e.Dir, "ComfyUI", "input"); got != want {
			t.Error(got)
		}
		if got, want := e.MetadataDir(), filepath.Join(root, ".metadata"); got != want {
			t.Error(got)
		}
		e.Workspace = ""
		if got, want := e.MetadataDir(), filepath.Join(e.Dir, ".metadata"); got != want {
			t.Error(got)
		}
	})
	for _, dir := range []string{"nowhere", "new/pyproject.toml"} {
		_, err := manifest.Locate(filepath.Join(root, "environments", dir))
		var missing *manifest.LocateError
		if !errors.As(err, &missing) {
			t.Errorf("Locate(%s) = %v", dir, err)
		}
	}
}

func TestFind(t *testing.T) {
	root := write(t, map[string]string{
		"ws/.metadata/workspace.json":            `{"active_environment": "a"}`,
		"ws/environments/a/.cec/pyproject.toml":  "a = 1",
		"ws/environments/b/pyproject.toml":       "a = 1",
		"ws/environments/no/readme":              "",
		"home/comfygit/.metadata/workspace.json": `{}`,
		"home/comfygit/environments/h/.cec/x":    "",
		"bare/x":                                 "",
	})
	at := func(vars map[string]string) func(string) string { return func(k string) string { return vars[k] } }
	ws := at(map[string]string{"COMFYGIT_HOME": filepath.Join(root, "ws"), "HOME": filepath.Join(root, "home")})

	t.Run("COMFYGIT_HOME comes first", func(t *testing.T) {
		got, err := manifest.Find("b", ws)
		dir := filepath.Join(root, "ws/environments/b")
		if diff := cmp.Diff(manifest.Environment{Name: "b", Dir: dir, Manifest: dir, Workspace: filepath.Join(root, "ws")}, got); diff != "" || err != nil {
			t.Error(err, diff)
		}
	})
	t.Run("no name is the active one", func(t *testing.T) {
		if got, err := manifest.Find("", ws); err != nil || got.Name != "a" {
			t.Error(got, err)
		}
	})
	t.Run("then the home folder", func(t *testing.T) {
		if got, err := manifest.Find("h", at(map[string]string{"HOME": filepath.Join(root, "home")})); err != nil || got.Workspace != filepath.Join(root, "home/comfygit") {
			t.Error(got, err)
		}
	})
	t.Run("then upwards", func(t *testing.T) {
		t.Chdir(filepath.Join(root, "ws/environments/no"))
		if got, err := manifest.Find("a", at(map[string]string{"HOME": filepath.Join(root, "bare")})); err != nil || got.Name != "a" {
			t.Error(got, err)
		}
	})
	t.Run("an unknown name says where it looked and what there is", func(t *testing.T) {
		for _, name := range []string{"zzz", "../environments/a", "..", "no"} {
			_, err := manifest.Find(name, ws)
			var missing *manifest.LocateError
			if !errors.As(err, &missing) {
				t.Fatalf("Find(%s) = %v", name, err)
			}
			if diff := cmp.Diff([]string{"a", "b"}, missing.Found); diff != "" || len(missing.Looked) == 0 {
				t.Error(missing, diff)
			}
		}
	})
	t.Run("no workspace", func(t *testing.T) {
		if _, err := manifest.Find("a", at(map[string]string{"COMFYGIT_HOME": filepath.Join(root, "bare")})); err == nil {
			t.Error("found one")
		}
	})
	if err := os.Remove(filepath.Join(root, "ws/.metadata/workspace.json")); err != nil {
		t.Fatal(err)
	}
	t.Run("none named, none active", func(t *testing.T) {
		if _, err := manifest.Find("", ws); err == nil {
			t.Error("found one")
		}
	})
}
