package artifact

import (
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// nameBytes bounds a cleaned name, leaving room for a number before the
// 255 bytes that file systems allow.
const nameBytes = 200

// CleanName makes a file name of what a backend calls a file: the last part of
// a path, letters of every script kept, other characters turned into "_".
// Without a letter or digit left it is otherwise.
func CleanName(name, otherwise string) string {
	name = strings.ReplaceAll(strings.TrimSpace(name), `\`, "/")
	name = name[strings.LastIndexByte(name, '/')+1:]
	name = strings.Trim(strings.Map(keep('.'), name), " .")
	if !strings.ContainsFunc(name, isLetter) {
		return otherwise
	}
	return shorten(name)
}

// CleanGroup makes a folder name of a prompt id. Ids of ComfyUI are UUIDs and
// stay as they are.
func CleanGroup(id string) string {
	id = strings.Map(keep('_'), id)
	if !strings.ContainsFunc(id, isLetter) {
		return "prompt"
	}
	return shorten(id)
}

func keep(also rune) func(rune) rune {
	return func(r rune) rune {
		if r == also || r == '-' || isLetter(r) || unicode.IsMark(r) {
			return r
		}
		return '_'
	}
}

func isLetter(r rune) bool {
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsNumber(r))
}

// shorten cuts a long name before its extension, between characters.
func shorten(name string) string {
	if len(name) <= nameBytes {
		return name
	}
	ext := path.Ext(name)
	if len(ext) > nameBytes/2 {
		ext = ""
	}
	cut := nameBytes - len(ext)
	for cut > 0 && !utf8.RuneStart(name[cut]) {
		cut--
	}
	return name[:cut] + ext
}
