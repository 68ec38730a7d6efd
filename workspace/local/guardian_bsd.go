//go:build unix && !linux

package local

import "syscall"

// reaper: orphans of the command go to the system's first process, so that only its
// process group can be ended.
const reaper = false

func becomeReaper() {}

// keepFromCommands does nothing: what a Go program opens is closed in its children.
func keepFromCommands() {}

func commandAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// exitFD: there is none; the guardian looks often instead.
func exitFD(int) int { return -1 }

func (g *guardian) groupIsGone() bool {
	if syscall.Kill(-g.pid, 0) != nil {
		return true
	}
	if !g.asked {
		g.ask(leftoverGrace)
	}
	return false
}

func (g *guardian) children() []int { return nil }
