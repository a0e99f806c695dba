package artifact

import (
	"strings"

	"github.com/comfygit-ai/studio-sidecar/sidecar/filename"
)

// CleanName makes a file name of what a backend calls a file: the last part of
// a path, letters of every script kept, other characters turned into "_".
// Without a letter or digit left it is otherwise.
func CleanName(name, otherwise string) string {
	name = strings.Trim(strings.Map(keep('.'), filename.Last(name)), " .")
	if !strings.ContainsFunc(name, filename.Alphanumeric) {
		return otherwise
	}
	return filename.Shorten(name)
}

// CleanGroup makes a folder name of a prompt id. Ids of ComfyUI are UUIDs and
// stay as they are.
func CleanGroup(id string) string {
	id = strings.Map(keep('_'), id)
	if !strings.ContainsFunc(id, filename.Alphanumeric) {
		return "prompt"
	}
	return filename.Shorten(id)
}

func keep(also rune) func(rune) rune {
	return func(r rune) rune {
		if r == also || filename.Kept(r) {
			return r
		}
		return '_'
	}
}
