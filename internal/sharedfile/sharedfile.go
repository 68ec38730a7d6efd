// Package sharedfile keeps a small file that several processes read often and change seldom,
// such as a list of rules. A [File] may be used by many goroutines at once.
package sharedfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/dsh-harness/dsh/internal/atomicfile"
)

const (
	// MaxBytes is how large such a file may be.
	MaxBytes = 4 << 20
	// lockWait is how long a change waits for others.
	lockWait = 5 * time.Second
)

// File is a file and what it holds. What another process changes counts at the next [File.Load].
type File[T any] struct {
	path  string
	parse func([]byte) (T, error)

	mu   sync.Mutex
	seen fs.FileInfo // of the file that last was parsed from; nil when there was none
	last T
}

// New returns the file at path, whose folder need not exist. Nothing is read yet. parse is only given
// what has at most [MaxBytes] bytes.
func New[T any](path string, parse func([]byte) (T, error)) *File[T] {
	return &File[T]{path: path, parse: parse}
}

// Path is where the file is.
func (f *File[T]) Path() string { return f.path }

// Load returns what the file holds, the zero value when there is none. Nobody changes what it returns: the
// next call returns the same while the file is the same.
func (f *File[T]) Load() (T, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var none T
	info, err := os.Stat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		f.seen, f.last = nil, none
		return none, nil
	}
	if err != nil {
		return none, fmt.Errorf("read %s: %w", f.path, err)
	}
	if f.seen != nil && os.SameFile(f.seen, info) && f.seen.ModTime().Equal(info.ModTime()) && f.seen.Size() == info.Size() {
		return f.last, nil
	}
	value, err := f.read()
	if err != nil {
		return none, err
	}
	f.seen, f.last = info, value
	return value, nil
}

func (f *File[T]) read() (value T, err error) {
	file, err := os.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return value, nil
	}
	if err != nil {
		return value, fmt.Errorf("read %s: %w", f.path, err)
	}
	text, err := io.ReadAll(io.LimitReader(file, MaxBytes+1))
	err = errors.Join(err, file.Close())
	if err == nil && len(text) > MaxBytes {
		err = fmt.Errorf("it has more than %d bytes", MaxBytes)
	}
	if err == nil {
		value, err = f.parse(text)
	}
	if err != nil {
		var none T
		return none, fmt.Errorf("read %s: %w; mend the file, or move it away to begin anew", f.path, err)
	}
	return value, nil
}

// Change replaces the file by what edit makes of what it holds, unless edit fails. No other process changes it
// meanwhile; Change waits at most 5 s for one, and as long as ctx. What edit is given is its own.
func (f *File[T]) Change(ctx context.Context, edit func(T) ([]byte, error)) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("change %s: %w", f.path, err)
		}
	}()
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	lock := flock.New(f.path+".lock", flock.SetPermissions(0o600))
	if held, err := lock.TryLockContext(ctx, 10*time.Millisecond); err != nil || !held {
		return fmt.Errorf("another process is at it: %w", errors.Join(err, context.Cause(ctx)))
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	value, err := f.read()
	if err != nil {
		return err
	}
	text, err := edit(value)
	if err == nil && len(text) >= MaxBytes {
		err = fmt.Errorf("it would have more than %d bytes", MaxBytes)
	}
	if err != nil {
		return err
	}
	return atomicfile.Write(f.path, append(text, '\n'), 0o600)
}
