package manifest_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/internal/need"
	"github.com/comfygit-ai/studio-sidecar/manifest"
)

// TestDiagnoseAtRest: what was found in graphs stands until one of them moves,
// wherever it lies.
func TestDiagnoseAtRest(t *testing.T) {
	outputs := `outputs = [{ name = "o", type = "image", node_id = "9" }]`
	const (
		good    = `{"9":{"class_type":"A"}}`
		other   = `{"8":{"class_type":"A"}}`
		unbound = "Contract output 'o' references missing workflow node '9'."
	)
	for _, path := range []string{"workflow_api/g.json", "graphs/g.json", "workflow_api/sub/../g.json", "./workflow_api/g.json"} {
		t.Run(strings.ReplaceAll(path, "/", "_"), func(t *testing.T) {
			dir := write(t, map[string]string{"pyproject.toml": strings.ReplaceAll(declare("w", outputs), "workflow_api/g.json", path)})
			file := filepath.Join(dir, filepath.Clean(path))
			c, _ := later(t, dir)
			check := func(what string, want ...string) {
				t.Helper()
				ref, faults := c.Snapshot().Examine(context.Background())
				var got []string
				for _, f := range faults {
					got = append(got, f.Message)
				}
				if strings.Contains(path, "..") {
					want = []string{"Contract API prompt path must be relative to the manifest: " + path}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s: %s", what, diff)
				}
				if digest := c.Digest(); digest != ref.ContractDigest {
					t.Errorf("%s: digest is %q, %q by itself", what, ref.ContractDigest, digest)
				}
			}
			missing := "Workflow 'w' contract API prompt file is missing: " + path + ". Re-save the contract in ComfyGit Manager."
			check("no file", missing)
			check("still none", missing)
			put(t, dir, path, good)
			check("laid later")
			check("unchanged")
			old, err := os.Stat(file)
			if err != nil {
				t.Fatal(err)
			}
			put(t, dir, path, other)
			if err := os.Chtimes(file, old.ModTime(), old.ModTime()); err != nil {
				t.Fatal(err)
			}
			check("edited, with the old time and size", unbound)
			check("unchanged", unbound)
			put(t, dir, path, "[]")
			check("broken", "Stored API prompt must be a JSON object.")
			put(t, dir, path, good)
			check("good again")
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			check("removed", missing)
		})
	}
}

// TestDiagnoseThenBuild: what is kept of a graph for the one is not enough for
// the other.
func TestDiagnoseThenBuild(t *testing.T) {
	const graph = `{"9":{"class_type":"A","inputs":{}}}`
	dir := write(t, map[string]string{"pyproject.toml": declare("w", ""), "workflow_api/g.json": graph})
	c, _ := later(t, dir)
	s := c.Snapshot()
	for range 2 {
		if faults := s.Diagnose(); len(faults) > 0 {
			t.Fatal(faults)
		}
		built, err := s.Build(s.Contracts()[0], nil)
		if err != nil || string(built.Graph.Bytes()) != graph {
			t.Errorf("built %s, %v", built.Graph.Bytes(), err)
		}
	}
	if again := s.Diagnose(); len(again) > 0 {
		t.Error(again)
	}
}

// TestDiagnoseBesideAMove: a folder that is away for the moment in which its
// graphs are read, or in whose place another one stands, is seen as it is when
// it is back with the same files.
func TestDiagnoseBesideAMove(t *testing.T) {
	outputs := `outputs = [{ name = "o", type = "image", node_id = "9" }]`
	for _, path := range []string{"workflow_api/g.json", "graphs/g.json"} {
		for _, other := range []string{"", "other/g.json"} {
			files := map[string]string{
				"pyproject.toml": strings.ReplaceAll(declare("w", outputs), "workflow_api/g.json", path), path: `{"9":{"class_type":"A"}}`,
			}
			if other != "" {
				files[other] = `{"8":{"class_type":"A"}}`
			}
			moveWhileDiagnosed(t, write(t, files), filepath.Dir(path), filepath.Dir(other))
		}
	}
}

// moveWhileDiagnosed moves a folder away, and another one in its place if there
// is one, at each moment at which the catalog asks for the time.
func moveWhileDiagnosed(t *testing.T, dir, folder, other string) {
	t.Helper()
	move := func(from, to string) bool { return os.Rename(filepath.Join(dir, from), filepath.Join(dir, to)) == nil }
	env, err := manifest.Locate(dir)
	if err != nil {
		t.Fatal(err)
	}
	for at := range 8 {
		asked, away, done := 0, false, false
		c := manifest.OpenAt(env, func() time.Time {
			if asked++; asked == at && !done {
				away = move(folder, "away")
				move(other, folder)
			}
			return time.Now().Add(time.Hour)
		})
		s := c.Snapshot()
		s.Examine(context.Background())
		done = true
		if away {
			move(folder, other)
			move("away", folder)
		}
		if faults := s.Diagnose(); len(faults) > 0 {
			t.Errorf("%s, away for %q at question %d about the time: %v", folder, other, at, faults)
		}
	}
}

// TestDiagnoseLinks: the same file by a link that leads out of the folder is
// refused at once, to those who ask and to runs, and taken again when it is back.
func TestDiagnoseLinks(t *testing.T) {
	for _, path := range []string{"workflow_api/g.json", "workflow_api/sub/g.json", "graphs/g.json"} {
		for _, linked := range []string{path, filepath.Dir(path), strings.Split(path, "/")[0]} {
			t.Run(strings.ReplaceAll(path+"_by_"+linked, "/", "_"), func(t *testing.T) {
				dir, outside := write(t, map[string]string{
					"pyproject.toml": strings.ReplaceAll(declare("w", ""), "workflow_api/g.json", path), path: `{"9":{"class_type":"A"}}`,
				}), t.TempDir()
				c, _ := later(t, dir)
				check := func(what string, want int) {
					t.Helper()
					s := c.Snapshot()
					_, faults := s.Examine(context.Background())
					_, err := s.Build(s.Contracts()[0], nil)
					if len(faults) != want || (err != nil) != (want > 0) {
						t.Errorf("%s: %v, built: %v", what, faults, err)
					}
				}
				check("at first", 0)
				inside, moved := filepath.Join(dir, linked), filepath.Join(outside, "moved")
				if err := os.Rename(inside, moved); err != nil {
					t.Fatal(err)
				}
				need.That(t, os.Symlink(moved, inside) == nil, "symbolic links")
				check("linked", 1)
				check("still linked", 1)
				if err := errors.Join(os.Remove(inside), os.Rename(moved, inside)); err != nil {
					t.Fatal(err)
				}
				check("back", 0)
			})
		}
	}
}

// TestGraphsByTwoLinks: where the second of two links leads is looked at too,
// whether the first is the folder or the file.
func TestGraphsByTwoLinks(t *testing.T) {
	for name, link := range map[string][2]string{"folder": {"real", "workflow_api"}, "file": {"../real/g.json", "workflow_api/g.json"}} {
		t.Run(name, func(t *testing.T) {
			dir, outside := write(t, map[string]string{"pyproject.toml": declare("w", ""), "real/g.json": `{"9":{"class_type":"A"}}`}), t.TempDir()
			real, at := filepath.Join(dir, "real"), filepath.Join(dir, filepath.FromSlash(link[1]))
			if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
				t.Fatal(err)
			}
			need.That(t, os.Symlink(filepath.FromSlash(link[0]), at) == nil, "symbolic links")
			c, _ := later(t, dir)
			s := c.Snapshot()
			for range 2 {
				if _, err := s.Build(s.Contracts()[0], nil); err != nil {
					t.Fatal(err)
				}
			}
			moved := filepath.Join(outside, "moved")
			if err := errors.Join(os.Rename(real, moved), os.Symlink(moved, real)); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Build(s.Contracts()[0], nil); err == nil {
				t.Error("a graph from outside was built")
			}
		})
	}
}

// TestDiagnoseWithoutStamps: of two things that are no files either is told as
// what it is.
func TestDiagnoseWithoutStamps(t *testing.T) {
	dir := write(t, map[string]string{"pyproject.toml": declare("w", "")})
	file := filepath.Join(dir, "workflow_api", "g.json")
	c, _ := later(t, dir)
	told := func() string { return c.Snapshot().Diagnose()[0].Message }
	if first := told(); !strings.Contains(first, "is missing") {
		t.Error(first)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	told()
	need.That(t, os.Symlink("g.json", file) == nil, "symbolic links")
	if loop := told(); strings.Contains(loop, "is missing") {
		t.Errorf("a link to itself: %s", loop)
	}
	if err := os.RemoveAll(filepath.Dir(file)); err != nil {
		t.Fatal(err)
	}
	told()
	put(t, dir, "workflow_api", "a file")
	if plain := told(); plain != open(t, dir).Snapshot().Diagnose()[0].Message {
		t.Errorf("a file in place of the folder: %s", plain)
	}
}

// TestBrokenInAnotherWay: what is told of a pyproject.toml that cannot be used is
// what is wrong now.
func TestBrokenInAnotherWay(t *testing.T) {
	dir := write(t, map[string]string{"pyproject.toml": declare("w", "")})
	path := filepath.Join(dir, "pyproject.toml")
	c, _ := later(t, dir)
	c.Snapshot()
	told := func() string { return c.Snapshot().Faults[0].Message }
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got := told(); got != "pyproject.toml is missing" {
		t.Error(got)
	}
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if got := told(); got != "pyproject.toml cannot be read: it is no regular file" {
		t.Error(got)
	}
	if first, again := c.Snapshot(), c.Snapshot(); first != again {
		t.Error("what is broken as it was is told anew")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got := told(); got != "pyproject.toml is missing" {
		t.Error(got)
	}
}

// TestDiagnoseOtherContracts: what was found for one reading of pyproject.toml
// is not told of the next.
func TestDiagnoseOtherContracts(t *testing.T) {
	dir := write(t, map[string]string{"workflow_api/g.json": `{"9":{"class_type":"A"}}`})
	c, _ := later(t, dir)
	for node, want := range map[string]int{"9": 0, "8": 1} {
		put(t, dir, "pyproject.toml", declare("w", `outputs = [{ name = "o", type = "image", node_id = "`+node+`" }]`))
		if faults := c.Snapshot().Diagnose(); len(faults) != want {
			t.Errorf("node %s: %v", node, faults)
		}
	}
}

// TestDiagnoseKeepsGraphsOfRuns: to look at all graphs takes no room from those
// that run.
func TestDiagnoseKeepsGraphsOfRuns(t *testing.T) {
	dir := write(t, map[string]string{
		"pyproject.toml":      declare("w", "") + strings.ReplaceAll(declare("v", ""), "g.json", "h.json"),
		"workflow_api/g.json": `{"1":{"class_type":"A"}}`,
		"workflow_api/h.json": `{"2":{"class_type":"` + strings.Repeat("x", 1000) + `"}}`,
	})
	c, _ := later(t, dir)
	s := c.Snapshot()
	if _, err := s.Build(s.Contracts()[0], nil); err != nil {
		t.Fatal(err)
	}
	kept := c.ParsedBytes()
	if faults := s.Diagnose(); len(faults) > 0 {
		t.Fatal(faults)
	}
	if again := c.ParsedBytes(); kept == 0 || again != kept {
		t.Errorf("%d bytes of graphs are kept, %d after a look at all", kept, again)
	}

	// A graph that changed counts once, one that nobody names not at all.
	put(t, dir, "workflow_api/g.json", `{"1":{"class_type":"AB"}}`)
	if _, err := s.Build(s.Contracts()[0], nil); err != nil {
		t.Fatal(err)
	}
	if again := c.ParsedBytes(); again != kept+1 {
		t.Errorf("%d bytes of a graph are kept that grew by one from %d", again, kept)
	}
	put(t, dir, "pyproject.toml", strings.ReplaceAll(declare("v", ""), "g.json", "h.json"))
	c.Snapshot().Diagnose()
	if again := c.ParsedBytes(); again != 0 {
		t.Errorf("%d bytes of a graph are kept that nobody names", again)
	}
}

// TestDiagnoseOnce: what stands is not looked for again.
func TestDiagnoseOnce(t *testing.T) {
	dir := write(t, map[string]string{"pyproject.toml": declare("w", "")})
	c, _ := later(t, dir)
	first, again := c.Snapshot().Diagnose(), c.Snapshot().Diagnose()
	if len(first) != 1 || &first[0] != &again[0] {
		t.Errorf("looked for twice: %v, %v", first, again)
	}
}

func BenchmarkUnchangedHealth(b *testing.B) {
	c := open(b, many(b))
	for laid := time.Now(); time.Since(laid) < 3*time.Second; {
		c.Snapshot().Examine(context.Background())
	}
	var faults []manifest.Fault
	for b.Loop() {
		_, faults = c.Snapshot().Examine(context.Background())
	}
	if len(faults) > 0 {
		b.Fatal(faults[0])
	}
}
