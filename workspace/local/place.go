package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/dsh-harness/dsh/internal/canon"
	"github.com/dsh-harness/dsh/internal/nearest"
	"github.com/dsh-harness/dsh/workspace"
)

const (
	separator = string(filepath.Separator)
	// maxLinks is how many symbolic links on the way to a file are followed
	// before they count as a loop.
	maxLinks = 40
	// maxSiblings bounds how many names of a folder are looked at for one that was meant.
	maxSiblings = 4096
)

// Locate implements [workspace.FS].
func (f *files) Locate(name string) (workspace.Place, error) {
	p, _, err := f.locate(name)
	if err != nil {
		return workspace.Place{}, fmt.Errorf("locate %s: %w", name, err)
	}
	return p, nil
}

// locate also returns what is there, as os.Lstat describes it; nil for a root
// and where nothing is.
func (f *files) locate(name string) (workspace.Place, fs.FileInfo, error) {
	path, err := f.absolute(name)
	if err != nil {
		return workspace.Place{}, nil, err
	}
	real, info, exists, err := f.follow(path)
	if err != nil {
		return workspace.Place{}, nil, cause(err)
	}
	return f.place(real, exists), info, nil
}

func (f *files) place(real string, exists bool) workspace.Place {
	p := workspace.Place{Path: real, Root: f.rootOf(real), Exists: exists}
	switch p.Root {
	case "":
	case real:
		p.Rel = "."
	default:
		p.Rel = filepath.ToSlash(strings.TrimPrefix(real[len(p.Root):], separator))
	}
	return p
}

// absolute does not clean the path: x/../y is not y when x is a link.
func (f *files) absolute(name string) (string, error) {
	switch {
	case name == "":
		return "", errors.New("no path was given")
	case strings.ContainsRune(name, 0):
		return "", errors.New("a path cannot hold a NUL byte")
	}
	name = filepath.FromSlash(name)
	if err := checkName(name); err != nil {
		return "", err
	}
	if name == "~" || strings.HasPrefix(name, "~"+separator) {
		if f.home == "" {
			return "", errors.New("~ has no meaning here: there is no home folder; give the path from the root")
		}
		return f.home + name[1:], nil
	}
	if !filepath.IsAbs(name) {
		return f.dir + separator + name, nil
	}
	return name, nil
}

// rootOf returns the innermost root that path lies in, or "".
func (f *files) rootOf(path string) string {
	best := ""
	for _, root := range f.roots {
		if len(root) > len(best) && within(root, path) {
			best = root
		}
	}
	if best == "" {
		best = f.widened.root(path)
	}
	return best
}

// within compares whole components: /a/bc is not in /a/b.
func within(root, path string) bool {
	rest, ok := strings.CutPrefix(path, root)
	return ok && (rest == "" || rest[0] == filepath.Separator || strings.HasSuffix(root, separator))
}

// follow resolves the links of an absolute path as far as it exists, in the order
// in which the kernel would. The names after the first missing one are taken as they are.
func (f *files) follow(path string) (real string, info fs.FileInfo, exists bool, err error) {
	volume := filepath.VolumeName(path)
	real, exists = volume+separator, true
	// Roots are known to be free of links.
	if root := f.rootOf(path); root != "" {
		real = root
	}
	rest := path[len(real):]
	for links := 0; rest != ""; {
		var name string
		name, rest, _ = strings.Cut(rest, separator)
		switch name {
		case "", ".":
			continue
		case "..":
			real, info = filepath.Dir(real), nil
			continue
		}
		next := join(real, name)
		if !exists {
			real = next
			continue
		}
		info, err = os.Lstat(next)
		if errors.Is(err, fs.ErrNotExist) {
			if twin := otherSpelling(real, name); twin != "" {
				next = join(real, twin)
				info, err = os.Lstat(next)
			}
		}
		switch {
		case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
			real, info, exists = next, nil, false
			continue
		case err != nil:
			return "", nil, false, err
		case info.Mode()&fs.ModeSymlink == 0:
			real = next
			continue
		}
		if links++; links > maxLinks {
			return "", nil, false, fmt.Errorf("more than %d links on the way", maxLinks)
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", nil, false, err
		}
		info = nil
		if filepath.IsAbs(target) {
			real = filepath.VolumeName(target) + separator
			target = target[len(real):]
		}
		rest = target + separator + rest
	}
	return real, info, exists, nil
}

func join(dir, name string) string {
	if strings.HasSuffix(dir, separator) {
		return dir + name
	}
	return dir + separator + name
}

// otherSpelling returns the one name in dir that is name in another Unicode form.
// ASCII has only one form, so that the usual missing file costs nothing.
func otherSpelling(dir, name string) string {
	if !strings.ContainsFunc(name, func(r rune) bool { return r >= 0x80 }) {
		return ""
	}
	twins := siblings(dir, func(other string) bool { return canon.Equal(other, name) })
	if len(twins) != 1 {
		return ""
	}
	return twins[0]
}

// siblings lists the names in dir that fit; none when it cannot be read.
func siblings(dir string, fits func(string) bool) []string {
	d, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer func() { _ = d.Close() }() // it was only read
	names, _ := d.Readdirnames(maxSiblings)
	names = slices.DeleteFunc(names, func(name string) bool { return !fits(name) })
	slices.Sort(names)
	return names
}

// missing says that nothing is at p, and what may have been meant.
func (f *files) missing(p workspace.Place) error {
	dir, name := filepath.Split(p.Path)
	dir = filepath.Clean(dir)
	for {
		info, err := os.Lstat(dir)
		if err == nil && !info.IsDir() {
			return fmt.Errorf("%w: %s is a file, not a folder", fs.ErrNotExist, f.display(dir))
		}
		if err == nil {
			break
		}
		up := filepath.Dir(dir)
		if up == dir {
			return fs.ErrNotExist
		}
		dir, name = up, filepath.Base(dir)
	}
	what := fs.ErrNotExist
	gone := join(dir, name)
	if gone != p.Path {
		what = fmt.Errorf("%w: there is no folder %s", fs.ErrNotExist, f.display(gone))
	}
	names := siblings(dir, func(string) bool { return true })
	best := nearest.Name(name, names)
	if i := slices.IndexFunc(names, func(other string) bool {
		return strings.EqualFold(canon.Decompose(other), canon.Decompose(name))
	}); i >= 0 {
		best = names[i]
	}
	if best == "" {
		return what
	}
	return fmt.Errorf("%w; did you mean %s?", what, f.display(join(dir, best)))
}

// display is the path as a person or model writes it: relative where it is below
// the session's folder.
func (f *files) display(path string) string {
	if path != f.dir && within(f.dir, path) {
		return strings.TrimPrefix(path[len(f.dir):], separator)
	}
	return path
}

// cause strips what the caller says better: the system's name of the operation and the path.
func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	var l *os.LinkError
	if errors.As(err, &l) {
		return l.Err
	}
	return err
}
