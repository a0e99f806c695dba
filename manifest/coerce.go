package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// coerce turns a given value, or a default, into what the input's type asks
// for. Nothing is changed silently: a value that would lose something is
// refused. The error ends the sentence "… could not be coerced: ".
func coerce(in Input, value json.RawMessage) (json.RawMessage, error) {
	switch kind := strings.ToLower(in.Type); {
	case kind == "string":
		return coerceString(value)
	case kind == "integer":
		return coerceInteger(value)
	case kind == "number":
		return coerceNumber(value)
	case kind == "boolean":
		return coerceBoolean(value)
	case in.Media():
		return coerceMedia(value)
	}
	return value, nil
}

func coerceString(value json.RawMessage) (json.RawMessage, error) {
	switch {
	case value[0] == '"':
		return value, nil
	case isNumber(value):
		return appendQuoted(nil, string(value)), nil
	}
	return nil, fmt.Errorf("%s is not a text", describe(value))
}

func coerceInteger(value json.RawMessage) (json.RawMessage, error) {
	if value[0] == '"' {
		text, ok := integerText(unquote(value))
		if !ok {
			return nil, fmt.Errorf("%s is not a whole number", describe(value))
		}
		return json.RawMessage(text), nil
	}
	if !isNumber(value) {
		return nil, fmt.Errorf("%s is not a whole number", describe(value))
	}
	text := string(value)
	switch {
	case len(text) > maxDigits:
		return nil, fmt.Errorf("a number may have at most %d digits", maxDigits)
	case !strings.ContainsAny(text, ".eE"):
		return value, nil
	case !finite(text):
		return nil, fmt.Errorf("%s is too large", text)
	}
	r := rational(text)
	if !r.IsInt() {
		return nil, fmt.Errorf("%s has a fraction", text)
	}
	return json.RawMessage(r.Num().String()), nil
}

func coerceNumber(value json.RawMessage) (json.RawMessage, error) {
	if isNumber(value) {
		if len(value) > maxDigits || !finite(string(value)) {
			return nil, errors.New("the number is too large")
		}
		return value, nil
	}
	if value[0] == '"' {
		if text, ok := decimalText(unquote(value)); ok {
			return json.RawMessage(text), nil
		}
	}
	return nil, fmt.Errorf("%s is not a number", describe(value))
}

func coerceBoolean(value json.RawMessage) (json.RawMessage, error) {
	word := string(value)
	if value[0] == '"' {
		word = unquote(value)
	}
	b, ok := boolWord(word)
	if !ok {
		return nil, fmt.Errorf("%s is not a boolean", describe(value))
	}
	return fmt.Append(nil, b), nil
}

func coerceMedia(value json.RawMessage) (json.RawMessage, error) {
	switch {
	case value[0] == '"':
		return value, nil
	case value[0] == '{' && isFileRef(value):
		return nil, errors.New("the upload that it refers to was not resolved")
	}
	return nil, fmt.Errorf("%s is neither a file name nor a file_ref", describe(value))
}

// describe names a value in a message; long ones are cut.
func describe(value json.RawMessage) string {
	switch value[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return quoted(shorten(unquote(value), 60))
	}
	return shorten(string(value), 60)
}

// quoted puts a text between the marks of all messages, or between JSON's where
// it has marks or controls of its own.
func quoted(s string) string {
	if marked := appendQuoted(nil, s); len(marked) != len(s)+2 || strings.ContainsRune(s, '\'') {
		return string(marked)
	}
	return "'" + s + "'"
}

func shorten(s string, runes int) string {
	for i := range s {
		if runes--; runes < 0 {
			return s[:i] + "…"
		}
	}
	return s
}

// allowed tells whether a coerced value is among the declared ones. Numbers and
// booleans compare by value, all else as text.
func allowed(in Input, value json.RawMessage) bool {
	for _, declared := range in.EnumValues {
		if same(value, declared) {
			return true
		}
	}
	return false
}

func same(value json.RawMessage, declared string) bool {
	switch {
	case value[0] == '"':
		return unquote(value) == declared
	case value[0] == 't' || value[0] == 'f':
		b, ok := boolWord(declared)
		return ok && b == (value[0] == 't')
	case isNumber(value):
		text, ok := decimalText(declared)
		return ok && rational(text).Cmp(rational(string(value))) == 0
	}
	return false
}

// bounded tells whether min and max apply to the input.
func (in Input) bounded() bool {
	kind := strings.ToLower(in.Type)
	return kind == "integer" || kind == "number"
}
