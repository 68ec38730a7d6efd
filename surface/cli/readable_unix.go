//go:build unix

package cli

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// readable waits until f has a byte or an end to read.
func readable(f *os.File, wait time.Duration) bool {
	until := time.Now().Add(wait)
	for {
		fds := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, int(max(time.Until(until), 0).Milliseconds()))
		if !errors.Is(err, unix.EINTR) {
			return err == nil && n > 0
		}
	}
}
