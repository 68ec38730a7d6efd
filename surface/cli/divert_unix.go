//go:build unix

package cli

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// divert returns another descriptor of the file f, and has the descriptor of f stand for that of to from now on, also in programs that are
// started.
func divert(f, to *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, fmt.Errorf("dup %s: %w", f.Name(), err)
	}
	own := os.NewFile(uintptr(fd), f.Name())
	if err := replace(int(to.Fd()), int(f.Fd())); err != nil {
		return nil, fmt.Errorf("dup %s: %w", to.Name(), err)
	}
	return own, nil
}
