package static_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"path"
	"regexp"
	"sort"
	"strings"
	"testing"

	"github.com/comfygit-ai/studio-sidecar/internal/need"
	"github.com/comfygit-ai/studio-sidecar/static"
)

// budget is what the first load may cost on the wire, gzipped, in bytes.
const budget = 150_000

func TestFS(t *testing.T) {
	t.Run("every_referenced_file_exists", func(t *testing.T) {
		for _, ref := range references(t) {
			if _, err := fs.Stat(static.FS(), ref.to); err != nil {
				t.Errorf("%s refers to %s: %v", ref.from, ref.to, err)
			}
		}
	})

	t.Run("every_file_is_referenced", func(t *testing.T) {
		used := map[string]bool{"index.html": true}
		for _, ref := range references(t) {
			used[ref.to] = true
		}
		for _, name := range names(t) {
			if !used[name] {
				t.Errorf("%s is sent by nobody", name)
			}
		}
	})

	t.Run("first_load_fits_the_budget", func(t *testing.T) {
		total := 0
		for _, name := range firstLoad(t) {
			total += zipped(t, name)
		}
		t.Logf("first load: %d bytes gzipped", total)
		if total > budget {
			t.Errorf("first load = %d bytes gzipped, at most %d", total, budget)
		}
	})

	t.Run("no_file_names_another_host", func(t *testing.T) {
		absolute := regexp.MustCompile(`\b(?:https?:)?//[A-Za-z0-9.-]+\.[a-z]{2,}|\bfrom "/|\b(?:src|href)="/|\burl\(`)
		namespace := regexp.MustCompile(`"http://www\.w3\.org/2000/svg"`)
		for _, name := range names(t) {
			text := namespace.ReplaceAllString(read(t, name), `""`)
			if found := absolute.FindString(text); found != "" {
				t.Errorf("%s holds the absolute address %q", name, found)
			}
		}
	})

	t.Run("no_script_runs_text", func(t *testing.T) {
		unsafe := regexp.MustCompile(`\beval\(|new Function\(|\.innerHTML\b|\.outerHTML\b|insertAdjacentHTML|document\.write|setAttribute\("style"`)
		for _, name := range names(t) {
			if found := unsafe.FindString(read(t, name)); found != "" {
				t.Errorf("%s uses %s", name, found)
			}
		}
	})
}

func TestIndex(t *testing.T) {
	page := read(t, "index.html")

	t.Run("placeholders_are_there_once", func(t *testing.T) {
		for _, mark := range []string{`<base href="__STUDIO_BASE__">`, `<meta name="studio-config" content="__STUDIO_CONFIG__">`} {
			if n := strings.Count(page, mark); n != 1 {
				t.Errorf("%s is there %d times, want once", mark, n)
			}
		}
		if n := strings.Count(page, "__STUDIO_"); n != 2 {
			t.Errorf("index.html has %d placeholders, want 2", n)
		}
	})

	t.Run("base_stands_before_the_first_address", func(t *testing.T) {
		if strings.Index(page, "<base ") > strings.Index(page, "<link ") {
			t.Error("a link before the base is resolved against the wrong address")
		}
	})

	t.Run("nothing_is_inline", func(t *testing.T) {
		inline := map[string]*regexp.Regexp{
			"script":         regexp.MustCompile(`<script(?:[^>]*[^=">])?>\s*[^<\s]`),
			"style element":  regexp.MustCompile(`<style`),
			"style":          regexp.MustCompile(`\sstyle=`),
			"event handler":  regexp.MustCompile(`\son[a-z]+=`),
			"script address": regexp.MustCompile(`(?i)javascript:`),
		}
		for what, pattern := range inline {
			if found := pattern.FindString(page); found != "" {
				t.Errorf("index.html has an inline %s: %q", what, found)
			}
		}
	})

	t.Run("every_icon_in_use_is_drawn", func(t *testing.T) {
		drawn := map[string]bool{}
		for _, m := range regexp.MustCompile(`<symbol id="i-(\w+)"`).FindAllStringSubmatch(page, -1) {
			drawn[m[1]] = true
		}
		inPage := regexp.MustCompile(`data-icon="(\w+)"`)
		inScript := regexp.MustCompile(`\bicon(?:Button)?\("(\w+)"|\bicon: "(\w+)"`)
		for _, name := range names(t) {
			pattern := inScript
			if name == "index.html" {
				pattern = inPage
			}
			for _, m := range pattern.FindAllStringSubmatch(read(t, name), -1) {
				if icon := strings.Join(m[1:], ""); !drawn[icon] {
					t.Errorf("%s shows the icon %q, which index.html does not draw", name, icon)
				}
			}
		}
	})
}

func TestWords(t *testing.T) {
	known := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^  "([\w.]+)":`).FindAllStringSubmatch(read(t, "js/words.js"), -1) {
		known[m[1]] = true
	}

	t.Run("every_key_in_use_has_words", func(t *testing.T) {
		use := regexp.MustCompile(`\bt\("([\w.]+)"[,)]|data-say="([\w.]+)"`)
		for _, name := range names(t) {
			for _, m := range use.FindAllStringSubmatch(read(t, name), -1) {
				if key := m[1] + m[2]; !known[key] {
					t.Errorf("%s says %q, which has no words", name, key)
				}
			}
		}
	})

	t.Run("no_words_are_left_over", func(t *testing.T) {
		var used strings.Builder
		for _, name := range names(t) {
			if name != "js/words.js" {
				used.WriteString(read(t, name))
			}
		}
		for key := range known {
			place := key[:strings.LastIndex(key, ".")+1] // some keys are put together: t("kind." + k)
			if !strings.Contains(used.String(), `"`+key+`"`) && (place == "" || !strings.Contains(used.String(), `"`+place+`"`)) {
				t.Errorf("%q is said by nobody", key)
			}
		}
	})
}

// TestScripts runs the tests written in JavaScript, where Node is at hand.
func TestScripts(t *testing.T) {
	node := need.Command(t, "node")
	out, err := exec.CommandContext(t.Context(), node, "--test", "testdata/").CombinedOutput()
	if err != nil {
		t.Errorf("node --test: %v\n%s", err, out)
	}
}

type reference struct{ from, to string }

// references lists what index.html links to and what the modules import, by path in FS.
func references(t *testing.T) []reference {
	t.Helper()
	inPage := regexp.MustCompile(`<(?:link|script|img)\b[^>]*\b(?:href|src)="([^"]+)"`)
	inScript := regexp.MustCompile(`(?m)(?:^import [^"]*|\bimport\()"([^"]+)"`)
	var refs []reference
	for _, name := range names(t) {
		pattern := inScript
		if name == "index.html" {
			pattern = inPage
		} else if path.Ext(name) != ".js" {
			continue
		}
		for _, m := range pattern.FindAllStringSubmatch(read(t, name), -1) {
			refs = append(refs, reference{name, path.Join(path.Dir(name), m[1])})
		}
	}
	if len(refs) < 20 {
		t.Fatalf("only %d references found", len(refs))
	}
	return refs
}

// firstLoad lists what is sent before anybody clicks: all but the modules that are only imported
// by import(), as those load when they are first asked for.
func firstLoad(t *testing.T) []string {
	t.Helper()
	later := map[string]bool{}
	dynamic := regexp.MustCompile(`\bimport\("\./([^"]+)"`)
	for _, name := range names(t) {
		for _, m := range dynamic.FindAllStringSubmatch(read(t, name), -1) {
			later["js/"+m[1]] = true
		}
	}
	var first []string
	for _, name := range names(t) {
		if !later[name] {
			first = append(first, name)
		}
	}
	return first
}

func names(t *testing.T) []string {
	t.Helper()
	var list []string
	err := fs.WalkDir(static.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			list = append(list, name)
		}
		return err
	})
	if err != nil {
		t.Fatalf("walk the panel: %v", err)
	}
	sort.Strings(list)
	return list
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := fs.ReadFile(static.FS(), name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func zipped(t *testing.T, name string) int {
	t.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	if _, err := io.WriteString(w, read(t, name)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(fmt.Errorf("gzip %s: %w", name, err))
	}
	return buf.Len()
}
