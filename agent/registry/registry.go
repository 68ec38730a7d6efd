// Package registry knows the live agents by name, and hands the making of new ones
// to whoever registered as the factory: the loop. It is the plugin "agents", which
// needs nothing and has no configuration:
//
//	# cordis.yml
//	- {id: agents, plugin: agents}
//
// It serves [agent.Service]; any goroutine may use it.
package registry

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/dsh-harness/dsh/agent"
	"github.com/dsh-harness/dsh/plugin"
)

// Plugin provides [agent.Service].
var Plugin = plugin.Plugin[struct{}]{
	Name: "agents",
	Doc:  "The registry of live agents. The loop makes them; everybody finds them here by name.",
	Start: func(_ context.Context, s *plugin.Scope, _ struct{}) error {
		return agent.Service.Provide(s, &registry{agents: map[string]entry{}})
	},
}

type registry struct {
	mu      sync.Mutex
	factory agent.Factory
	seq     uint64
	agents  map[string]entry // by name in lower case
}

type entry struct {
	seq   uint64
	agent agent.Agent
}

func (r *registry) SetFactory(s *plugin.Scope, f agent.Factory) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.factory != nil {
		return fmt.Errorf("install %T as the factory of agents: %T is installed already", f, r.factory)
	}
	_, err := s.Defer("factory of agents", func(context.Context) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.factory = nil
		return nil
	})
	if err != nil {
		return err
	}
	r.factory = f
	return nil
}

func (r *registry) Create(ctx context.Context, s *plugin.Scope, o agent.CreateOptions) (agent.Handle, error) {
	f, err := r.current()
	if err != nil {
		return nil, fmt.Errorf("create an agent: %w", err)
	}
	return f.Create(ctx, s, o)
}

func (r *registry) Resume(ctx context.Context, s *plugin.Scope, o agent.ResumeOptions) (agent.Handle, error) {
	f, err := r.current()
	if err != nil {
		return nil, fmt.Errorf("resume session %s: %w", o.ResumeSessionID, err)
	}
	return f.Resume(ctx, s, o)
}

func (r *registry) current() (agent.Factory, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.factory == nil {
		return nil, agent.ErrNoFactory
	}
	return r.factory, nil
}

func (r *registry) Register(s *plugin.Scope, a agent.Agent) error {
	key := strings.ToLower(a.ID())
	r.mu.Lock()
	defer r.mu.Unlock()
	if other, taken := r.agents[key]; taken {
		return fmt.Errorf("register agent %q: %w: %q", a.ID(), agent.ErrExists, other.agent.ID())
	}
	_, err := s.Defer("agent "+a.ID(), func(context.Context) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.agents, key)
		return nil
	})
	if err != nil {
		return err
	}
	r.seq++
	r.agents[key] = entry{r.seq, a}
	return nil
}

// Get finds an agent by its name, in any case.
func (r *registry) Get(id string) (agent.Agent, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.agents[strings.ToLower(id)]
	return e.agent, ok
}

// List returns the live agents in the order in which they were registered.
func (r *registry) List() []agent.Agent {
	r.mu.Lock()
	entries := make([]entry, 0, len(r.agents))
	for _, e := range r.agents {
		entries = append(entries, e)
	}
	r.mu.Unlock()
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.seq, b.seq) })
	agents := make([]agent.Agent, len(entries))
	for i, e := range entries {
		agents[i] = e.agent
	}
	return agents
}
