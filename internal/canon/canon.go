// Package canon compares text up to canonical equivalence: é as one letter and as e
// with a combining accent are the same text to a person, and different bytes. Files
// made on a Mac hold the second form, models write the first.
//
// It only reads tables and may be used from any goroutine. Marks that stand in an
// unusual order are not reordered, and compatibility forms of Chinese characters are
// left alone, so that what it calls equal is equal, and what it calls different may
// in rare cases not be.
package canon

import (
	_ "embed"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// decompositions has a line for each letter that Unicode 14 decomposes: the letter,
// then what it consists of. Hangul is computed instead.
//
//go:embed decompositions.txt
var decompositions string

var table = sync.OnceValue(func() map[rune]string {
	m := make(map[rune]string, 1100)
	for line := range strings.Lines(decompositions) {
		letter, size := utf8.DecodeRuneInString(line)
		m[letter] = strings.TrimSuffix(line[size:], "\n")
	}
	return m
})

// Equal tells whether a and b are canonically equivalent.
func Equal(a, b string) bool { return a == b || Decompose(a) == Decompose(b) }

// Decompose returns s with every composed letter as its parts. Bytes that are no
// UTF-8 stay as they are.
func Decompose(s string) string {
	if isASCII(s) {
		return s
	}
	return string(appendDecomposed(make([]byte, 0, len(s)+len(s)/4), s))
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func appendDecomposed(out []byte, s string) []byte {
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		if parts := decompose(r); parts != "" {
			out = appendDecomposed(out, parts)
		} else {
			out = append(out, s[:size]...)
		}
		s = s[size:]
	}
	return out
}

// The Hangul syllables are arranged so that their parts can be computed.
const (
	syllables                = 0xAC00
	leads, vowels, tails     = 0x1100, 0x1161, 0x11A7
	nVowels, nTails, nHangul = 21, 28, 11172
)

// decompose returns the parts of r one level down, or "".
func decompose(r rune) string {
	switch i := r - syllables; {
	case r < 0xC0:
		return ""
	case i >= 0 && i < nHangul:
		parts := []rune{leads + i/(nVowels*nTails), vowels + i%(nVowels*nTails)/nTails}
		if tail := i % nTails; tail > 0 {
			parts = append(parts, tails+tail)
		}
		return string(parts)
	default:
		return table()[r]
	}
}

// Find returns the places in text, as half-open byte ranges, that are canonically
// equivalent to want. They begin and end at whole letters: an e is not found in front
// of a combining accent. They do not overlap.
func Find(text, want string) [][2]int {
	want = Decompose(want)
	first, _ := utf8.DecodeRuneInString(want)
	var found [][2]int
	for at := 0; want != "" && at < len(text); {
		r, size := utf8.DecodeRuneInString(text[at:])
		if r == first || r >= 0xC0 {
			if n := prefix(text[at:], want); n > 0 {
				found = append(found, [2]int{at, at + n})
				at += n
				continue
			}
		}
		at += size
	}
	return found
}

// prefix returns how many bytes of text are equivalent to all of want, or 0.
func prefix(text, want string) int {
	at := 0
	var parts [16]byte
	for want != "" {
		if at == len(text) {
			return 0
		}
		_, size := utf8.DecodeRuneInString(text[at:])
		letter := appendDecomposed(parts[:0], text[at:at+size])
		if !strings.HasPrefix(want, string(letter)) {
			return 0
		}
		want = want[len(letter):]
		at += size
	}
	if next, _ := utf8.DecodeRuneInString(text[at:]); unicode.Is(unicode.Mn, next) {
		return 0
	}
	return at
}
