package shell

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"unicode/utf8"

	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/tool"
)

// ends keeps the beginning and the end of a text of any length.
type ends struct {
	headMax, tailMax int

	head, tail []byte
	total      int64
}

func (e *ends) write(p []byte) {
	e.total += int64(len(p))
	if n := min(e.headMax-len(e.head), len(p)); n > 0 {
		e.head = append(e.head, p[:n]...)
		p = p[n:]
	}
	if len(p) > 2*e.tailMax {
		p = p[len(p)-2*e.tailMax:]
	}
	e.tail = append(e.tail, p...)
	if len(e.tail) > 2*e.tailMax {
		e.tail = append(e.tail[:0], e.tail[len(e.tail)-e.tailMax:]...)
	}
}

func (e *ends) cut() bool { return e.total > int64(e.headMax+e.tailMax) }

// text returns all of it, or both ends with a notice between them. The ends are whole
// lines where lines are not too long, and whole characters in any case.
func (e *ends) text(notice func(left int64) string) string {
	if !e.cut() {
		return string(e.head) + string(e.tail)
	}
	head, tail := e.head, e.tail[len(e.tail)-e.tailMax:]
	if i := bytes.LastIndexByte(head, '\n'); i > len(head)/2 {
		head = head[:i+1]
	}
	for i := len(head) - 1; i >= 0 && i > len(head)-utf8.UTFMax; i-- {
		if utf8.RuneStart(head[i]) {
			if !utf8.FullRune(head[i:]) {
				head = head[:i]
			}
			break
		}
	}
	if i := bytes.IndexByte(tail, '\n'); i >= 0 && i < len(tail)/2 {
		tail = tail[i+1:]
	}
	for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
	}
	left := e.total - int64(len(head)+len(tail))
	return fmt.Sprintf("%s\n[… %s …]\n\n%s", endLine(head), notice(left), tail)
}

func endLine(p []byte) []byte {
	if len(p) > 0 && p[len(p)-1] != '\n' {
		return append(p, '\n')
	}
	return p
}

// spillAfter is up to how many bytes of raw output are held before there is a file.
const spillAfter = 64 << 10

// spill keeps raw output as it came, up to limit bytes, in a file that is only made when
// there is much of it. Failing to keep it does not fail the command.
type spill struct {
	call     *tool.Call
	limit    int64
	redactor policy.Redactor // may be nil

	held    []byte
	file    *os.File
	to      io.WriteCloser // the file, behind the redactor
	written int64
	err     error
}

func (s *spill) write(p []byte) {
	if s.err != nil || s.written >= s.limit {
		return
	}
	if s.file == nil {
		if len(s.held)+len(p) <= spillAfter {
			s.held = append(s.held, p...)
			return
		}
		s.open()
		p = append(s.held, p...)
		s.held = nil
	}
	if s.err != nil {
		return
	}
	n, err := s.to.Write(p[:min(int64(len(p)), s.limit-s.written)])
	s.written += int64(n)
	s.err = err
}

func (s *spill) open() {
	dir := ""
	if s.call.Session != nil {
		dir = s.call.Session.Dir()
	}
	if dir != "" {
		dir = filepath.Join(dir, "spill")
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			s.err = err
			return
		}
	} else {
		dir = s.call.Workspace.Temp()
	}
	s.file, s.err = os.CreateTemp(dir, s.call.ID+"-bash-*.txt") // for the user alone
	s.to = s.file
	if s.err == nil && s.redactor != nil {
		s.to = redacting{s.redactor.Writer(s.file), s.file}
	}
}

// redacting closes the file behind a redactor, too.
type redacting struct {
	io.WriteCloser
	file *os.File
}

func (r redacting) Close() error { return errors.Join(r.WriteCloser.Close(), r.file.Close()) }

// close returns the file's path, or "" and why there is none. What is not needed goes.
func (s *spill) close(needed bool) (path string, err error) {
	if needed && s.file == nil && s.err == nil && s.limit > 0 {
		s.open()
		if s.err == nil {
			_, s.err = s.to.Write(s.held[:min(int64(len(s.held)), s.limit)])
		}
	}
	if s.file == nil {
		return "", s.err
	}
	s.err = errors.Join(s.err, s.to.Close())
	if !needed || s.err != nil {
		return "", errors.Join(s.err, os.Remove(s.file.Name()))
	}
	return s.file.Name(), nil
}

// output takes what a command writes, in one goroutine at a time.
type output struct {
	cleaner cleaner
	ends    ends
	spill   spill
	live    live
	bytes   int64
}

func (o *output) write(p []byte) {
	o.bytes += int64(len(p))
	o.spill.write(p)
	o.cleaner.write(p)
	text := o.cleaner.take()
	o.ends.write(text)
	o.live.write(text)
}

// close returns what the model gets of it, which ends a line, and the file with all of
// it when that was needed.
func (o *output) close() (text, file string) {
	rest := o.cleaner.close()
	o.ends.write(rest)
	o.live.write(rest)
	o.live.close()
	file, err := o.spill.close(o.ends.cut())
	text = o.ends.text(func(left int64) string {
		where := "the raw output is in " + file
		switch {
		case err != nil:
			where = fmt.Sprintf("it could not be kept: %v", err)
		case file == "":
			where = "it was not kept"
		case o.bytes > o.spill.limit:
			where = fmt.Sprintf("the first %d bytes of raw output are in %s", o.spill.limit, file)
		}
		return fmt.Sprintf("%d bytes are left out here; %s", left, where)
	})
	switch {
	case text == "":
		text = "(no output)\n"
	case text[len(text)-1] != '\n':
		text += "\n"
	}
	return text, file
}
