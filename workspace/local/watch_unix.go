//go:build unix

package local

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// watched is a path that must not be changed, as it was before a command.
type watched struct {
	path string
	info fs.FileInfo // nil when there is nothing
	link string      // where a link leads
}

func look(path string) watched {
	info, err := os.Lstat(path)
	if err != nil {
		return watched{path: path}
	}
	w := watched{path: path, info: info}
	if info.Mode()&fs.ModeSymlink != 0 {
		w.link, _ = os.Readlink(path) // who cannot read it finds no difference either
	}
	return w
}

// bindable returns what the kernel can keep from being changed: a file or folder, or what a link leads to.
func (w watched) bindable() (real string, ok bool) {
	switch {
	case w.info == nil:
		return "", false
	case w.info.Mode()&fs.ModeSymlink == 0:
		return w.path, w.info.IsDir() || w.info.Mode().IsRegular()
	}
	real, err := filepath.EvalSymlinks(w.path)
	return real, err == nil
}

// putBack moves aside what a command made where there was nothing, or in place of a link. It says what it did.
func (w watched) putBack() (what string, err error) {
	now := look(w.path)
	switch {
	case now.info == nil, w.info != nil && w.link == "", w.link != "" && now.link == w.link:
		return "", nil
	}
	aside := filepath.Join(filepath.Dir(w.path), ".dsh-refused-"+filepath.Base(w.path)+"-"+rand.Text()[:8])
	if err := os.Rename(w.path, aside); err != nil {
		return "", err
	}
	what = "it was moved to " + filepath.Base(aside)
	if w.link != "" {
		err = os.Symlink(w.link, w.path)
	}
	return what, err
}

// Modes that mark the folders which stand for what must not come into being, and those above them that had to be made.
const (
	reservedMode = fs.ModeSticky | 0o555
	aboveMode    = fs.ModeSticky | 0o755
)

// reserveAll makes an empty folder for each path where there is nothing, so that something can be mounted
// there. A lock on the folders of the session tells when the last command that needs them is over.
func reserveAll(paths, roots []string) (release func(), err error) {
	var locks []*os.File
	for _, root := range roots {
		dir, err := os.Open(root)
		if err != nil {
			continue // it is gone, and so is what would be reserved in it
		}
		if unix.Flock(int(dir.Fd()), unix.LOCK_SH|unix.LOCK_NB) == nil {
			locks = append(locks, dir)
		} else {
			_ = dir.Close() // somebody tidies up; nothing was written
		}
	}
	release = func() {
		last := true
		for _, dir := range locks {
			last = unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil && last
		}
		for _, path := range slices.Backward(paths) {
			if last {
				unreserve(path)
			}
		}
		for _, dir := range locks {
			_ = dir.Close() // it was only locked
		}
	}
	for _, path := range paths {
		if err := reserve(path); err != nil {
			return release, fmt.Errorf("reserve %s: %w", path, err)
		}
	}
	return release, nil
}

func reserve(path string) error {
	err := os.Mkdir(path, 0o755)
	if errors.Is(err, fs.ErrNotExist) {
		above := filepath.Dir(path)
		if os.Mkdir(above, 0o755) == nil {
			if err := os.Chmod(above, aboveMode); err != nil {
				return err
			}
			err = os.Mkdir(path, 0o755)
		}
	}
	switch {
	case err == nil:
		return os.Chmod(path, reservedMode)
	case errors.Is(err, fs.ErrExist), errors.Is(err, syscall.ENOTDIR):
		return nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return nil // the command cannot make it either
	}
	return err
}

// unreserve removes what reserve made, as far as it is empty, and nothing else.
func unreserve(path string) {
	if hasMode(path, reservedMode) {
		_ = os.Remove(path) // what is not empty is not ours any more
	}
	if above := filepath.Dir(path); hasMode(above, aboveMode) && os.Remove(above) != nil {
		_ = os.Chmod(above, 0o755) // a command has put something there
	}
}

// isPlaceholder reports whether a folder is one that reserve made.
func isPlaceholder(path string) bool { return hasMode(path, reservedMode) || hasMode(path, aboveMode) }

func hasMode(path string, mode fs.FileMode) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir() && info.Mode()&(fs.ModePerm|fs.ModeSticky) == mode
}
