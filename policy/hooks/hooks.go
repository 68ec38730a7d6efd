// Package hooks runs the commands that people hang on what an agent does, from the hook files of Claude Code and
// Codex as they are. It is the plugin "hooks":
//
//	# cordis.yml
//	- id: hooks
//	  plugin: hooks
//	  config:
//	    project: true            # also those that a trusted folder brings
//	    on_failure: allow        # or block: what a hook that fails does to what it was asked about
//	    files:                   # beside hooks.json in the folder of the configuration
//	      - path: ~/.claude/settings.json
//	      - {path: ~/.codex/hooks.json, style: codex, on_failure: block}
//
// Of a folder it takes .dsh/hooks.json, .claude/settings.json, .claude/settings.local.json and .codex/hooks.json, each
// as long as [policy.Trust] holds for exactly its content.
//
// Hooks run through the workspace of the session: in its folder, sandbox and mode, with its environment. They can forbid
// what a call does, have a person asked, rewrite it, and add context. What one rewrites is decided about by everybody; what
// one allows lifts a question of the mode and nothing else.
//
// The plugin takes part in [tool.PreExecute], [tool.PostExecute], [agent.PreStep] and [agent.TurnContinuation], and hears
// [agent.SessionStart] and [agent.Gone]. Its listeners run on the goroutines of agents, and wait there for the hooks. A hook ends with
// the context of what it was started for. Each run is one [Invoked] and one [Resulted] in the log of the session.
package hooks

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"sync"

	"github.com/dsh-harness/dsh/agent"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/tool"
	"github.com/dsh-harness/dsh/workspace"
)

const name = "hooks"

// Plugin runs hooks.
var Plugin = plugin.Plugin[Config]{
	Name: name,
	Doc:  "Runs the hooks of a person and of trusted folders, in the formats of Claude Code and Codex.",
	Needs: []plugin.Need{
		policy.Trust.Optional(), policy.ModeService.Optional(), agent.Service.Optional(), workspace.Service.Optional(),
	},
	Default: func() Config { return Config{Project: true, OnFailure: allowOnFailure} },
	Start:   start,
}

// Config is the configuration of the plugin.
type Config struct {
	Files     []File    `json:"files" doc:"hook files of the person, beside hooks.json in the folder of the configuration"`
	Project   bool      `json:"project" doc:"whether hooks that a trusted folder brings are run"`
	OnFailure OnFailure `json:"on_failure" doc:"allow or block: what a hook that fails does to what it was asked about, when neither it nor its file says so"`
}

// File is one hook file of the person.
type File struct {
	Path      string    `json:"path" doc:"absolute, or from ~"`
	Style     Style     `json:"style,omitempty" doc:"claude (the default) or codex"`
	OnFailure OnFailure `json:"on_failure,omitempty" doc:"allow or block, for the hooks of this file that do not say so; block also when the file cannot be read"`
}

// Style says by whose rules a file is read and its hooks are spoken to.
type Style string

const (
	Claude Style = "claude"
	Codex  Style = "codex"
)

// OnFailure says what becomes of what a hook was asked about when the hook fails: it cannot be started, is ended, exits
// with another code than 0 and 2, or writes what is not understood.
type OnFailure string

const (
	allowOnFailure OnFailure = "allow"
	blockOnFailure OnFailure = "block"
)

func (o OnFailure) validate() error {
	if o != allowOnFailure && o != blockOnFailure {
		return fmt.Errorf("on_failure: %q is neither allow nor block", o)
	}
	return nil
}

// Validate reports the first thing that is wrong, and fills in what files leave out.
func (c *Config) Validate() error {
	if err := c.OnFailure.validate(); err != nil {
		return err
	}
	for i := range c.Files {
		f := &c.Files[i]
		if f.Style == "" {
			f.Style = Claude
		}
		if f.OnFailure == "" {
			f.OnFailure = c.OnFailure
		}
		err := f.OnFailure.validate()
		switch {
		case !filepath.IsAbs(f.Path) && !strings.HasPrefix(f.Path, "~/"):
			err = fmt.Errorf("path: %q is neither absolute nor begins with ~/", f.Path)
		case f.Style != Claude && f.Style != Codex:
			err = fmt.Errorf("style: %q is neither claude nor codex", f.Style)
		}
		if err != nil {
			return fmt.Errorf("files[%d]: %w", i, err)
		}
	}
	return nil
}

// start registers the listeners. Files are read at the first event of each session.
func start(_ context.Context, s *plugin.Scope, c Config) error {
	if err := c.Validate(); err != nil {
		return err
	}
	h := &hooks{scope: s, config: c, sessions: map[string]*state{}}
	return errors.Join(
		registered(session.Types.Add(s, Invoked, session.EventType{Doc: "a hook is started", Data: reflect.TypeFor[InvokedData]()})),
		registered(session.Types.Add(s, Resulted, session.EventType{Doc: "what became of a hook", Data: reflect.TypeFor[ResultData]()})),
		registered(agent.SessionStart.On(s, h.began)),
		registered(agent.Gone.On(s, h.ended)),
		registered(agent.PreStep.On(s, h.admit, plugin.At(agent.Guard))),
		registered(agent.TurnContinuation.On(s, h.halt, plugin.At(agent.Limit))),
		registered(agent.TurnContinuation.On(s, h.stop, plugin.At(agent.Continue))),
		registered(tool.PreExecute.On(s, h.rewrite, plugin.At(tool.Rewrite))),
		registered(tool.PreExecute.On(s, h.decide, plugin.At(tool.Decide))),
		registered(tool.PreExecute.On(s, h.answer, plugin.At(tool.Answer))),
		registered(tool.PostExecute.On(s, h.inspect, plugin.At(tool.Inspect))),
		registered(workspace.Confining.On(s, unconfine)),
	)
}

func registered(_ func(context.Context) error, err error) error { return err }

// hooks is one life of the plugin.
type hooks struct {
	scope  *plugin.Scope
	config Config

	mu       sync.Mutex
	sessions map[string]*state // by id
}

// state is what is known of one session.
type state struct {
	h       *hooks
	session *session.Session // nil when the call has none

	load sync.Once
	set  *set

	mu      sync.Mutex
	source  string              // of a SessionStart that is still to be told, "" when it was
	begun   bool                // SessionStart was told
	context []string            // of SessionStart, until a step takes it
	calls   map[string][]string // context of PreToolUse, by call, until its result takes it
	halted  bool                // a hook ended the turn
	why     string              // what it said about that
	turn    int                 // the turn that stops counts in
	stops   int                 // how often Stop hooks kept that turn going
}

// of returns what is known of a session.
func (h *hooks) of(s *session.Session) *state {
	id := ""
	if s != nil {
		id = s.ID()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	st := h.sessions[id]
	if st == nil {
		st = &state{h: h, session: s, source: "startup", calls: map[string][]string{}}
		h.sessions[id] = st
	}
	return st
}

// end notes that a hook wants the turn to be over.
func (st *state) end(why string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.halted {
		st.halted, st.why = true, why
	}
}

// ending reports whether a hook wants the turn to be over, and why.
func (st *state) ending() (why string, ok bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.why, st.halted
}
