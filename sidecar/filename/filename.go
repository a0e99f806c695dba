// Package filename makes safe file names of what others call their files.
package filename

import (
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// limit bounds a name in bytes: with an id or a number before it, it stays below
// the 255 that file systems allow.
const limit = 200

// Last is the last part of a path of either kind, without spaces around it.
func Last(given string) string {
	name := strings.ReplaceAll(strings.TrimSpace(given), `\`, "/")
	return name[strings.LastIndexByte(name, '/')+1:]
}

// Alphanumeric reports whether r is a letter or digit of any script.
func Alphanumeric(r rune) bool {
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsNumber(r))
}

// Kept reports whether r stands in names as it is: letters, digits, their marks,
// and "-".
func Kept(r rune) bool { return r == '-' || Alphanumeric(r) || unicode.IsMark(r) }

// Shorten cuts a name of more than 200 bytes before its extension, between
// characters.
func Shorten(name string) string {
	if len(name) <= limit {
		return name
	}
	ext := path.Ext(name)
	if len(ext) > limit/2 {
		ext = ""
	}
	cut := limit - len(ext)
	for cut > 0 && !utf8.RuneStart(name[cut]) {
		cut--
	}
	return name[:cut] + ext
}
