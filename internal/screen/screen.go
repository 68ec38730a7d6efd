// Package screen draws on a terminal that keeps its own history: what is finished is printed once and scrolls away, and below it stands a region that
// is drawn anew, of which only the lines that changed are written. Nothing is drawn by itself: there is no clock.
//
// A [Screen] is used by one goroutine.
package screen

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"github.com/dsh-harness/dsh/internal/cells"
)

// Control sequences; see xterm's ctlseqs, and for the last the terminal-wg specification of synchronized output.
const (
	clearLine  = "\x1b[K"
	clearBelow = "\x1b[J"
	hideCursor = "\x1b[?25l"
	showCursor = "\x1b[?25h"
	beginFrame = "\x1b[?2026h"
	endFrame   = "\x1b[?2026l"
	// modesOn asks for bracketed paste, reports of the focus, and keys that can be told apart; modesOff takes that back.
	modesOn  = "\x1b[?2004h\x1b[?1004h\x1b[>1u"
	modesOff = "\x1b[<u\x1b[?1004l\x1b[?2004l"
	// otherScreen is the terminal's second one, without history; firstScreen goes back.
	otherScreen = "\x1b[?1049h\x1b[H\x1b[2J"
	firstScreen = "\x1b[?1049l"
	clearAll    = "\x1b[H\x1b[2J"
)

// Options of a [Screen].
type Options struct {
	Width, Height int // of the terminal, in cells
	Color         bool
	// Full draws on the terminal's other screen, all of it: what is finished stands above the region, can be scrolled, and is gone with the screen.
	Full bool
}

// Position is where the cursor stands in the region: both from 0.
type Position struct{ Row, Column int }

// Screen draws.
type Screen struct {
	w   io.Writer
	o   Options
	out bytes.Buffer
	err error

	region []drawn // what stands on the terminal
	row    int     // of the cursor, in the region
	column int
	hidden bool

	history []cells.Line // what was finished, of a full screen
	back    int          // how many rows it is scrolled back
}

// maxHistory bounds the lines that a full screen keeps.
const maxHistory = 20_000

// drawn is a line of the region as it was written.
type drawn struct {
	text  string
	cells int
}

// New begins to draw where the cursor is, which must be at the start of a line.
func New(w io.Writer, o Options) *Screen {
	s := &Screen{w: w, o: o}
	if o.Full {
		s.out.WriteString(otherScreen)
	}
	s.out.WriteString(modesOn) // with the first frame
	return s
}

// Width is that of the terminal.
func (s *Screen) Width() int { return s.o.Width }

// Height is that of the terminal.
func (s *Screen) Height() int { return s.o.Height }

// Draw prints the finished lines above the region, for good, and makes region what stands below them. Lines that do not fit the width are cut, and of
// a region that does not fit the height the end is shown. cursor is where it stands; nil hides it.
func (s *Screen) Draw(finished, region []cells.Line, cursor *Position) error {
	most := max(s.o.Height-1, 1)
	if over := len(region) - most; over > 0 {
		region = region[over:]
		if cursor != nil {
			cursor = &Position{max(cursor.Row-over, 0), cursor.Column}
		}
	}
	if len(region) == 0 {
		region = []cells.Line{nil}
	}
	if s.o.Full {
		s.keep(finished)
		finished = nil
		above := s.above(s.o.Height - len(region))
		if cursor != nil {
			cursor = &Position{cursor.Row + len(above), cursor.Column}
		}
		region = append(above, region...)
	}
	next := make([]drawn, len(region))
	for i, l := range region {
		l = l.Fit(s.o.Width)
		next[i] = drawn{l.ANSI(s.o.Color), l.Width()}
	}
	s.out.WriteString(beginFrame)
	if !s.hidden {
		s.out.WriteString(hideCursor)
	}
	s.hidden = true
	if len(finished) > 0 {
		s.move(0)
		for _, l := range finished {
			for _, part := range cells.Wrap(l, s.o.Width, 0) {
				s.out.WriteString(clearLine + part.ANSI(s.o.Color) + "\r\n")
			}
		}
		// The region begins anew below them. What stood there is written over, line by line, so nothing flickers.
		s.region = s.region[:0]
		s.row = 0
		s.out.WriteString(clearBelow)
	}
	for i, l := range next {
		if i < len(s.region) && s.region[i] == l {
			continue
		}
		s.move(i)
		s.out.WriteString(l.text)
		if l.cells < s.o.Width {
			s.out.WriteString(clearLine)
		}
	}
	if len(s.region) > len(next) {
		s.move(len(next) - 1)
		// From the next line on: clearing from here would take this line with it.
		s.out.WriteString("\x1b[B\r" + clearBelow + "\x1b[A")
	}
	s.region = next
	if cursor != nil {
		s.move(min(cursor.Row, len(next)-1))
		s.column = min(cursor.Column, s.o.Width-1)
		if s.column > 0 {
			fmt.Fprintf(&s.out, "\x1b[%dC", s.column)
		}
		s.out.WriteString(showCursor)
		s.hidden = false
	}
	s.out.WriteString(endFrame)
	return s.flush()
}

// keep adds finished lines to a full screen. Who has scrolled back goes on seeing the same.
func (s *Screen) keep(finished []cells.Line) {
	if s.back > 0 {
		for _, l := range finished {
			s.back += len(cells.Wrap(l, s.o.Width, 0))
		}
	}
	if s.history = append(s.history, finished...); len(s.history) > maxHistory {
		s.history = append([]cells.Line(nil), s.history[len(s.history)-maxHistory/2:]...)
	}
}

// above returns so many rows of what is finished, the last ones, or those that are scrolled back to.
func (s *Screen) above(room int) []cells.Line {
	if room <= 0 {
		return nil
	}
	var rows []cells.Line // the last one first
	for i := len(s.history) - 1; i >= 0 && len(rows) < room+s.back; i-- {
		parts := cells.Wrap(s.history[i], s.o.Width, 0)
		for n := len(parts) - 1; n >= 0; n-- {
			rows = append(rows, parts[n])
		}
	}
	s.back = max(min(s.back, len(rows)-room), 0)
	rows = rows[s.back:min(s.back+room, len(rows))]
	slices.Reverse(rows)
	return rows
}

// Scroll moves what is above the region of a full screen by so many rows, back when by is above 0. The next [Screen.Draw] shows it.
func (s *Screen) Scroll(by int) { s.back = max(s.back+by, 0) }

// move goes to the start of a line of the region, which is made if it is the next one.
func (s *Screen) move(row int) {
	s.out.WriteByte('\r')
	switch {
	case row < s.row:
		fmt.Fprintf(&s.out, "\x1b[%dA", s.row-row)
	case row > s.row:
		// A line feed scrolls at the bottom, where moving down would not.
		for range row - s.row {
			s.out.WriteByte('\n')
		}
	}
	s.row, s.column = row, 0
}

// Resize tells the new size of the terminal. The region is cleared, and drawn by the next [Screen.Draw]; what was printed is left alone: the terminal has
// broken its lines anew, or cut them, as it does with everything. Terminals that break lines anew do so with those of the region, too, so it takes more rows than it
// has lines when the terminal has become narrower.
func (s *Screen) Resize(width, height int) error {
	rows := 0
	for i := range min(s.row, len(s.region)) {
		rows += rowsOf(s.region[i].cells, width)
	}
	rows += s.column / max(width, 1)
	s.o.Width, s.o.Height = max(width, 1), max(height, 1)
	if s.o.Full {
		s.out.WriteString(clearAll)
		s.region, s.row, s.column = nil, 0, 0
		return s.flush()
	}
	s.out.WriteString(beginFrame + "\r")
	if up := min(rows, height-1); up > 0 {
		fmt.Fprintf(&s.out, "\x1b[%dA", up)
	}
	s.out.WriteString(clearBelow + endFrame)
	s.region, s.row, s.column = nil, 0, 0
	return s.flush()
}

// rowsOf is how many rows a line takes in a terminal of that width.
func rowsOf(n, width int) int { return max(1, (n+width-1)/max(width, 1)) }

// Write sends a control sequence of the caller, such as a title, outside of any frame.
func (s *Screen) Write(sequence string) error {
	s.out.WriteString(sequence)
	return s.flush()
}

// Leave clears the region and gives the terminal back as it was found; what was printed stays. After [Screen.Return] it can be drawn again.
func (s *Screen) Leave() error {
	s.move(0)
	s.out.WriteString(clearBelow + modesOff + showCursor)
	if s.o.Full {
		s.out.WriteString(firstScreen)
	}
	s.region, s.hidden = nil, false
	return s.flush()
}

// Return begins anew after [Screen.Leave], where the cursor is.
func (s *Screen) Return() error {
	s.row, s.column = 0, 0
	s.out.WriteByte('\r')
	if s.o.Full {
		s.out.WriteString(otherScreen)
	}
	s.out.WriteString(modesOn)
	return s.flush()
}

// flush writes what was drawn, in one piece.
func (s *Screen) flush() error {
	if s.err == nil && s.out.Len() > 0 {
		if _, err := s.w.Write(s.out.Bytes()); err != nil {
			s.err = fmt.Errorf("write to the terminal: %w", err)
		}
	}
	s.out.Reset()
	return s.err
}
