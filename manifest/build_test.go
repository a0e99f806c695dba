package manifest_test

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/comfygit-ai/studio-sidecar/manifest"
)

var update = flag.Bool("update", false, "rewrite the wanted parts of testdata/cases")

// write lays files below a new folder and returns it.
func write(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		put(t, dir, name, text)
	}
	return dir
}

func put(t testing.TB, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, dir string) *manifest.Catalog {
	t.Helper()
	env, err := manifest.Locate(dir)
	if err != nil {
		t.Fatal(err)
	}
	return manifest.Open(env)
}

// TestBuild runs the archives of testdata/cases: files of an environment, a
// request, and the graph, issues, warnings or fault that come out.
func TestBuild(t *testing.T) {
	archives, err := filepath.Glob("testdata/cases/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatal("no cases:", err)
	}
	for _, path := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) { runCase(t, path) })
	}
}

func runCase(t *testing.T, path string) {
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	files, want, kept := map[string]string{}, map[string]string{}, []txtar.File{}
	for _, f := range archive.Files {
		if name, ok := strings.CutPrefix(f.Name, "want."); ok {
			want[name] = string(f.Data)
			continue
		}
		files[f.Name] = string(f.Data)
		kept = append(kept, f)
	}
	var request struct {
		Workflow, Contract string
		Inputs             manifest.Values
	}
	if err := json.Unmarshal([]byte(files["request.json"]), &request); err != nil {
		t.Fatal(err)
	}
	snapshot := open(t, write(t, files)).Snapshot()
	got := outcome(t, snapshot, request.Workflow, request.Contract, request.Inputs)
	if *update {
		for _, name := range []string{"fault", "graph", "issues", "warnings", "digest"} {
			if got[name] != "" {
				kept = append(kept, txtar.File{Name: "want." + name, Data: []byte(got[name])})
			}
		}
		archive.Files = kept
		if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func outcome(t *testing.T, s *manifest.Snapshot, workflow, name string, values manifest.Values) map[string]string {
	t.Helper()
	got := map[string]string{}
	c, err := s.Contract(workflow, name)
	var built manifest.Built
	if err == nil {
		built, err = s.Build(c, values)
	}
	if err != nil {
		var fault *manifest.Fault
		if !errors.As(err, &fault) {
			t.Fatal(err)
		}
		got["fault"] = fault.Where() + "\n" + fault.Message + "\n" + fault.Hint + "\n"
		return got
	}
	got["graph"] = string(built.Graph.Bytes()) + "\n"
	got["digest"] = built.Digest + "\n"
	for _, i := range built.Issues {
		line, err := json.Marshal(i)
		if err != nil {
			t.Fatal(err)
		}
		got["issues"] += string(line) + "\n"
	}
	for _, w := range built.Warnings {
		got["warnings"] += w.Key + ": " + w.Message + "\n"
	}
	return got
}
