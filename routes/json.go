package routes

import (
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// text builds a JSON value member by member. Values given as raw JSON are
// copied as they are, so that numbers keep their spelling.
type text struct{ b []byte }

// usualAnswer is the room for what is told of one run, in bytes.
const usualAnswer = 2 << 10

func (t *text) comma() {
	if n := len(t.b); n > 0 && t.b[n-1] != '{' && t.b[n-1] != '[' && t.b[n-1] != ':' {
		t.b = append(t.b, ',')
	}
}

// open begins an object or array that is an element, or the whole.
func (t *text) open(bracket byte) {
	t.comma()
	t.b = append(t.b, bracket)
}

func (t *text) close(bracket byte) { t.b = append(t.b, bracket) }

// key names the member that follows; names are plain words of ours.
func (t *text) key(name string) {
	t.comma()
	t.b = append(t.b, '"')
	t.b = append(t.b, name...)
	t.b = append(t.b, '"', ':')
}

func (t *text) str(name, value string) {
	t.key(name)
	t.b = appendString(t.b, value)
}

// strings with the value "" are left out.
func (t *text) optStr(name, value string) {
	if value != "" {
		t.str(name, value)
	}
}

// texts writes an array of strings.
func texts[T ~string](t *text, name string, values []T) {
	t.key(name)
	t.open('[')
	for _, value := range values {
		t.comma()
		t.b = appendString(t.b, string(value))
	}
	t.close(']')
}

// orNull writes "" as null.
func (t *text) orNull(name, value string) {
	if value == "" {
		t.raw(name, []byte("null"))
		return
	}
	t.str(name, value)
}

func (t *text) int(name string, value int64) {
	t.key(name)
	t.b = strconv.AppendInt(t.b, value, 10)
}

// optInt leaves 0 out.
func (t *text) optInt(name string, value int) {
	if value != 0 {
		t.int(name, int64(value))
	}
}

// number writes a finite float in its shortest form.
func (t *text) number(name string, value float64) {
	t.key(name)
	t.b = strconv.AppendFloat(t.b, value, 'f', -1, 64)
}

func (t *text) bool(name string, value bool) {
	t.key(name)
	t.b = strconv.AppendBool(t.b, value)
}

func (t *text) raw(name string, value []byte) {
	t.key(name)
	t.b = append(t.b, value...)
}

// optRaw leaves out what is empty or null.
func (t *text) optRaw(name string, value []byte) {
	if len(value) > 0 && string(value) != "null" {
		t.raw(name, value)
	}
}

// members copies the members of an object into the object that is open.
func (t *text) members(object []byte) {
	if len(object) <= len("{}") {
		return
	}
	t.comma()
	t.b = append(t.b, object[1:len(object)-1]...)
}

// appendString writes s as a JSON string without the escapes that only HTML
// needs.
func appendString(dst []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < 0x20 || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return appendSlow(dst, s)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}

func appendSlow(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r < 0x20:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[r>>4], hexDigits[r&15])
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return append(dst, '"')
}

const hexDigits = "0123456789abcdef"

// unquote reads a JSON string that is known to be one.
func unquote(quoted []byte) string {
	inner := quoted[1 : len(quoted)-1]
	for _, c := range inner {
		if c == '\\' {
			var s string
			if json.Unmarshal(quoted, &s) != nil {
				return ""
			}
			return s
		}
	}
	return string(inner)
}
