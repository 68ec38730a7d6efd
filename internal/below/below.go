// Package below reads small files of a folder that nobody trusts: it follows no link out of the folder,
// waits for no pipe, opens no device, and reads no more than it is told to. Any goroutine may use it.
package below

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// ErrNotRegular is in the chain of the error about a name that is there and is no regular file.
var ErrNotRegular = errors.New("it is not a regular file")

// Root is an open folder. The zero value is not usable.
type Root struct{ dir *os.Root }

// Open opens the folder dir. The caller closes it.
func Open(dir string) (*Root, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &Root{root}, nil
}

// Close gives the folder back.
func (r *Root) Close() error { return r.dir.Close() }

// Read returns the first most bytes of the file at name, a path relative to the folder, and the size of the whole
// file in bytes. The error has [fs.ErrNotExist] in its chain when there is nothing at name.
func (r *Root) Read(name string, most int64) (content []byte, size int64, err error) {
	f, size, err := r.open(name)
	if err != nil {
		return nil, 0, err
	}
	content, err = io.ReadAll(io.LimitReader(f, most))
	_ = f.Close() // it was only read
	if err != nil {
		return nil, 0, bare(err)
	}
	return content, size, nil
}

// Stat describes what is at name, or at the end of the links there.
func (r *Root) Stat(name string) (fs.FileInfo, error) {
	info, err := r.dir.Stat(name)
	return info, bare(err)
}

// Copy writes the file at name to w, and fails once it has more than most bytes.
func (r *Root) Copy(w io.Writer, name string, most int64) (n int64, err error) {
	f, _, err := r.open(name)
	if err != nil {
		return 0, err
	}
	n, err = io.Copy(w, io.LimitReader(f, most+1))
	_ = f.Close() // it was only read
	if err == nil && n > most {
		err = fmt.Errorf("it is larger than %d bytes", most)
	}
	return n, bare(err)
}

func (r *Root) open(name string) (*os.File, int64, error) {
	// Opening a device or a pipe may do something or wait, so what is there is looked at first, and once more
	// when it is open, as it may have been replaced.
	info, err := r.dir.Stat(name)
	if err != nil {
		return nil, 0, bare(err)
	}
	if !info.Mode().IsRegular() {
		return nil, 0, ErrNotRegular
	}
	f, err := r.dir.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, 0, bare(err)
	}
	if info, err = f.Stat(); err == nil && !info.Mode().IsRegular() {
		err = ErrNotRegular
	}
	if err != nil {
		_ = f.Close() // nothing was read
		return nil, 0, bare(err)
	}
	return f, info.Size(), nil
}

// bare is err without the path, which the caller knows.
func bare(err error) error {
	if at := (*fs.PathError)(nil); errors.As(err, &at) {
		return at.Err
	}
	return err
}
