package jsonrpc

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Stream carries whole messages. Read is called by one goroutine at a time, Write by another, Close by any.
type Stream interface {
	// Read returns the next message, which is valid until the next Read. At the end it fails with
	// [io.EOF]; after a [*TooLargeError] the next message can be read.
	Read() ([]byte, error)
	// Write sends one message, which nobody changes any more.
	Write(message []byte) error
	// Close ends the stream, and a Read or Write that waits.
	Close() error
}

// MaxMessage is the longest message that is read by default, in bytes: a log line and its envelope.
const MaxMessage = 32 << 20

// TooLargeError says that a message was longer than the stream takes. It was skipped.
type TooLargeError struct{ Max int } // bytes

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("a message has more than %d bytes", e.Max)
}

// Lines is a stream with one message a line. max bounds a line in bytes, 0 is [MaxMessage]. shut ends both
// directions, and may be nil.
func Lines(r io.Reader, w io.Writer, shut func() error, max int) Stream {
	if max <= 0 {
		max = MaxMessage
	}
	return &lines{r: bufio.NewReaderSize(r, 4<<10), w: w, shut: shut, max: max}
}

type lines struct {
	r    *bufio.Reader
	w    io.Writer
	shut func() error
	max  int
	long []byte // a line that did not fit into r's buffer
	out  []byte
}

func (l *lines) Read() ([]byte, error) {
	for {
		line, err := l.line()
		if err != nil {
			return nil, err
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return line, nil
		}
	}
}

func (l *lines) line() ([]byte, error) {
	if cap(l.long) > 1<<20 {
		l.long = nil // one long message is no reason to keep its memory
	}
	l.long = l.long[:0]
	tooLarge := false
	for {
		part, err := l.r.ReadSlice('\n')
		whole := err == nil
		switch {
		case whole, errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && (len(part) > 0 || len(l.long) > 0):
			whole = true // a last line without its end
		default:
			return nil, err
		}
		if len(l.long)+len(part) > l.max {
			tooLarge = true
			l.long = l.long[:0]
		}
		switch {
		case whole && tooLarge:
			return nil, &TooLargeError{l.max}
		case whole && len(l.long) == 0:
			return part, nil
		}
		if !tooLarge {
			l.long = append(l.long, part...)
		}
		if whole {
			return l.long, nil
		}
	}
}

func (l *lines) Write(m []byte) error {
	l.out = append(append(l.out[:0], m...), '\n')
	_, err := l.w.Write(l.out)
	if cap(l.out) > 1<<20 {
		l.out = nil
	}
	return err
}

func (l *lines) Close() error {
	if l.shut == nil {
		return nil
	}
	return l.shut()
}

// pipeDepth is how many messages an end of a [Pipe] can be ahead of the other.
const pipeDepth = 16

// Pipe returns the two ends of a connection in memory. When one end is closed the other reads what is left, then
// [io.EOF].
func Pipe() (a, b Stream) {
	there, back := make(chan []byte, pipeDepth), make(chan []byte, pipeDepth)
	gone := [2]chan struct{}{make(chan struct{}), make(chan struct{})}
	return &pipe{in: back, out: there, gone: gone[0], other: gone[1]}, &pipe{in: there, out: back, gone: gone[1], other: gone[0]}
}

type pipe struct {
	in, out     chan []byte
	gone, other chan struct{}
	once        sync.Once
}

func (p *pipe) Read() ([]byte, error) {
	select {
	case m := <-p.in:
		return m, nil
	default:
	}
	select {
	case m := <-p.in:
		return m, nil
	case <-p.gone:
		return nil, io.EOF
	case <-p.other:
		select { // what was sent before the end
		case m := <-p.in:
			return m, nil
		default:
			return nil, io.EOF
		}
	}
}

func (p *pipe) Write(m []byte) error {
	select {
	case <-p.other:
		return io.ErrClosedPipe
	case <-p.gone:
		return io.ErrClosedPipe
	default:
	}
	select {
	case p.out <- m:
		return nil
	case <-p.other:
		return io.ErrClosedPipe
	case <-p.gone:
		return io.ErrClosedPipe
	}
}

func (p *pipe) Close() error {
	p.once.Do(func() { close(p.gone) })
	return nil
}
