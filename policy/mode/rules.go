package mode

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/dsh-harness/dsh/internal/home"
	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/tool"
	"github.com/dsh-harness/dsh/workspace"
)

// rules decide about one access. They may be used by many goroutines at once.
type rules struct {
	home       string // the user's, as it is named and with links resolved
	realHome   string
	masked     places // keys and other private things
	otherHomes places // the homes of other people
	own        places // the harness's state
	control    places
	// named are the masked places that may stand in any folder: no search of a folder is refused because of them,
	// so what it finds is looked at.
	named places

	// folders remembers what folders of sessions are without links; there is
	// hardly ever more than one.
	folders sync.Map
}

func newRules(user string, dirs home.Dirs, c Config) *rules {
	r := resolver{}
	all := &rules{
		home:       filepath.Clean(user),
		realHome:   r.resolve(user),
		masked:     newPlaces(r, user, c.Masked.apply(masked())),
		otherHomes: newPlaces(r, user, Places{Remove: c.Masked.Remove}.apply(otherHomes())),
		own:        newPlaces(r, user, []string{filepath.ToSlash(dirs.State), filepath.ToSlash(dirs.Config) + "/credentials*"}),
		control:    newPlaces(r, user, append(c.Control.apply(control()), filepath.ToSlash(dirs.Config))),
	}
	all.named = slices.DeleteFunc(slices.Clone(all.masked), func(p place) bool { return p.anchored })
	return all
}

// finding is what a mode makes of one access.
type finding struct {
	decision tool.Decision
	reason   string
	// permitted is what it is where a rule that a person made allows the call: less than
	// decision only where the mode alone asks.
	permitted tool.Decision
	// beyond holds what is open to the call, once it is allowed, that roots, sandbox and network
	// would not open: absolute paths without links that it may write, and hosts.
	beyond []string
}

// found is a finding that no rule changes.
func found(d tool.Decision, format string, a ...any) finding {
	return finding{decision: d, reason: fmt.Sprintf(format, a...), permitted: d}
}

// judge says what mode m makes of one access, and why.
func (r *rules) judge(m policy.Mode, c *tool.Call, a tool.Access) finding {
	row := table(m)
	switch a.Kind {
	case tool.AccessRead, tool.AccessWrite:
		return r.judgeFile(m, row, c, a)
	case tool.AccessExecute:
		return r.judgeCommand(m, row, c, a.Target)
	case tool.AccessNetwork:
		f := lifted(m, found(row.network, "mode %s: connecting to %s", m, a.Target), tool.Allow)
		f.beyond = []string{a.Target}
		return f
	}
	return found(tool.Deny, "%q is an unknown kind of access", a.Kind)
}

// lifted lets a rule make a question of the mode into to. In a mode that changes nothing no rule does.
func lifted(m policy.Mode, f finding, to tool.Decision) finding {
	if f.decision == tool.Ask && changes(m) {
		f.permitted = to
	}
	return f
}

func (r *rules) judgeFile(m policy.Mode, row row, c *tool.Call, a tool.Access) finding {
	if c.Workspace == nil {
		return found(tool.Deny, "there is no workspace to find %s in", a.Target)
	}
	at, err := c.Workspace.FS().Locate(a.Target)
	if err != nil {
		return found(tool.Deny, "%v", err)
	}
	spot := newSpot(at, r.lexical(c, a.Target))
	reason := r.private(c, a, at, spot)
	if reason == "" {
		reason = r.holds(c, a, at, spot)
	}
	if reason != "" {
		return found(tool.Deny, "%s", reason)
	}
	if a.Kind == tool.AccessRead {
		return found(row.read, "mode %s allows reading", m)
	}
	f := r.judgeWrite(m, row, c, a, at)
	if place := r.control.match(spot); place != "" && f.decision != tool.Deny {
		f = found(tool.Ask, "%s is a control file (%s): what is in it is executed or obeyed later, so a person has to approve the change", a.Target, place)
	}
	if hooks := hooksFor(at); f.decision != tool.Deny && hooks != "" && (isWithin(hooks, at.Path) || isWithin(at.Path, hooks)) {
		f = found(tool.Ask, "git runs hooks from %s, so a person has to approve a change of %s", hooks, a.Target)
	}
	if within := r.control.standsIn(at.Path, spot); within != "" && f.decision != tool.Deny {
		f = found(tool.Ask, "%s holds %s, which is a control file: what is in it is executed or obeyed later, so a person has to approve the change", a.Target, within)
	}
	if at.Root == "" && f.decision != tool.Deny {
		f.beyond = []string{at.Path}
	}
	return f
}

// hooksFor returns the folder of hooks that the repository has which a place is in, "" when it has only its own.
func hooksFor(at workspace.Place) string {
	if at.Root == "" {
		return ""
	}
	if hooks := hooksOf(at.Root); hooks != at.Root {
		return hooks
	}
	return ""
}

// judgeWrite judges a change of a file that is neither private nor a control file.
func (r *rules) judgeWrite(m policy.Mode, row row, c *tool.Call, a tool.Access, at workspace.Place) finding {
	switch {
	case at.Root == "" && row.outside == tool.Allow:
		return found(row.outside, "mode %s allows changes everywhere", m)
	case at.Root == "":
		return found(row.outside, "%s lies outside of the folders that may be written: %s", a.Target, strings.Join(c.Workspace.Roots(), ", "))
	case row.write == tool.Deny:
		return found(row.write, "mode %s allows no changes to files", m)
	case row.write == tool.Ask:
		return lifted(m, found(row.write, "mode %s asks about every change to a file", m), tool.Allow)
	}
	return found(row.write, "mode %s allows changes in the workspace", m)
}

// private returns why nobody may touch what is at a place, "" when nothing forbids it.
func (r *rules) private(c *tool.Call, a tool.Access, at workspace.Place, spot spot) string {
	if place := r.masked.match(spot); place != "" {
		return fmt.Sprintf("%s is masked (%s): keys and private data are never read nor written", a.Target, place)
	}
	if place := r.otherHomes.match(spot); place != "" && at.Root == "" && !r.atHome(at.Path) {
		return fmt.Sprintf("%s is masked (%s): it is in somebody else's home", a.Target, place)
	}
	if sessions := r.sessionsOf(c); (r.own.match(spot) != "" || sessions != "" && isWithin(sessions, at.Path)) && !spilled(c, a, at) {
		return fmt.Sprintf("%s is masked: it is the harness's own state", a.Target)
	}
	return ""
}

// holds returns why a folder cannot be searched or changed as a whole, "" when it can.
func (r *rules) holds(c *tool.Call, a tool.Access, at workspace.Place, spot spot) string {
	never := func(string) bool { return false }
	within := r.masked.existsBelow(spot, never)
	if within == "" && r.own.existsBelow(spot, never) != "" {
		within = "the harness's own state"
	}
	if within == "" && at.Root == "" {
		within = r.otherHomes.existsBelow(spot, r.atHome)
	}
	if sessions := r.sessionsOf(c); within == "" && sessions != "" && sessions != at.Path && isWithin(at.Path, sessions) {
		within = "the harness's own state"
	}
	switch {
	case within == "":
		return ""
	case a.Kind == tool.AccessRead:
		return fmt.Sprintf("%s holds %s, which is masked; search in folders beside that", a.Target, within)
	}
	return fmt.Sprintf("%s holds %s, which is masked", a.Target, within)
}

// sessionsOf is the folder of all sessions, "" when none are kept.
func (r *rules) sessionsOf(c *tool.Call) string {
	if c.Session == nil || c.Session.Dir() == "" {
		return ""
	}
	dir := filepath.Dir(c.Session.Dir())
	real, known := r.folders.Load(dir)
	if !known {
		real, _ = r.folders.LoadOrStore(dir, resolver{}.resolve(dir))
	}
	return real.(string)
}

// spilled reports whether a call reads what an earlier call of its session left in the
// session's folder because it was too large to show.
func spilled(c *tool.Call, a tool.Access, at workspace.Place) bool {
	if a.Kind != tool.AccessRead || c.Session == nil || c.Session.Dir() == "" {
		return false
	}
	return isWithin(resolver{}.resolve(filepath.Join(c.Session.Dir(), "spill")), at.Path)
}

func (r *rules) atHome(path string) bool { return isWithin(r.home, path) || isWithin(r.realHome, path) }

// lexical is the path that a target names when links are not followed: a masked
// place stays masked when it is itself a link.
func (r *rules) lexical(c *tool.Call, target string) string {
	target = filepath.FromSlash(target)
	if rest, ok := strings.CutPrefix(target, "~"); ok && (rest == "" || os.IsPathSeparator(rest[0])) {
		return filepath.Join(r.home, rest)
	}
	if !filepath.IsAbs(target) {
		return filepath.Join(c.Workspace.Dir(), target)
	}
	return filepath.Clean(target)
}

// isWithin compares whole names: /a/bc is not within /a/b.
func isWithin(dir, path string) bool {
	rest, ok := strings.CutPrefix(path, dir)
	return ok && (rest == "" || os.IsPathSeparator(rest[0]) || os.IsPathSeparator(dir[len(dir)-1]))
}

// resolver follows the links of paths as far as they exist. It looks at each folder
// once, since it is asked about many paths below a few.
type resolver map[string]string

func (r resolver) resolve(path string) string {
	if real, known := r[path]; known {
		return real
	}
	parent := filepath.Dir(path)
	if parent == path {
		return path
	}
	real := filepath.Join(r.resolve(parent), filepath.Base(path))
	if info, err := os.Lstat(real); err == nil && info.Mode()&os.ModeSymlink != 0 {
		if target, err := filepath.EvalSymlinks(real); err == nil {
			real = target
		}
	}
	r[path] = real
	return real
}
