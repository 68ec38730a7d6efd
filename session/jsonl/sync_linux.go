package jsonl

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// syncData makes a file's content and size durable. Its times may be lost, which
// saves a write.
func syncData(f *os.File) error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
