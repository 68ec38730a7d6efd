//go:build linux

package sandbox

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_AARCH64
	// foreignFrom is 0: there is no second set of numbers.
	foreignFrom = 0
)

// forbiddenHere adds what only this architecture has.
func forbiddenHere() []uint32 {
	return []uint32{unix.SYS_LOOKUP_DCOOKIE, unix.SYS_KEXEC_FILE_LOAD}
}
