package manifest

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// SyntaxError says where a text stops being the JSON that was asked for.
type SyntaxError struct {
	Line, Column int // from 1; the column counts bytes
	Message      string
}

// Error tells line and column before the message.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("line %d column %d: %s", e.Line, e.Column, e.Message)
}

// scanner cuts JSON text into pieces without changing a byte of them.
type scanner struct {
	text    []byte
	pos     int
	depth   int
	limit   int
	lenient bool // NaN and the infinities pass, as in Python's json
	unique  bool // a member given twice is an error
}

// member is one member of an object: its key as written and as read, and where
// its value stands in the object's text.
type member struct {
	key        []byte
	name       string
	start, end int
}

func (s *scanner) fail(message string) error {
	before := s.text[:min(s.pos, len(s.text))]
	return &SyntaxError{
		Line:    bytes.Count(before, []byte("\n")) + 1,
		Column:  len(before) - bytes.LastIndexByte(before, '\n'),
		Message: message,
	}
}

func (s *scanner) peek() byte {
	if s.pos < len(s.text) {
		return s.text[s.pos]
	}
	return 0
}

func (s *scanner) space() {
	for s.pos < len(s.text) {
		switch s.text[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// value moves over one value and returns its text.
func (s *scanner) value() ([]byte, error) {
	s.space()
	start := s.pos
	if err := s.skip(); err != nil {
		return nil, err
	}
	return s.text[start:s.pos], nil
}

func (s *scanner) skip() error {
	if s.pos >= len(s.text) {
		return s.fail("the text ends where a value should be")
	}
	switch c := s.peek(); {
	case c == '{':
		return s.object(nil)
	case c == '[':
		return s.array(nil)
	case c == '"':
		_, err := s.str()
		return err
	case c == '-' || c >= '0' && c <= '9':
		return s.number()
	}
	return s.word()
}

func (s *scanner) word() error {
	for i, w := range [...]string{"true", "false", "null", "NaN", "Infinity"} {
		if !bytes.HasPrefix(s.text[s.pos:], []byte(w)) {
			continue
		}
		if i > 2 && !s.lenient {
			return s.fail("NaN and Infinity are no JSON numbers")
		}
		s.pos += len(w)
		return nil
	}
	return s.fail("expected a value")
}

// enter goes over an opening brace or bracket, one level of nesting deeper.
func (s *scanner) enter() error {
	if s.depth >= s.limit {
		return s.fail(fmt.Sprintf("nested deeper than %d levels", s.limit))
	}
	s.depth++
	s.pos++
	s.space()
	return nil
}

func (s *scanner) leave() { s.depth-- }

// object moves over an object and shows each member, unless each is nil;
// offsets count from the object's own brace.
func (s *scanner) object(each func(member) error) error {
	begin := s.pos
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if s.peek() == '}' {
		s.pos++
		return nil
	}
	if s.unique {
		each = onlyNew(each)
	}
	for {
		m, err := s.member(begin, each != nil)
		if err != nil {
			return err
		}
		if each != nil {
			if err := each(m); err != nil {
				return err
			}
		}
		if done, err := s.next('}', "object"); done || err != nil {
			return err
		}
	}
}

// onlyNew refuses a member that was there before.
func onlyNew(each func(member) error) func(member) error {
	seen := map[string]bool{}
	return func(m member) error {
		if seen[m.name] {
			return &DuplicateError{Name: m.name}
		}
		seen[m.name] = true
		if each == nil {
			return nil
		}
		return each(m)
	}
}

func (s *scanner) member(begin int, named bool) (member, error) {
	s.space()
	if s.peek() != '"' {
		return member{}, s.fail("expected a member name in double quotes")
	}
	key, err := s.str()
	if err != nil {
		return member{}, err
	}
	s.space()
	if s.peek() != ':' {
		return member{}, s.fail("expected a colon after the member name")
	}
	s.pos++
	v, err := s.value()
	if err != nil {
		return member{}, err
	}
	m := member{key: key, start: s.pos - len(v) - begin, end: s.pos - begin}
	if named {
		m.name = unquote(key)
	}
	return m, nil
}

func (s *scanner) array(each func([]byte) error) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if s.peek() == ']' {
		s.pos++
		return nil
	}
	for {
		v, err := s.value()
		if err != nil {
			return err
		}
		if each != nil {
			if err := each(v); err != nil {
				return err
			}
		}
		if done, err := s.next(']', "array"); done || err != nil {
			return err
		}
	}
}

// next reads what follows an element: a comma, or the closing byte.
func (s *scanner) next(closing byte, what string) (done bool, err error) {
	s.space()
	switch s.peek() {
	case ',':
		s.pos++
		return false, nil
	case closing:
		s.pos++
		return true, nil
	}
	return false, s.fail("expected a comma or the end of the " + what)
}

func (s *scanner) str() ([]byte, error) {
	start := s.pos
	s.pos++
	for s.pos < len(s.text) {
		switch c := s.text[s.pos]; {
		case c == '"':
			s.pos++
			return s.text[start:s.pos], nil
		case c == '\\':
			if err := s.escape(); err != nil {
				return nil, err
			}
		case c < 0x20:
			return nil, s.fail("a control character stands unescaped in a text")
		default:
			s.pos++
		}
	}
	return nil, s.fail("a text has no closing quote")
}

func (s *scanner) escape() error {
	rest := s.text[s.pos+1:]
	switch {
	case len(rest) > 0 && strings.IndexByte(`"\/bfnrt`, rest[0]) >= 0:
		s.pos += 2
		return nil
	case len(rest) > 4 && rest[0] == 'u' && isHex(rest[1:5]):
		s.pos += 6
		return nil
	}
	return s.fail("an unknown escape stands in a text")
}

func isHex(b []byte) bool {
	for _, c := range b {
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F') {
			return false
		}
	}
	return true
}

func (s *scanner) digits() bool {
	start := s.pos
	for c := s.peek(); c >= '0' && c <= '9'; c = s.peek() {
		s.pos++
	}
	return s.pos > start
}

func (s *scanner) number() error {
	if s.peek() == '-' {
		s.pos++
		if s.lenient && bytes.HasPrefix(s.text[s.pos:], []byte("Infinity")) {
			return s.word()
		}
	}
	zero := s.peek() == '0'
	start := s.pos
	if !s.digits() || zero && s.pos-start > 1 {
		return s.fail("a number is malformed")
	}
	if s.peek() == '.' {
		s.pos++
		if !s.digits() {
			return s.fail("a number has no digits after its point")
		}
	}
	return s.exponent()
}

func (s *scanner) exponent() error {
	if c := s.peek(); c != 'e' && c != 'E' {
		return nil
	}
	s.pos++
	if c := s.peek(); c == '+' || c == '-' {
		s.pos++
	}
	if !s.digits() {
		return s.fail("a number has no digits in its exponent")
	}
	return nil
}

// whole checks that text is one value with nothing but space around it, and
// returns it without that space. A byte order mark is skipped.
func (s *scanner) whole() ([]byte, error) {
	s.text = bytes.TrimPrefix(s.text, []byte("\xef\xbb\xbf"))
	if !utf8.Valid(s.text) {
		s.pos = invalidAt(s.text)
		return nil, s.fail("the text is not UTF-8")
	}
	v, err := s.value()
	if err != nil {
		return nil, err
	}
	s.space()
	if s.pos < len(s.text) {
		return nil, s.fail("more text follows the end of the JSON value")
	}
	return v, nil
}

func invalidAt(text []byte) int {
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(text)
}

// members lists the members of an object that was scanned before.
func members(object []byte) []member {
	var out []member
	s := scanner{text: object, limit: maxDepth + 1, lenient: true}
	if len(object) == 0 || object[0] != '{' || s.object(func(m member) error { out = append(out, m); return nil }) != nil {
		return nil
	}
	return out
}

// elements lists the elements of an array that was scanned before; ok is false
// when text is no array.
func elements(text []byte) (out [][]byte, ok bool) {
	s := scanner{text: text, limit: maxDepth + 1, lenient: true}
	if len(text) == 0 || text[0] != '[' || s.array(func(v []byte) error { out = append(out, v); return nil }) != nil {
		return nil, false
	}
	return out, true
}

// find gives the last member of that name, as JSON readers do, in an object
// that was scanned before.
func find(object []byte, name string) (found member, value []byte, ok bool) {
	s := scanner{text: object, limit: maxDepth + 1, lenient: true}
	if len(object) == 0 || object[0] != '{' {
		return member{}, nil, false
	}
	err := s.object(func(m member) error {
		if m.name == name {
			found, ok = m, true
		}
		return nil
	})
	if err != nil || !ok {
		return member{}, nil, false
	}
	return found, object[found.start:found.end], true
}
