// Package atomicfile replaces a file's content as a whole: whoever reads the file, and
// whatever crashes meanwhile, finds the old content or the new, never a part and never
// nothing. It serves small files that are rewritten (settings, indexes, trust lists); what
// only grows is appended to instead. Any goroutine may call it; two writers of one file
// do not damage it, but the later one wins, so read-modify-write needs a lock of the caller's.
package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// maxLinks is how many symbolic links in a row are followed before they count as a loop.
const maxLinks = 40

// Write makes data the content of the file at path and mode its permission bits, which
// the umask does not narrow. The folder must exist. A symbolic link stays a link and its
// target is written, even one that does not exist yet.
//
// When Write returns nil the content survives a power loss (on Windows, where a folder
// cannot be synced, the rename itself may be lost, which leaves the old content whole). When it
// returns an error the old content is still there; the one exception is a failure to sync the
// folder, after which the new content is visible but perhaps not durable. A crash may leave
// a hidden file beside the target whose name ends in .tmp; nobody reads it.
func Write(path string, data []byte, mode fs.FileMode) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s: %w", path, err)
		}
	}()
	target, err := follow(path)
	if err != nil {
		return err
	}
	dir := filepath.Dir(target)
	temp, err := os.CreateTemp(dir, "."+filepath.Base(target)+".*.tmp")
	if err != nil {
		return err
	}
	err = fill(temp, data, mode)
	if err == nil {
		err = os.Rename(temp.Name(), target)
	}
	if err != nil {
		_ = os.Remove(temp.Name()) // why the write failed matters more than what it left
		return err
	}
	return syncDir(dir)
}

// fill writes, syncs and closes f.
func fill(f *os.File, data []byte, mode fs.FileMode) error {
	_, err := f.Write(data)
	if err == nil {
		err = f.Chmod(mode.Perm())
	}
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}

// follow returns the path that the links at path lead to. filepath.EvalSymlinks
// would not do: it fails when the last target is missing.
func follow(path string) (string, error) {
	for range maxLinks {
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return path, nil
		}
		if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			if !info.Mode().IsRegular() {
				return "", errors.New("it exists and is not a regular file")
			}
			return path, nil
		}
		next, err := os.Readlink(path)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(next) {
			next = filepath.Join(filepath.Dir(path), next)
		}
		path = next
	}
	return "", fmt.Errorf("more than %d symbolic links in a row", maxLinks)
}
