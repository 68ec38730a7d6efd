//go:build unix

package trash

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// move gives what is called base in parent the path to, where nothing is. It holds the
// folder, not its path, so that nobody can put another in its place.
func move(parent *os.Root, base, to string) error {
	dir, err := parent.Open(".")
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }() // nothing was written through it
	err = unix.Renameat(int(dir.Fd()), base, unix.AT_FDCWD, to)
	if errors.Is(err, unix.EXDEV) {
		return moveByCopy(parent, base, to)
	}
	return err
}
