// Package spelling shows text that somebody else wrote so that a person sees what it is, and so that it controls no terminal.
// Its functions may be called from any goroutine.
package spelling

import (
	"fmt"
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text returns text as a person has to see it to know what it is: with a mark ⟨…⟩ in place of, or around, all that
// a terminal would hide, move, or show like something else. mark paints a mark. No two texts are spelled alike.
func Text(text string, mark func(string) string) string {
	var b strings.Builder
	for text, marked := range pieces(text) {
		if marked {
			text = mark(text)
		}
		b.WriteString(text)
	}
	return b.String()
}

// pieces yields what a text is spelled as, and whether that is a mark.
func pieces(text string) iter.Seq2[string, bool] {
	return func(yield func(string, bool) bool) {
		for len(text) > 0 {
			n, spelled, marked := spellFirst(text)
			if !yield(spelled, marked) {
				return
			}
			text = text[n:]
		}
	}
}

// spellFirst returns how many bytes the first piece of a text stands for, and how it is spelled.
func spellFirst(text string) (n int, spelled string, marked bool) {
	r, n := utf8.DecodeRuneInString(text)
	switch {
	case r == utf8.RuneError && n == 1:
		return n, fmt.Sprintf("⟨byte %02X⟩", text[0]), true
	case r == '\n' || r > ' ' && r < 0x7f || ordinary(r):
		return n, text[:n], false
	case r == ' ':
		n = len(text) - len(strings.TrimLeft(text, " "))
		if n > maxBlank || n == len(text) || text[n] == '\n' {
			return n, fmt.Sprintf("⟨%d blanks⟩", n), true // so many push the rest out of sight, and nobody sees them at an end
		}
		return n, text[:n], false
	}
	script := scriptOf(r)
	if script == "" {
		return n, nameOf(r), true
	}
	for n < len(text) {
		next, size := utf8.DecodeRuneInString(text[n:])
		if scriptOf(next) != script {
			break
		}
		n += size
	}
	return n, "⟨" + script + " " + text[:n] + "⟩", true
}

// maxBlank is how many blanks in a row are shown as they are.
const maxBlank = 16

// ordinary reports whether a character beyond ASCII looks like none of ASCII.
func ordinary(r rune) bool {
	switch {
	case r == 'ı' || r == 'ſ': // they look like i and f
		return false
	case r >= 0xc0 && r <= 0x17f: // letters with accents
		return unicode.IsLetter(r)
	case r == '€' || r == '£' || r == '§' || r == '°' || r == '✓' || r == '→' || r == '…':
		return true
	}
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul) && unicode.IsLetter(r) && r < 0xff00 &&
		r != 'ㅡ' && r != 'ㅣ' && r != '一' && r != 'ー' && r != '丨' && r != '丶' && r != '二' && r != '口'
}

// scriptOf names the script of a letter that may look like a Latin one, "" for what is no such letter.
func scriptOf(r rune) string {
	if r < 0x250 || !unicode.IsLetter(r) || ordinary(r) {
		return ""
	}
	for _, s := range []struct {
		name  string
		table *unicode.RangeTable
	}{
		{"Greek", unicode.Greek}, {"Cyrillic", unicode.Cyrillic}, {"Armenian", unicode.Armenian}, {"Hebrew", unicode.Hebrew},
		{"Arabic", unicode.Arabic}, {"Georgian", unicode.Georgian}, {"Cherokee", unicode.Cherokee}, {"Thai", unicode.Thai},
	} {
		if unicode.Is(s.table, r) {
			return s.name
		}
	}
	return ""
}

func nameOf(r rune) string {
	switch r {
	case '\t':
		return "⟨TAB⟩"
	case '\r':
		return "⟨CR⟩"
	case 0x1b:
		return "⟨ESC⟩"
	}
	if unicode.IsPrint(r) && !unicode.IsMark(r) && r != '⟨' && r != '⟩' {
		return fmt.Sprintf("⟨U+%04X %c⟩", r, r)
	}
	return fmt.Sprintf("⟨U+%04X⟩", r)
}

// Rows cuts a text into rows of at most width columns, none of it left out. Each begins with │, or with ┆ where
// it goes on with the line above.
func Rows(text string, width int, mark func(string) string) []string {
	width = max(width-2, 20)
	var all []string
	for line := range strings.SplitSeq(text, "\n") {
		row, used := "│ ", 0
		put := func(text string, mark func(string) string) {
			for text != "" {
				n, columns := fitting(text, width-used)
				if n == 0 {
					all, row, used = append(all, row), "┆ ", 0
					continue
				}
				row, used, text = row+mark(text[:n]), used+columns, text[n:]
			}
		}
		for text, marked := range pieces(line) {
			if marked {
				put(text, mark)
			} else {
				put(text, func(s string) string { return s })
			}
		}
		all = append(all, row)
	}
	return all
}

// fitting returns how many bytes of text fit into that many columns, and how many columns they take.
func fitting(text string, width int) (n, columns int) {
	for i, r := range text {
		wide := 1
		if r >= 0x1100 && ordinary(r) {
			wide = 2
		}
		if columns+wide > width {
			return i, columns
		}
		columns += wide
	}
	return len(text), columns
}

// Plain removes what would control a terminal from text: all control characters but line feeds and tabs, and what reorders or
// hides what is written. Bytes that are no UTF-8 become U+FFFD.
func Plain(s string) string {
	if !strings.ContainsFunc(s, controls) && utf8.ValidString(s) {
		return s
	}
	return strings.Map(func(r rune) rune {
		if controls(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
}

func controls(r rune) bool {
	// Cc holds the escape character.
	return unicode.IsControl(r) && r != '\n' && r != '\t' ||
		r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069'
}
