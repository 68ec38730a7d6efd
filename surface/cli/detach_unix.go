//go:build unix

package cli

import (
	"io/fs"
	"os"
	"os/exec"
	"syscall"
)

// detach starts this program with other arguments in a session of its own, so that it outlives this terminal. ended says whether it has ended.
func detach(args []string, log *os.File) (pid int, ended func() bool, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, nil, err
	}
	c := exec.Command(self, args...)
	c.Stdout, c.Stderr = log, log
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		return 0, nil, err
	}
	return c.Process.Pid, func() bool {
		waited, err := syscall.Wait4(c.Process.Pid, nil, syscall.WNOHANG, nil)
		return waited == c.Process.Pid || (err != nil && err != syscall.EINTR)
	}, nil
}

// ownedByUs reports whether a file belongs to the user of this process.
func ownedByUs(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Getuid()
}
