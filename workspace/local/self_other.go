//go:build unix && !linux

package local

import "os"

// self is the program's file; when it is not known, starting fails and says so.
func self() string {
	path, _ := os.Executable()
	return path
}
