package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// canAsk reports whether a person can answer on f.
func canAsk(f *os.File) bool { return isTerminal(f) }

// discardTyped forgets what was typed on a terminal and not read yet. Where that fails it is read as usual.
func discardTyped(f *os.File) { _ = unix.IoctlSetInt(int(f.Fd()), unix.TCFLSH, unix.TCIFLUSH) }
