package permission

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dsh-harness/dsh/policy/internal/command"
	"github.com/dsh-harness/dsh/tool"
	"github.com/dsh-harness/dsh/workspace"
)

// ruleset is rules by their effect.
type ruleset struct{ deny, ask, allow []*rule }

func (s *ruleset) add(rules ...*rule) {
	for _, r := range rules {
		switch r.effect {
		case tool.Deny:
			s.deny = append(s.deny, r)
		case tool.Ask:
			s.ask = append(s.ask, r)
		case tool.Allow, tool.Confined:
			s.allow = append(s.allow, r)
		}
	}
}

// subject is a call as rules see it. One goroutine uses it.
type subject struct {
	call     *tool.Call
	touches  []touch
	around   surroundings
	workdir  string // where commands run
	wanders  bool   // a command may change to another folder
	searches bool   // the call reads what lies below a folder
	confined bool   // the sandbox is full
}

// touch is one access of a call.
type touch struct {
	tool.Access
	line  command.Line    // of a command
	words map[string]bool // of a command that is not understood
	spots spots           // of a file
	real  string          // where the file is, "" when that is not known
}

func newSubject(c *tool.Call, accesses []tool.Access, home string) *subject {
	s := &subject{call: c, around: surroundings{home: home}, searches: c.Name != "glob"}
	if c.Workspace != nil {
		s.around.dir = c.Workspace.Dir()
	}
	s.workdir = s.around.dir
	var in struct {
		Workdir string `json:"workdir"`
	}
	if json.Unmarshal(c.Arguments, &in) == nil && in.Workdir != "" {
		s.workdir = filepath.FromSlash(s.around.spot(in.Workdir))
	}
	for _, a := range accesses {
		t := touch{Access: a}
		switch a.Kind {
		case tool.AccessExecute:
			t.line = command.Parse(a.Target)
			if t.line.Unclear != "" {
				t.words = tokens(a.Target)
			}
			s.wanders = s.wanders || wanders(t.line)
			if c.Workspace != nil {
				level, _ := c.Workspace.Sandbox()
				s.confined = level == workspace.SandboxFull
			}
		case tool.AccessRead, tool.AccessWrite:
			t.spots = append(t.spots, s.around.spot(a.Target))
			if c.Workspace != nil {
				if at, err := c.Workspace.FS().Locate(a.Target); err == nil {
					t.real = filepath.ToSlash(at.Path)
					t.spots = append(t.spots, t.real)
				}
			}
		case tool.AccessNetwork:
		}
		s.touches = append(s.touches, t)
	}
	return s
}

// wanders reports whether a later command of the line may run in another folder.
func wanders(l command.Line) bool {
	return l.Unclear != "" || slices.ContainsFunc(l.Commands, func(c command.Command) bool {
		return c.Words == nil || len(c.Words) > 0 && slices.Contains([]string{"cd", "pushd", "popd", "builtin", "command"}, c.Words[0])
	})
}

// catch returns the first of rules, which deny or ask, that is about the call, and what of
// the call it is about.
func (s *subject) catch(rules []*rule) (r *rule, part string) {
	for _, r := range rules {
		if part, ok := s.caught(r); ok {
			return r, part
		}
	}
	return nil, ""
}

func (s *subject) caught(r *rule) (part string, ok bool) {
	if !r.names(s.call.Name) {
		return "", false
	}
	if r.spec == all && r.tool != "" {
		return "", true
	}
	for i := range s.touches {
		if part, ok := s.touched(r, &s.touches[i]); ok {
			return part, true
		}
	}
	return "", false
}

// names reports whether calls of the tool of that name are what the rule is about.
func (r *rule) names(name string) bool {
	return r.tool == "" || r.tool == name || r.family && strings.HasPrefix(name, r.tool)
}

func (s *subject) touched(r *rule, t *touch) (part string, ok bool) {
	switch {
	case r.spec == all:
		return "", t.Kind == r.kind
	case r.kind == tool.AccessExecute && t.Kind == r.kind:
		for i := range t.line.Commands {
			if c := &t.line.Commands[i]; r.forbids(c) {
				return c.Text, true
			}
		}
		return "", t.words != nil && r.mentioned(t.words)
	case r.kind == tool.AccessNetwork && t.Kind == r.kind:
		return "", r.reaches(t.Target)
	case r.kind != tool.AccessRead && r.kind != tool.AccessWrite:
		return "", false
	case t.Kind == r.kind:
		return t.Target, r.path.reach(s.around).touches(t.spots) || r.kind == tool.AccessRead && s.searches && s.holds(&r.path, t)
	case t.Kind == tool.AccessExecute:
		in, reach := surroundings{dir: s.workdir, home: s.around.home}, r.path.reach(s.around)
		for name := range t.named(r.kind) {
			if reach.touches(spots{in.spot(name)}) {
				return name, true
			}
		}
	}
	return "", false
}

// named returns the paths in a command line that may be read or written, and all words of a line that is not
// understood.
func (t *touch) named(kind tool.AccessKind) map[string]bool {
	names := map[string]bool{}
	maps.Copy(names, t.words)
	list := t.line.Paths
	if kind == tool.AccessWrite {
		list = t.line.Writes
	}
	for _, name := range list() {
		names[name] = true
	}
	return names
}

// holds reports whether a folder that is searched holds what a pattern without wildcards names.
func (s *subject) holds(p *pathPattern, t *touch) bool {
	if !p.literal || s.call.Workspace == nil {
		return false
	}
	from := *p
	if p.from == anyDepth {
		from.from = fromFolder
	}
	for _, name := range from.globs(s.around) {
		name = unescape(name)
		for _, spot := range t.spots {
			if strings.HasPrefix(name, strings.TrimSuffix(spot, "/")+"/") {
				if _, err := s.call.Workspace.FS().Lstat(filepath.FromSlash(name)); err == nil {
					return true
				}
			}
		}
	}
	return false
}

// permit returns the rule that allows the call, with further ones an allowed line has; nil
// when something of the call is not covered. Each access needs a rule.
func (s *subject) permit(rules ruleset) (r *rule, and int) {
	var used []*rule
	for _, r := range rules.allow {
		if r.spec == all && r.tool != "" && r.kind == "" && r.names(s.call.Name) {
			return r, 0
		}
	}
	for i := range s.touches {
		by := s.covers(rules, &s.touches[i])
		if len(by) == 0 {
			return nil, 0
		}
		for _, r := range by {
			if !slices.Contains(used, r) {
				used = append(used, r)
			}
		}
	}
	if len(used) == 0 {
		return nil, 0
	}
	return used[0], len(used) - 1
}

// covers returns the rules that together allow an access, none when they do not.
func (s *subject) covers(rules ruleset, t *touch) []*rule {
	if t.Kind == tool.AccessExecute {
		return s.coversLine(rules, t)
	}
	for _, r := range rules.allow {
		if r.kind != t.Kind || !r.names(s.call.Name) {
			continue
		}
		switch r.spec {
		case all:
			return []*rule{r}
		case paths:
			if t.real != "" && r.path.within(spots{t.real}, s.around) {
				return []*rule{r}
			}
		case hosts:
			if r.reaches(t.Target) {
				return []*rule{r}
			}
		case exactly, prefix, pattern, lines:
		}
	}
	return nil
}

// coversLine returns the rules that allow each command of a line that is fully understood.
func (s *subject) coversLine(rules ruleset, t *touch) []*rule {
	if t.line.Unclear != "" || len(t.line.Commands) == 0 {
		return nil
	}
	candidates := s.candidates(rules)
	if len(candidates) == 0 {
		return nil
	}
	// What is not known cannot be compared with what is forbidden.
	guarded := slices.ContainsFunc(slices.Concat(rules.deny, rules.ask), func(r *rule) bool { return r.kind == tool.AccessExecute })
	for _, r := range candidates {
		switch {
		case r.spec == all && !(guarded && slices.ContainsFunc(t.line.Commands, func(c command.Command) bool { return c.Words == nil })):
			return []*rule{r}
		case r.spec == lines && r.line == strings.TrimSpace(t.Target) && !slices.ContainsFunc(t.line.Commands, func(c command.Command) bool { return uncovered(&c) != "" }):
			return []*rule{r}
		}
	}
	var used []*rule
	inside := false // of a command that is allowed word for word, with what it runs
	for i := range t.line.Commands {
		c := &t.line.Commands[i]
		if c.Inner && inside {
			continue
		}
		r, reason := s.judgeCommand(candidates, c)
		if reason != "" {
			return nil
		}
		if !c.Inner {
			inside = r != nil && r.spec == exactly
		}
		if r != nil && !slices.Contains(used, r) {
			used = append(used, r)
		}
	}
	return used
}

// candidates are the rules that may allow a command of the call where it runs.
func (s *subject) candidates(rules ruleset) []*rule {
	found := make([]*rule, 0, len(rules.allow))
	for _, r := range rules.allow {
		if r.kind == tool.AccessExecute && r.names(s.call.Name) && (r.dir == "" || r.dir == s.workdir && !s.wanders) {
			found = append(found, r)
		}
	}
	return found
}

// judgeCommand returns the rule that allows a command, nil when it is proven to only read,
// and why it is not covered. The configuration of a repository can make git run other programs,
// so of git nothing is proven where nothing confines it.
func (s *subject) judgeCommand(candidates []*rule, c *command.Command) (r *rule, reason string) {
	if reason := uncovered(c); reason != "" {
		return nil, reason
	}
	for _, r := range candidates {
		if r.spec == all || r.allows(c) {
			return r, ""
		}
	}
	if proven, _ := (command.Line{Commands: []command.Command{*c}}).ReadOnly(); proven && (s.confined || base(c.Words[0]) != "git") {
		return nil, ""
	}
	return nil, "no rule allows it"
}

// uncovered says why no rule about commands can allow a command, "" when one can.
func uncovered(c *command.Command) string {
	switch {
	case c.Words == nil:
		return "what it runs is not known: " + c.Opaque
	case c.Assigns:
		return "it assigns variables"
	}
	for _, r := range c.Redirects {
		if r.Target == "" {
			return "it opens a file whose name is not known"
		}
		if r.Write && r.Target != "/dev/null" {
			return fmt.Sprintf("it writes to %q", r.Target)
		}
		if strings.HasPrefix(r.Target, "/dev/tcp/") || strings.HasPrefix(r.Target, "/dev/udp/") {
			return "it connects to " + r.Target
		}
	}
	return ""
}
