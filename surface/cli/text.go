package cli

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// plain removes what would control a terminal from text that the harness did not write: all
// control characters but line feeds and tabs.
func plain(s string) string {
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
	// Cc holds the escape character; the others reorder or hide what is written.
	return unicode.IsControl(r) && r != '\n' && r != '\t' ||
		r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069'
}

// oneLine makes text one line of at most width characters.
func oneLine(s string, width int) string {
	return cut(strings.Join(strings.Fields(plain(s)), " "), width)
}

// cut makes a line fit width characters, in which a tab counts as four.
func cut(s string, width int) string {
	s = strings.ReplaceAll(s, "\t", "    ")
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	runes := []rune(s)
	return string(runes[:max(width-1, 0)]) + "…"
}
