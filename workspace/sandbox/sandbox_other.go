//go:build !linux || (!amd64 && !arm64)

package sandbox

import (
	"errors"
	"runtime"
	"syscall"

	"github.com/dsh-harness/dsh/workspace"
)

// Probe returns the level that this system has, and why it is not a higher one.
func Probe(workspace.SandboxLevel) error {
	return errors.New("there is no sandbox for " + runtime.GOOS + "/" + runtime.GOARCH + " yet")
}

// Attr returns how the process in between is started; it changes nothing here.
func Attr(workspace.SandboxLevel) *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

// Enter fails: there is no sandbox here.
func Enter(Spec) (listener int, err error) { return -1, Probe(workspace.SandboxFull) }

// Lock fails: there is no sandbox here.
func Lock(Spec) error { return Probe(workspace.SandboxFull) }
