//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Rights of Landlock, from the kernel's include/uapi/linux/landlock.h.
const (
	canExecute  = uint64(unix.LANDLOCK_ACCESS_FS_EXECUTE)
	canWrite    = uint64(unix.LANDLOCK_ACCESS_FS_WRITE_FILE)
	canRead     = uint64(unix.LANDLOCK_ACCESS_FS_READ_FILE)
	canList     = uint64(unix.LANDLOCK_ACCESS_FS_READ_DIR)
	canRefer    = uint64(unix.LANDLOCK_ACCESS_FS_REFER)
	canTruncate = uint64(unix.LANDLOCK_ACCESS_FS_TRUNCATE)
	canIoctl    = uint64(unix.LANDLOCK_ACCESS_FS_IOCTL_DEV)
	canResolve  = uint64(unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX) // connect to a socket in the file system

	reading   = canExecute | canRead | canList
	writing   = reading | uint64(1<<13-1) | canRefer | canTruncate | canResolve // all but ioctl of devices
	ofFiles   = canExecute | canWrite | canRead | canTruncate | canIoctl
	ofDevices = canRead | canWrite | canTruncate
)

const (
	leastPartialABI = 3 // truncation counts as writing
	scopeABI        = 6 // signals and abstract sockets can be kept inside
	socketABI       = 9 // and sockets in the file system
)

// grant gives rights to what is at a path and below it.
type grant struct {
	path   string
	rights uint64
}

// landlockABI returns which version of Landlock the kernel has.
func landlockABI() (int, error) {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0, errno
	}
	return int(v), nil
}

// restrict applies one ruleset to the calling thread and what it starts. It must be one: a second would
// forbid renaming between folders everywhere. What does not exist gets nothing.
func restrict(grants []grant) error {
	abi, err := landlockABI()
	if err != nil {
		return fmt.Errorf("ask for Landlock: %w", err)
	}
	handled := uint64(1<<13 - 1)
	for least, right := range map[int]uint64{2: canRefer, 3: canTruncate, 5: canIoctl, socketABI: canResolve} {
		if abi >= least {
			handled |= right
		}
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: handled}
	if abi >= scopeABI {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	size := uintptr(24) // as far as it is used; older kernels refuse a longer one
	switch {
	case abi < 4:
		size = 8
	case abi < scopeABI:
		size = 16
	}
	set, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return fmt.Errorf("make a Landlock ruleset: %w", errno)
	}
	defer func() { _ = unix.Close(int(set)) }() // it is applied or useless
	for _, g := range grants {
		if err := allow(int(set), g, handled); err != nil {
			return fmt.Errorf("add %s to the Landlock ruleset: %w", g.path, err)
		}
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, set, 0, 0); errno != 0 {
		return fmt.Errorf("apply the Landlock ruleset: %w", errno)
	}
	return nil
}

func allow(set int, g grant, handled uint64) error {
	fd, err := unix.Open(g.path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }() // nothing is written through it
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	rights := g.rights & handled
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= ofFiles
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(set), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
