package mode

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/tool"
	"github.com/dsh-harness/dsh/workspace"
)

// signed begins the name by which a mode signs its opinions.
const signed = "mode "

type modeKey struct{}

// decided returns the mode that a call was decided in, which it keeps when the mode of its session is
// switched before it runs, and what it may write beyond that mode now that it is allowed.
func decided(p *tool.Prepared) (mode policy.Mode, beyond []string, ok bool) {
	for _, o := range p.Opinions {
		name, mine := strings.CutPrefix(o.By, signed)
		switch {
		case !mine:
		case o.Part != "":
			beyond = append(beyond, o.Part)
		default:
			mode, ok = policy.Mode(name), true
		}
	}
	return mode, beyond, ok
}

// run lets a call do what was decided about it and no root and no sandbox would let it do: write
// outside of the roots, and write the control files that a person approved. The paths are those that were
// decided on, wherever links lead by now.
func (m *manager) run(ctx context.Context, p *tool.Prepared, next plugin.Next[*tool.Prepared, tool.Result]) (tool.Result, error) {
	mode, beyond, ok := decided(p)
	if !ok || p.Call.Workspace == nil {
		return next(ctx, p)
	}
	ctx = context.WithValue(ctx, modeKey{}, mode)
	if len(beyond) == 0 || p.Verdict.Decision != tool.Allow {
		return next(ctx, p)
	}
	for _, a := range p.Definition.Access(p.Call) {
		switch a.Kind {
		case tool.AccessWrite:
			at, err := p.Call.Workspace.FS().Locate(a.Target)
			if err != nil || at.Root != "" || !slices.Contains(beyond, at.Path) {
				continue // whoever writes there finds out
			}
			undo, err := p.Call.Workspace.Widen(at.Path)
			if err != nil {
				return tool.Failure(tool.CodeFailed, fmt.Sprintf("%s did not run: %v", p.Call.Name, err)), nil
			}
			defer undo()
		case tool.AccessExecute:
			ctx = workspace.WithGrant(ctx, workspace.Grant{Write: beyond})
		case tool.AccessRead, tool.AccessNetwork:
		}
	}
	return next(ctx, p)
}
