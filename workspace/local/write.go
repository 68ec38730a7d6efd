package local

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/dsh-harness/dsh/workspace"
)

// WriteFile implements [workspace.FS]. The content is synced before it takes the
// place of the old one, so that a power loss leaves the old or the new content and never
// a part; the folder is not synced, so it may be the old. What keeps its place
// is the name: a file with several hard links becomes one of its own, owner, group and
// permission bits are kept where the system lets us, access lists and extended attributes are not.
func (f *files) WriteFile(name string, data []byte, o workspace.WriteOptions) error {
	if err := f.write(name, data, o); err != nil {
		return fmt.Errorf("write %s: %w", name, cause(err))
	}
	return nil
}

func (f *files) write(name string, data []byte, o workspace.WriteOptions) error {
	p, _, err := f.locate(name)
	if err != nil {
		return err
	}
	if err := writable(p); err != nil {
		return err
	}
	if !p.Exists && (o.MustExist || o.Expect != nil) {
		return f.missing(p)
	}
	dir, err := f.folder(p, true)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }() // what was written through it has been synced
	base := filepath.Base(p.Path)
	old, err := dir.Lstat(base)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		old = nil
	case err != nil:
		return err
	case o.MustBeNew:
		return fs.ErrExist
	}
	if old != nil {
		if err := replaceable(dir, base, old); err != nil {
			return err
		}
	}
	temp, err := stage(dir, data, old, o.Mode)
	if err != nil {
		return err
	}
	err = f.publish(dir, temp, base, o)
	if err != nil {
		_ = dir.Remove(temp) // why it failed matters more than what it left
	}
	return err
}

func writable(p workspace.Place) error {
	switch {
	case p.Root == "":
		return fmt.Errorf("%w: it is %s", workspace.ErrOutside, p.Path)
	case p.Rel == ".":
		return errors.New("it is a folder")
	}
	return nil
}

// folder opens the folder that p is in, one step after the other from its root on, so
// that it is the one that locate saw: a link that came since is not followed.
func (f *files) folder(p workspace.Place, make bool) (*os.Root, error) {
	if p.Root == f.roots[len(f.roots)-1] {
		if err := f.makeTemp(); err != nil {
			return nil, err
		}
	}
	dir, err := os.OpenRoot(p.Root)
	if err != nil {
		return nil, err
	}
	if err := f.stillThere(dir, p.Root); err != nil {
		_ = dir.Close() // nothing was written
		return nil, err
	}
	steps := strings.Split(p.Rel, "/")
	for _, step := range steps[:len(steps)-1] {
		next, err := enter(dir, step, make)
		_ = dir.Close() // nothing was written
		if err != nil {
			return nil, err
		}
		dir = next
	}
	return dir, nil
}

var errMoved = fmt.Errorf("%w: a folder on the way is not any more what it was when it was looked up; try again", workspace.ErrChanged)

func (f *files) stillThere(dir *os.Root, path string) error {
	opened, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer func() { _ = opened.Close() }() // it was only looked at
	info, err := opened.Stat()
	if err == nil && !isAt(opened, info, path) {
		err = errMoved
	}
	return err
}

func enter(dir *os.Root, name string, make bool) (*os.Root, error) {
	seen, err := dir.Lstat(name)
	if make && errors.Is(err, fs.ErrNotExist) {
		err = dir.Mkdir(name, 0o777)
		if err == nil || errors.Is(err, fs.ErrExist) {
			seen, err = dir.Lstat(name)
		}
	}
	switch {
	case err != nil:
		return nil, err
	case seen.Mode()&fs.ModeSymlink != 0:
		return nil, errMoved
	case !seen.IsDir():
		return nil, fmt.Errorf("%s is a file, not a folder", name)
	}
	next, err := dir.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	got, err := next.Stat(".")
	if err == nil && !os.SameFile(seen, got) {
		err = errMoved
	}
	if err != nil {
		_ = next.Close() // nothing was written
		return nil, err
	}
	return next, nil
}

// replaceable refuses what a rename would replace although writing to it is not allowed.
func replaceable(dir *os.Root, base string, old fs.FileInfo) error {
	switch {
	case old.IsDir():
		return errors.New("it is a folder")
	case old.Mode()&fs.ModeSymlink != 0:
		return errMoved
	case !old.Mode().IsRegular():
		return plain(old)
	case old.Mode().Perm()&0o222 == 0:
		return fmt.Errorf("%w: the file is read-only (mode %04o); change its mode first if it is meant to be written", fs.ErrPermission, old.Mode().Perm())
	}
	file, err := dir.OpenFile(base, os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrPermission) {
		return err
	}
	if err == nil {
		_ = file.Close() // only whether it opens was asked
	}
	return nil // a program that runs cannot be opened for writing, but be replaced
}

// stage writes data to a new file in dir that looks like old.
func stage(dir *os.Root, data []byte, old fs.FileInfo, mode fs.FileMode) (name string, err error) {
	if mode == 0 {
		mode = 0o666
	}
	if old != nil {
		mode = 0o600
	}
	name = ".dsh-" + rand.Text() + ".tmp"
	file, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode.Perm())
	if err != nil {
		return "", err
	}
	_, err = file.Write(data)
	if err == nil && old != nil {
		keepOwner(file, old)
		err = file.Chmod(old.Mode().Perm())
	}
	if err == nil {
		err = file.Sync()
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		_ = dir.Remove(name) // why it failed matters more than what it left
		return "", err
	}
	return name, nil
}

// publish gives temp the name base.
func (f *files) publish(dir *os.Root, temp, base string, o workspace.WriteOptions) error {
	f.commit.Lock()
	defer f.commit.Unlock()
	if o.Expect != nil {
		if err := holds(dir, base, o.Expect); err != nil {
			return err
		}
	}
	if !o.MustBeNew {
		return dir.Rename(temp, base)
	}
	err := dir.Link(temp, base)
	if err == nil {
		return dir.Remove(temp)
	}
	if errors.Is(err, fs.ErrExist) {
		return fs.ErrExist
	}
	// Not every file system has links. An empty file reserves the name there.
	reserved, err := dir.OpenFile(base, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := reserved.Close(); err != nil {
		return err
	}
	return dir.Rename(temp, base)
}

// holds fails when the file does not hold want.
func holds(dir *os.Root, base string, want []byte) error {
	info, err := dir.Lstat(base)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Size() != int64(len(want)) {
		return workspace.ErrChanged
	}
	file, err := dir.Open(base)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it was only read
	got := make([]byte, 64<<10)
	for len(want) > 0 {
		n, err := file.Read(got[:min(len(got), len(want))])
		if !bytes.Equal(got[:n], want[:n]) || errors.Is(err, io.EOF) {
			return workspace.ErrChanged
		}
		if err != nil {
			return err
		}
		want = want[n:]
	}
	return nil
}

// Remove implements [workspace.FS]. It removes a link, not what the link leads to.
func (f *files) Remove(name string) error {
	if err := f.remove(name); err != nil {
		return fmt.Errorf("remove %s: %w", name, cause(err))
	}
	return nil
}

func (f *files) remove(name string) error {
	p, err := f.linkPath(name)
	if err != nil {
		return err
	}
	if err := writable(p); err != nil {
		return err
	}
	dir, err := f.folder(p, false)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }() // nothing was written through it
	return dir.Remove(filepath.Base(p.Path))
}

// linkPath is the place of name itself: links on the way to it are followed, it is not.
func (f *files) linkPath(name string) (workspace.Place, error) {
	path, err := f.absolute(name)
	if err != nil {
		return workspace.Place{}, err
	}
	path = strings.TrimRight(path, separator)
	dir, base := filepath.Split(path)
	if base == "" || base == "." || base == ".." || f.rootOf(path) == path {
		p, _, err := f.locate(name)
		return p, err
	}
	above, _, err := f.locate(dir)
	if err != nil {
		return workspace.Place{}, err
	}
	path = join(above.Path, base)
	_, err = os.Lstat(path)
	return f.place(path, err == nil), nil
}
