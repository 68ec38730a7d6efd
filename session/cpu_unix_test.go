//go:build unix

package session_test

import (
	"syscall"
	"time"
)

// cpuTime is what this process has used, in user and system mode.
func cpuTime() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
