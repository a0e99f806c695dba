package watch_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/comfygit-ai/studio-sidecar/internal/need"
	"github.com/comfygit-ai/studio-sidecar/manifest"
	"github.com/comfygit-ai/studio-sidecar/manifest/watch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 10 * time.Second

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func declare(workflow string) string {
	return fmt.Sprintf("[tool.comfygit.workflows.%s.execution_contract]\napi_prompt_file = \"workflow_api/%s.json\"\n"+
		"[tool.comfygit.workflows.%s.execution_contract.contracts.default]\n", workflow, workflow, workflow)
}

// start watches dir until the test ends and gives the changes it reports.
func start(t *testing.T, dir string, opts watch.Options) (*manifest.Catalog, <-chan watch.Change) {
	t.Helper()
	env, err := manifest.Locate(dir)
	if err != nil {
		t.Fatal(err)
	}
	c := manifest.Open(env)
	c.Snapshot()
	if opts.Quiet == 0 {
		opts.Quiet = 20 * time.Millisecond
	}
	if opts.Poll == 0 {
		opts.Poll = time.Hour
	}
	ctx, cancel := context.WithCancel(context.Background())
	changes, done, started := make(chan watch.Change, 100), make(chan error, 1), make(chan struct{})
	opts.Started = func() { close(started) }
	go func() { done <- watch.Watch(ctx, c, opts, func(change watch.Change) { changes <- change }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	<-started
	return c, changes
}

// troubles is a log that keeps the errors.
type troubles chan error

func (c troubles) Enabled(context.Context, slog.Level) bool { return true }
func (c troubles) WithAttrs([]slog.Attr) slog.Handler       { return c }
func (c troubles) WithGroup(string) slog.Handler            { return c }

func (c troubles) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok {
			c <- err
		}
		return true
	})
	return nil
}

// await takes changes until one satisfies the condition. Writing a file is more
// than one step, so that changes in between may be seen.
func await(t *testing.T, changes <-chan watch.Change, what string, ok func(watch.Change) bool) watch.Change {
	t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case c := <-changes:
			if ok(c) {
				return c
			}
			t.Logf("waiting for %s, saw %+v", what, c)
		case <-deadline:
			t.Fatalf("%s was not reported", what)
		}
	}
}

func name(workflow string) []watch.Contract {
	return []watch.Contract{{Workflow: workflow, Contract: "default"}}
}

func TestWatch(t *testing.T) {
	dir := t.TempDir()
	pyproject := filepath.Join(dir, ".cec", "pyproject.toml")
	put(t, pyproject, declare("one"))
	c, changes := start(t, dir, watch.Options{})

	put(t, pyproject, declare("one")+declare("two"))
	got := await(t, changes, "an added contract", func(c watch.Change) bool { return len(c.Added) > 0 })
	want := watch.Change{Added: name("two"), Digest: c.Digest()}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}

	put(t, filepath.Join(dir, ".cec", "workflow_api", "two.json"), "{}")
	got = await(t, changes, "a graph in a new folder", func(c watch.Change) bool { return len(c.Changed) > 0 })
	if diff := cmp.Diff(name("two"), got.Changed); diff != "" {
		t.Error(diff)
	}
	put(t, filepath.Join(dir, ".cec", "workflow_api", "two.json"), "[]")
	got = await(t, changes, "a graph edited in place", func(c watch.Change) bool { return len(c.Changed) > 0 })
	if diff := cmp.Diff(name("two"), got.Changed); diff != "" {
		t.Error(diff)
	}

	put(t, filepath.Join(dir, ".cec", "workflow_api", "deep", "er", "x.json"), "{}")
	await(t, changes, "a file in nested new folders", func(ch watch.Change) bool { return ch.Digest == c.Digest() })
	put(t, filepath.Join(dir, ".cec", "workflow_api", "deep", "er", "x.json"), "[1]")
	await(t, changes, "an edit in there", func(ch watch.Change) bool { return ch.Digest == c.Digest() })

	put(t, pyproject, "[broken")
	got = await(t, changes, "a broken manifest", func(c watch.Change) bool { return len(c.Faults) > 0 && c.Faults[0].Line == 1 })
	if len(got.Removed) > 0 {
		t.Errorf("a broken manifest removed %v", got.Removed)
	}

	next := filepath.Join(dir, ".cec", "next.toml")
	put(t, next, declare("two"))
	if err := os.Rename(next, pyproject); err != nil {
		t.Fatal(err)
	}
	got = await(t, changes, "a manifest replaced by renaming", func(c watch.Change) bool { return len(c.Removed) > 0 })
	if diff := cmp.Diff(name("one"), got.Removed); diff != "" || len(got.Faults) > 0 {
		t.Error(diff, got.Faults)
	}
}

func TestChangeAsClientsSeeIt(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "pyproject.toml"), declare("one"))
	c, changes := start(t, dir, watch.Options{})
	put(t, filepath.Join(dir, "pyproject.toml"), declare("one")+declare("two"))
	got, err := json.Marshal(await(t, changes, "an added contract", func(c watch.Change) bool { return len(c.Added) > 0 }))
	want := `{"added":[{"workflow":"two","contract":"default"}],"removed":[],"changed":[],"digest":"` + c.Digest() + `","faults":[],"repository":false}`
	if err != nil || string(got) != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
}

func TestFolderReplaced(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "pyproject.toml"), declare("w"))
	put(t, filepath.Join(dir, "workflow_api", "w.json"), "1")
	_, changes := start(t, dir, watch.Options{})
	put(t, filepath.Join(dir, "new", "w.json"), "2")
	for _, step := range [][2]string{{"workflow_api", "old"}, {"new", "workflow_api"}} {
		if err := os.Rename(filepath.Join(dir, step[0]), filepath.Join(dir, step[1])); err != nil {
			t.Fatal(err)
		}
	}
	await(t, changes, "the other folder's graph", func(c watch.Change) bool { return len(c.Changed) > 0 })
	put(t, filepath.Join(dir, "workflow_api", "w.json"), "3")
	await(t, changes, "an edit in the other folder", func(c watch.Change) bool { return len(c.Changed) > 0 })
}

func TestLateCreation(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "env")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	_, changes := start(t, dir, watch.Options{})
	put(t, filepath.Join(dir, ".cec", "pyproject.toml"), declare("late"))
	got := await(t, changes, "the first manifest", func(c watch.Change) bool { return len(c.Added) > 0 })
	if diff := cmp.Diff(name("late"), got.Added); diff != "" || len(got.Faults) > 0 {
		t.Error(diff, got.Faults)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	await(t, changes, "the environment's end", func(c watch.Change) bool { return len(c.Faults) > 0 && c.Digest == "" })
	put(t, filepath.Join(dir, "pyproject.toml"), declare("again"))
	await(t, changes, "its return", func(c watch.Change) bool { return len(c.Faults) == 0 && len(c.Added) > 0 })
}

func TestWithoutEvents(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "pyproject.toml"), declare("w"))
	_, changes := start(t, dir, watch.Options{NoEvents: true, Poll: 20 * time.Millisecond})
	put(t, filepath.Join(dir, "workflow_api", "w.json"), "{}")
	await(t, changes, "a change that only polling can see", func(c watch.Change) bool { return len(c.Changed) > 0 })
}

func TestFilesThatNeverRest(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "pyproject.toml"), declare("w"))
	_, changes := start(t, dir, watch.Options{Quiet: 50 * time.Millisecond})
	put(t, filepath.Join(dir, "pyproject.toml"), declare("v"))
	for deadline := time.Now().Add(patience); ; {
		put(t, filepath.Join(dir, "log.txt"), time.Now().String())
		select {
		case c := <-changes:
			if diff := cmp.Diff(name("v"), c.Added); diff != "" {
				t.Error(diff)
			}
			return
		default:
		}
		if time.Now().After(deadline) {
			t.Fatal("never reported while another file kept changing")
		}
	}
}

func TestSameContentIsNoChange(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "pyproject.toml"), declare("w"))
	_, changes := start(t, dir, watch.Options{})
	// In one step each, so that nobody sees a file that is half written.
	swap := func(text string) {
		next := filepath.Join(t.TempDir(), "next")
		put(t, next, text)
		if err := os.Rename(next, filepath.Join(dir, "pyproject.toml")); err != nil {
			t.Fatal(err)
		}
	}
	swap(declare("w"))
	put(t, filepath.Join(dir, "unrelated.txt"), "x")
	swap(declare("v"))
	got := await(t, changes, "the real change", func(watch.Change) bool { return true })
	if diff := cmp.Diff(name("v"), got.Added); diff != "" {
		t.Error(diff)
	}
}

func TestRepositoryMoves(t *testing.T) {
	need.Command(t, "git")
	dir := t.TempDir()
	put(t, filepath.Join(dir, "pyproject.toml"), declare("w"))
	git := func(args ...string) {
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@example.invalid"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	git("init", "-q")
	_, changes := start(t, dir, watch.Options{})
	git("add", "-A")
	git("commit", "-qm", "first")
	got := await(t, changes, "the commit", func(c watch.Change) bool { return c.Repository })
	if len(got.Added)+len(got.Removed)+len(got.Changed) > 0 {
		t.Errorf("a commit alone changed contracts: %+v", got)
	}
}

func TestFoldersThatCannotBeWatchedAreTold(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "pyproject.toml"), declare("w"))
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close() //nolint:errcheck // nothing was written through it
	// A path that is longer than the kernel takes: root may do all else.
	deep := "workflow_api" + strings.Repeat("/"+strings.Repeat("deep", 50), 25)
	if err := root.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	told := make(troubles, 100)
	start(t, dir, watch.Options{Log: slog.New(told)})
	select {
	case err := <-told:
		if !errors.Is(err, syscall.ENAMETOOLONG) {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Error("nothing was told")
	}
}
