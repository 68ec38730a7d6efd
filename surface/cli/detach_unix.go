//go:build unix

package cli

import (
	"io/fs"
	"os"
	"os/exec"
	"syscall"
)

// detach starts this program with other arguments in a session of its own, so that it outlives this terminal. exited is closed when it ends while
// this process lives.
func detach(args []string, log *os.File) (pid int, exited <-chan struct{}, err error) {
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
	ended := make(chan struct{})
	go func() { // owned by the process, which ends soon
		_ = c.Wait()
		close(ended)
	}()
	return c.Process.Pid, ended, nil
}

// ownedByUs reports whether a file belongs to the user of this process.
func ownedByUs(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Getuid()
}
