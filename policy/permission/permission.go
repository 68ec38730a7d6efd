// Package permission keeps the rules that people make about what may run: which calls are
// allowed, asked about and denied. It is the plugin "permissions":
//
//	# cordis.yml
//	- id: permissions
//	  plugin: permissions
//	  config:
//	    allow:
//	      - Bash(go test:*)                  # the command, with anything behind it
//	      - Bash(git status)                 # exactly these words
//	      - Edit(src/**)                     # files that are written, below the folder
//	      - WebFetch(domain:*.example.com)
//	    ask:
//	      - Bash(git push)
//	    deny:
//	      - Bash(curl)
//	      - Read(.env)
//	      - mcp__server                      # all tools of a server
//
// A rule that denies goes before all, one that asks before all that allow, whatever they come
// from: this configuration, a file of the folder that a person trusts (.dsh/permissions.yml, and
// the section "permissions" of Claude Code's settings), what the user had remembered
// in this folder, or what holds in the session. A rule that allows answers the question that the
// permission mode would ask, and nothing else: what is masked, what a control file needs, and the sandbox stay.
//
// Commands are judged one by one, as a shell would split the line. A rule that allows covers
// a command whose words are all literal, and no operator, substitution, assignment or file that is
// written to; each command of a line needs one, or is proven to only read. A line that is not
// fully understood is allowed by none. A wildcard is whole words, and none that
// make a well-known program run another one. Rules that deny or ask take more: a program
// wherever it lies, options between the words, and any line that is not understood and names it.
//
// Paths are as in doublestar: relative to the session's folder, // for the root, ~/ for the home
// folder. A path without a slash is denied in any folder. Links are followed before a path is allowed.
// What is denied by a path without wildcards, or with a /** at its end, the sandbox keeps from
// all that a command starts; other patterns are judged by the names in its line.
//
// The destruction guard lives here too: commands that would delete the root, the home folder or the
// workspace are denied in every mode, and those that might are asked about.
//
// The listeners run on the goroutines of agents.
package permission

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/dsh-harness/dsh/internal/home"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/policy/internal/command"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/tool"
	"github.com/dsh-harness/dsh/workspace"
)

const name = "permissions"

// Plugin keeps the rules, and judges calls by them.
var Plugin = plugin.Plugin[Config]{
	Name:  name,
	Doc:   "Allows, asks about and denies calls by rules such as Bash(git status:*), and keeps commands from deleting everything.",
	Needs: []plugin.Need{policy.Trust.Optional()},
	Start: start,
}

// Config is the configuration of the plugin.
type Config struct {
	Allow     []string `json:"allow,omitempty" doc:"rules that allow without a question, such as Bash(go test:*)"`
	Ask       []string `json:"ask,omitempty" doc:"rules that ask a person; they go before what allows"`
	Deny      []string `json:"deny,omitempty" doc:"rules that deny; they go before all others"`
	MoreAllow []string `json:"moreAllow,omitempty" doc:"further rules that allow: those of --allow"`
	MoreDeny  []string `json:"moreDeny,omitempty" doc:"further rules that deny: those of --deny"`
}

// rules returns the rules of the configuration.
func (c *Config) rules() ([]*rule, error) {
	rules, err := Lists{Allow: c.Allow, Ask: c.Ask, Deny: c.Deny}.parse("configuration")
	more, err2 := Lists{Allow: c.MoreAllow, Deny: c.MoreDeny}.parse("command line")
	return append(rules, more...), inLine(err, err2)
}

// Validate reports everything that is wrong.
func (c *Config) Validate() error {
	_, err := c.rules()
	return err
}

// start registers the listeners. No file is read before the first call.
func start(_ context.Context, s *plugin.Scope, c Config) error {
	user, err := os.UserHomeDir()
	if err != nil {
		return fmt.Errorf("find the home folder, to know what ~ means in rules: %w", err)
	}
	dirs, err := home.Find(os.Getenv)
	if err != nil {
		return fmt.Errorf("find the folder of the remembered rules: %w", err)
	}
	rules, err := c.rules()
	if err != nil {
		return err
	}
	k := &Keeper{
		scope: s, home: user, config: rules, store: newStore(filepath.Join(dirs.State, "rules.json")),
		sessions: map[string][]*rule{}, projects: map[string]*project{},
	}
	return errors.Join(
		registered(session.Types.Add(s, RememberedType, session.EventType{
			Doc: "A person had a rule remembered.", Data: reflect.TypeFor[RememberedData](),
		})),
		policy.Rules.Provide(s, k),
		registered(session.Gone.On(s, k.forget)),
		registered(tool.PreExecute.On(s, k.decide, plugin.At(tool.Decide))),
		registered(workspace.Confining.On(s, k.confine)),
		registered(tool.Execution.On(s, k.hide, plugin.At(tool.Sandbox))),
	)
}

func registered(_ func(context.Context) error, err error) error { return err }

// decide says what the rules and the destruction guard make of a call.
func (k *Keeper) decide(ctx context.Context, p *tool.Pending, next plugin.Next[*tool.Pending, tool.Verdict]) (tool.Verdict, error) {
	s := newSubject(p.Call, p.Definition.Access(p.Call), k.home)
	set, err := k.rules(ctx, p.Call.Session, s.around.dir)
	if err != nil {
		p.Raise(tool.Ask, name, fmt.Sprintf("what the rules forbid is not known: %v", err))
		set.allow = nil
	}
	k.checkTools(set)
	if f := s.judge(set); f.decision != tool.Allow {
		p.Raise(f.decision, f.by, f.reason)
	} else if f.by != "" {
		p.Permit(f.by, f.reason)
	}
	if f := s.guard(); f.decision != tool.Allow {
		p.Raise(f.decision, f.by, f.reason)
	}
	for _, o := range s.parts(set) {
		p.Note(o)
	}
	return next(ctx, p)
}

// finding is what rules make of a call: they deny it, ask, or, with Allow, permit it; with
// an empty by they say nothing.
type finding struct {
	decision   tool.Decision
	by, reason string
}

// judge says what the rules make of the call.
func (s *subject) judge(set ruleset) finding {
	for _, f := range []struct {
		rules []*rule
		verb  string
	}{{set.deny, "denies"}, {set.ask, "asks about"}} {
		if r, part := s.catch(f.rules); r != nil {
			if part == "" {
				part = "it"
			}
			return finding{r.effect, r.by(), fmt.Sprintf("the rule %s (%s) %s %s", r.text, r.source, f.verb, shorten(part))}
		}
	}
	r, and := s.permit(set)
	switch {
	case r == nil:
		return finding{}
	case and > 0:
		return finding{tool.Allow, r.by(), fmt.Sprintf("the rule %s (%s) and %d more allow it", r.text, r.source, and)}
	}
	return finding{tool.Allow, r.by(), fmt.Sprintf("the rule %s (%s) allows it", r.text, r.source)}
}

// guard keeps commands from deleting everything.
func (s *subject) guard() finding {
	const by = "destruction guard"
	var may string
	for i := range s.touches {
		t := &s.touches[i]
		if t.Kind != tool.AccessExecute {
			continue
		}
		around := command.Surroundings{Dir: s.workdir, Home: s.around.home}
		if s.call.Workspace != nil {
			around.Roots = s.call.Workspace.Roots()
		}
		if why := t.line.Destroys(around); why != "" {
			return finding{tool.Deny, by, why}
		}
		if may == "" {
			may = t.line.MayDestroy(around)
		}
	}
	if may != "" {
		return finding{tool.Ask, by, may}
	}
	return finding{}
}

// maxParts is how many commands of a line are told of one by one; all are judged.
const maxParts = 100

// parts tells of each command of a line what the rules make of it; nobody signs what they leave to the mode.
func (s *subject) parts(set ruleset) []tool.Opinion {
	var all []tool.Opinion
	for i := range s.touches {
		t := &s.touches[i]
		if t.line.Unclear != "" {
			all = append(all, tool.Opinion{Reason: "no rule allows what is not fully understood: " + t.line.Unclear, Part: shorten(t.Target)})
		}
		commands := t.line.Commands[:min(len(t.line.Commands), maxParts)]
		for j := range commands {
			all = append(all, s.part(set, &commands[j]))
		}
		if more := len(t.line.Commands) - len(commands); more > 0 {
			all = append(all, tool.Opinion{Reason: "are judged too", Part: fmt.Sprintf("%d more commands", more)})
		}
	}
	return all
}

func (s *subject) part(set ruleset, c *command.Command) tool.Opinion {
	o := tool.Opinion{Part: shorten(c.Text)}
	for _, r := range slices.Concat(set.deny, set.ask) {
		if r.kind == tool.AccessExecute && r.names(s.call.Name) && r.forbids(c) {
			o.Decision, o.By, o.Reason = r.effect, r.by(), "from the "+r.source
			return o
		}
	}
	r, why := s.judgeCommand(s.candidates(set), c)
	switch {
	case why != "":
		o.Reason = why
	case r == nil:
		o.Reason = "it is proven to only read"
	default:
		o.By, o.Reason = r.by(), "from the "+r.source
	}
	return o
}

// shorten keeps a reason readable; the whole command is shown with the call.
func shorten(text string) string {
	const most = 200
	if len(text) <= most {
		return text
	}
	end := most
	for end > 0 && text[end]&0xc0 == 0x80 {
		end--
	}
	return text[:end] + "…"
}
