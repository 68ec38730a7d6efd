package cli

import (
	"strings"
	"unicode/utf8"

	"github.com/dsh-harness/dsh/internal/spelling"
)

// plain is text that the harness did not write, without what would control a terminal.
func plain(s string) string { return spelling.Plain(s) }

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
