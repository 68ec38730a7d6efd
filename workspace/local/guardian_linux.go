package local

import (
	"bytes"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// reaper tells that orphans of the command become the guardian's children.
const reaper = true

func becomeReaper() {
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) // every kernel that Go runs on has it
}

// keepFromCommands keeps descriptors that the harness inherited itself from commands.
func keepFromCommands() {
	_ = unix.CloseRange(reportFD+1, ^uint(0), unix.CLOSE_RANGE_CLOEXEC) // before Linux 5.11 they stay open
}

// commandAttr: a session of its own has no terminal and one process group; the signal ends the
// command when somebody kills the guardian.
func commandAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// exitFD returns a descriptor that becomes readable when the process ends, or -1.
func exitFD(pid int) int {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil { // before Linux 5.3
		return -1
	}
	return fd
}

// groupIsGone: on Linux nothing escapes being a child.
func (g *guardian) groupIsGone() bool { return true }

// children lists our children by looking at every process: /proc/self/task/*/children
// is not there on every kernel.
func (g *guardian) children() []int {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	names, _ := proc.Readdirnames(-1)
	_ = proc.Close() // it was only read
	var pids []int
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue // it has ended
		}
		// The name in brackets may hold anything; state and parent come after it.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) > 1 && string(fields[1]) == strconv.Itoa(os.Getpid()) {
			pids = append(pids, pid)
		}
	}
	return pids
}
