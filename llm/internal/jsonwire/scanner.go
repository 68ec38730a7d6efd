// Package jsonwire reads and writes the JSON of the model wires without
// reflection: a provider sends a small object for every few letters of an answer, and
// a request repeats the whole conversation. It accepts and writes exactly JSON.
//
// A [Scanner] belongs to one goroutine; the functions may be called from any.
package jsonwire

import (
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxDepth is how deep values may be nested.
const MaxDepth = 10000

// Scanner walks over one JSON value. Its methods must be called as the value is
// built:
//
//	for s.Open('{'); s.Next('}'); {
//		switch string(s.Key()) {
//		case "text":
//			text = s.Text()
//		default:
//			s.Skip()
//		}
//	}
//	err := s.End()
//
// The first error stays: every method then returns its zero value at once, so it
// is enough to ask for it at the end. A copy of a Scanner is a place to come
// back to.
type Scanner struct {
	data    []byte
	pos     int
	depth   int
	fresh   bool // a bracket was opened: no comma comes before what follows
	err     error
	scratch []byte // of strings with escapes
}

// Reset begins with data, which must not change while it is scanned.
func (s *Scanner) Reset(data []byte) { *s = Scanner{data: data, scratch: s.scratch} }

// Err returns the first error, which tells the offset in bytes.
func (s *Scanner) Err() error { return s.err }

// End returns the first error, or one when something follows the value.
func (s *Scanner) End() error {
	if s.space(); s.err == nil && s.pos < len(s.data) {
		s.fail("the end")
	}
	return s.err
}

func (s *Scanner) fail(want string) {
	if s.err != nil {
		return
	}
	if s.pos >= len(s.data) {
		s.err = fmt.Errorf("offset %d: the text ends, want %s", len(s.data), want)
	} else {
		s.err = fmt.Errorf("offset %d: %q, want %s", s.pos, s.data[s.pos], want)
	}
	s.pos = len(s.data) // so that nothing more is found
}

func (s *Scanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\n', '\t', '\r':
			s.pos++
		default:
			return
		}
	}
}

// Peek returns the first byte of the next value, which tells its type, or 0.
func (s *Scanner) Peek() byte {
	s.space()
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

// Open goes into an object or an array, as bracket says.
func (s *Scanner) Open(bracket byte) {
	if s.Peek() != bracket {
		s.fail(strconv.QuoteRune(rune(bracket)))
		return
	}
	if s.depth++; s.depth > MaxDepth {
		s.fail("less nesting")
		return
	}
	s.pos++
	s.fresh = true
}

// Next reports whether a further member or element stands before the closing
// bracket, and goes out when there is none.
func (s *Scanner) Next(closing byte) bool {
	fresh := s.fresh
	s.fresh = false
	switch c := s.Peek(); {
	case s.err != nil:
		return false
	case c == closing:
		s.pos++
		s.depth--
		return false
	case fresh:
		return true
	case c == ',':
		s.pos++
		return true
	}
	s.fail("a comma or " + strconv.QuoteRune(rune(closing)))
	return false
}

// Key returns the name of the member that comes next, which is valid until the
// next call of any method. Bytes that are not UTF-8 stay as they are.
func (s *Scanner) Key() []byte {
	raw, escaped := s.rawString()
	if s.Peek() != ':' {
		s.fail("a colon")
		return nil
	}
	s.pos++
	if escaped {
		return s.unescape(raw)
	}
	return raw
}

// Text returns the string that comes next, with U+FFFD for what is not UTF-8.
func (s *Scanner) Text() string {
	raw, escaped := s.rawString()
	if escaped || !utf8.Valid(raw) {
		raw = s.unescape(raw)
	}
	return string(raw)
}

// Null goes over the next value and reports true when it is null.
func (s *Scanner) Null() bool {
	if s.Peek() != 'n' {
		return false
	}
	s.literal("null")
	return s.err == nil
}

// Int goes over the next value, and reports true when it is an integer that fits.
func (s *Scanner) Int() (v int64, ok bool) {
	v, err := strconv.ParseInt(string(s.Raw()), 10, 64)
	return v, err == nil && s.err == nil
}

// Raw goes over the next value and returns its bytes.
func (s *Scanner) Raw() []byte {
	s.space()
	from := s.pos
	if s.Skip(); s.err != nil {
		return nil
	}
	return s.data[from:s.pos]
}

// Skip goes over the next value.
func (s *Scanner) Skip() {
	switch c := s.Peek(); {
	case c == '"':
		s.rawString()
	case c == '{':
		for s.Open('{'); s.Next('}'); s.Skip() {
			s.Key()
		}
	case c == '[':
		for s.Open('['); s.Next(']'); {
			s.Skip()
		}
	case c == 't':
		s.literal("true")
	case c == 'f':
		s.literal("false")
	case c == 'n':
		s.literal("null")
	default:
		s.number()
	}
}

func (s *Scanner) literal(word string) {
	for i := range len(word) {
		if s.pos >= len(s.data) || s.data[s.pos] != word[i] {
			s.fail(word)
			return
		}
		s.pos++
	}
}

func (s *Scanner) number() {
	at := func() byte {
		if s.pos < len(s.data) {
			return s.data[s.pos]
		}
		return 0
	}
	digits := func() {
		if c := at(); c < '0' || c > '9' {
			s.fail("a value")
		}
		for c := at(); c >= '0' && c <= '9'; c = at() {
			s.pos++
		}
	}
	if at() == '-' {
		s.pos++
	}
	if at() == '0' {
		s.pos++
	} else {
		digits()
	}
	if at() == '.' {
		s.pos++
		digits()
	}
	if c := at(); c == 'e' || c == 'E' {
		s.pos++
		if c := at(); c == '+' || c == '-' {
			s.pos++
		}
		digits()
	}
}

// rawString goes over a string and returns what is between its quotes.
func (s *Scanner) rawString() (raw []byte, escaped bool) {
	if s.Peek() != '"' {
		s.fail("a string")
		return nil, false
	}
	s.pos++
	from := s.pos
	for i := from; i < len(s.data); i++ {
		switch c := s.data[i]; {
		case c == '"':
			s.pos = i + 1
			return s.data[from:i], escaped
		case c < ' ':
			s.pos = i
			s.fail("a string without control characters")
			return nil, false
		case c == '\\':
			n := escapeLen(s.data[i:])
			if n == 0 {
				s.pos = i
				s.fail("a valid escape")
				return nil, false
			}
			escaped = true
			i += n - 1
		}
	}
	s.pos = len(s.data)
	s.fail("a quote")
	return nil, false
}

// escapeLen returns the length of the escape that b begins with, 0 when it is none.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if unit(b) >= 0 {
			return 6
		}
	}
	return 0
}

// unit returns the UTF-16 unit that b begins with as \uXXXX, or -1.
func unit(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return -1
	}
	var v rune
	for _, c := range b[2:6] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		v = v<<4 | rune(c)
	}
	return v
}

// unescape returns the text of a string that rawString found to be valid.
func (s *Scanner) unescape(raw []byte) []byte {
	out := s.scratch[:0]
	for i := 0; i < len(raw); {
		c := raw[i]
		if c != '\\' {
			if c < utf8.RuneSelf {
				out = append(out, c)
				i++
				continue
			}
			r, n := utf8.DecodeRune(raw[i:])
			out = utf8.AppendRune(out, r)
			i += n
			continue
		}
		switch c := raw[i+1]; c {
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r := unit(raw[i:])
			i += 4
			if utf16.IsSurrogate(r) {
				r = utf16.DecodeRune(r, unit(raw[i+2:]))
				if r != utf8.RuneError {
					i += 6
				}
			}
			out = utf8.AppendRune(out, r)
		default:
			out = append(out, c)
		}
		i += 2
	}
	s.scratch = out
	return out
}
