package session

import (
	"encoding/binary"
	"encoding/json"
	"math/bits"
	"unicode/utf8"
)

// scanner reads one JSON value that is in memory, without reflection: opening a
// log must not cost more than reading its bytes. It accepts what encoding/json
// accepts. Once something is wrong, bad is set, and what it returns means nothing.
type scanner struct {
	src []byte
	at  int
	bad bool
}

// maxDepth is how deep values may be nested, as in encoding/json.
const maxDepth = 10_000

// newScanner returns a scanner at the start of src.
func newScanner(src []byte) scanner { return scanner{src: src} }

// end reports whether the value was right and nothing follows it.
func (s *scanner) end() bool {
	s.space()
	return !s.bad && s.at == len(s.src)
}

func (s *scanner) space() {
	for s.at < len(s.src) {
		switch s.src[s.at] {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return
		}
	}
}

// peek returns the first byte of the next token, 0 at the end.
func (s *scanner) peek() byte {
	s.space()
	if s.bad || s.at >= len(s.src) {
		return 0
	}
	return s.src[s.at]
}

func (s *scanner) fail() { s.bad = true }

func (s *scanner) expect(b byte) {
	if s.peek() != b {
		s.fail()
		return
	}
	s.at++
}

// literal consumes word if it is next.
func (s *scanner) literal(word string) bool {
	s.space()
	if len(s.src)-s.at < len(word) || string(s.src[s.at:s.at+len(word)]) != word {
		return false
	}
	s.at += len(word)
	return true
}

// null consumes a null if it is next.
func (s *scanner) null() bool { return s.peek() == 'n' && s.literal("null") }

// object calls member with the name of each member of the object, which must
// consume the value. A null is an object without members.
func (s *scanner) object(member func(name []byte)) {
	if s.null() {
		return
	}
	s.expect('{')
	if s.peek() == '}' {
		s.at++
		return
	}
	for !s.bad {
		name := s.name()
		s.expect(':')
		if s.bad {
			return
		}
		member(name)
		if s.peek() == '}' {
			s.at++
			return
		}
		s.expect(',')
	}
}

// array calls element for each element of the array, which must consume it.
// A null is an array without elements.
func (s *scanner) array(element func()) {
	if s.null() {
		return
	}
	s.expect('[')
	if s.peek() == ']' {
		s.at++
		return
	}
	for !s.bad {
		element()
		if s.peek() == ']' {
			s.at++
			return
		}
		s.expect(',')
	}
}

// name consumes the name of a member.
func (s *scanner) name() []byte {
	from, to, plain := s.quoted()
	if s.bad {
		return nil
	}
	if plain {
		return s.src[from:to]
	}
	return []byte(unquote(s.src[from-1 : to+1]))
}

// str consumes a string; a null is "".
func (s *scanner) str() string {
	if s.null() {
		return ""
	}
	from, to, plain := s.quoted()
	if s.bad {
		return ""
	}
	if !plain {
		return unquote(s.src[from-1 : to+1])
	}
	return string(s.src[from:to])
}

// quoted consumes a string and returns where its content is. It is plain when
// the content stands for itself.
func (s *scanner) quoted() (from, to int, plain bool) {
	if s.peek() != '"' {
		s.fail()
		return 0, 0, false
	}
	from = s.at + 1
	plain, ascii := true, true
	for i := from; ; {
		n, high := special(s.src[i:])
		i += n
		ascii = ascii && !high
		if i >= len(s.src) || s.src[i] < ' ' {
			break
		}
		if s.src[i] == '"' {
			s.at = i + 1
			return from, i, plain && (ascii || utf8.Valid(s.src[from:i]))
		}
		plain = false
		if i+1 >= len(s.src) {
			break
		}
		i += 2
		ok := true
		switch s.src[i-1] {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		case 'u':
			ok = hex4(s.src[i:])
			i += 4
		default:
			ok = false
		}
		if !ok {
			break
		}
	}
	s.fail()
	return 0, 0, false
}

// special returns the index of the first quote, backslash or control character
// in p, len(p) when there is none, and whether a byte before it is not ASCII. It
// looks at eight bytes at a time.
func special(p []byte) (n int, high bool) {
	const (
		ones  = 0x0101010101010101
		highs = 0x8080808080808080
	)
	var seen uint64
	for ; n+8 <= len(p); n += 8 {
		w := binary.LittleEndian.Uint64(p[n:])
		quote, slash := w^ones*'"', w^ones*'\\'
		// Each term has the high bit of a byte set that is zero, or below a space. Through the borrow
		// it may be set in bytes above such a one as well, so only the lowest counts.
		found := ((quote-ones)&^quote | (slash-ones)&^slash | (w-ones*' ')&^w) & highs
		if found != 0 {
			below := bits.TrailingZeros64(found) &^ 7
			seen |= w & (1<<below - 1)
			return n + below/8, seen&highs != 0
		}
		seen |= w
	}
	for ; n < len(p); n++ {
		b := p[n]
		if b < ' ' || b == '"' || b == '\\' {
			break
		}
		seen |= uint64(b)
	}
	return n, seen&highs != 0
}

// hex4 reports whether p begins with four hexadecimal digits.
func hex4(p []byte) bool {
	if len(p) < 4 {
		return false
	}
	for _, b := range p[:4] {
		if b-'0' > 9 && b|0x20-'a' > 5 {
			return false
		}
	}
	return true
}

// unquote decodes a quoted string that quoted has accepted. The frequent escapes
// are done here; encoding/json does the rest.
func unquote(q []byte) string {
	content := q[1 : len(q)-1]
	out := make([]byte, 0, len(content))
	for i, ascii := 0, true; ; i += 2 {
		n, high := special(content[i:])
		out = append(out, content[i:i+n]...)
		ascii = ascii && !high
		if i += n; i >= len(content) {
			if ascii || utf8.Valid(out) {
				return string(out)
			}
			break
		}
		b := content[i+1]
		switch b {
		case 'n':
			b = '\n'
		case 't':
			b = '\t'
		case 'r':
			b = '\r'
		case 'b':
			b = '\b'
		case 'f':
			b = '\f'
		}
		if b == 'u' {
			break
		}
		out = append(out, b)
	}
	var whole string
	if err := json.Unmarshal(q, &whole); err != nil {
		panic("session: a string that was accepted cannot be decoded: " + err.Error())
	}
	return whole
}

// integer consumes an integer that fits 64 bits; a null is 0.
func (s *scanner) integer() int64 {
	if s.null() {
		return 0
	}
	s.space()
	negative := s.at < len(s.src) && s.src[s.at] == '-'
	if negative {
		s.at++
	}
	start, v := s.at, uint64(0)
	for ; s.at < len(s.src) && s.src[s.at]-'0' <= 9; s.at++ {
		if v > (1<<63-1)/10 {
			s.fail()
			return 0
		}
		v = v*10 + uint64(s.src[s.at]-'0')
	}
	digits := s.at - start
	if digits == 0 || digits > 1 && s.src[start] == '0' || v > 1<<63 || v == 1<<63 && !negative {
		s.fail()
		return 0
	}
	if s.at < len(s.src) && (s.src[s.at] == '.' || s.src[s.at]|0x20 == 'e') {
		s.fail()
		return 0
	}
	if negative {
		return -int64(v)
	}
	return int64(v)
}

// boolean consumes true or false; a null is false.
func (s *scanner) boolean() bool {
	if s.literal("true") {
		return true
	}
	if !s.literal("false") && !s.null() {
		s.fail()
	}
	return false
}

// raw consumes a value and returns its bytes, which are those of src.
func (s *scanner) raw() []byte {
	s.space()
	from := s.at
	s.skip()
	if s.bad {
		return nil
	}
	return s.src[from:s.at:s.at]
}

// skip consumes a value.
func (s *scanner) skip() { s.skipAt(0) }

func (s *scanner) skipAt(depth int) {
	if depth > maxDepth {
		s.fail()
		return
	}
	switch b := s.peek(); {
	case b == '"':
		s.quoted()
	case b == '{':
		s.object(func([]byte) { s.skipAt(depth + 1) })
	case b == '[':
		s.array(func() { s.skipAt(depth + 1) })
	case b == '-' || b-'0' <= 9:
		s.number()
	default:
		if !s.literal("true") && !s.literal("false") && !s.null() {
			s.fail()
		}
	}
}

// number consumes a number of any form.
func (s *scanner) number() {
	if s.src[s.at] == '-' {
		s.at++
	}
	if s.at < len(s.src) && s.src[s.at] == '0' {
		s.at++
	} else {
		s.digits()
	}
	if s.at < len(s.src) && s.src[s.at] == '.' {
		s.at++
		s.digits()
	}
	if s.at < len(s.src) && s.src[s.at]|0x20 == 'e' {
		s.at++
		if s.at < len(s.src) && (s.src[s.at] == '+' || s.src[s.at] == '-') {
			s.at++
		}
		s.digits()
	}
}

func (s *scanner) digits() {
	from := s.at
	for s.at < len(s.src) && s.src[s.at]-'0' <= 9 {
		s.at++
	}
	if s.at == from {
		s.fail()
	}
}
