package manifest_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/manifest"
)

// later opens a catalog that lives an hour after its files were written, plus
// what the returned clock is advanced by.
func later(t *testing.T, dir string) (c *manifest.Catalog, advance func(time.Duration)) {
	t.Helper()
	env, err := manifest.Locate(dir)
	if err != nil {
		t.Fatal(err)
	}
	shift := time.Hour
	return manifest.OpenAt(env, func() time.Time { return time.Now().Add(shift) }), func(d time.Duration) { shift += d }
}

func TestFilesAtRest(t *testing.T) {
	dir := write(t, map[string]string{"pyproject.toml": declare("w", ""), "workflow_api/a.json": "1", "workflow_api/sub/b.json": "2"})
	files := []string{"pyproject.toml", "workflow_api/a.json", "workflow_api/sub/b.json"}
	c, _ := later(t, dir)
	first := c.Snapshot()
	check := func(what string) {
		t.Helper()
		if got, want := c.Snapshot().Digest(), reference(t, dir, files...); got != want {
			t.Errorf("%s: digest is %s, want %s", what, got, want)
		}
	}
	check("at first")
	check("unchanged")
	if c.Snapshot() != first {
		t.Error("an unchanged file was loaded again")
	}
	put(t, dir, "workflow_api/a.json", "longer")
	check("edited")
	put(t, dir, "workflow_api/sub/c.json", "3")
	files = append(files, "workflow_api/sub/c.json")
	check("added")
	if err := os.Rename(filepath.Join(dir, "workflow_api/sub/c.json"), filepath.Join(dir, "workflow_api/sub/d.json")); err != nil {
		t.Fatal(err)
	}
	files[3] = "workflow_api/sub/d.json"
	check("renamed")
	put(t, dir, "pyproject.toml", declare("v", ""))
	check("the manifest edited")
	if diff := cmp.Diff([]string{"v"}, workflows(c.Snapshot())); diff != "" {
		t.Error(diff)
	}
	if err := os.Remove(filepath.Join(dir, "pyproject.toml")); err != nil {
		t.Fatal(err)
	}
	files = files[1:]
	check("the manifest removed")
	put(t, dir, "pyproject.toml", declare("u", ""))
	files = append([]string{"pyproject.toml"}, files...)
	check("the manifest back")
	if err := os.Rename(filepath.Join(dir, "workflow_api"), filepath.Join(dir, "away")); err != nil {
		t.Fatal(err)
	}
	files = files[:1]
	check("the graphs moved away")
	if err := os.Rename(filepath.Join(dir, "away"), filepath.Join(dir, "workflow_api")); err != nil {
		t.Fatal(err)
	}
	files = append(files, "workflow_api/a.json", "workflow_api/sub/b.json", "workflow_api/sub/d.json")
	check("the graphs back")
}

func TestVeryManyFiles(t *testing.T) {
	dir := write(t, map[string]string{"pyproject.toml": declare("w", "")})
	files := []string{"pyproject.toml"}
	for i := range manifest.EveryFileLimit + 1 {
		name := fmt.Sprintf("workflow_api/%05d.json", i)
		put(t, dir, name, "1")
		files = append(files, name)
	}
	c, advance := later(t, dir)
	check := func(what string) {
		t.Helper()
		if got, want := c.Digest(), reference(t, dir, files...); got != want {
			t.Errorf("%s: digest is %s, want %s", what, got, want)
		}
	}
	check("at first")
	put(t, dir, "workflow_api/x.json", "1")
	files = append(files, "workflow_api/x.json")
	check("a new file is seen at once")
	put(t, dir, "workflow_api/x.json", "22")
	advance(manifest.SweepEvery + time.Millisecond)
	check("an edit in place is seen at the next sweep")
}

// TestGraphsAtRest: a graph that is known from before is used only as long as
// its file is as it was.
func TestGraphsAtRest(t *testing.T) {
	graph := func(class string) string { return `{"1":{"class_type":"` + class + `","inputs":{}}}` }
	dir := write(t, map[string]string{"pyproject.toml": declare("w", ""), "workflow_api/g.json": graph("A")})
	c, _ := later(t, dir)
	path := filepath.Join(dir, "workflow_api", "g.json")
	check := func(what, want string) {
		t.Helper()
		s := c.Snapshot()
		built, err := s.Build(s.Contracts()[0], nil)
		if err != nil {
			t.Fatal(what, err)
		}
		if got := string(built.Graph.Bytes()); got != graph(want) {
			t.Errorf("%s: built with %s", what, got)
		}
	}
	check("at first", "A")
	check("unchanged", "A")
	old, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	put(t, dir, "workflow_api/g.json", graph("B"))
	if err := os.Chtimes(path, old.ModTime(), old.ModTime()); err != nil {
		t.Fatal(err)
	}
	check("edited, with the old time and size", "B")
	put(t, dir, "workflow_api/h.json", graph("C"))
	if err := os.Rename(filepath.Join(dir, "workflow_api", "h.json"), path); err != nil {
		t.Fatal(err)
	}
	check("replaced", "C")

	// The same file by a name that is refused stays refused.
	put(t, dir, "pyproject.toml", strings.Replace(declare("w", ""), "workflow_api/g.json", "workflow_api/x/../g.json", 1))
	s := c.Snapshot()
	var fault *manifest.Fault
	if _, err := s.Build(s.Contracts()[0], nil); !errors.As(err, &fault) {
		t.Errorf("a path with .. : %v", err)
	}
	put(t, dir, "pyproject.toml", declare("w", ""))
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	s = c.Snapshot()
	if _, err := s.Build(s.Contracts()[0], nil); !errors.As(err, &fault) {
		t.Errorf("removed: %v", err)
	}
}

// TestGraphsMakeRoom: more graphs than are kept are built all the same.
func TestGraphsMakeRoom(t *testing.T) {
	text := declare("w", "")
	long := strings.Repeat("x", 3<<20)
	dir := write(t, nil)
	for i := range 4 {
		name := fmt.Sprintf("g%d.json", i)
		put(t, dir, "workflow_api/"+name, fmt.Sprintf(`{"%d":{"class_type":"A","inputs":{"text":"%s"}}}`, i, long))
		text += strings.ReplaceAll(declare(fmt.Sprintf("w%d", i), ""), "g.json", name)
	}
	put(t, dir, "pyproject.toml", text)
	c, _ := later(t, dir)
	for i := range 4 {
		s := c.Snapshot()
		k, err := s.Contract(fmt.Sprintf("w%d", i), "default")
		if err != nil {
			t.Fatal(err)
		}
		built, err := s.Build(k, nil)
		if err != nil || !strings.HasPrefix(string(built.Graph.Bytes()), fmt.Sprintf(`{"%d"`, i)) {
			t.Errorf("graph %d: %.20s %v", i, built.Graph.Bytes(), err)
		}
	}
	if kept := c.ParsedBytes(); kept == 0 || kept > 8<<20 {
		t.Errorf("%d bytes of graphs are kept", kept)
	}
}
