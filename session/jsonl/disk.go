package jsonl

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"
)

// disk is what the backend needs of a file system. Tests put one in its place
// that fails and loses power.
type disk interface {
	// open opens a file, which a flag may create with mode 0600.
	open(path string, flag int) (file, error)
	// mkdir makes a folder with mode 0700 unless it is there. Folders above it that
	// are missing are made durably; it itself is durable after syncDir of its parent.
	mkdir(path string) error
	rename(from, to string) error
	// syncDir makes what was created, renamed or removed in a folder durable.
	syncDir(path string) error
	stat(path string) (fs.FileInfo, error)
	// same reports whether both describe the same file.
	same(a, b fs.FileInfo) bool
	readDir(path string) ([]fs.DirEntry, error)
	removeAll(path string) error
	// lock takes the lock at path without waiting and makes owner its content. When
	// another has it, unlock is nil and owner what that one wrote.
	lock(path string, owner []byte) (unlock func() error, holder []byte, err error)
}

// file is an open file. Writes go to its end.
type file interface {
	io.Writer
	io.ReaderAt
	io.Closer
	// sync makes what was written durable.
	sync() error
	Truncate(size int64) error
	Stat() (fs.FileInfo, error)
}

// system is the disk of the operating system.
type system struct{}

type systemFile struct{ *os.File }

func (f systemFile) sync() error { return syncData(f.File) }

func (system) open(path string, flag int) (file, error) {
	f, err := os.OpenFile(path, flag, 0o600)
	if err != nil {
		return nil, err
	}
	return systemFile{f}, nil
}

func (d system) mkdir(path string) error {
	err := os.Mkdir(path, 0o700)
	parent := filepath.Dir(path)
	if !errors.Is(err, fs.ErrNotExist) || parent == path {
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	}
	if err := d.mkdir(parent); err != nil {
		return err
	}
	if err := d.syncDir(filepath.Dir(parent)); err != nil {
		return err
	}
	return d.mkdir(path)
}

func (system) rename(from, to string) error               { return os.Rename(from, to) }
func (system) syncDir(path string) error                  { return syncFolder(path) }
func (system) stat(path string) (fs.FileInfo, error)      { return os.Stat(path) }
func (system) same(a, b fs.FileInfo) bool                 { return os.SameFile(a, b) }
func (system) readDir(path string) ([]fs.DirEntry, error) { return os.ReadDir(path) }
func (system) removeAll(path string) error                { return os.RemoveAll(path) }

// mostOwner is how much of a lock's content is read.
const mostOwner = 4 << 10

func (system) lock(path string, owner []byte) (unlock func() error, holder []byte, err error) {
	l := flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o600))
	held, err := l.TryLock()
	if err != nil {
		return nil, nil, err
	}
	if !held {
		// On Windows a locked file cannot be read; then the holder stays unknown.
		f, err := os.Open(path)
		if err == nil {
			holder, _ = io.ReadAll(io.LimitReader(f, mostOwner)) // it is only for the message
			_ = f.Close()
		}
		return nil, holder, nil
	}
	// The content is for people; the lock holds without it.
	_ = os.WriteFile(path, owner, 0o600)
	return l.Unlock, nil, nil
}
