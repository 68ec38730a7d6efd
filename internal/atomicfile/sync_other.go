//go:build !unix

package atomicfile

// syncDir does nothing: this system cannot sync a folder.
func syncDir(string) error { return nil }
