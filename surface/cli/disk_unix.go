//go:build linux || darwin || freebsd

package cli

import "golang.org/x/sys/unix"

// freeSpace is how many bytes a user may still write to the file system of dir.
func freeSpace(dir string) (uint64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return uint64(max(int64(s.Bavail), 0)) * uint64(s.Bsize), nil
}
