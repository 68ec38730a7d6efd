//go:build !linux

package local

import (
	"io/fs"
	"os"
)

// isAt is weaker than on Linux: who swaps a folder for a link twice, in the right
// moments, can deceive it.
func isAt(_ *os.File, opened fs.FileInfo, path string) bool {
	now, err := os.Lstat(path)
	return err == nil && os.SameFile(opened, now)
}

func madeUp(*os.File) error { return nil }
