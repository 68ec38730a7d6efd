//go:build unix

package local

import (
	"os"
	"syscall"
)

// openNoFollow opens for reading, without waiting for the other end of a pipe.
func openNoFollow(path string) (*os.File, error) {
	return os.OpenFile(path, syscall.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
}
