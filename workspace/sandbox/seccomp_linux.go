//go:build amd64 || arm64

package sandbox

import (
	"fmt"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/dsh-harness/dsh/workspace"
)

// The filter is classic BPF over struct seccomp_data: the number at 0, the architecture at 4, and the arguments as 64-bit
// values from 16 on, of which the lower half comes first on all architectures that we know.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16

	loadWord   = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	ifEqual    = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	ifAtLeast  = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
	ifAnyBit   = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
	returnWord = unix.BPF_RET | unix.BPF_K
)

const (
	pass = uint32(unix.SECCOMP_RET_ALLOW)
	kill = uint32(unix.SECCOMP_RET_KILL_PROCESS)
)

func refuse(errno unix.Errno) uint32 { return uint32(unix.SECCOMP_RET_ERRNO) | uint32(errno) }

// program is a filter that is being written. A part that decides ends with return instructions for all
// of its ways, so that parts follow one another without long jumps.
type program []unix.SockFilter

func (p *program) load(offset uint32) {
	*p = append(*p, unix.SockFilter{Code: loadWord, K: offset})
}

// skipUnless jumps over the next n instructions unless the test holds.
func (p *program) skipUnless(test uint16, k uint32, n int) {
	*p = append(*p, unix.SockFilter{Code: test, K: k, Jf: uint8(n)})
}

func (p *program) give(value uint32) {
	*p = append(*p, unix.SockFilter{Code: returnWord, K: value})
}

// call appends body for a system call. The number is loaded before and after.
func (p *program) call(number uint32, body program) {
	p.skipUnless(ifEqual, number, len(body))
	*p = append(*p, body...)
}

// filter applies seccomp to the calling thread.
func filter(level workspace.SandboxLevel) error {
	p := compile(level)
	fprog := unix.SockFprog{Len: uint16(len(p)), Filter: &p[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&fprog))); errno != 0 {
		return fmt.Errorf("apply the seccomp filter: %w", errno)
	}
	return nil
}

func compile(level workspace.SandboxLevel) program {
	var p program
	p.load(offsetArch)
	p = append(p, unix.SockFilter{Code: ifEqual, K: auditArch, Jt: 1})
	p.give(kill)
	p.load(offsetNumber)
	if foreignFrom != 0 {
		p.skipUnless(ifAtLeast, foreignFrom, 1)
		p.give(kill)
	}
	// What is newer than this list does what it forbids in yet another way.
	p.skipUnless(ifAtLeast, firstUnknown, 1)
	p.give(refuse(unix.ENOSYS))
	for _, number := range slices.Concat(forbidden(), forbiddenHere()) {
		p.call(number, program{{Code: returnWord, K: refuse(unix.EPERM)}})
	}
	// Its flags are in memory, where a filter cannot look: as if the kernel had it not, so that clone is used.
	p.call(unix.SYS_CLONE3, program{{Code: returnWord, K: refuse(unix.ENOSYS)}})
	p.call(unix.SYS_CLONE, withoutBits(0, newNamespaces, refuse(unix.EPERM)))
	p.call(unix.SYS_IOCTL, byValue(1, []uint32{unix.TIOCSTI, tioclinux}, refuse(unix.EPERM), pass))
	families := []uint32{unix.AF_UNIX}
	if level == workspace.SandboxFull { // the network is its own
		families = append(families, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK)
	}
	p.call(unix.SYS_SOCKET, byValue(0, families, pass, refuse(unix.EAFNOSUPPORT)))
	p.call(unix.SYS_SOCKETPAIR, byValue(0, families, pass, refuse(unix.EAFNOSUPPORT)))
	p.give(pass)
	return p
}

// firstUnknown is the first system call that nobody has looked at here; all architectures share the numbers of new ones.
const firstUnknown = unix.SYS_OPEN_TREE_ATTR

// tioclinux pastes into a virtual console.
const tioclinux = 0x541c

const newNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWTIME

func argument(n int) uint32 { return offsetArgs + 8*uint32(n) }

// withoutBits refuses a call whose argument has any of the bits.
func withoutBits(n int, bits, refused uint32) program {
	var p program
	p.load(argument(n))
	p.skipUnless(ifAnyBit, bits, 1)
	p.give(refused)
	p.give(pass)
	return p
}

// byValue decides by whether an argument is one of the values. Like the kernel it looks at 32 bits.
func byValue(n int, values []uint32, listed, other uint32) program {
	var p program
	p.load(argument(n))
	for _, v := range values {
		p.skipUnless(ifEqual, v, 1)
		p.give(listed)
	}
	p.give(other)
	return p
}

// forbidden lists what no command needs and what opens the kernel or other processes.
func forbidden() []uint32 {
	return []uint32{
		// mounts and namespaces
		unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_MOUNT_SETATTR, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE,
		unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_SETNS, unix.SYS_UNSHARE, unix.SYS_OPEN_BY_HANDLE_AT,
		// other processes
		unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE, unix.SYS_KCMP, unix.SYS_PIDFD_GETFD,
		unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES,
		// large and often broken parts of the kernel
		unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
		unix.SYS_FANOTIFY_INIT, unix.SYS_FANOTIFY_MARK, unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
		// the machine
		unix.SYS_KEXEC_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_REBOOT,
		unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_SYSLOG, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_ADJTIMEX,
		unix.SYS_CLOCK_ADJTIME, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_VHANGUP, unix.SYS_NFSSERVCTL,
	}
}
