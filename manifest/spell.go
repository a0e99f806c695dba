package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
)

// Two digests are defined over what Python's json.dumps(value, sort_keys=True,
// default=str) writes: ", " and ": " between the parts, ASCII only, members
// sorted by code point, floats as repr writes them. This file speaks that way.

func hexDigest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// spellFloat writes f as Python's repr does: 7.0, 1e-05, 1e+16.
func spellFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	text := strconv.FormatFloat(f, 'e', -1, 64)
	exponent, err := strconv.Atoi(text[strings.IndexByte(text, 'e')+1:])
	if err != nil || exponent < -4 || exponent >= 16 {
		return text
	}
	text = strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

// spellJSON rewrites scanned JSON text.
func spellJSON(dst, text []byte) []byte {
	switch text[0] {
	case '{':
		return spellObject(dst, text)
	case '[':
		items, _ := elements(text)
		return spellList(dst, len(items), func(dst []byte, i int) []byte { return spellJSON(dst, items[i]) })
	case '"':
		return appendASCII(dst, unquote(text))
	}
	if text[0] == '-' || text[0] >= '0' && text[0] <= '9' {
		return append(dst, spellNumber(string(text))...)
	}
	return append(dst, text...)
}

func spellObject(dst, text []byte) []byte {
	last := map[string][]byte{}
	for _, m := range members(text) {
		last[m.name] = text[m.start:m.end]
	}
	return spellMap(dst, last, spellJSON)
}

func spellNumber(text string) string {
	if !strings.ContainsAny(text, ".eE") {
		if text == "-0" {
			return "0"
		}
		return text
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil && !math.IsInf(f, 0) {
		return text
	}
	return spellFloat(f)
}

func spellList(dst []byte, n int, item func([]byte, int) []byte) []byte {
	dst = append(dst, '[')
	for i := range n {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = item(dst, i)
	}
	return append(dst, ']')
}

func spellMap[V any](dst []byte, m map[string]V, value func([]byte, V) []byte) []byte {
	dst = append(dst, '{')
	for i, name := range sortedKeys(m) {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = appendASCII(dst, name)
		dst = append(dst, ": "...)
		dst = value(dst, m[name])
	}
	return append(dst, '}')
}

// sortedKeys sorts by bytes, which for UTF-8 is the order of code points.
func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// spellTOML writes a decoded TOML value.
func spellTOML(dst []byte, value any) []byte {
	switch v := value.(type) {
	case map[string]any:
		return spellMap(dst, v, spellTOML)
	case []map[string]any:
		return spellList(dst, len(v), func(dst []byte, i int) []byte { return spellTOML(dst, v[i]) })
	case []any:
		return spellList(dst, len(v), func(dst []byte, i int) []byte { return spellTOML(dst, v[i]) })
	case string:
		return appendASCII(dst, v)
	case float64:
		return append(dst, spellFloat(v)...)
	case bool:
		return strconv.AppendBool(dst, v)
	case int64:
		return strconv.AppendInt(dst, v, 10)
	case *big.Int:
		return v.Append(dst, 10)
	case time.Time:
		return appendASCII(dst, spellTime(v))
	}
	return append(dst, "null"...)
}

// spellTime writes a TOML date or time as Python's str does. The decoder marks
// the three local kinds by the name of their location.
func spellTime(t time.Time) string {
	fraction := ""
	if us := t.Nanosecond() / 1000; us > 0 {
		fraction = t.Format(".000000")
	}
	switch t.Location().String() {
	case "date-local":
		return t.Format("2006-01-02")
	case "time-local":
		return t.Format("15:04:05") + fraction
	case "datetime-local":
		return t.Format("2006-01-02 15:04:05") + fraction
	}
	return t.Format("2006-01-02 15:04:05") + fraction + t.Format("-07:00")
}

// tomlText is what Python's str makes of a TOML value; lists and tables, which
// no text field of a contract means, come out as JSON.
func tomlText(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case bool:
		if v {
			return "True"
		}
		return "False"
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return strings.ToLower(strings.TrimSuffix(spellFloat(v), "inity"))
		}
		return spellFloat(v)
	case time.Time:
		return spellTime(v)
	}
	return string(spellTOML(nil, value))
}

// tomlJSON is a TOML value in JSON, its tables in the order of the file. What
// JSON cannot hold (infinities, dates) becomes text.
func tomlJSON(value any, order keyOrder, path toml.Key) json.RawMessage {
	switch v := value.(type) {
	case map[string]any:
		fields := Values{}
		for _, k := range order.sorted(v, path) {
			fields = append(fields, Field{Name: k, Value: tomlJSON(v[k], order, below(path, k))})
		}
		return marshalled(fields)
	case []map[string]any:
		return jsonList(len(v), func(i int) json.RawMessage { return tomlJSON(v[i], order, path) })
	case []any:
		return jsonList(len(v), func(i int) json.RawMessage { return tomlJSON(v[i], order, path) })
	case float64:
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			return json.RawMessage(spellFloat(v))
		}
	case int64, *big.Int, bool:
		return spellTOML(nil, v)
	}
	return appendQuoted(nil, tomlText(value))
}

func marshalled(v Values) json.RawMessage {
	text, _ := v.MarshalJSON() // never fails
	return text
}

func jsonList(n int, item func(int) json.RawMessage) json.RawMessage {
	out := []byte{'['}
	for i := range n {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, item(i)...)
	}
	return append(out, ']')
}
