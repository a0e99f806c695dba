package manifest

import (
	"slices"
	"strings"
	"unicode"
)

func stampable(outputs []Output, id string) bool {
	return slices.ContainsFunc(outputs, func(o Output) bool {
		return o.NodeID == id && strings.EqualFold(o.Type, "image")
	})
}

// cleanToken keeps of a token what may stand in a file name.
func cleanToken(token string) string {
	token = strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) {
			return r
		}
		return -1
	}, token)
	if token == "" {
		return "run"
	}
	return token
}
