package jsonl

import (
	"bytes"
	"errors"
	"io"

	"github.com/dsh-harness/dsh/session"
)

// lines reads a file line by line, whatever their length, in blocks.
type lines struct {
	f     io.ReaderAt
	limit int64 // where the file ends, or what may be read of it does
	block int   // how much is read at a time
	reuse bool  // a line is valid only until the next call

	buf   []byte
	start int64 // where in the file buf begins
	at    int   // where in buf the next line begins
	skip  bool  // the line at hand is longer than any of ours: its beginning was dropped
}

// line is one line of a file.
type line struct {
	bytes []byte // without the line feed
	start int64  // where in the file it begins
	next  int64  // where the next one begins
	whole bool   // it ends in a line feed
	long  bool   // it is longer than any of ours; bytes are the end of it
}

// next returns the next line, or [io.EOF].
func (l *lines) next() (line, error) {
	begin := l.start + int64(l.at)
	for searched := l.at; ; {
		if i := bytes.IndexByte(l.buf[searched:], '\n'); i >= 0 {
			end := searched + i
			v := line{l.buf[l.at:end:end], begin, l.start + int64(end) + 1, true, l.skip}
			l.at, l.skip = end+1, false
			return v, nil
		}
		kept, more, err := l.fill()
		if err != nil {
			return line{}, err
		}
		if !more {
			break
		}
		searched = kept
	}
	if l.at == len(l.buf) && !l.skip {
		return line{}, io.EOF
	}
	v := line{l.buf[l.at:], begin, l.limit, false, l.skip}
	l.at, l.skip = len(l.buf), false
	return v, nil
}

// fill moves the unfinished line to the front of a buffer and reads behind it. It
// returns how much of that line it kept, and false at the end of the file.
func (l *lines) fill() (kept int, more bool, err error) {
	rest := l.buf[l.at:]
	from := l.start + int64(len(l.buf))
	n := min(int64(max(l.block, len(rest))), l.limit-from)
	if n <= 0 {
		return 0, false, nil
	}
	if len(rest) > session.MaxLine {
		rest, l.skip = nil, true
	}
	var next []byte
	if need := len(rest) + int(n); l.reuse && cap(l.buf) >= need {
		next = l.buf[:need]
	} else {
		next = make([]byte, need)
	}
	copy(next, rest)
	got, err := l.f.ReadAt(next[len(rest):], from)
	if errors.Is(err, io.EOF) {
		// Somebody shortened the file. What is gone does not count.
		l.limit, err = from+int64(got), nil
	}
	l.buf, l.start, l.at = next[:len(rest)+got], from-int64(len(rest)), 0
	return len(rest), got > 0, err
}
