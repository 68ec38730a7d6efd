package session

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// scanner reads one JSON value that is in memory, without reflection: opening a
// log must not cost more than reading its bytes. It accepts what encoding/json
// accepts. Once something is wrong, bad is set, and what it returns means nothing.
type scanner struct {
	src []byte
	at  int
	bad bool
	buf []byte // for strings with escapes, to be used again
	// names are strings that are there again and again, so that one copy serves all.
	names map[string]string
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
	if s.at < len(s.src) && s.src[s.at] > ' ' {
		return s.src[s.at]
	}
	s.space()
	if s.at >= len(s.src) {
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
	begin := s.at
	if name, plain := s.quoted(); plain || s.bad {
		return name
	}
	s.at = begin
	return []byte(s.str())
}

// quoted consumes a string and returns what stands between its quotes. It is plain
// when that stands for itself.
func (s *scanner) quoted() (content []byte, plain bool) {
	if s.peek() != '"' {
		s.fail()
		return nil, false
	}
	from := s.at + 1
	high, escapes := false, false
	for i := from; ; {
		n, h := special(s.src[i:])
		i += n
		high = high || h
		if i < len(s.src) && s.src[i] == '"' {
			s.at = i + 1
			content = s.src[from:i]
			return content, !escapes && (!high || utf8.Valid(content))
		}
		escapes = true
		_, size := escape(s.src[i:])
		if size == 0 {
			s.fail()
			return nil, false
		}
		i += size
	}
}

// str consumes a string; a null is "".
func (s *scanner) str() string {
	if s.null() {
		return ""
	}
	if s.peek() != '"' {
		s.fail()
		return ""
	}
	from := s.at + 1
	n, high := special(s.src[from:])
	if end := from + n; end < len(s.src) && s.src[end] == '"' {
		s.at = end + 1
		return text(s.src[from:end], high)
	}
	buf := append(s.buf[:0], s.src[from:from+n]...)
	for i := from + n; ; {
		if i < len(s.src) && s.src[i] != '\\' { // often one escape follows on another
			n, h := special(s.src[i:])
			buf = append(buf, s.src[i:i+n]...)
			i += n
			high = high || h
		}
		if i < len(s.src) && s.src[i] == '"' {
			s.at, s.buf = i+1, buf
			return text(buf, high)
		}
		r, size := escape(s.src[i:])
		if size == 0 {
			s.fail()
			return ""
		}
		buf = utf8.AppendRune(buf, r)
		i += size
	}
}

// mostNames bounds how many names are remembered.
const mostNames = 64

// shared is str for a string that is likely to come again, such as a name.
func (s *scanner) shared() string {
	begin := s.at
	if s.peek() != '"' {
		return s.str()
	}
	p, plain := s.quoted()
	if !plain {
		s.at = begin
		return s.str()
	}
	if name, ok := s.names[string(p)]; ok {
		return name
	}
	name := string(p)
	if s.names == nil {
		s.names = map[string]string{}
	}
	if len(s.names) < mostNames {
		s.names[name] = name
	}
	return name
}

// text returns p as a string in which each byte that is not UTF-8 has become U+FFFD. Only
// when high is set has p bytes that are not ASCII.
func text(p []byte, high bool) string {
	if high && !utf8.Valid(p) {
		return string([]rune(string(p)))
	}
	return string(p)
}

// escape decodes the escape sequence that p begins with and returns its size, 0
// when there is none.
func escape(p []byte) (r rune, size int) {
	if len(p) < 2 || p[0] != '\\' {
		return 0, 0
	}
	switch p[1] {
	case '"', '\\', '/':
		return rune(p[1]), 2
	case 'n':
		return '\n', 2
	case 't':
		return '\t', 2
	case 'r':
		return '\r', 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'u':
		r, ok := hex4(p[2:])
		if !ok {
			return 0, 0
		}
		if !utf16.IsSurrogate(r) {
			return r, 6
		}
		if len(p) >= 12 && p[6] == '\\' && p[7] == 'u' {
			if low, ok := hex4(p[8:]); ok {
				if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
					return pair, 12
				}
			}
		}
		return utf8.RuneError, 6
	}
	return 0, 0
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

// hex4 decodes the four hexadecimal digits that p begins with.
func hex4(p []byte) (v rune, ok bool) {
	if len(p) < 4 {
		return 0, false
	}
	for _, b := range p[:4] {
		switch {
		case '0' <= b && b <= '9':
			b -= '0'
		case 'a' <= b|0x20 && b|0x20 <= 'f':
			b = b | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		v = v<<4 | rune(b)
	}
	return v, true
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
