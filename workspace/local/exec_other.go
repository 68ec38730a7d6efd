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
