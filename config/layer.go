package config

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Kind says where a layer comes from and with that what it may do.
type Kind int

// Kinds of layers, in the order in which they are laid on one another.
const (
	Profile Kind = iota // a shipped composition
	User                // the user's own cordis.yml
	Project             // .dsh/cordis.yml of a trusted project: its references and its rows are restricted
	Patch               // a file named on the command line
	Set                 // an assignment on the command line
)

// String returns the word for the kind.
func (k Kind) String() string {
	switch k {
	case Profile:
		return "profile"
	case User:
		return "user"
	case Project:
		return "project"
	case Patch:
		return "patch"
	case Set:
		return "--set"
	}
	return "unknown layer"
}

// Layer is one source of rows. It has either a Path or a Text; a Project may have both, see Text.
type Layer struct {
	Kind Kind
	Name string // of a Profile
	Path string // the file that is read at each composition
	// Text are rows as in a file; of a Set, the assignment, see [Compose]. Beside the Path of a Project it
	// is what was read there and trusted, and used in place of what the file holds by now.
	Text string

	// Root is the folder of a Project: its ${file:…} cannot leave it, through links
	// neither. Without a Root it has no files at all.
	Root string

	// Plugins are those whose rows a Project may add, change, disable and remove. The other rows in it are left out, see
	// [Composition.Ignored].
	Plugins []string

	// Optional means that the file at Path may be missing.
	Optional bool
}

// String returns the layer as errors and [Composition.Show] name it.
func (l *Layer) String() string {
	switch l.Kind {
	case Profile:
		return "profile " + l.Name
	case Patch:
		return "patch " + l.Path
	case User, Project, Set:
	}
	return l.Kind.String()
}

// file is what positions in the layer begin with.
func (l *Layer) file() string {
	if l.Path != "" {
		return l.Path
	}
	if l.Kind == Set && l.Name != "" {
		return "--set " + l.Name
	}
	return l.String()
}

// maxFile is the largest file that is read, in bytes: a configuration or what ${file:…} names.
const maxFile = 1 << 20

// read returns the layer's text; found is false when an optional file is missing.
func (l *Layer) read(p *problems) (text []byte, found bool) {
	if l.Path == "" || l.Kind == Project && l.Text != "" {
		return []byte(strings.TrimPrefix(l.Text, "\ufeff")), true
	}
	text, err := readPath(l.Path)
	if errors.Is(err, fs.ErrNotExist) && l.Optional {
		return nil, false
	}
	if err != nil {
		p.addCause(Position{File: l.Path}, err, "cannot read the configuration: %v", reason(err))
		return nil, false
	}
	return text, true
}

func readPath(path string) ([]byte, error) {
	return readFile(
		func() (fs.FileInfo, error) { return os.Stat(path) },
		func() (io.ReadCloser, error) { return os.Open(path) },
	)
}

// readFile reads a regular file of bounded size: a pipe could block for ever and a device never end.
func readFile(stat func() (fs.FileInfo, error), open func() (io.ReadCloser, error)) ([]byte, error) {
	info, err := stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	f, err := open()
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	_ = f.Close() // it was only read
	if err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, errors.New("it is larger than 1 MiB")
	}
	return bytes.TrimPrefix(text, []byte("\ufeff")), nil
}

// reason is err without the path, which the position says already.
func reason(err error) error {
	if pathErr := (*fs.PathError)(nil); errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}

// checkText reports the first character that no configuration may hold.
func checkText(file string, text []byte, p *problems) bool {
	for line, column, rest := 1, 1, text; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		switch {
		case r == utf8.RuneError && size == 1:
			p.add(Position{file, line, column}, "the text is not UTF-8: save the file as UTF-8")
			return false
		case r == '\n':
			line, column = line+1, 0
		case r == '\t' || r == '\r':
		case unicode.IsControl(r):
			p.add(Position{file, line, column}, "the control character %U is not allowed", r)
			return false
		}
		rest, column = rest[size:], column+1
	}
	return true
}

// isID says whether s can be the id of a row.
func isID(s string) bool {
	return s != "" && len(s) <= 64 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}
