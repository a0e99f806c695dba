package manifest

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// A text that was read from JSON may hold half of a surrogate pair, which UTF-8
// forbids. It is kept as the three bytes that UTF-8 would use if it did not,
// so that such a text compares, sorts and comes out again as it went in.

// unquote reads a scanned JSON string.
func unquote(quoted []byte) string {
	if len(quoted) < 2 || quoted[0] != '"' {
		return ""
	}
	body := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(body, '\\') < 0 {
		return string(body)
	}
	out := make([]byte, 0, len(body))
	for i := 0; i < len(body); {
		if body[i] != '\\' {
			out = append(out, body[i])
			i++
			continue
		}
		if body[i+1] != 'u' {
			out = append(out, unescaped(body[i+1]))
			i += 2
			continue
		}
		r, n := escapedRune(body[i:])
		out = appendRune(out, r)
		i += n
	}
	return string(out)
}

func unescaped(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c
}

// escapedRune reads one \uXXXX, or two that make a pair.
func escapedRune(body []byte) (r rune, n int) {
	r = hexRune(body[2:6])
	if len(body) >= 12 && body[6] == '\\' && body[7] == 'u' {
		if pair := utf16.DecodeRune(r, hexRune(body[8:12])); pair != utf8.RuneError {
			return pair, 12
		}
	}
	return r, 6
}

func hexRune(digits []byte) rune {
	v, err := strconv.ParseUint(string(digits), 16, 16)
	if err != nil {
		return utf8.RuneError
	}
	return rune(v)
}

func appendRune(dst []byte, r rune) []byte {
	if utf16.IsSurrogate(r) {
		return append(dst, 0xED, 0x80|byte(r>>6)&0x3F, 0x80|byte(r)&0x3F)
	}
	return utf8.AppendRune(dst, r)
}

// nextRune is utf8.DecodeRuneInString that knows lone surrogates.
func nextRune(s string) (rune, int) {
	if len(s) >= 3 && s[0] == 0xED && s[1] >= 0xA0 && s[1] <= 0xBF && s[2]&0xC0 == 0x80 {
		return 0xD000 | rune(s[1]&0x3F)<<6 | rune(s[2]&0x3F), 3
	}
	return utf8.DecodeRuneInString(s)
}

// appendQuoted writes s as a JSON string, in UTF-8 and without the escapes that
// only HTML needs.
func appendQuoted(dst []byte, s string) []byte {
	return quote(dst, s, func(r rune) bool { return utf16.IsSurrogate(r) })
}

// appendASCII writes s as Python's json writes it.
func appendASCII(dst []byte, s string) []byte {
	return quote(dst, s, func(r rune) bool { return r > 0x7E })
}

func quote(dst []byte, s string, escape func(rune) bool) []byte {
	dst = append(slices.Grow(dst, len(s)+2), '"')
	for len(s) > 0 {
		if n := plain(s); n > 0 {
			dst, s = append(dst, s[:n]...), s[n:]
			continue
		}
		r, n := nextRune(s)
		switch short := shortEscape(r); {
		case short != 0:
			dst = append(dst, '\\', short)
		case r < 0x20 || escape(r):
			dst = appendEscape(dst, r)
		case r == utf8.RuneError && n == 1:
			dst = append(dst, "\uFFFD"...)
		default:
			dst = append(dst, s[:n]...)
		}
		s = s[n:]
	}
	return append(dst, '"')
}

// plain is how much of s, from its beginning, stays as it is in every spelling.
func plain(s string) int {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return i
		}
	}
	return len(s)
}

func shortEscape(r rune) byte {
	switch r {
	case '"', '\\':
		return byte(r)
	case '\b':
		return 'b'
	case '\f':
		return 'f'
	case '\n':
		return 'n'
	case '\r':
		return 'r'
	case '\t':
		return 't'
	}
	return 0
}

func appendEscape(dst []byte, r rune) []byte {
	if high, low := utf16.EncodeRune(r); high != utf8.RuneError {
		return fmt.Appendf(dst, `\u%04x\u%04x`, high, low)
	}
	return fmt.Appendf(dst, `\u%04x`, r)
}
