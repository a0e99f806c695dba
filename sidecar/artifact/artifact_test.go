package artifact_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/internal/bounded"
	"github.com/comfygit-ai/studio-sidecar/sidecar/artifact"
)

func open(t *testing.T) (*artifact.Dir, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "artifacts")
	d, err := artifact.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d, path
}

func read(t *testing.T, d *artifact.Dir, ref string) string {
	t.Helper()
	f, err := d.Open(ref)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// files lists what stands in dir, folders left out.
func files(t *testing.T, dir string) []string {
	t.Helper()
	var list []string
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			list = append(list, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestAdd(t *testing.T) {
	t.Run("names_group_and_file", func(t *testing.T) {
		d, _ := open(t)
		got, err := d.Add("8f6b-1", "out_00001_.png", strings.NewReader("\x89PNG\r\n\x1a\nrest"))
		if err != nil {
			t.Fatal(err)
		}
		want := artifact.Copy{Ref: "8f6b-1/out_00001_.png", ContentType: "image/png", Size: 12}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if body := read(t, d, got.Ref); body != "\x89PNG\r\n\x1a\nrest" {
			t.Errorf("body = %q", body)
		}
	})
	t.Run("a_taken_name_gets_digits", func(t *testing.T) {
		d, _ := open(t)
		var refs []string
		for i := range 3 {
			c, err := d.Add("p", "a.png", strings.NewReader(fmt.Sprint(i)))
			if err != nil {
				t.Fatal(err)
			}
			digits := regexp.MustCompile(`_[0-9a-f]{8}\.`)
			refs = append(refs, digits.ReplaceAllString(c.Ref, "_00000000.")+"="+read(t, d, c.Ref))
		}
		want := []string{"p/a.png=0", "p/a_00000000.png=1", "p/a_00000000.png=2"}
		if diff := cmp.Diff(want, refs); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("a_broken_source_adds_nothing", func(t *testing.T) {
		d, dir := open(t)
		broken := errors.New("cut")
		for _, before := range []int{0, 10, 100_000} {
			src := io.MultiReader(strings.NewReader(strings.Repeat("x", before)), iotest.ErrReader(broken))
			if _, err := d.Add("p", "a.png", src); !errors.Is(err, broken) {
				t.Errorf("after %d bytes: err = %v", before, err)
			}
		}
		if left := files(t, dir); len(left) != 0 {
			t.Errorf("left behind: %v", left)
		}
	})
	t.Run("many_at_once_lose_none", func(t *testing.T) {
		d, _ := open(t)
		refs := make([]string, 20)
		var wg sync.WaitGroup
		for i := range refs {
			wg.Go(func() {
				c, err := d.Add("p", "same.txt", strings.NewReader(fmt.Sprint("body ", i)))
				if err != nil {
					t.Error(err)
				}
				refs[i] = c.Ref
			})
		}
		wg.Wait()
		for i, ref := range refs {
			if body := read(t, d, ref); body != fmt.Sprint("body ", i) {
				t.Errorf("%s = %q, want body %d", ref, body, i)
			}
		}
	})
	t.Run("a_nameless_file_is_named_by_its_bytes", func(t *testing.T) {
		d, _ := open(t)
		c, err := d.Add("../..", " .. ", strings.NewReader("GIF89a......"))
		if err != nil || c.Ref != "prompt/artifact.gif" {
			t.Errorf("copy = %+v, %v", c, err)
		}
	})
}

func TestOpen(t *testing.T) {
	t.Run("old_partials_go_and_young_ones_stay", func(t *testing.T) {
		path := t.TempDir()
		partial := filepath.Join(path, ".partial")
		if err := os.MkdirAll(partial, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, age := range map[string]time.Duration{"old": 48 * time.Hour, "young": time.Minute} {
			file := filepath.Join(partial, name)
			then := time.Now().Add(-age)
			if err := errors.Join(os.WriteFile(file, nil, 0o644), os.Chtimes(file, then, then)); err != nil {
				t.Fatal(err)
			}
		}
		d, err := artifact.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		if diff := cmp.Diff([]string{".partial/young"}, files(t, path)); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("nothing_outside_or_hidden_is_served", func(t *testing.T) {
		d, path := open(t)
		secret := filepath.Join(filepath.Dir(path), "secret")
		err := errors.Join(
			os.WriteFile(secret, []byte("s"), 0o644),
			os.MkdirAll(filepath.Join(path, "p", "sub"), 0o755),
			os.WriteFile(filepath.Join(path, "p", ".hidden"), nil, 0o644),
			os.WriteFile(filepath.Join(path, ".partial", "x"), nil, 0o644),
			os.WriteFile(filepath.Join(path, "p", "sub", "x"), nil, 0o644),
			os.Symlink(secret, filepath.Join(path, "p", "link")),
		)
		if err != nil {
			t.Fatal(err)
		}
		for _, ref := range []string{
			"", "p", "p/", "/p/a", "p/.hidden", ".partial/x", "../secret", "p/../../secret", "p/sub", "p/sub/x",
			"p/link", "p/none", "p\\a/b", "./p/a", "p//a", "p/a\x00",
		} {
			f, err := d.Open(ref)
			if err == nil {
				t.Errorf("%q was opened", ref)
				f.Close()
			}
		}
	})
	t.Run("a_file_in_its_place_is_told", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := artifact.Open(path); err == nil {
			t.Error("no error")
		}
	})
}

func TestRemove(t *testing.T) {
	d, path := open(t)
	for _, name := range []string{"a", "b"} {
		if _, err := d.Add("p", name, strings.NewReader("x")); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Remove("p/a"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"p/b"}, files(t, path)); diff != "" {
		t.Error(diff)
	}
	if err := errors.Join(d.Remove("p/b"), d.Remove("p/b")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(path, "p")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("empty group stays: %v", err)
	}
	if err := d.Remove("../x"); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("outside: err = %v", err)
	}
}

func TestCleanName(t *testing.T) {
	long := strings.Repeat("ä", 200)
	for name, want := range map[string]string{
		"ComfyUI_temp_2_00001_.png": "ComfyUI_temp_2_00001_.png",
		"sub/dir\\x.png":            "x.png",
		"../../etc/passwd":          "passwd",
		"my file (1).png":           "my_file__1_.png",
		"größe 日本語.webp":            "größe_日本語.webp",
		"हिन्दी.png":                "हिन्दी.png",
		"e\u0301te\u0301.png":       "e\u0301te\u0301.png",
		".bashrc":                   "bashrc",
		"...":                       "other",
		"":                          "other",
		"___":                       "other",
		"a\x00b.png":                "a_b.png",
		"\xff\xfe.png":              "__.png",
		long + ".png":               strings.Repeat("ä", 98) + ".png",
	} {
		if got := artifact.CleanName(name, "other"); got != want {
			t.Errorf("CleanName(%q) = %q, want %q", name, got, want)
		}
	}
}

func FuzzCleanName(f *testing.F) {
	f.Add("a/b.png")
	f.Add("..\\..")
	f.Add(strings.Repeat("日", 100))
	f.Fuzz(func(t *testing.T, name string) {
		bounded.Input(t, func() {
			got := artifact.CleanName(name, "x")
			if got == "" || len(got) > 255 || strings.ContainsAny(got, "/\\\x00") || got[0] == '.' || !utf8.ValidString(got) {
				t.Errorf("CleanName(%q) = %q", name, got)
			}
			if again := artifact.CleanName(got, "x"); again != got {
				t.Errorf("cleaning again: %q, then %q", got, again)
			}
		})
	})
}
