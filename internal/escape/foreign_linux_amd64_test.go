package escape

import "golang.org/x/sys/unix"

// foreignCall is getpid by the x32 interface.
const foreignCall = 0x4000_0000 + unix.SYS_GETPID

func modifyLDT(b []byte) error { return call(unix.SYS_MODIFY_LDT, 0, pointer(b), uintptr(len(b))) }
