package shell

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"
)

// cleaner turns what programs write for a terminal into plain text as it comes, however it
// is cut: escape sequences and control characters go, what a carriage return or a
// backspace overwrites goes, and bytes that are no UTF-8 become U+FFFD. A line that is
// longer than maxPending is passed on before its end and cannot be overwritten any more.
type cleaner struct {
	out   []byte // text that was not taken yet
	line  int    // where in out the current line begins
	back  bool   // a carriage return came: what follows overwrites the line
	state state
	param []byte // of the control sequence that is being read
	rest  []byte // the beginning of a character whose end did not come yet
	taken []byte // what take returned last, to be used again
}

// state is where in an escape sequence the cleaner is.
type state int

const (
	ground  state = iota
	escape        // after ESC
	charset       // after ESC and an intermediate byte: one more byte follows
	control       // in a control sequence, to its letter
	str           // in a string, e.g. a title, to BEL or ST
	strEnd        // after ESC in a string
)

const (
	maxPending = 16 << 10
	// maxParam is more than any control sequence has; what is longer is none.
	maxParam = 64
)

func (c *cleaner) write(p []byte) {
	if len(c.rest) > 0 {
		p = append(c.rest, p...)
		c.rest = nil
	}
	for len(p) > 0 {
		if c.state == ground {
			if n := plain(p); n > 0 {
				c.text(p[:n])
				p = p[n:]
				continue
			}
		}
		if p[0] < utf8.RuneSelf {
			c.byte(rune(p[0]))
			p = p[1:]
			continue
		}
		if !utf8.FullRune(p) {
			c.rest = slices.Clone(p)
			return
		}
		r, size := utf8.DecodeRune(p)
		c.byte(r)
		p = p[size:]
	}
}

// plain returns how many bytes at the beginning of p are just text.
func plain(p []byte) int {
	for i, b := range p {
		if (b < ' ' || b > '~') && b != '\n' && b != '\t' {
			return i
		}
	}
	return len(p)
}

// text takes printable ASCII, tabs and line feeds.
func (c *cleaner) text(p []byte) {
	if c.back {
		c.back = false
		if p[0] != '\n' { // CR LF is the end of a line
			c.out = c.out[:c.line]
		}
	}
	start := len(c.out)
	c.out = append(c.out, p...)
	if i := bytes.LastIndexByte(p, '\n'); i >= 0 {
		c.line = start + i + 1
	}
}

// byte takes one character that is not plain text, or is within an escape sequence.
func (c *cleaner) byte(r rune) {
	switch c.state {
	case ground:
		c.ground(r)
	case escape:
		c.escape(r)
	case charset:
		c.state = ground
		if r < ' ' {
			c.ground(r)
		}
	case control:
		c.control(r)
	case str:
		switch r {
		case '\a', 0x9c, 0x18, 0x1a:
			c.state = ground
		case 0x1b:
			c.state = strEnd
		case '\n': // nobody ended it: the rest of the output is not its content
			c.state = ground
			c.ground(r)
		}
	case strEnd:
		c.state = ground
		if r != '\\' {
			c.escape(r)
		}
	}
}

func (c *cleaner) escape(r rune) {
	switch {
	case r == '[':
		c.state, c.param = control, c.param[:0]
	case strings.ContainsRune("]PX^_", r):
		c.state = str
	case r >= 0x20 && r <= 0x2f:
		c.state = charset
	case r < ' ':
		c.state = ground
		c.ground(r)
	default:
		c.state = ground
	}
}

func (c *cleaner) control(r rune) {
	switch {
	case r >= 0x20 && r <= 0x3f && len(c.param) < maxParam:
		c.param = append(c.param, byte(r))
	case r >= 0x40 && r <= 0x7e:
		c.state = ground
		switch param := string(c.param); {
		case r == 'K' && param == "2": // erase the line
			c.out = c.out[:c.line]
		case r == 'G' && (param == "" || param == "1"): // to the line's beginning
			c.back = true
		}
	default:
		c.state = ground
		c.byte(r)
	}
}

func (c *cleaner) ground(r rune) {
	switch {
	case r == 0x1b:
		c.state = escape
	case r == 0x9b:
		c.state, c.param = control, c.param[:0]
	case r == 0x90 || r == 0x98 || r == 0x9d || r == 0x9e || r == 0x9f:
		c.state = str
	case r == '\r':
		c.back = true
	case r == '\n' || r == '\t' || r >= ' ' && r <= '~':
		c.text([]byte{byte(r)})
	case r == '\b':
		if _, size := utf8.DecodeLastRune(c.out[c.line:]); size > 0 && !c.back {
			c.out = c.out[:len(c.out)-size]
		}
	case r >= 0xa0:
		if c.back {
			c.back = false
			c.out = c.out[:c.line]
		}
		c.out = utf8.AppendRune(c.out, r)
	}
}

// take returns the text that is finished. It is valid until the next call of a method.
func (c *cleaner) take() []byte {
	n := c.line
	if len(c.out)-n > maxPending {
		n = len(c.out)
	}
	taken := c.out[:n]
	c.out, c.line = append(c.taken[:0], c.out[n:]...), 0
	c.taken = taken
	return taken
}

// close returns what was not finished.
func (c *cleaner) close() []byte {
	if len(c.rest) > 0 {
		c.rest = nil
		c.ground(utf8.RuneError)
	}
	return c.out
}
