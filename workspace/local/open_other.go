//go:build !unix

package local

import "os"

// openNoFollow relies on isAt.
func openNoFollow(path string) (*os.File, error) { return os.Open(path) }
