//go:build linux

package sandbox

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_X86_64
	// foreignFrom is where the numbers of the x32 interface begin.
	foreignFrom = 0x4000_0000
)

// forbiddenHere adds what only this architecture has.
func forbiddenHere() []uint32 {
	return []uint32{
		unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT, unix.SYS_LOOKUP_DCOOKIE, unix.SYS_KEXEC_FILE_LOAD, unix.SYS__SYSCTL, unix.SYS_USELIB,
		unix.SYS_USTAT, unix.SYS_SYSFS, unix.SYS_CREATE_MODULE, unix.SYS_GET_KERNEL_SYMS, unix.SYS_QUERY_MODULE,
	}
}
