package upload_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/internal/need"
	"github.com/comfygit-ai/studio-sidecar/sidecar/upload"
)

func open(t *testing.T, dir string) *upload.Folder {
	t.Helper()
	f, err := upload.Open(dir)
	must(t, err)
	t.Cleanup(func() { must(t, f.Close()) })
	return f
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// names lists what is in a folder and below.
func names(t *testing.T, dir string) []string {
	t.Helper()
	var found []string
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && path != dir {
			found = append(found, strings.TrimPrefix(path, dir+string(filepath.Separator)))
		}
		return err
	}))
	return found
}

func place(t *testing.T, f *upload.Folder, name, text string) upload.Received {
	t.Helper()
	p, err := f.Receive(strings.NewReader(text), 1<<20)
	must(t, err)
	must(t, p.Place(name))
	return p.Received
}

func TestReceive(t *testing.T) {
	t.Run("a_file_comes_in_whole", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "made", "input")
		f := open(t, dir)
		big := bytes.Repeat([]byte("0123456789abcdef"), 3<<16)
		p, err := f.Receive(iotest.HalfReader(bytes.NewReader(big)), int64(len(big)))
		must(t, err)
		if got := names(t, dir); len(got) != 1 || got[0][0] != '.' {
			t.Errorf("before it has its name: %q", got)
		}
		must(t, p.Place("a.bin"))
		sum := sha256.Sum256(big)
		if diff := cmp.Diff(upload.Received{Size: int64(len(big)), SHA256: hex.EncodeToString(sum[:])}, p.Received); diff != "" {
			t.Error(diff)
		}
		got, err := os.ReadFile(filepath.Join(dir, "a.bin"))
		if err != nil || !bytes.Equal(got, big) {
			t.Errorf("%d bytes on the disk, %v", len(got), err)
		}
		if got := names(t, dir); len(got) != 1 {
			t.Errorf("left: %q", got)
		}
	})
	t.Run("the_bytes_tell_the_type", func(t *testing.T) {
		f := open(t, t.TempDir())
		for text, want := range map[string]string{
			"\x89PNG\r\n\x1a\n" + strings.Repeat("x", 20): "image/png",
			"<!DOCTYPE html><html></html>":                "text/html",
			"plain words":                                 "",
			"":                                            "",
			"\x01\x02\x03\x04":                            "",
		} {
			if got := place(t, f, "a", text); got.Type != want || got.Size != int64(len(text)) {
				t.Errorf("%q: %+v", text, got)
			}
		}
	})
	t.Run("the_last_one_stands", func(t *testing.T) {
		dir := t.TempDir()
		f := open(t, dir)
		place(t, f, "a", "first")
		place(t, f, "a", "second")
		if got, err := os.ReadFile(filepath.Join(dir, "a")); err != nil || string(got) != "second" {
			t.Errorf("%q %v", got, err)
		}
	})
	for _, c := range []struct {
		name string
		src  io.Reader
		want error
	}{
		{"more_than_allowed", strings.NewReader("123456"), upload.ErrTooLarge},
		{"broken_off", io.MultiReader(strings.NewReader("123"), iotest.ErrReader(io.ErrUnexpectedEOF)), io.ErrUnexpectedEOF},
	} {
		t.Run(c.name+"_leaves_nothing", func(t *testing.T) {
			dir := t.TempDir()
			f := open(t, dir)
			if _, err := f.Receive(c.src, 5); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if got := names(t, dir); len(got) != 0 {
				t.Errorf("left: %q", got)
			}
		})
	}
	t.Run("what_is_discarded_is_gone", func(t *testing.T) {
		dir := t.TempDir()
		p, err := open(t, dir).Receive(strings.NewReader("x"), 5)
		must(t, err)
		must(t, p.Discard())
		if got := names(t, dir); len(got) != 0 {
			t.Errorf("left: %q", got)
		}
	})
}

// hostile are names that no file of a folder has.
var hostile = []string{
	"", ".", "..", "../a", "a/b", "/etc/passwd", `..\a`, `a\b`, `C:\a`, "C:a", "a:b", "a\x00b", ".hidden", "a/", "./a", strings.Repeat("x", 256),
}

func TestHostileNames(t *testing.T) {
	for _, name := range hostile {
		t.Run(name[:min(len(name), 20)], func(t *testing.T) {
			base := t.TempDir()
			dir := filepath.Join(base, "input")
			must(t, os.WriteFile(filepath.Join(base, "a"), []byte("outside"), 0o644))
			f := open(t, dir)
			p, err := f.Receive(strings.NewReader("x"), 5)
			must(t, err)
			if err := p.Place(name); !errors.Is(err, fs.ErrInvalid) {
				t.Errorf("placed: %v", err)
			}
			if _, err := f.Open(name); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("opened: %v", err)
			}
			if err := f.Remove(name); !errors.Is(err, fs.ErrInvalid) {
				t.Errorf("removed: %v", err)
			}
			if err := f.Touch(name, time.Now()); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("touched: %v", err)
			}
			if got := names(t, base); !slices.Equal(got, []string{"a", "input"}) {
				t.Errorf("there is %q", got)
			}
		})
	}
}

func TestLinks(t *testing.T) {
	base := t.TempDir()
	dir, outside := filepath.Join(base, "input"), filepath.Join(base, "outside")
	f := open(t, dir)
	must(t, os.WriteFile(outside, []byte("outside"), 0o644))
	need.That(t, os.Symlink(outside, filepath.Join(dir, "a")) == nil, "symbolic links")
	if _, err := f.Open("a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a link out of the folder was opened: %v", err)
	}
	place(t, f, "a", "inside")
	if got, err := os.ReadFile(outside); err != nil || string(got) != "outside" {
		t.Errorf("written through a link: %q %v", got, err)
	}
	if size, err := f.Size("a"); err != nil || size != 6 {
		t.Errorf("%d %v", size, err)
	}
}

func TestOpen(t *testing.T) {
	t.Run("what_a_dead_process_left_is_removed", func(t *testing.T) {
		need.That(t, runtime.GOOS != "windows", "locks that tell who is dead")
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, ".studio-upload-DEAD.part"), []byte("half"), 0o644))
		must(t, os.WriteFile(filepath.Join(dir, ".studio-upload-notes"), nil, 0o644))
		must(t, os.WriteFile(filepath.Join(dir, "example.png"), nil, 0o644))
		open(t, dir)
		if got := names(t, dir); !slices.Equal(got, []string{".studio-upload-notes", "example.png"}) {
			t.Errorf("there is %q", got)
		}
	})
	t.Run("what_somebody_writes_stays", func(t *testing.T) {
		dir := t.TempDir()
		p, err := open(t, dir).Receive(strings.NewReader("x"), 5)
		must(t, err)
		open(t, dir)
		must(t, p.Place("a"))
		if got := names(t, dir); !slices.Equal(got, []string{"a"}) {
			t.Errorf("there is %q", got)
		}
	})
	t.Run("a_file_is_no_folder", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "file")
		must(t, os.WriteFile(path, nil, 0o644))
		if _, err := upload.Open(path); err == nil {
			t.Error("it was opened")
		}
	})
}

func TestList(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir)
	for _, name := range []string{"upload_1", "upload_2", "other"} {
		place(t, f, name, "x")
	}
	must(t, os.Mkdir(filepath.Join(dir, "upload_folder"), 0o755))
	then := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	must(t, f.Touch("upload_2", then))
	must(t, f.Remove("upload_1"))
	must(t, f.Remove("upload_1"))
	found, err := f.List("upload_")
	if err != nil || len(found) != 1 || found[0].Name != "upload_2" || !found[0].ModTime.Equal(then) {
		t.Errorf("%+v %v", found, err)
	}
}
