package config

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/dsh-harness/dsh/internal/nearest"
)

// Position is a place in a configuration source.
type Position struct {
	File   string // the path, or the name of a source that is no file
	Line   int    // from 1; 0 means the source as a whole
	Column int    // from 1, counted in characters
}

// String returns the position as file:line:column.
func (p Position) String() string {
	file := p.File
	if strings.ContainsFunc(file, func(r rune) bool { return !unicode.IsPrint(r) }) {
		file = fmt.Sprintf("%q", file) // a file name must not control the terminal
	}
	if p.Line == 0 {
		return file
	}
	return fmt.Sprintf("%s:%d:%d", file, p.Line, p.Column)
}

// Error is one thing that is wrong with the configuration.
type Error struct {
	At     Position
	Detail string // what is wrong, what was expected and what to do, on one line
	Cause  error  // nil unless another error is behind it; Detail says it already
}

// Error returns the position and the detail.
func (e *Error) Error() string { return e.At.String() + ": " + e.Detail }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Errors are the things that are wrong with the configuration, at most 51, in the order in
// which they were found: by layer and line, or by row. It is never empty.
type Errors []*Error

// Error returns each error on a line of its own.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, one := range e {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the errors one by one.
func (e Errors) Unwrap() []error {
	all := make([]error, len(e))
	for i, one := range e {
		all[i] = one
	}
	return all
}

// maxErrors bounds what one broken file can print.
const maxErrors = 50

// problems collects errors, so that one run shows all that is wrong.
type problems struct{ list Errors }

func (p *problems) add(at Position, format string, args ...any) {
	p.addCause(at, nil, format, args...)
}

func (p *problems) addCause(at Position, cause error, format string, args ...any) {
	switch {
	case len(p.list) < maxErrors:
		p.list = append(p.list, &Error{at, oneLine(fmt.Sprintf(format, args...)), cause})
	case len(p.list) == maxErrors:
		p.list = append(p.list, &Error{At: at, Detail: "more is wrong from here on: mend the above first"})
	}
}

func (p *problems) err() error {
	if len(p.list) == 0 {
		return nil // not p.list: an interface that holds an empty Errors is not nil
	}
	return p.list
}

// oneLine also strips control characters, which a cause that we did not write may carry.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, s)
}

// quote is %q for text of unknown length.
func quote(s string) string {
	const most = 60
	if r := []rune(s); len(r) > most {
		return fmt.Sprintf("%q…", string(r[:most]))
	}
	return fmt.Sprintf("%q", s)
}

// suggest ends an error about an unknown name: with the name that was probably meant, else with
// all there are.
func suggest(word string, known []string) string {
	if name := nearest.Name(word, known); name != "" {
		return fmt.Sprintf("; did you mean %q?", name)
	}
	const most = 12
	switch {
	case len(known) == 0:
		return ""
	case len(known) > most:
		return fmt.Sprintf("; known are %s and %d more", strings.Join(known[:most], ", "), len(known)-most)
	default:
		return "; known are " + strings.Join(known, ", ")
	}
}
