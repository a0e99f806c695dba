package manifest

import "bytes"

// oddNumbers are what Python writes for numbers that JSON lacks.
var oddNumbers = [][]byte{[]byte("NaN"), []byte("Infinity"), []byte("-Infinity")}

// WithoutOddNumbers puts null in the place of each NaN and infinity that stands
// outside of texts. It always returns a copy.
func WithoutOddNumbers(raw []byte) []byte {
	out := make([]byte, 0, len(raw))
	inText := false
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		switch {
		case inText && c == '\\' && i+1 < len(raw):
			out = append(out, c)
			i++
			c = raw[i]
		case c == '"':
			inText = !inText
		case !inText:
			if n := oddNumber(raw[i:]); n > 0 {
				out = append(out, "null"...)
				i += n - 1
				continue
			}
		}
		out = append(out, c)
	}
	return out
}

func oddNumber(raw []byte) int {
	for _, word := range oddNumbers {
		if bytes.HasPrefix(raw, word) {
			return len(word)
		}
	}
	return 0
}
