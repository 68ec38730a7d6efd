package search

import (
	"context"

	"github.com/dsh-harness/dsh/workspace"
)

// Files lists the files of a workspace's folder as the tools see them: without those that .gitignore leaves out, relative, with slashes,
// sorted. partial tells that ctx or memory did not last for all. It is for surfaces that complete names.
func Files(ctx context.Context, w workspace.Workspace) (names []string, partial bool, err error) {
	q := query{w: w, root: w.Dir()}
	l, err := ripgrep(ctx, q)
	if err != nil && ctx.Err() == nil {
		l, err = walk(ctx, q)
	}
	return l.files, l.partial, err
}
