//go:build unix

package tui

import (
	"os"
	"os/signal"
	"syscall"
)

// notifyResize tells when the terminal has another size.
func notifyResize(c chan<- os.Signal) { signal.Notify(c, syscall.SIGWINCH) }

// suspend stops the process until it is continued.
func (u *ui) suspend() {
	err := u.outside(func() error {
		continued := make(chan os.Signal, 1)
		signal.Notify(continued, syscall.SIGCONT)
		defer signal.Stop(continued)
		// The whole group, as the terminal would: a shell waits for all of it.
		if err := syscall.Kill(0, syscall.SIGTSTP); err != nil {
			return err
		}
		select {
		case <-continued:
		case <-u.ctx.Done():
		}
		return nil
	})
	if err != nil {
		u.problem(err)
	}
}
