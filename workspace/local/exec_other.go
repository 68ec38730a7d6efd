//go:build !unix

package local

import (
	"context"
	"errors"
	"runtime"

	"github.com/dsh-harness/dsh/workspace"
)

// Guard returns at once: there are no guardians on this system.
func Guard() {}

// Run implements [workspace.Exec].
func (w *local) Run(context.Context, workspace.Command) (workspace.Result, error) {
	return workspace.Result{}, errors.New("run a command: commands are not supported on " + runtime.GOOS + " yet, because nothing could end what they leave behind")
}

// launcher is what the workspaces of a provider share; there is nothing here.
type launcher struct{}

func newLauncher(Config) *launcher { return &launcher{} }

// Sandbox implements [workspace.Workspace].
func (*launcher) Sandbox() (workspace.SandboxLevel, string) {
	return workspace.SandboxNone, "there is no sandbox for " + runtime.GOOS + " yet"
}
