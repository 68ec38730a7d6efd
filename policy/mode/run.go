package mode

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/tool"
	"github.com/dsh-harness/dsh/workspace"
)

// signed begins the name by which a mode signs its opinions.
const signed = "mode "

// callKey is the key of the mode that the commands of a call are confined by.
type callKey struct{}

// decided returns the mode that a call was decided in, which it keeps when the mode of its session is
// switched before it runs, and what is open to it beyond that mode now that it is allowed.
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

// run lets a call do what was decided about it and no root, sandbox or network would let it do: write
// outside of the roots, write the control files that a person approved, and reach a host. The paths are those
// that were decided on, wherever links lead by now.
func (m *manager) run(ctx context.Context, p *tool.Prepared, next plugin.Next[*tool.Prepared, tool.Result]) (tool.Result, error) {
	mode, beyond, ok := decided(p)
	if !ok || p.Call.Workspace == nil {
		return next(ctx, p)
	}
	ctx = context.WithValue(ctx, callKey{}, mode)
	if masked := m.rules().named; len(masked) > 0 {
		roots := p.Call.Workspace.Roots()
		ctx = workspace.WithHidden(ctx, func(path string) bool { return masked.match(spotBelow(roots, path)) != "" })
	}
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
			ctx = workspace.WithGrant(ctx, workspace.Grant{Write: slices.DeleteFunc(slices.Clone(beyond), func(p string) bool { return !filepath.IsAbs(p) })})
		case tool.AccessNetwork:
			ctx = workspace.WithGrant(ctx, workspace.Grant{Hosts: withPort(a.Target)})
		case tool.AccessRead:
		}
	}
	return next(ctx, p)
}

// spotBelow is a file that was found below a folder that could be searched.
func spotBelow(roots []string, path string) spot {
	at := workspace.Place{Path: path}
	for _, root := range roots {
		if rel, err := filepath.Rel(root, path); err == nil && isWithin(root, path) {
			at.Root, at.Rel = root, rel
		}
	}
	return newSpot(at, path)
}

// withPort returns a host with its port, or with those of the web.
func withPort(host string) []string {
	if _, _, err := net.SplitHostPort(host); err == nil {
		return []string{host}
	}
	host = strings.Trim(host, "[]")
	return []string{net.JoinHostPort(host, "443"), net.JoinHostPort(host, "80")}
}
