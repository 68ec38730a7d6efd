package mode

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/workspace"
)

// confine says what a command may touch in its mode: that of the call it belongs to, else that of its session.
func (m *manager) confine(ctx context.Context, c *workspace.Confinement, next plugin.Next[*workspace.Confinement, *workspace.Confinement]) (*workspace.Confinement, error) {
	mode, ok := ctx.Value(callKey{}).(policy.Mode)
	if !ok {
		mode = m.modeOf(c.Session)
	}
	if mode == policy.FullAccess {
		c.Unconfined = signed + string(mode)
		return next(ctx, c)
	}
	r, roots := m.rules(), slices.Clone(c.Write)
	c.Mask = append(c.Mask, r.masks(roots)...)
	if !changes(mode) {
		last := max(len(roots)-1, 0) // the private temporary folder
		// They stay what can be written, so that they are there also where a sandbox has folders of its own, such as /tmp.
		c.Protect = append(c.Protect, roots[:last]...)
	} else {
		protect, reserve := r.controls(roots)
		c.Protect, c.Reserve = append(c.Protect, protect...), append(c.Reserve, reserve...)
	}
	for _, path := range workspace.GrantOf(ctx).Write {
		if path = (resolver{}).resolve(filepath.Clean(path)); r.hides(path, c.Mask) {
			continue
		}
		c.Write = append(c.Write, path)
		c.Protect, c.Reserve = without(c.Protect, path), without(c.Reserve, path)
	}
	return next(ctx, c)
}

// modeOf returns the mode of a session by its id, as far as it is known.
func (m *manager) modeOf(id string) policy.Mode {
	m.mu.Lock()
	defer m.mu.Unlock()
	if mode, known := m.sessions[id]; known {
		return mode
	}
	return m.configured
}

// hides reports whether a path is masked, by a rule or by one of the masks.
func (r *rules) hides(path string, masks []string) bool {
	s := newSpot(workspace.Place{Path: path}, path)
	return r.masked.match(s) != "" || r.own.match(s) != "" || r.otherHomes.match(s) != "" && !r.atHome(path) ||
		slices.ContainsFunc(masks, func(mask string) bool { return isWithin(mask, path) })
}

// masks returns what there is of the private places, for commands that may write below roots. Of names that
// may stand in any folder it knows those in the roots themselves.
func (r *rules) masks(roots []string) []string {
	var found []string
	add := func(p place, except ...string) {
		for _, path := range p.existing() {
			for _, part := range beside(path, except) {
				if !slices.Contains(found, part) {
					found = append(found, part)
				}
			}
		}
	}
	for _, p := range slices.Concat(r.masked, r.own) {
		if p.anchored {
			add(p)
			continue
		}
		for _, root := range roots {
			add(place{path: filepath.ToSlash(root) + "/" + strings.TrimPrefix(p.path, "/")})
		}
	}
	// Who works in somebody else's home keeps the folder and its own home.
	for _, p := range r.otherHomes {
		add(p, append(roots, r.home, r.realHome)...)
	}
	return found
}

// existing returns what an anchored place names, without links.
func (p place) existing() []string {
	path := filepath.FromSlash(p.path)
	if strings.HasPrefix(p.path, "/proc/") {
		return nil // a sandbox has a /proc of its own
	}
	found := []string{path}
	if strings.ContainsAny(p.path, `*?[`) {
		found, _ = filepath.Glob(path) // the pattern was checked
	}
	var real []string
	for _, path := range found {
		info, err := os.Lstat(path)
		if err == nil && info.Mode()&os.ModeSymlink != 0 {
			path, err = filepath.EvalSymlinks(path)
		}
		if err == nil {
			real = append(real, path)
		}
	}
	return real
}

// beside returns path, or what is in it beside the ways to what is to be kept, when something of that is below.
func beside(path string, keep []string) []string {
	if slices.ContainsFunc(keep, func(k string) bool { return isWithin(k, path) }) {
		return nil
	}
	if !slices.ContainsFunc(keep, func(k string) bool { return isWithin(path, k) }) {
		return []string{path}
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil // nobody sees what is in it
	}
	var parts []string
	for _, e := range entries {
		if e.Type()&os.ModeSymlink == 0 {
			parts = append(parts, beside(filepath.Join(path, e.Name()), keep)...)
		}
	}
	return parts
}

// reserved are the control files that are kept from coming into being at all: programs obey them
// without being told to, as soon as they are there.
func reserved() []string { return []string{".dsh", ".mcp.json", ".claude", ".vscode"} }

// controls returns the control files below roots by the names that they have there. What is called so in
// a folder further down is asked about when a command names it. The workspace itself knows which
// parts of .git are to be kept.
func (r *rules) controls(roots []string) (protect, reserve []string) {
	if len(roots) > 0 {
		roots = roots[:len(roots)-1] // nothing obeys what is in the private temporary folder
	}
	for _, p := range r.control {
		switch {
		case p.anchored:
			if slices.ContainsFunc(roots, func(root string) bool { return isWithin(root, p.path) }) {
				protect = append(protect, filepath.FromSlash(p.path))
			}
			continue
		case p.pattern == ".git":
			continue
		case strings.ContainsAny(p.pattern, `*?[`):
			for _, root := range roots {
				found, _ := filepath.Glob(filepath.Join(root, filepath.FromSlash(p.pattern)))
				protect = append(protect, found...)
			}
			continue
		}
		for _, root := range roots {
			path := filepath.Join(root, filepath.FromSlash(p.pattern))
			if slices.Contains(reserved(), p.pattern) {
				reserve = append(reserve, path)
			} else {
				protect = append(protect, path)
			}
		}
	}
	return protect, reserve
}

// without takes what was granted off a list of places. Of a folder that holds it the rest stays.
func without(places []string, granted string) []string {
	var left []string
	for _, p := range places {
		switch {
		case isWithin(granted, p):
		case isWithin(p, granted):
			left = append(left, beside(p, []string{granted})...)
		default:
			left = append(left, p)
		}
	}
	return left
}
