package comfyfake

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
)

// appendJSON writes v the way Python's json.dumps does: blanks after the
// separators and only ASCII, so that lengths match the real server's.
func appendJSON(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...)
	case bool:
		return strconv.AppendBool(b, v)
	case string:
		return appendString(b, v)
	case *object:
		return appendObject(b, v)
	case []any:
		return appendList(b, v)
	case []string:
		return appendList(b, anyList(v))
	}
	return append(b, numberText(v)...)
}

func appendObject(b []byte, o *object) []byte {
	if o == nil {
		return append(b, "null"...)
	}
	b = append(b, '{')
	for i, k := range o.keys {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = append(appendString(b, k), ": "...)
		b = appendJSON(b, o.at[k])
	}
	return append(b, '}')
}

func appendList(b []byte, list []any) []byte {
	b = append(b, '[')
	for i, v := range list {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = appendJSON(b, v)
	}
	return append(b, ']')
}

func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r == '\t':
			b = append(b, `\t`...)
		case r >= ' ' && r < 0x7f:
			b = append(b, byte(r))
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			b = fmt.Appendf(b, `\u%04x\u%04x`, hi, lo)
		default:
			b = fmt.Appendf(b, `\u%04x`, r)
		}
	}
	return append(b, '"')
}

// dumps is json.dumps(v).
func dumps(v any) string { return string(appendJSON(nil, v)) }

// numberText writes a number as Python would; floats always carry a point.
func numberText(v any) string {
	switch v := v.(type) {
	case json.Number:
		return v.String()
	case float64:
		return floatText(v)
	}
	return fmt.Sprint(v)
}

func floatText(f float64) string {
	if math.Abs(f) >= 1e16 || (f != 0 && math.Abs(f) < 1e-4) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// repr is Python's repr(v) for JSON values.
func repr(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		if v {
			return "True"
		}
		return "False"
	case string:
		return reprString(v)
	case []any:
		parts := make([]string, len(v))
		for i := range v {
			parts[i] = repr(v[i])
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case []string:
		return repr(anyList(v))
	case *object:
		parts := make([]string, len(v.keys))
		for i, k := range v.keys {
			parts[i] = reprString(k) + ": " + repr(v.at[k])
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return numberText(v)
}

func reprString(s string) string {
	quote := '\''
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = '"'
	}
	var b strings.Builder
	b.WriteRune(quote)
	for _, r := range s {
		switch {
		case r == quote || r == '\\':
			b.WriteRune('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, `\x%02x`, r)
		}
	}
	b.WriteRune(quote)
	return b.String()
}

// str is Python's str(v).
func str(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return repr(v)
}

// truthy is Python's bool(v).
func truthy(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case string:
		return v != ""
	case []any:
		return len(v) > 0
	case *object:
		return len(v.keys) > 0
	case json.Number:
		f, err := v.Float64()
		return err != nil || f != 0
	}
	return true
}

func anyList[T any](list []T) []any {
	out := make([]any, len(list))
	for i := range list {
		out[i] = list[i]
	}
	return out
}
