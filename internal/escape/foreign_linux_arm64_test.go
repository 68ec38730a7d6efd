package escape

import "golang.org/x/sys/unix"

// foreignCall is a call that there is not: arm64 has no second interface.
const foreignCall = 0x4000_0000

func modifyLDT([]byte) error { return unix.ENOSYS }
