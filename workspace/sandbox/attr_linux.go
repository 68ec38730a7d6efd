//go:build amd64 || arm64

package sandbox

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/dsh-harness/dsh/workspace"
)

// lastCap is the highest capability that we know; a kernel that has fewer refuses none of them silently.
const lastCap = unix.CAP_LAST_CAP

// Attr returns how the process in between is started for a level: for a full sandbox in
// namespaces of its own, as the same user, with the rights there that [Enter] needs.
func Attr(level workspace.SandboxLevel) *syscall.SysProcAttr {
	if level != workspace.SandboxFull {
		return &syscall.SysProcAttr{Setsid: true}
	}
	all := make([]uintptr, 0, lastCap+1)
	for c := uintptr(0); c <= lastCap; c++ {
		all = append(all, c)
	}
	uid, gid := os.Getuid(), os.Getgid()
	return &syscall.SysProcAttr{
		Setsid: true,
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
			unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}},
		AmbientCaps: all,
	}
}

// Probe fails when the kernel does not even say that it has what a level needs; [ErrNoLandlock] tells that only
// Landlock is missing. Whether it lets this user have it only a try tells.
func Probe(level workspace.SandboxLevel) error {
	abi, err := landlockABI()
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrNoLandlock, err)
	case level == workspace.SandboxPartial && abi < leastPartialABI:
		return fmt.Errorf("the kernel has version %d of Landlock, and a partial sandbox needs %d (Linux 6.2)", abi, leastPartialABI)
	}
	return nil
}
