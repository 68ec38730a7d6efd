//go:build unix && !linux

package cli

import "golang.org/x/sys/unix"

// replace has the descriptor at stand for fd.
func replace(fd, at int) error { return unix.Dup2(fd, at) }
