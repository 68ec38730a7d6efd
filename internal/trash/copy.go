package trash

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// moveByCopy is for a target on another file system. What cannot be copied, such as a
// socket, makes it fail before anything is removed.
func moveByCopy(parent *os.Root, base, to string) error {
	above, err := os.OpenRoot(filepath.Dir(to))
	if err != nil {
		return err
	}
	defer func() { _ = above.Close() }() // each file was closed
	target := filepath.Base(to)
	if err := copyTree(parent, base, above, target); err != nil {
		return errors.Join(err, above.RemoveAll(target))
	}
	return parent.RemoveAll(base)
}

func copyTree(from *os.Root, base string, to *os.Root, target string) error {
	type folder struct {
		path string
		mode fs.FileMode
	}
	var folders []folder
	err := fs.WalkDir(from.FS(), filepath.ToSlash(base), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(base, filepath.FromSlash(path))
		if err != nil {
			return err
		}
		there := filepath.Join(target, rel)
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch kind := d.Type(); {
		case kind.IsDir():
			folders = append(folders, folder{there, info.Mode().Perm()})
			return to.Mkdir(there, 0o700)
		case kind&fs.ModeSymlink != 0:
			link, err := from.Readlink(filepath.FromSlash(path))
			if err != nil {
				return err
			}
			return to.Symlink(link, there)
		case kind.IsRegular():
			return copyFile(from, filepath.FromSlash(path), to, there, info)
		}
		return fmt.Errorf("%s is neither a file, a folder nor a link, so it cannot be kept on another disk", path)
	})
	for i := len(folders) - 1; err == nil && i >= 0; i-- {
		err = to.Chmod(folders[i].path, folders[i].mode)
	}
	return err
}

func copyFile(from *os.Root, path string, to *os.Root, there string, info fs.FileInfo) error {
	source, err := from.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }() // it was only read
	target, err := to.OpenFile(there, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	if err == nil {
		err = target.Chmod(info.Mode().Perm())
	}
	if closeErr := target.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = to.Chtimes(there, info.ModTime(), info.ModTime())
	}
	return err
}
