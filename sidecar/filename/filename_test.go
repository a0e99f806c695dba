package filename_test

import (
	"strings"
	"testing"

	"github.com/comfygit-ai/studio-sidecar/sidecar/filename"
)

func TestLast(t *testing.T) {
	for given, want := range map[string]string{
		"a.png": "a.png", "dir/a.png": "a.png", `C:\pictures\a.png`: "a.png", " ../../x ": "x", "a/": "", "": "",
	} {
		if got := filename.Last(given); got != want {
			t.Errorf("%q: %q, want %q", given, got, want)
		}
	}
}

func TestShorten(t *testing.T) {
	for name, c := range map[string]struct{ given, want string }{
		"short_stays":                   {"a.png", "a.png"},
		"cut_before_the_extension":      {strings.Repeat("a", 300) + ".png", strings.Repeat("a", 196) + ".png"},
		"cut_between_characters":        {strings.Repeat("é", 150) + ".png", strings.Repeat("é", 98) + ".png"},
		"an_extension_that_is_none":     {"a." + strings.Repeat("b", 300), "a." + strings.Repeat("b", 198)},
		"no_more_than_needed_is_cut":    {strings.Repeat("a", 200), strings.Repeat("a", 200)},
		"a_name_of_nothing_but_letters": {strings.Repeat("a", 201), strings.Repeat("a", 200)},
	} {
		if got := filename.Shorten(c.given); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestKept(t *testing.T) {
	for _, r := range "aZ0-éß語٣\u0301" {
		if !filename.Kept(r) {
			t.Errorf("%q is dropped", r)
		}
	}
	for _, r := range "/\\:*?\"<>| \x00\n\uFFFD😀%" {
		if filename.Kept(r) {
			t.Errorf("%q is kept", r)
		}
	}
}
