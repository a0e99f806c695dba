package upload_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/comfygit-ai/studio-sidecar/internal/bounded"
	"github.com/comfygit-ai/studio-sidecar/sidecar/upload"
)

func TestCleanName(t *testing.T) {
	for _, c := range []struct{ name, given, mime, want string }{
		{"nothing", "", "", "stem.bin"},
		{"folders_above", "../../etc/passwd", "", "passwd.bin"},
		{"a_drive", `C:\dir\pic.JPG`, "", "pic.JPG"},
		{"no_extension", "noext", "", "noext.bin"},
		{"no_extension_but_a_type", "noext", "image/png", "noext.png"},
		{"hidden", ".hidden", "", "hidden.bin"},
		{"dots_alone", "...", "audio/mpeg", "stem.mp3"},
		{"no_letter", "-.-", "", "-.-.bin"},
		{"letters_of_all_scripts", "ünï 文.webp", "", "ünï文.webp"},
		{"marks_belong_to_letters", "हिन्दी.png", "", "हिन्दी.png"},
		{"several_dots", "a.b.c.mov", "", "a.b.c.mov"},
		{"spaces_and_brackets", " my photo (1).PNG ", "", "myphoto1.PNG"},
		{"a_list_as_text", `["x.png"]`, "", "x.png"},
		{"unknown_extension", "x.weird", "", "x.weird"},
		{"ends_in_a_folder", "a/b/", "", "stem.bin"},
		{"zero_byte", "a\x00.png", "", "a.png"},
		{"line_ends", "a\r\nSet-Cookie: b.png", "", "aSet-Cookieb.png"},
		{"right_to_left_override", "a\u202egnp.exe", "", "agnp.exe"},
		{"no_utf8", "a\xff\xfe.png", "", "a.png"},
		{"long", strings.Repeat("x", 300) + ".png", "", strings.Repeat("x", 196) + ".png"},
		{"long_in_wide_letters", strings.Repeat("文", 100) + ".png", "", strings.Repeat("文", 65) + ".png"},
		{"long_extension", "x." + strings.Repeat("y", 300), "", "x." + strings.Repeat("y", 198)},
		{"stream_of_windows", "a.png::$DATA", "", "a.pngDATA"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := upload.CleanName(c.given, c.mime, "stem"); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func FuzzCleanName(f *testing.F) {
	for _, seed := range []string{"a.png", "../x", `..\..\x`, "\x00", "文/..", ".", "..", "a/../../b", strings.Repeat("é", 200)} {
		f.Add(seed, "image/png")
	}
	f.Fuzz(func(t *testing.T, given, mime string) {
		bounded.Input(t, func() {
			name := upload.CleanName(given, upload.CleanType(mime), "stem")
			if name == "" || len(name) > 200 || strings.ContainsAny(name, "/\\:*?\"<>|\x00\r\n ") || name[0] == '.' ||
				strings.HasSuffix(name, ".") && len(name) < 200 || !utf8.ValidString(name) || !strings.Contains(name, ".") {
				t.Errorf("%q became %q", given, name)
			}
			if again := upload.CleanName(name, "", "stem"); again != name && strings.ContainsAny(name, "abcdefghijklmnopqrstuvwxyz") {
				t.Errorf("%q became %q, and that %q", given, name, again)
			}
		})
	})
}

func TestCleanType(t *testing.T) {
	for given, want := range map[string]string{
		"image/png": "image/png", "image/JPG; q=1": "image/jpeg", " audio/x-wav ": "audio/wav", "audio/mp3": "audio/mpeg",
		"text/plain": "text/plain", "": "", "png": "", "image/": "", "a/b/c": "", "text/html\r\nX: y": "", "image/<b>": "",
		strings.Repeat("a", 100) + "/b": "",
	} {
		if got := upload.CleanType(given); got != want {
			t.Errorf("%q: got %q, want %q", given, got, want)
		}
	}
}

func TestTypeOf(t *testing.T) {
	for name, want := range map[string]string{
		"a.JPEG": "image/jpeg", "a.mov": "video/quicktime", "a.wav": "audio/wav", "a.weird": "application/octet-stream", "a": "application/octet-stream",
	} {
		if got := upload.TypeOf(name); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}
