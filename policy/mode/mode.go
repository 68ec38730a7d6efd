// Package mode decides by permission mode what a call may do, and asks a person
// where the mode says so. It is the plugin "permission-mode":
//
//	# cordis.yml
//	- id: permission-mode
//	  plugin: permission-mode
//	  config:
//	    mode: workspace-write    # or read-only, plan, ask, full-access
//	    masked:                  # never read nor written, in any mode
//	      add: [~/notes/private, .env]
//	      remove: [~/.docker]
//	    control:                 # changed only after a person approved
//	      add: [deploy]
//	      remove: [.idea]
//
// A place is a path from the root or from ~, or names that stand anywhere below a
// root of the workspace; * stands for any part of one name. It covers what is below.
//
// The plugin takes part in [tool.PreExecute] at the stages Decide and Answer; in [tool.Execution] at the
// stage Permission, where it refuses every call that does not do exactly what was decided on, and asks whether what the
// sandbox refused may be done, and at the stage Sandbox; and in [workspace.Confining]. It serves [policy.ModeService], by which the mode of a
// session is switched while it runs. Its listeners run on the goroutines of agents.
package mode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"sync"

	"github.com/dsh-harness/dsh/agent"
	"github.com/dsh-harness/dsh/internal/home"
	"github.com/dsh-harness/dsh/internal/nearest"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/tool"
	"github.com/dsh-harness/dsh/workspace"
)

// Plugin decides by mode.
var Plugin = plugin.Plugin[Config]{
	Name:    "permission-mode",
	Doc:     "Decides by permission mode what a call may do, and has a person asked where the mode says so.",
	Needs:   []plugin.Need{policy.Approvals.Optional(), policy.Rules.Optional()},
	Default: func() Config { return Config{Mode: policy.WorkspaceWrite} },
	Start:   start,
}

// Config is the configuration of the plugin.
type Config struct {
	Mode    policy.Mode `json:"mode" doc:"read-only, plan, ask, workspace-write or full-access"`
	Masked  Places      `json:"masked" doc:"places that are never read nor written, in any mode"`
	Control Places      `json:"control" doc:"places that are changed only after a person approved, because what is there is executed or obeyed later"`
}

// Places widen and narrow a list of places.
type Places struct {
	Add    []string `json:"add,omitempty" doc:"places to add"`
	Remove []string `json:"remove,omitempty" doc:"places to take off the list, spelled as they are listed"`
}

// Validate reports the first thing that is wrong.
func (c *Config) Validate() error {
	if _, err := policy.ParseMode(string(c.Mode)); err != nil {
		return fmt.Errorf("mode: %w", err)
	}
	if err := c.Masked.validate(slices.Concat(masked(), otherHomes())); err != nil {
		return fmt.Errorf("masked: %w", err)
	}
	if err := c.Control.validate(control()); err != nil {
		return fmt.Errorf("control: %w", err)
	}
	return nil
}

func (p Places) validate(listed []string) error {
	for _, place := range p.Add {
		if err := checkPattern(place); err != nil {
			return fmt.Errorf("add: %w", err)
		}
	}
	for _, place := range p.Remove {
		if !slices.Contains(listed, place) {
			hint := "it is not on the list"
			if near := nearest.Name(place, listed); near != "" {
				hint += fmt.Sprintf("; did you mean %q?", near)
			}
			return fmt.Errorf("remove %q: %s", place, hint)
		}
	}
	return nil
}

func (p Places) apply(listed []string) []string {
	return append(slices.DeleteFunc(listed, func(place string) bool { return slices.Contains(p.Remove, place) }), p.Add...)
}

// start registers the listeners. The places are looked up at the first call, once, so
// that they do not delay the first request.
func start(_ context.Context, s *plugin.Scope, c Config) error {
	user, err := os.UserHomeDir()
	if err != nil {
		return fmt.Errorf("find the home folder, to know what is masked in it: %w", err)
	}
	dirs, err := home.Find(os.Getenv)
	if err != nil {
		return fmt.Errorf("find the harness's own files, to keep them masked: %w", err)
	}
	settings, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("spell the configuration: %w", err)
	}
	m := &manager{
		scope: s, configured: c.Mode, settings: string(settings), sessions: map[string]policy.Mode{},
		rules: sync.OnceValue(func() *rules { return newRules(user, dirs, c) }),
	}
	return errors.Join(
		registered(session.Types.Add(s, policy.ModeSwitched, session.EventType{
			Doc: "the permission mode of the session from the next call on", Data: reflect.TypeFor[policy.ModeData](),
		})),
		policy.ModeService.Provide(s, m),
		registered(agent.SessionStart.On(s, m.began)),
		registered(session.Gone.On(s, m.forget)),
		registered(tool.PreExecute.On(s, m.decide, plugin.At(tool.Decide))),
		registered(tool.PreExecute.On(s, m.answer, plugin.At(tool.Answer))),
		registered(tool.Execution.On(s, enforce, plugin.At(tool.Permission))),
		registered(tool.Execution.On(s, m.widen, plugin.At(tool.Permission))),
		registered(tool.Execution.On(s, m.run, plugin.At(tool.Sandbox))),
		registered(workspace.Confining.On(s, m.confine)),
	)
}

func registered(_ func(context.Context) error, err error) error { return err }

// manager is one life of the plugin; it is what [policy.ModeService] provides.
type manager struct {
	scope      *plugin.Scope
	configured policy.Mode
	settings   string // the configuration, for digests
	rules      func() *rules

	mu       sync.Mutex
	sessions map[string]policy.Mode // by id, of those whose mode is known
}

func (m *manager) decide(ctx context.Context, p *tool.Pending, next plugin.Next[*tool.Pending, tool.Verdict]) (tool.Verdict, error) {
	mode := m.Mode(p.Call.Session)
	by := signed + string(mode)
	accesses := p.Definition.Access(p.Call)
	if len(accesses) == 0 {
		p.Raise(tool.Allow, by, "it touches nothing outside of the harness")
	}
	permit, permitted := p.Permitted()
	for _, a := range accesses {
		f := m.rules().judge(mode, p.Call, a)
		if permitted && f.permitted < f.decision {
			f.decision, f.reason = f.permitted, permit.Reason
		}
		p.Raise(f.decision, by, f.reason)
		for _, path := range f.beyond {
			p.Note(tool.Opinion{Decision: f.decision, By: by, Reason: "open to the call once it is allowed", Part: path})
		}
	}
	return next(ctx, p)
}
