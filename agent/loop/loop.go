// Package loop is the agent loop: it takes what is waiting in an agent's inbox,
// asks the model, runs the tools that the answer calls, and goes on until the
// model is done. It is the only package with loop logic; whatever else an agent
// does is a plugin on the events of package agent.
//
// Only the composition root mounts it; everybody else reaches it through
// [agent.Registry]. Its agents may be used from any goroutine.
//
// A row of the configuration may list agents that start with it:
//
//	# cordis.yml
//	- id: agent-loop
//	  plugin: agent-loop
//	  config:
//	    agents:
//	      - id: reviewer
//	        model: deepseek/deepseek-v4-pro
//	        systemPrompt: You review what others wrote.
package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/dsh-harness/dsh/agent"
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/prompt"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/tool"
	"github.com/dsh-harness/dsh/workspace"
)

// Config is the configuration of [Plugin].
type Config struct {
	Agents        []AgentConfig `json:"agents,omitempty" doc:"agents that start with the loop, each on a fresh session"`
	ParallelCalls int           `json:"parallelCalls,omitempty" doc:"how many tool calls of one step run at once, 1 to 64"`
}

// AgentConfig is an agent that starts with the loop.
type AgentConfig struct {
	ID           string `json:"id" doc:"the agent's name; its session is <id>-session-<uuid>"`
	Model        string `json:"model,omitempty" doc:"provider/model; the default model when empty"`
	SystemPrompt string `json:"systemPrompt,omitempty" doc:"replaces the base sections of the system prompt"`
}

// Validate reports what is wrong with the configuration.
func (c *Config) Validate() error {
	var errs []error
	seen := map[string]bool{}
	for i, a := range c.Agents {
		switch {
		case a.ID == "":
			errs = append(errs, fmt.Errorf("agents[%d].id: missing, expected the agent's name", i))
		case session.ValidID(a.ID) != nil:
			errs = append(errs, fmt.Errorf("agents[%d].id: %w", i, session.ValidID(a.ID)))
		case seen[a.ID]:
			errs = append(errs, fmt.Errorf("agents[%d].id: %q is listed twice", i, a.ID))
		}
		seen[a.ID] = true
	}
	if c.ParallelCalls < 1 || c.ParallelCalls > 64 {
		errs = append(errs, fmt.Errorf("parallelCalls: %d is not between 1 and 64", c.ParallelCalls))
	}
	return errors.Join(errs...)
}

// required are the five services that the loop and each agent need.
func required() []plugin.Need {
	return []plugin.Need{
		agent.Service.Required(), session.Service.Required(), llm.Service.Required(),
		tool.Service.Required(), prompt.Service.Required(),
	}
}

// Plugin is the agent loop. It provides agentLoop and is the factory of agents.
var Plugin = plugin.Plugin[Config]{
	Name:    "agent-loop",
	Doc:     "Runs agents: asks the model, runs the tools it calls, and goes on until it is done.",
	Needs:   append(required(), workspace.Service.Optional()),
	Default: func() Config { return Config{ParallelCalls: 10} },
	Start:   start,
}

func start(_ context.Context, s *plugin.Scope, c Config) error {
	l := &loop{scope: s, listed: map[AgentConfig]*plugin.Node{}}
	if err := agent.Service.From(s).SetFactory(s, factory{l}); err != nil {
		return err
	}
	if err := agent.LoopService.Provide(s, l); err != nil {
		return err
	}
	if err := plugin.OnReconfigure(s, l.configure); err != nil {
		return err
	}
	return l.configure(s.Context(), c)
}

// loop makes agents.
type loop struct {
	scope    *plugin.Scope
	parallel atomic.Int64 // see [Config.ParallelCalls]

	// listed are the agents of the configuration. Only configure uses it, and of that
	// one call runs at a time.
	listed map[AgentConfig]*plugin.Node
}

// configure takes a configuration, the first or a later one. Running turns go on: agents that
// are listed as before are kept, and only those that are not any more end.
func (l *loop) configure(ctx context.Context, c Config) error {
	l.parallel.Store(int64(c.ParallelCalls))
	for a, node := range l.listed {
		if slices.Contains(c.Agents, a) {
			continue
		}
		if err := node.Close(ctx); err != nil {
			return fmt.Errorf("stop agent %s: %w", a.ID, err)
		}
		delete(l.listed, a)
	}
	for _, a := range c.Agents {
		if l.listed[a] != nil {
			continue
		}
		// Mounted, not waited for: it starts as soon as the loop has, and one that fails
		// shows in the tree and reaches nobody else.
		h, err := l.mount(l.scope, named(a.ID, agent.Options{Model: a.Model, SystemPrompt: a.SystemPrompt}))
		if err != nil {
			return err
		}
		l.listed[a] = h.node
	}
	return nil
}

var (
	_ agent.Factory = factory{}
	_ agent.Loop    = (*loop)(nil)
	_ agent.Agent   = (*loopAgent)(nil)
	_ agent.Handle  = (*handle)(nil)
)
