package upload

import (
	"path"
	"regexp"
	"strings"

	"github.com/comfygit-ai/studio-sidecar/sidecar/filename"
)

const (
	maxName = 255

	unknownType      = "application/octet-stream"
	unknownExtension = ".bin"
)

// types are the types that have an extension of their own, the usual one first.
var types = []struct {
	mime       string
	extensions []string
}{
	{"image/jpeg", []string{".jpg", ".jpeg"}},
	{"image/png", []string{".png"}},
	{"image/webp", []string{".webp"}},
	{"image/gif", []string{".gif"}},
	{"image/bmp", []string{".bmp"}},
	{"video/mp4", []string{".mp4"}},
	{"video/webm", []string{".webm"}},
	{"video/quicktime", []string{".mov"}},
	{"audio/wav", []string{".wav"}},
	{"audio/mpeg", []string{".mp3"}},
}

// otherNames are spellings of those types that clients use.
var otherNames = map[string]string{
	"image/jpg":   "image/jpeg",
	"audio/mp3":   "audio/mpeg",
	"audio/x-wav": "audio/wav",
}

// CleanName makes a file name of what a client calls a file: the last part of
// a path, with its letters and digits of every script, "-", "_" and dots. A
// name without an extension gets that of the type. Without a letter or digit
// left it is stem with the type's extension.
func CleanName(given, mime, stem string) string {
	name := strings.Trim(strings.Map(keep, filename.Last(given)), ".")
	switch {
	case name == "":
		name = stem + extensionOf(mime)
	case !strings.Contains(name, ".") || !strings.ContainsFunc(name, filename.Alphanumeric):
		name += extensionOf(mime)
	}
	return filename.Shorten(name)
}

func keep(r rune) rune {
	if r == '_' || r == '.' || filename.Kept(r) {
		return r
	}
	return -1
}

var typeForm = regexp.MustCompile(`^[a-z0-9][a-z0-9!#$&^_.+-]{0,63}/[a-z0-9][a-z0-9!#$&^_.+-]{0,63}$`)

// CleanType is a media type as clients give it, without parameters and in its
// usual spelling; empty when it is none.
func CleanType(given string) string {
	mime, _, _ := strings.Cut(given, ";")
	mime = strings.ToLower(strings.TrimSpace(mime))
	if usual, ok := otherNames[mime]; ok {
		return usual
	}
	if !typeForm.MatchString(mime) {
		return ""
	}
	return mime
}

// TypeOf is the type that a file name promises.
func TypeOf(name string) string {
	ext := strings.ToLower(path.Ext(name))
	for _, t := range types {
		for _, e := range t.extensions {
			if e == ext {
				return t.mime
			}
		}
	}
	return unknownType
}

func extensionOf(mime string) string {
	for _, t := range types {
		if t.mime == mime {
			return t.extensions[0]
		}
	}
	return unknownExtension
}
