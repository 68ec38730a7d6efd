//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// canAsk reports whether a person can answer on f.
func canAsk(f *os.File) bool { return isTerminal(f) }

// discardTyped forgets what was typed on a terminal and not read yet. Where that fails it is read as usual.
func discardTyped(f *os.File) {
	const reading = 1 // FREAD
	_ = unix.IoctlSetPointerInt(int(f.Fd()), unix.TIOCFLUSH, reading)
}
