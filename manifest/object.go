package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// maxDepth bounds the nesting of every JSON text that is read.
const maxDepth = 512

// ErrNotObject is what ParseObject answers for JSON of another kind, null
// included.
var ErrNotObject = errors.New("read object: the text is JSON, but no object")

// Field is one member of a JSON object, its value as written.
type Field struct {
	Name  string
	Value json.RawMessage
}

// Values is a JSON object that keeps the order of its members and the text of
// its numbers.
type Values []Field

// Limits bounds what ParseObject accepts.
type Limits struct {
	Depth int // levels of nesting; 0 means 64
}

// DuplicateError names the member that an object holds twice.
type DuplicateError struct{ Name string }

// Error names the member.
func (e *DuplicateError) Error() string {
	return fmt.Sprintf("read object: %q is given twice", e.Name)
}

// ParseObject reads a JSON object in UTF-8, with or without a byte order mark.
// It refuses what different readers understand differently: a member given
// twice (*DuplicateError), NaN and Infinity, text after the end, and nesting
// beyond the limit (*SyntaxError). Other JSON than an object is ErrNotObject.
// The values are parts of raw, which must not be changed as long as they live.
func ParseObject(raw []byte, limits Limits) (Values, error) {
	if limits.Depth <= 0 {
		limits.Depth = 64
	}
	s := scanner{text: raw, limit: limits.Depth, unique: true}
	whole, err := s.whole()
	if err != nil {
		return nil, fmt.Errorf("read object: %w", err)
	}
	if whole[0] != '{' {
		return nil, ErrNotObject
	}
	values := Values{}
	for _, m := range members(whole) {
		values = append(values, Field{Name: m.name, Value: whole[m.start:m.end:m.end]})
	}
	return values, nil
}

// Elements are the values of a JSON array that was read before, whose memory they
// share; false when it is none, or too deep.
func Elements(array json.RawMessage) ([]json.RawMessage, bool) {
	found, ok := elements(array)
	values := make([]json.RawMessage, len(found))
	for i, v := range found {
		values[i] = slices.Clip(v)
	}
	return values, ok
}

// Get gives the value of the last member called name.
func (v Values) Get(name string) (json.RawMessage, bool) {
	for _, f := range slices.Backward(v) {
		if f.Name == name {
			return f.Value, true
		}
	}
	return nil, false
}

// Without returns a copy that lacks the named members.
func (v Values) Without(names ...string) Values {
	return slices.DeleteFunc(slices.Clone(v), func(f Field) bool { return slices.Contains(names, f.Name) })
}

// MarshalJSON writes the members in their order. A nil Values is {}.
func (v Values) MarshalJSON() ([]byte, error) {
	size := len("{}")
	for _, f := range v {
		size += len(f.Name) + len(f.Value) + len(`"":,`)
	}
	out := append(make([]byte, 0, size), '{')
	for i, f := range v {
		if i > 0 {
			out = append(out, ',')
		}
		out = appendQuoted(out, f.Name)
		out = append(out, ':')
		out = append(out, f.Value...)
	}
	return append(out, '}'), nil
}

// UnmarshalJSON reads an object as ParseObject does.
func (v *Values) UnmarshalJSON(raw []byte) error {
	parsed, err := ParseObject(slices.Clone(raw), Limits{Depth: maxDepth})
	if err != nil {
		return err
	}
	*v = parsed
	return nil
}
