package comfy

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/comfygit-ai/studio-sidecar/manifest"
)

// loose is a text of a message that may have been written as a number. Other
// types are the empty text: an odd message is never a fault.
type loose string

// UnmarshalJSON accepts every JSON value.
func (l *loose) UnmarshalJSON(raw []byte) error {
	*l = ""
	switch {
	case len(raw) == 0:
	case raw[0] == '"':
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return err
		}
		*l = loose(s)
	case raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9':
		*l = loose(raw)
	}
	return nil
}

// amount is a number of a message; other types are zero.
type amount float64

// UnmarshalJSON accepts every JSON value.
func (n *amount) UnmarshalJSON(raw []byte) error {
	*n = 0
	if f, err := strconv.ParseFloat(string(raw), 64); err == nil {
		*n = amount(f)
	}
	return nil
}

func isObject(raw []byte) bool { return startsWith(raw, '{') }
func isList(raw []byte) bool   { return startsWith(raw, '[') }

func startsWith(raw []byte, c byte) bool {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	return len(raw) > 0 && raw[0] == c
}

// items decodes a JSON array; other values are an empty one.
func items(raw json.RawMessage) []json.RawMessage {
	var all []json.RawMessage
	if isList(raw) && json.Unmarshal(raw, &all) != nil {
		return nil
	}
	return all
}

// members decodes a JSON object; other values are an empty one.
func members(raw json.RawMessage) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	if isObject(raw) && json.Unmarshal(raw, &m) != nil {
		return nil
	}
	return m
}

// text decodes a JSON text or number; other values are the empty text.
func text(raw json.RawMessage) string {
	var l loose
	if json.Unmarshal(raw, &l) != nil {
		return ""
	}
	return string(l)
}

// decode reads JSON as Python writes it: with NaN and infinities, which become
// null.
func decode(raw []byte, into any) error {
	err := json.Unmarshal(raw, into)
	if err == nil {
		return nil
	}
	if mended := manifest.WithoutOddNumbers(raw); !bytes.Equal(mended, raw) {
		return json.Unmarshal(mended, into)
	}
	return err
}

// eachMember visits the members of a JSON object in the order they are written
// in, until visit returns false.
func eachMember(raw json.RawMessage, visit func(name string, value json.RawMessage) bool) {
	if !isObject(raw) {
		return
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if _, err := dec.Token(); err != nil {
		return
	}
	for dec.More() {
		token, err := dec.Token()
		name, ok := token.(string)
		if err != nil || !ok {
			return
		}
		var value json.RawMessage
		if dec.Decode(&value) != nil || !visit(name, value) {
			return
		}
	}
}

// mustObject is a JSON object of one text.
func mustObject(name, value string) json.RawMessage {
	return append(append(append([]byte("{"), quote(name)...), ':'), append(quote(value), '}')...)
}

// quote is text as JSON, without the escapes that only HTML needs.
func quote(text string) []byte {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if enc.Encode(text) != nil { // a text can always be encoded
		return []byte(`""`)
	}
	return bytes.TrimRight(out.Bytes(), "\n")
}
