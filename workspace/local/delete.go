package local

import (
	"errors"
	"fmt"

	"github.com/dsh-harness/dsh/workspace"
)

// Delete implements [workspace.FS].
func (f *files) Delete(name string) (workspace.Deleted, error) {
	return workspace.Deleted{}, fmt.Errorf("delete %s: %w", name, errors.ErrUnsupported)
}

// widen implements [workspace.Workspace].
func (f *files) widen(path string) (undo func(), err error) {
	return nil, fmt.Errorf("widen the workspace by %s: %w", path, errors.ErrUnsupported)
}
