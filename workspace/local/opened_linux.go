package local

import (
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/dsh-harness/dsh/workspace"
)

// isAt asks the kernel where the open file is, so that a folder on the way cannot have
// been swapped for a link.
func isAt(file *os.File, opened fs.FileInfo, path string) bool {
	real, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(file.Fd())))
	if err == nil {
		return real == path
	}
	now, err := os.Lstat(path) // there is no /proc
	return err == nil && os.SameFile(opened, now)
}

// madeUp refuses files without content of their own: reading one may block, never
// end, or show this very process.
func madeUp(file *os.File) error {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(file.Fd()), &st); err != nil {
		return err
	}
	switch int64(st.Type) {
	case unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC, unix.SECURITYFS_MAGIC:
		return fmt.Errorf("%w: the kernel makes it up as it is read; look at it with a command", workspace.ErrSpecial)
	}
	return nil
}
