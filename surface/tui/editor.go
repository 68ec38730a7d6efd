package tui

import (
	"strings"
	"unicode"

	"github.com/clipperhouse/displaywidth"

	"github.com/dsh-harness/dsh/internal/cells"
)

// editor is the prompt that is being written: text of several lines, and a cursor between two characters.
type editor struct {
	text   string
	at     int    // the cursor, in bytes
	killed string // what was cut last
	pastes []paste
}

// paste is a long text that was pasted; mark stands for it in the prompt.
type paste struct{ mark, text string }

func (e *editor) set(text string) { e.text, e.at, e.pastes = text, len(text), nil }

func (e *editor) insert(s string) {
	e.text = e.text[:e.at] + s + e.text[e.at:]
	e.at += len(s)
}

// before and after are the ends of the characters beside the cursor.
func (e *editor) before() int {
	last := 0
	at := 0
	for g := displaywidth.StringGraphemes(e.text[:e.at]); g.Next(); {
		last = at
		at += len(g.Value())
	}
	return last
}

func (e *editor) after() int {
	g := displaywidth.StringGraphemes(e.text[e.at:])
	if g.Next() {
		return e.at + len(g.Value())
	}
	return e.at
}

// wordBefore and wordAfter are the ends of the words beside the cursor.
func (e *editor) wordBefore() int {
	head := strings.TrimRightFunc(e.text[:e.at], func(r rune) bool { return !wordly(r) })
	return len(strings.TrimRightFunc(head, wordly))
}

func (e *editor) wordAfter() int {
	tail := strings.TrimLeftFunc(e.text[e.at:], func(r rune) bool { return !wordly(r) })
	return len(e.text) - len(strings.TrimLeftFunc(tail, wordly))
}

func wordly(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) || r == '_'
}

func (e *editor) lineStart() int { return strings.LastIndexByte(e.text[:e.at], '\n') + 1 }

func (e *editor) lineEnd() int {
	if i := strings.IndexByte(e.text[e.at:], '\n'); i >= 0 {
		return e.at + i
	}
	return len(e.text)
}

// cut removes what is between the cursor and to, and keeps it to be put back.
func (e *editor) cut(to int) {
	from := min(e.at, to)
	to = max(e.at, to)
	e.killed = e.text[from:to]
	e.text = e.text[:from] + e.text[to:]
	e.at = from
}

// vertical moves by lines, and reports false at the first or the last.
func (e *editor) vertical(by int) bool {
	column := cells.Width(e.text[e.lineStart():e.at])
	switch start, end := e.lineStart(), e.lineEnd(); {
	case by < 0 && start > 0:
		e.at = start - 1
		e.at = e.lineStart()
	case by > 0 && end < len(e.text):
		e.at = end + 1
	default:
		return false
	}
	for e.at < e.lineEnd() && cells.Width(e.text[e.lineStart():e.after()]) <= column {
		e.at = e.after()
	}
	return true
}

// foldAbove is up to how many lines and bytes a pasted text is shown whole.
const (
	foldLines = 8
	foldBytes = 1500
)

// put inserts pasted text. Nothing of it is a key, so line feeds send nothing; a long one is shown as a mark, and sent whole.
func (e *editor) put(text string) {
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	lines := strings.Count(text, "\n") + 1
	if lines <= foldLines && len(text) <= foldBytes {
		e.insert(text)
		return
	}
	mark := "[pasted " + plural(lines, "line") + " #" + number(len(e.pastes)+1) + "]"
	e.pastes = append(e.pastes, paste{mark, text})
	e.insert(mark)
}

// whole is the prompt as it is sent.
func (e *editor) whole() string {
	text := e.text
	for _, p := range e.pastes {
		text = strings.Replace(text, p.mark, p.text, 1)
	}
	return text
}

// lines draws the prompt at a width, at most so many lines around the cursor, and says where the cursor is.
func (e *editor) lines(width, most int, mark string) (all []cells.Line, row, column int) {
	indent := cells.Width(mark)
	at := 0
	for i, line := range strings.Split(e.text, "\n") {
		head := mark
		if i > 0 {
			head = strings.Repeat(" ", indent)
		}
		now := cells.Line{{Text: head, Style: cells.Style{Fg: cells.Cyan, Bold: true}}}
		used := indent
		if e.at == at {
			row, column = len(all), used
		}
		for g := displaywidth.StringGraphemes(line); g.Next(); {
			piece := cells.Plain(g.Value())
			w := piece.Width()
			if used+w > width-1 {
				all = append(all, now)
				now, used = cells.Line{{Text: strings.Repeat(" ", indent)}}, indent
				if e.at == at {
					row, column = len(all), used
				}
			}
			now = append(now, piece...)
			used += w
			at += len(g.Value())
			if e.at == at {
				row, column = len(all), used
			}
		}
		all = append(all, now)
		at++ // the line feed
	}
	if len(all) > most {
		from := min(max(row-most/2, 0), len(all)-most)
		all, row = all[from:from+most], row-from
	}
	return all, row, column
}
