package workspace

import "errors"

// What callers branch on. Beside these, errors of an [FS] have fs.ErrNotExist,
// fs.ErrExist and fs.ErrPermission in their chain, and errors of an [Exec]
// exec.ErrNotFound, where they apply.
var (
	// ErrOutside is about a path that lies outside of the roots, or would through a link.
	ErrOutside = errors.New("outside of the workspace")
	// ErrChanged is about a file that is not any more what the caller expects.
	ErrChanged = errors.New("changed meanwhile")
	// ErrSpecial is about something that is neither a file with content nor a
	// folder: a device, a pipe, a socket, a file that the kernel makes up.
	ErrSpecial = errors.New("not a regular file")
	// ErrKept is about something that is never deleted.
	ErrKept = errors.New("it is never deleted")
	// ErrSandbox is about a command that did not start because it could not be confined
	// as it has to be.
	ErrSandbox = errors.New("the sandbox failed")
	// ErrNoFolder is about a command whose working folder does not exist.
	ErrNoFolder = errors.New("the folder does not exist")
)
