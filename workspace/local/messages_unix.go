//go:build unix

package local

import (
	"bytes"
	"path/filepath"
	"strings"
)

// messages gathers from what a command writes the lines which say that a file could not be
// written. It keeps little: what is too much is not understood anyway.
type messages struct {
	line  []byte
	lines []string
}

const (
	maxMessage  = 1000 // bytes of a line
	maxMessages = 20
)

func (m *messages) write(p []byte) {
	for len(p) > 0 && len(m.lines) < maxMessages {
		i := bytes.IndexByte(p, '\n')
		part := p
		if i >= 0 {
			part = p[:i]
		}
		m.line = append(m.line, part[:min(len(part), max(0, maxMessage-len(m.line)))]...)
		if i < 0 {
			return
		}
		m.end()
		p = p[i+1:]
	}
}

func (m *messages) end() {
	if bytes.Contains(m.line, []byte("ead-only file system")) || bytes.Contains(m.line, []byte("ermission denied")) || bytes.Contains(m.line, []byte("EROFS")) {
		m.lines = append(m.lines, string(m.line))
	}
	m.line = m.line[:0]
}

// paths lists what could be paths in the lines, made absolute from dir: between quotes, and what
// stands between blanks and colons.
func (m *messages) paths(dir string) (all []string) {
	m.end()
	for _, line := range m.lines {
		words := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" \t'\"`‘’“”:,;()[]<>=", r) })
		for _, quote := range []string{"'", `"`, "`"} {
			parts := strings.Split(line, quote)
			for i := 1; i+1 < len(parts); i += 2 {
				words = append(words, parts[i])
			}
		}
		for _, w := range words {
			w = strings.TrimRight(w, ".!")
			if !strings.Contains(w, "/") {
				continue
			}
			if !filepath.IsAbs(w) {
				w = filepath.Join(dir, w)
			}
			all = append(all, filepath.Clean(w))
		}
	}
	return all
}
