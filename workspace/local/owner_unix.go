//go:build unix

package local

import (
	"io/fs"
	"os"
	"syscall"
)

// keepOwner gives file the owner and group of old, as far as we may.
func keepOwner(file *os.File, old fs.FileInfo) {
	st, ok := old.Sys().(*syscall.Stat_t)
	if !ok || (int(st.Uid) == os.Geteuid() && int(st.Gid) == os.Getegid()) {
		return
	}
	if file.Chown(int(st.Uid), int(st.Gid)) != nil {
		_ = file.Chown(-1, int(st.Gid)) // a group that we are in may still be kept
	}
}

// owned reports whether a file is the user's.
func owned(path string) bool {
	info, err := os.Lstat(path)
	if err != nil {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}
