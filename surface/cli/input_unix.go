//go:build unix

package cli

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// input reads from a file until it is shut: a blocked read of a standard stream cannot be ended by closing it.
type input struct {
	f          *os.File
	alarm, arm *os.File // a pipe whose end says that it is shut
}

func newInput(f *os.File) (*input, error) {
	alarm, arm, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return &input{f, alarm, arm}, nil
}

// Read implements [io.Reader]. It is called by one goroutine.
func (i *input) Read(p []byte) (int, error) {
	for {
		fds := []unix.PollFd{{Fd: int32(i.f.Fd()), Events: unix.POLLIN}, {Fd: int32(i.alarm.Fd()), Events: unix.POLLIN}}
		switch _, err := unix.Poll(fds, -1); {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, err
		case fds[1].Revents != 0:
			return 0, os.ErrClosed
		default:
			return i.f.Read(p)
		}
	}
}

// shut ends a Read that waits, and every later one.
func (i *input) shut() error { return i.arm.Close() }
