package tui

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dsh-harness/dsh/internal/cells"
	"github.com/dsh-harness/dsh/internal/highlight"
)

func number(n int) string { return strconv.Itoa(n) }

func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return number(n) + " " + one + "s"
}

// elapsed writes a time for people.
func elapsed(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	}
	return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
}

// markdown turns an answer into lines as it comes. A line of the source is finished with its line feed, so each is looked at once, however long
// the answer is.
type markdown struct {
	rest  string // the line that is not finished
	fence string // the fence of the code that is open
	code  highlight.Lexer
	blank bool // the last line was blank, or there was none
	// going says that the beginning of the unfinished line was printed; what follows is indented by so many cells.
	going  bool
	indent int
}

// write takes more of the answer, and returns the lines that are finished.
func (m *markdown) write(text string, width int) []cells.Line {
	m.rest += text
	var all []cells.Line
	for {
		line, rest, ok := strings.Cut(m.rest, "\n")
		if !ok {
			return append(all, m.early(width)...)
		}
		m.rest = rest
		all = append(all, m.line(line, width)...)
	}
}

// early returns the rows of a long unfinished line that nothing can change any more, so that what is open stays short.
func (m *markdown) early(width int) []cells.Line {
	if m.fence != "" || len(m.rest) < 2*width || strings.ContainsAny(m.rest, "`*_[") {
		return nil
	}
	first := strings.TrimLeft(m.rest, " ")
	if !m.going && (first == "" || strings.ContainsAny(first[:1], "#>|~-+") || first[0] >= '0' && first[0] <= '9') {
		return nil // it may become something else than a paragraph
	}
	indent := m.indent
	if !m.going {
		indent = len(m.rest) - len(first)
	}
	rows := cells.Wrap(cells.Plain(strings.Repeat(" ", indent)+first), width, indent)
	if len(rows) < 3 {
		return nil
	}
	last := len(rows) - 1
	blank := strings.HasSuffix(m.rest, " ") // it may not have fitted
	m.rest = strings.Trim(rows[last].Text(), " ")
	if blank {
		m.rest += " "
	}
	m.going, m.indent, m.blank = true, min(indent, width/2), false
	return rows[:last]
}

// end finishes what is open.
func (m *markdown) end(width int) []cells.Line {
	rest := m.rest
	m.rest = ""
	var all []cells.Line
	if rest != "" {
		all = m.line(rest, width)
	}
	m.fence, m.going = "", false
	return all
}

// open is the line that is not finished, as it would look.
func (m *markdown) open(width int) []cells.Line {
	if m.rest == "" {
		return nil
	}
	now := *m
	return now.line(m.rest, width)
}

func (m *markdown) line(line string, width int) []cells.Line {
	line = strings.TrimRight(line, " \t\r")
	trimmed := strings.TrimLeft(line, " ")
	if m.going {
		m.going = false
		return cells.Wrap(append(cells.Plain(strings.Repeat(" ", m.indent)), inline(trimmed, cells.Style{})...), width, m.indent)
	}
	if m.fence != "" {
		m.blank = false
		if strings.HasPrefix(trimmed, m.fence) && strings.Trim(trimmed, m.fence[:1]) == "" {
			m.fence = ""
			return nil
		}
		code := cells.Plain("  ")
		for _, p := range m.code.Line(line) {
			code = code.Add(p.Text, codeStyle(p.Kind))
		}
		return cells.Wrap(code, width, 4)
	}
	if f := fenceOf(trimmed); f != "" {
		m.fence, m.code = f, highlight.New(strings.TrimLeft(trimmed, "`~"))
		return nil
	}
	if line == "" {
		if m.blank {
			return nil // one is enough
		}
		m.blank = true
		return []cells.Line{nil}
	}
	m.blank = false
	indent := len(line) - len(trimmed)
	switch {
	case strings.HasPrefix(trimmed, "#"):
		if text := strings.TrimLeft(trimmed, "#"); strings.HasPrefix(text, " ") {
			return cells.Wrap(inline(strings.TrimSpace(text), cells.Style{Bold: true}), width, 0)
		}
	case strings.HasPrefix(trimmed, "> "):
		return cells.Wrap(append(cells.Styled("| ", cells.Style{Dim: true}), inline(trimmed[2:], cells.Style{Italic: true})...), width, 2)
	case strings.HasPrefix(trimmed, "|"): // a table is wide as it is
		return cells.Wrap(inline(line, cells.Style{}), width, 0)
	case len(trimmed) >= 3 && strings.Trim(trimmed, "-") == "" || len(trimmed) >= 3 && strings.Trim(trimmed, "*_") == "":
		return []cells.Line{cells.Styled(strings.Repeat("-", min(width, 40)), cells.Style{Dim: true})}
	}
	if mark := listMark(trimmed); mark != "" {
		head := strings.Repeat(" ", indent) + mark
		return cells.Wrap(append(cells.Styled(head, cells.Style{Fg: cells.Cyan}), inline(trimmed[len(mark):], cells.Style{})...), width, len(head))
	}
	return cells.Wrap(append(cells.Plain(strings.Repeat(" ", indent)), inline(trimmed, cells.Style{})...), width, indent)
}

// codeStyle is how a piece of code looks.
func codeStyle(k highlight.Kind) cells.Style {
	switch k {
	case highlight.Comment:
		return cells.Style{Fg: cells.Gray}
	case highlight.String:
		return cells.Style{Fg: cells.Green}
	case highlight.Number:
		return cells.Style{Fg: cells.Yellow}
	case highlight.Keyword:
		return cells.Style{Fg: cells.Magenta}
	case highlight.Added:
		return cells.Style{Fg: cells.Green}
	case highlight.Removed:
		return cells.Style{Fg: cells.Red}
	case highlight.Plain:
	}
	return cells.Style{}
}

// fenceOf is the fence that a line opens.
func fenceOf(s string) string {
	for _, c := range []string{"`", "~"} {
		n := len(s) - len(strings.TrimLeft(s, c))
		if n >= 3 && (c == "~" || !strings.Contains(s[n:], "`")) {
			return s[:n]
		}
	}
	return ""
}

// listMark is the mark of a list item, with its blank.
func listMark(s string) string {
	if len(s) > 2 && strings.ContainsRune("-*+", rune(s[0])) && s[1] == ' ' {
		return s[:2]
	}
	digits := len(s) - len(strings.TrimLeft(s, "0123456789"))
	if digits > 0 && digits < 5 && len(s) > digits+1 && (s[digits] == '.' || s[digits] == ')') && s[digits+1] == ' ' {
		return s[:digits+2]
	}
	return ""
}

// inline styles the text of one line: code, strong, emphasis. What is not closed stays as it is written.
func inline(s string, base cells.Style) cells.Line {
	var l cells.Line
	for s != "" {
		i := strings.IndexAny(s, "`*_[")
		if i < 0 {
			break
		}
		if i > 0 && s[i] == '_' && wordly(rune(s[i-1])) { // an underscore within a word
			end := i + 1
			l, s = l.Add(s[:end], base), s[end:]
			continue
		}
		l, s = l.Add(s[:i], base), s[i:]
		text, style, n := styled(s, base)
		if n == 0 {
			l, s = l.Add(s[:1], base), s[1:]
			continue
		}
		l, s = l.Add(text, style), s[n:]
	}
	return l.Add(s, base)
}

// styled is the styled text at the start of s, and how much of s it takes.
func styled(s string, base cells.Style) (text string, style cells.Style, n int) {
	style = base
	switch {
	case s[0] == '`':
		ticks := len(s) - len(strings.TrimLeft(s, "`"))
		if end := strings.Index(s[ticks:], s[:ticks]); end > 0 {
			style.Fg = cells.Cyan
			return strings.Trim(s[ticks:ticks+end], " "), style, ticks + end + ticks
		}
	case s[0] == '[':
		if end := strings.Index(s, "]("); end > 0 {
			if shut := strings.IndexByte(s[end:], ')'); shut > 0 {
				style.Underline = true
				label, target := s[1:end], s[end+2:end+shut]
				style.Link = target
				if label != target {
					label += " (" + target + ")"
				}
				return label, style, end + shut + 1
			}
		}
	case strings.HasPrefix(s, "**"), strings.HasPrefix(s, "__"):
		if end := strings.Index(s[2:], s[:2]); end > 0 && s[2] != ' ' {
			style.Bold = true
			return s[2 : 2+end], style, end + 4
		}
	default:
		if end := strings.IndexByte(s[1:], s[0]); end > 0 && s[1] != ' ' && s[end] != ' ' {
			style.Italic = true
			return s[1 : 1+end], style, end + 2
		}
	}
	return "", style, 0
}
