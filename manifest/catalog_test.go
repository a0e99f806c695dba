package manifest_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/internal/need"
	"github.com/comfygit-ai/studio-sidecar/manifest"
)

func workflows(s *manifest.Snapshot) []string {
	var names []string
	for _, c := range s.Contracts() {
		names = append(names, c.Workflow)
	}
	return names
}

func TestSnapshotFollowsTheFile(t *testing.T) {
	dir := write(t, map[string]string{"pyproject.toml": declare("one", "")})
	c := open(t, dir)
	first := c.Snapshot()
	if diff := cmp.Diff([]string{"one"}, workflows(first)); diff != "" {
		t.Fatal(diff)
	}
	if c.Snapshot() != first {
		t.Error("an unchanged file was loaded again")
	}
	t.Run("an edit of the same size in the same instant", func(t *testing.T) {
		path := filepath.Join(dir, "pyproject.toml")
		before, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		put(t, dir, "pyproject.toml", declare("two", ""))
		if err := os.Chtimes(path, before.ModTime(), before.ModTime()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"two"}, workflows(c.Snapshot())); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("a broken file leaves the last good contracts", func(t *testing.T) {
		put(t, dir, "pyproject.toml", "[tool]\nbroken\n")
		s := c.Snapshot()
		if diff := cmp.Diff([]string{"two"}, workflows(s)); diff != "" {
			t.Error(diff)
		}
		if s.Usable() != nil || len(s.Faults) != 1 || s.Faults[0].Line != 2 || s.Faults[0].File != "pyproject.toml" {
			t.Errorf("faults are %+v", s.Faults)
		}
	})
	t.Run("an emptied or missing file too", func(t *testing.T) {
		put(t, dir, "pyproject.toml", "")
		if s := c.Snapshot(); len(s.Contracts()) != 1 || len(s.Faults) != 1 {
			t.Errorf("emptied: %v, %v", workflows(s), s.Faults)
		}
		if err := os.Remove(filepath.Join(dir, "pyproject.toml")); err != nil {
			t.Fatal(err)
		}
		if s := c.Snapshot(); len(s.Contracts()) != 1 || len(s.Faults) != 1 || s.Faults[0].Message != "pyproject.toml is missing" {
			t.Errorf("missing: %v, %v", workflows(s), s.Faults)
		}
	})
	t.Run("a repaired file has no faults", func(t *testing.T) {
		put(t, dir, "pyproject.toml", declare("three", ""))
		if s := c.Snapshot(); len(s.Faults) != 0 || workflows(s)[0] != "three" {
			t.Errorf("repaired: %v, %v", workflows(s), s.Faults)
		}
	})
}

func TestNothingGoodYet(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir)
	s := c.Snapshot()
	var fault *manifest.Fault
	if !errors.As(s.Usable(), &fault) {
		t.Fatalf("usable is %v", s.Usable())
	}
	if _, err := s.Contract("w", "default"); !errors.As(err, &fault) {
		t.Errorf("error is %v", err)
	}
	if _, _, ok := s.Match("a/b"); ok || len(s.JSON()) == 0 || s.Digest() != "" {
		t.Error("an empty folder offers something")
	}
	t.Run("written later, in the other layout", func(t *testing.T) {
		put(t, dir, ".cec/pyproject.toml", declare("late", ""))
		s := c.Snapshot()
		if s.Usable() != nil || workflows(s)[0] != "late" || c.Environment().Manifest != filepath.Join(dir, ".cec") {
			t.Errorf("%v, %v", s.Usable(), c.Environment())
		}
	})
}

// reference computes the digest in the plainest way.
func reference(t *testing.T, dir string, files ...string) string {
	t.Helper()
	h := sha256.New()
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(dir, f))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(h, "%s\x00%s\x00", f, text)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

func TestDigest(t *testing.T) {
	dir := write(t, map[string]string{
		"pyproject.toml": "not [ toml", "workflow_api/b/inner.json": "{}", "workflow_api/b-a.json": "{}", "workflow_api/B.json": "\r\n",
		"workflow_api/.hidden": "", "workflow_api/ä.json": "\x00", "workflow_api/10.json": "1", "workflow_api/9.json": "2", "elsewhere/x.json": "{}", "other.txt": "no",
	})
	link := func(to, name string) {
		if err := os.Symlink(to, filepath.Join(dir, "workflow_api", name)); err != nil {
			t.Fatal(err)
		}
	}
	link("9.json", "link.json")
	link("nowhere", "broken.json")
	link(filepath.Join(dir, "elsewhere"), "linked_folder")
	files := []string{"pyproject.toml", "workflow_api/.hidden", "workflow_api/10.json", "workflow_api/9.json", "workflow_api/B.json",
		"workflow_api/b/inner.json", "workflow_api/b-a.json", "workflow_api/link.json", "workflow_api/ä.json"}
	c := open(t, dir)
	check := func(what string) {
		t.Helper()
		if got, want := c.Snapshot().Digest(), reference(t, dir, files...); got != want {
			t.Errorf("%s: digest is %s, want %s", what, got, want)
		}
	}
	check("at first")
	check("unchanged")
	put(t, dir, "workflow_api/10.json", "3")
	check("edited in the same instant")
	put(t, dir, "workflow_api/b/zz.json", "{}")
	files = append(files[:6], append([]string{"workflow_api/b/zz.json"}, files[6:]...)...)
	check("added in a subfolder")
	old := time.Now().Add(-time.Hour)
	for _, f := range append(files, "workflow_api", "workflow_api/b") {
		if err := os.Chtimes(filepath.Join(dir, f), old, old); err != nil {
			t.Fatal(err)
		}
	}
	check("old files")
	put(t, dir, "workflow_api/9.json", "7")
	if err := os.Chtimes(filepath.Join(dir, "workflow_api/9.json"), old, old); err != nil {
		t.Fatal(err)
	}
	check("an edit that keeps size and time")
	if err := os.Remove(filepath.Join(dir, "pyproject.toml")); err != nil {
		t.Fatal(err)
	}
	files = files[1:]
	check("without pyproject.toml")
	if err := os.RemoveAll(filepath.Join(dir, "workflow_api")); err != nil {
		t.Fatal(err)
	}
	if got := c.Snapshot().Digest(); got != "" {
		t.Errorf("digest of nothing is %q", got)
	}
}

func TestConcurrentReadersSeeEveryChange(t *testing.T) {
	dir := write(t, map[string]string{"pyproject.toml": declare("w0", ""), "workflow_api/g.json": "{}"})
	c := open(t, dir)
	for i := 1; i <= 20; i++ {
		name := fmt.Sprintf("w%d", i)
		put(t, dir, "pyproject.toml", declare(name, ""))
		put(t, dir, "workflow_api/g.json", name)
		want := reference(t, dir, "pyproject.toml", "workflow_api/g.json")
		var readers sync.WaitGroup
		for range 8 {
			readers.Go(func() {
				s := c.Snapshot()
				if got := workflows(s); got[0] != name {
					t.Errorf("after writing %s a reader saw %s", name, got)
				}
				if got := s.Digest(); got != want {
					t.Errorf("after writing %s a reader saw digest %s", name, got)
				}
			})
		}
		readers.Wait()
	}
}

func TestBuildReadsTheGraphAfresh(t *testing.T) {
	dir := write(t, map[string]string{"pyproject.toml": declare("w", ""), "workflow_api/g.json": `{"1":{"class_type":"A"}}`})
	s := open(t, dir).Snapshot()
	put(t, dir, "workflow_api/g.json", `{"1":{"class_type":"B"}}`)
	built, err := s.Build(s.Contracts()[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(built.Graph.Bytes()); !strings.Contains(got, `"B"`) {
		t.Errorf("built with the graph of before: %s", got)
	}
}

func TestGraphOutsideTheFolderIsRefused(t *testing.T) {
	outside := write(t, map[string]string{"secret.json": `{"1":{"class_type":"A"}}`})
	dir := write(t, map[string]string{"pyproject.toml": declare("w", ""), "workflow_api/x": ""})
	if err := os.Symlink(filepath.Join(outside, "secret.json"), filepath.Join(dir, "workflow_api", "g.json")); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir).Snapshot()
	_, err := s.Build(s.Contracts()[0], nil)
	var fault *manifest.Fault
	if !errors.As(err, &fault) {
		t.Errorf("error is %v", err)
	}
}

func TestDiagnose(t *testing.T) {
	dir := write(t, map[string]string{
		"pyproject.toml":      declare("w", `outputs = [{ name = "o", type = "image", node_id = "9" }]`),
		"workflow_api/g.json": `{"1":{"class_type":"A"}}`,
	})
	c := open(t, dir)
	messages := func() (out []string) {
		for _, f := range c.Snapshot().Diagnose() {
			out = append(out, f.Message)
		}
		return out
	}
	if diff := cmp.Diff([]string{"Contract output 'o' references missing workflow node '9'."}, messages()); diff != "" {
		t.Error(diff)
	}
	put(t, dir, "workflow_api/g.json", `{"9":{"class_type":"SaveImage"}} `)
	if diff := cmp.Diff([]string(nil), messages()); diff != "" {
		t.Error(diff)
	}
	put(t, dir, "workflow_api/g.json", `[]`)
	if diff := cmp.Diff([]string{"Stored API prompt must be a JSON object."}, messages()); diff != "" {
		t.Error(diff)
	}
}

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "init.defaultBranch=main"}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

func TestRef(t *testing.T) {
	need.Command(t, "git")
	dir := write(t, map[string]string{".cec/pyproject.toml": declare("w", "")})
	cec := filepath.Join(dir, ".cec")
	git(t, dir, "init", "-q")
	git(t, dir, "add", "-A")
	git(t, dir, "commit", "-qm", "enclosing")
	c := open(t, dir)
	ref := func() manifest.Ref { return c.Snapshot().Ref(context.Background()) }
	state := func(r manifest.Ref) string {
		dirty := "unknown"
		if r.CecDirty != nil {
			dirty = fmt.Sprint(*r.CecDirty)
		}
		return fmt.Sprintf("commit %d, dirty %s", len(r.CecCommit), dirty)
	}
	check := func(what, want string) {
		t.Helper()
		if got := state(ref()); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	check("a repository that merely encloses", "commit 0, dirty unknown")
	git(t, cec, "init", "-q")
	check("no commit yet", "commit 0, dirty true")
	git(t, cec, "add", "-A")
	git(t, cec, "commit", "-qm", "first")
	check("clean", "commit 40, dirty false")
	put(t, cec, "note.txt", "x")
	check("untracked file", "commit 40, dirty true")
	if err := os.Remove(filepath.Join(cec, "note.txt")); err != nil {
		t.Fatal(err)
	}
	check("removed again", "commit 40, dirty false")
	before := ref().CecCommit
	put(t, cec, "pyproject.toml", declare("v", ""))
	check("edited", "commit 40, dirty true")
	git(t, cec, "commit", "-qam", "second")
	check("committed", "commit 40, dirty false")
	if ref().CecCommit == before {
		t.Error("the commit did not move")
	}
	text, err := json.Marshal(manifest.Ref{Environment: "e"})
	if err != nil || string(text) != `{"environment":"e","cec_commit":null,"cec_dirty":null,"contract_digest":null}` {
		t.Errorf("unknown parts are written as %s, %v", text, err)
	}
	var again manifest.Ref
	full := ref()
	if text, err = json.Marshal(full); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(full, again); diff != "" {
		t.Error(diff)
	}
}
