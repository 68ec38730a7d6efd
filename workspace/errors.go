package workspace

import "errors"

var (
	// ErrOutside is in the chain of an error about a path that lies outside of
	// the roots, or would through a link.
	ErrOutside = errors.New("outside of the workspace")
	// ErrChanged is in the chain of an error about a file that is not any more
	// what the caller expects.
	ErrChanged = errors.New("changed since it was read")
)
