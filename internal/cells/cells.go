// Package cells is text as a terminal shows it: in cells, of which a character takes none, one or two. A [Line] is text with styles, without any
// control character: what somebody else wrote is cleaned on its way in.
//
// Everything here is a value, or a function that may be called from any goroutine.
package cells

import (
	"strconv"
	"strings"
	"unicode"

	"github.com/clipperhouse/displaywidth"

	"github.com/dsh-harness/dsh/internal/spelling"
)

// Color is one of the sixteen colours that every terminal has, and that its own theme defines, so they can be read on light and on dark.
type Color uint8

// The colours; the zero value is the terminal's own.
const (
	Default Color = iota
	Red
	Green
	Yellow
	Blue
	Magenta
	Cyan
	Gray
)

// Style is how text looks. The zero value is plain.
type Style struct {
	Fg                                    Color
	Bold, Dim, Italic, Underline, Reverse bool
	// Link is where the text leads, http: or https:. What is anything else is left out.
	Link string
}

// Span is text of one style.
type Span struct {
	Text  string
	Style Style
}

// Line is one line.
type Line []Span

// tab is what stands in place of a tab.
const tab = "    "

// Plain is a line of plain text. Control characters go, line feeds become blanks.
func Plain(text string) Line { return Styled(text, Style{}) }

// Styled is a line of one style.
func Styled(text string, s Style) Line { return Line{{clean(text), s}} }

// Add returns the line with more text.
func (l Line) Add(text string, s Style) Line { return append(l, Span{clean(text), s}) }

// clean takes out what is no cell.
func clean(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
		return s
	}
	s = strings.ReplaceAll(spelling.Plain(s), "\t", tab)
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return ' '
		case r == '\u200b' || r == '\ufeff' || r == '\u00ad' || r == '\u2060' || r == '\u180e':
			return -1 // they take no room and say nothing; a joiner between emoji does
		}
		return r
	}, s)
}

// Width is how many cells a text takes.
func Width(s string) int {
	n := displaywidth.String(s)
	if strings.ContainsAny(s, soundMarks) {
		n = 0
		for g := displaywidth.StringGraphemes(s); g.Next(); {
			n += cellsOf(g.Value(), g.Width())
		}
	}
	return n
}

// soundMarks are the half-width marks of Japanese, which belong to the character before them and take a cell of their own.
const soundMarks = "\uff9e\uff9f"

// cellsOf is the width of one character of which width is known as far as its first code point.
func cellsOf(character string, width int) int {
	for i, r := range character {
		if i > 0 && (r == '\uff9e' || r == '\uff9f') {
			width++
		}
	}
	return width
}

// Width is how many cells the line takes.
func (l Line) Width() int {
	n := 0
	for _, s := range l {
		n += Width(s.Text)
	}
	return n
}

// Text is the line without styles.
func (l Line) Text() string {
	var b strings.Builder
	for _, s := range l {
		b.WriteString(s.Text)
	}
	return b.String()
}

// Fit returns the line cut to width cells; what was cut ends in dots.
func (l Line) Fit(width int) Line {
	if l.Width() <= width {
		return l
	}
	dots := min(2, width)
	var out Line
	left := width - dots
	for _, s := range l {
		head, _ := split(s.Text, left)
		if head != "" {
			out = append(out, Span{head, s.Style})
		}
		left -= Width(head)
		if len(head) < len(s.Text) {
			return append(out, Span{strings.Repeat(".", dots), s.Style})
		}
	}
	return out
}

// split returns the part of s that fits width cells, never within a character, and the rest.
func split(s string, width int) (head, rest string) {
	g := displaywidth.StringGraphemes(s)
	at := 0
	for g.Next() {
		w := cellsOf(g.Value(), g.Width())
		if w > width {
			break
		}
		width -= w
		at += len(g.Value())
	}
	return s[:at], s[at:]
}

// Wrap breaks a line into lines of at most width cells: behind blanks where there are some, otherwise between characters. What follows the
// first is indented by so many cells. A width below 4 counts as 4.
func Wrap(l Line, width, indent int) []Line {
	width = max(width, 4)
	indent = min(indent, width/2)
	var all []Line
	var now Line
	left := width
	newLine := func() {
		all = append(all, now)
		now, left = nil, width-indent
		if indent > 0 {
			now = Line{{strings.Repeat(" ", indent), Style{}}}
		}
	}
	fresh := true // nothing but the indentation is on this line
	for _, s := range l {
		for text := s.Text; text != ""; {
			word := firstWord(text)
			text = text[len(word):]
			if trimmed := strings.TrimRight(word, " "); Width(trimmed) > left && !fresh {
				newLine()
				fresh = true
			}
			for word != "" {
				head, rest := split(word, left)
				if head == "" && !fresh {
					newLine()
					fresh = true
					continue
				}
				if head == "" { // a character wider than the line
					head, rest = word[:len(firstCharacter(word))], word[len(firstCharacter(word)):]
				}
				if strings.Trim(rest, " ") == "" {
					rest = "" // blanks that do not fit at the end of a line are not seen anyway
				}
				if n := len(now); n > 0 && now[n-1].Style == s.Style {
					now[n-1].Text += head
				} else {
					now = append(now, Span{head, s.Style})
				}
				left -= Width(head)
				fresh = false
				word = rest
				if word != "" {
					newLine()
					fresh = true
				}
			}
		}
	}
	return append(all, now)
}

// firstWord returns the first word with the blanks behind it; a wide character is a word.
func firstWord(s string) string {
	blanks := false
	for i, r := range s {
		switch {
		case r == ' ':
			blanks = true
		case blanks:
			return s[:i]
		case i > 0 && wide(r):
			return s[:i]
		case i == 0 && wide(r):
			first := firstCharacter(s)
			rest := s[len(first):]
			return s[:len(first)+len(rest)-len(strings.TrimLeft(rest, " "))]
		}
	}
	return s
}

// wide reports whether lines may break at a character without a blank.
func wide(r rune) bool {
	return r >= 0x1100 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul)
}

func firstCharacter(s string) string {
	g := displaywidth.StringGraphemes(s)
	if g.Next() {
		return g.Value()
	}
	return s
}

// ANSI writes the line for a terminal, without its end; colours only when color is set, since attributes are none.
func (l Line) ANSI(color bool) string {
	var b strings.Builder
	for _, s := range l {
		text := s.Text
		if linked(s.Style.Link) {
			text = "\x1b]8;;" + s.Style.Link + "\x1b\\" + text + "\x1b]8;;\x1b\\"
		}
		if codes := s.Style.codes(color); codes != "" {
			text = "\x1b[" + codes + "m" + text + "\x1b[m"
		}
		b.WriteString(text)
	}
	return b.String()
}

// linked reports whether a link may be written as one: nothing in it ends the sequence, or hides where it leads. See the terminal-wg
// specification of hyperlinks, OSC 8.
func linked(url string) bool {
	return len(url) <= 2000 && (strings.HasPrefix(url, "https://") || strings.HasPrefix(url, "http://")) &&
		!strings.ContainsFunc(url, func(r rune) bool { return r <= ' ' || r > '~' })
}

// codes are the parameters of SGR; see ECMA-48, 8.3.117.
func (s Style) codes(color bool) string {
	var codes []string
	for _, a := range []struct {
		on   bool
		code string
	}{{s.Bold, "1"}, {s.Dim, "2"}, {s.Italic, "3"}, {s.Underline, "4"}, {s.Reverse, "7"}} {
		if a.on {
			codes = append(codes, a.code)
		}
	}
	if color {
		switch s.Fg {
		case Default:
		case Gray:
			codes = append(codes, "90")
		case Red, Green, Yellow, Blue, Magenta, Cyan:
			codes = append(codes, strconv.Itoa(30+int(s.Fg)))
		}
	}
	return strings.Join(codes, ";")
}
