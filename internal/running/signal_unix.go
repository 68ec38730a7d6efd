//go:build unix

package running

import (
	"errors"
	"syscall"
)

const supported = true

func hangup(pid int) error { return syscall.Kill(pid, syscall.SIGHUP) }

func exists(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }
