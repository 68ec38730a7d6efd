// Package sse reads server-sent events, the framing in which model providers
// stream their answers. How the bytes are cut into reads makes no difference to
// the events. A [Reader] belongs to one goroutine.
//
// It follows the event stream format of the HTML standard: lines end in CR, LF or
// both; the data lines of one event are joined with a line feed; comments, unknown
// fields and events without data are skipped; an event that its blank line
// does not end is dropped. The fields id and retry are read and dropped as well:
// they serve to reconnect, and nobody can reconnect to a model's answer.
package sse

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// MaxEvent is the size in bytes of the longest event, and of the longest line.
const MaxEvent = 16 << 20

// ErrTooLarge is what [Reader.Next] returns for an event above [MaxEvent].
var ErrTooLarge = errors.New("event is too large")

const (
	firstBuffer  = 4 << 10 // sources are buffered, and most answers are short
	mostEmpty    = 100     // reads in a row that bring nothing
	byteOrderTag = "\xef\xbb\xbf"
)

// Event is one server-sent event.
type Event struct {
	Name []byte // of the field event, usually empty
	Data []byte // the data lines, joined with a line feed
}

// Reader reads events. It allocates only while an event is longer than all before.
type Reader struct {
	src  io.Reader
	max  int
	err  error  // what src ended with
	buf  []byte // buf[from:to] has not been read
	from int
	to   int

	begun  bool // the byte order mark is behind
	skipLF bool // the last line ended in CR: a LF that follows belongs to it
	name   []byte
	data   []byte
}

// NewReader returns a reader of the events in src.
func NewReader(src io.Reader) *Reader {
	return &Reader{src: src, max: MaxEvent, buf: make([]byte, firstBuffer)}
}

// Next returns the next event. It is valid until the call after this one. At the
// end of the stream the error is [io.EOF], or whatever the source ended with;
// every complete event is returned before it. After an error Next returns it again.
func (r *Reader) Next() (Event, error) {
	r.name, r.data = r.name[:0], r.data[:0]
	hasData := false
	for {
		line, err := r.line()
		if err != nil {
			return Event{}, err
		}
		if len(line) == 0 {
			if len(r.data) > 0 {
				return Event{Name: r.name, Data: r.data}, nil
			}
			r.name, hasData = r.name[:0], false
			continue
		}
		field, value, _ := bytes.Cut(line, []byte{':'})
		if len(value) > 0 && value[0] == ' ' {
			value = value[1:]
		}
		switch string(field) { // "" is a comment
		case "data":
			if len(r.data)+len(value) >= r.max {
				return Event{}, r.tooLarge()
			}
			if hasData {
				r.data = append(r.data, '\n')
			}
			r.data, hasData = append(r.data, value...), true
		case "event":
			r.name = append(r.name[:0], value...)
		}
	}
}

func (r *Reader) tooLarge() error {
	r.err, r.from, r.to = fmt.Errorf("%w: more than %d bytes", ErrTooLarge, r.max), 0, 0
	return r.err
}

// line returns the next line without its end.
func (r *Reader) line() ([]byte, error) {
	if !r.begun {
		r.skipByteOrderMark()
	}
	for seen := 0; ; {
		if r.skipLF && r.from < r.to {
			r.skipLF = false
			if r.buf[r.from] == '\n' {
				r.from++
			}
		}
		rest := r.buf[r.from:r.to]
		end := bytes.IndexByte(rest[seen:], '\n')
		fresh := rest[seen:]
		if end >= 0 {
			fresh = fresh[:end]
		}
		if cr := bytes.IndexByte(fresh, '\r'); cr >= 0 {
			end, r.skipLF = cr, true
		}
		if end >= 0 {
			end += seen
			r.from += end + 1
			return rest[:end], nil
		}
		if seen = len(rest); seen > r.max {
			return nil, r.tooLarge()
		}
		if !r.fill() {
			return nil, r.err
		}
	}
}

func (r *Reader) skipByteOrderMark() {
	r.begun = true
	for {
		n := min(r.to-r.from, len(byteOrderTag))
		if string(r.buf[r.from:r.from+n]) != byteOrderTag[:n] {
			return
		}
		if n == len(byteOrderTag) {
			r.from += n
			return
		}
		if !r.fill() {
			return
		}
	}
}

// fill reads more, and reports false when there is none.
func (r *Reader) fill() bool {
	if r.from > 0 {
		r.to = copy(r.buf, r.buf[r.from:r.to])
		r.from = 0
	}
	if r.to == len(r.buf) {
		grown := make([]byte, 2*len(r.buf))
		copy(grown, r.buf)
		r.buf = grown
	}
	for range mostEmpty {
		if r.err != nil {
			return false
		}
		n, err := r.src.Read(r.buf[r.to:])
		r.err = err
		if r.to += n; n > 0 {
			return true
		}
	}
	if r.err == nil {
		r.err = io.ErrNoProgress
	}
	return false
}
