package permission

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/tool"
	"github.com/dsh-harness/dsh/workspace"
)

// confine keeps commands of a session from what rules deny by path, however a program comes
// by the name. Of a pattern it knows the folder that a /** at its end stands in; other
// wildcards are only judged by the names in a command line.
func (k *Keeper) confine(ctx context.Context, c *workspace.Confinement, next plugin.Next[*workspace.Confinement, *workspace.Confinement]) (*workspace.Confinement, error) {
	// What cannot be read was a reason to ask a person, who allowed the call.
	set, _ := k.rules(ctx, nil, c.Dir)
	k.mu.Lock()
	set.add(k.sessions[c.Session]...)
	k.mu.Unlock()
	for _, r := range set.deny {
		if r.spec != paths || r.tool != "" {
			continue
		}
		for _, place := range r.path.places(surroundings{dir: c.Dir, home: k.home}) {
			place = resolve(place)
			if r.kind == tool.AccessRead {
				c.Mask = append(c.Mask, place)
			} else {
				c.Protect = append(c.Protect, place)
			}
		}
	}
	return next(ctx, c)
}

// hide keeps what rules deny by path out of what a search of a folder finds, wherever it stands.
func (k *Keeper) hide(ctx context.Context, p *tool.Prepared, next plugin.Next[*tool.Prepared, tool.Result]) (tool.Result, error) {
	if p.Call.Workspace == nil {
		return next(ctx, p)
	}
	// Most calls ask for none.
	denied := sync.OnceValue(func() (denied []reach) {
		around := surroundings{dir: p.Call.Workspace.Dir(), home: k.home}
		set, _ := k.rules(ctx, p.Call.Session, around.dir) // what cannot be read was a reason to ask a person, who allowed the call
		for _, r := range set.deny {
			if r.spec == paths && r.kind == tool.AccessRead && r.names(p.Call.Name) {
				denied = append(denied, r.path.reach(around))
			}
		}
		return denied
	})
	return next(workspace.WithHidden(ctx, func(path string) bool {
		at := spots{filepath.ToSlash(path)}
		return slices.ContainsFunc(denied(), func(r reach) bool { return r.touches(at) })
	}), p)
}

// places returns the files and folders that a pattern is about, as far as they have names.
func (p *pathPattern) places(s surroundings) []string {
	named := *p
	if p.from == anyDepth {
		named.from = fromFolder
	}
	named.pattern = strings.TrimSuffix(p.pattern, "/**")
	if strings.ContainsAny(named.pattern, `*?[{\`) {
		return nil
	}
	var places []string
	for _, glob := range named.globs(s) {
		places = append(places, filepath.FromSlash(unescape(glob)))
	}
	return places
}

// resolve follows the links in a path, as far as the file or its folder exists.
func resolve(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(dir, filepath.Base(path))
	}
	return path
}
