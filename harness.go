package dsh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/dsh-harness/dsh/agent"
	"github.com/dsh-harness/dsh/config"
	"github.com/dsh-harness/dsh/internal/uuid7"
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/profiles"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/std"
	"github.com/dsh-harness/dsh/tool"
	"github.com/dsh-harness/dsh/workspace"
)

// Harness is a running composition: a tree of plugins that makes agents.
type Harness struct {
	tree    *plugin.Tree
	manager *config.Manager
	scope   *plugin.Scope
	started plugin.Report

	mu      sync.Mutex
	records map[string]*record // of the live agents, by session
}

// New starts a composition, without an agent. Its error is of type [config.Errors] when the
// configuration is wrong; then nothing was started. A row that fails and is not required is
// only told of in [Harness.Started].
func New(ctx context.Context, o Options) (*Harness, error) {
	c, err := o.Configuration()
	if err != nil {
		return nil, err
	}
	h := &Harness{tree: plugin.New(o.Logger), records: map[string]*record{}}
	if err := h.start(ctx, c, o.Tools); err != nil {
		return nil, errors.Join(err, h.Close(context.WithoutCancel(ctx)))
	}
	return h, nil
}

// Configuration returns what package config needs to compose these options, for
// programs that show or check a composition without starting it.
func (o Options) Configuration() (config.Options, error) {
	layers, err := profiles.Layers(o.Profile)
	if err != nil {
		return config.Options{}, err
	}
	layers = append(layers, o.Layers...)
	for _, set := range o.Set {
		layers = append(layers, config.Layer{Kind: config.Set, Text: set})
	}
	c := config.Options{Layers: layers, Plugins: o.Plugins, Environment: config.Environment{Lookup: o.Lookup}}
	if c.Plugins == nil {
		c.Plugins = std.Plugins()
	}
	if c.Environment.Lookup == nil {
		c.Environment.Lookup = os.LookupEnv
	}
	return c, nil
}

// start mounts the rows, then below them what the program itself adds.
func (h *Harness) start(ctx context.Context, c config.Options, tools []tool.Definition) error {
	rows, err := h.mount(ctx, "rows", nil)
	if err != nil {
		return err
	}
	h.manager = config.NewManager(plugin.NewLoader(rows), c)
	if h.started, err = h.manager.Reload(ctx); err != nil {
		return err
	}
	// All are optional, so that a row which restarts does not end the program's agents with it:
	// an agent itself needs what it works with.
	h.scope, err = h.mount(ctx, "program", []plugin.Need{
		agent.Service.Optional(), llm.Service.Optional(), tool.Service.Optional(),
		session.Service.Optional(), session.PersistenceService.Optional(), workspace.Service.Optional(),
		policy.ModeService.Optional(), policy.Redaction.Optional(),
	})
	if err != nil {
		return err
	}
	if err := h.listen(); err != nil {
		return err
	}
	for _, t := range tools {
		if _, err := tool.Tools.Add(h.scope, t.Name(), t); err != nil {
			return err
		}
	}
	return nil
}

// mount adds an empty node to the tree and returns its scope.
func (h *Harness) mount(ctx context.Context, name string, needs []plugin.Need) (*plugin.Scope, error) {
	var scope *plugin.Scope
	n, err := h.tree.Root().Mount(name, needs, func(_ context.Context, s *plugin.Scope) error {
		scope = s
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := n.Settle(ctx); err != nil {
		return nil, err
	}
	return scope, nil
}

// Scope is the program's own place in the tree: it sees all services of the seams, hears the
// events of all agents, and whatever is registered on it ends with the harness.
func (h *Harness) Scope() *plugin.Scope { return h.scope }

// Started tells what became of each row at the start.
func (h *Harness) Started() plugin.Report { return h.started }

// Composition is the configuration that runs.
func (h *Harness) Composition() *config.Composition { return h.manager.Current() }

// Reload reads the layers again and changes what runs accordingly, as a transaction; see
// [config.Manager.Reload].
func (h *Harness) Reload(ctx context.Context) (plugin.Report, error) { return h.manager.Reload(ctx) }

// Dump is a snapshot of the rows and what stands below them.
func (h *Harness) Dump() []plugin.Dump {
	for _, d := range h.tree.Dump().Children {
		if d.Name == "rows" {
			return d.Children
		}
	}
	return nil
}

// Open starts an agent. It fails before anything is sent or written when the model is not
// known or lacks a key.
func (h *Harness) Open(ctx context.Context, o AgentOptions) (*Agent, error) {
	agents, ok := agent.Service.Current(h.scope)
	if !ok {
		return nil, fmt.Errorf("start an agent: no row provides %q", "agents")
	}
	dir, err := o.dir()
	if err != nil {
		return nil, err
	}
	if o.Model != "" || o.Resume == "" {
		if err := h.ready(o.Model, o.Effort); err != nil {
			return nil, err
		}
	}
	options := agent.Options{
		Model:        o.Model,
		SystemPrompt: o.SystemPrompt,
		SystemAppend: o.SystemAppend,
		Params:       llm.Params{Effort: o.Effort, MaxTokens: o.MaxTokens},
		Limits:       agent.Limits{Steps: o.MaxSteps, Time: o.Timeout},
	}
	options.Workspace.Dirs = o.AddDirs
	id := cmp.Or(o.Resume, o.SessionID, uuid7.New())
	r := newRecord(id, o.OnEvent, h.price())
	if err := h.remember(r); err != nil {
		return nil, err
	}
	var handle agent.Handle
	if o.Resume != "" {
		options.Workspace.Dir = o.Dir
		handle, err = agents.Resume(ctx, h.scope, agent.ResumeOptions{ResumeSessionID: id, Options: options})
	} else {
		handle, err = agents.Create(ctx, h.scope, agent.CreateOptions{
			SessionID: id,
			Session:   session.PrepareOptions{Cwd: dir, NoPersist: o.Ephemeral},
			Options:   options,
		})
	}
	if err != nil {
		h.forget(r)
		return nil, err
	}
	a := &Agent{Agent: handle.Agent(), harness: h, handle: handle, record: r, turn: make(chan struct{}, 1)}
	err = h.scope.Go("follow session "+id, func(ctx context.Context) error {
		r.follow(ctx, a.Session())
		return nil
	})
	if err != nil {
		r.finish(err)
	} else if o.Resume != "" && o.Model == "" {
		if last := a.Session().RequestHeader(); last != nil {
			err = h.ready(last.Provider+"/"+last.Model, o.Effort)
		} else {
			err = h.ready("", o.Effort)
		}
	}
	if err != nil {
		return nil, errors.Join(err, a.Close(context.WithoutCancel(ctx)))
	}
	return a, nil
}

// dir is the folder that a new session works in.
func (o AgentOptions) dir() (string, error) {
	if o.Dir == "" {
		return os.Getwd()
	}
	info, err := os.Stat(o.Dir)
	if err != nil {
		return "", fmt.Errorf("work in %s: %w", o.Dir, errors.Unwrap(err))
	}
	if !info.IsDir() {
		return "", fmt.Errorf("work in %s: it is not a folder", o.Dir)
	}
	return o.Dir, nil
}

// ready reports what a call of the model ref with that effort would lack.
func (h *Harness) ready(ref, effort string) error {
	runtime, ok := llm.Service.Current(h.scope)
	if !ok {
		return fmt.Errorf("start an agent: no row provides %q", "llm")
	}
	model, err := runtime.Resolve(h.scope, ref)
	if err != nil {
		return err
	}
	if effort != "" && model.Efforts != nil && !slices.Contains(model.Efforts, effort) {
		return &llm.Error{Code: llm.CodeUnsupported, Message: fmt.Sprintf("%s has no reasoning effort %q; choose one of %s",
			model.Ref(), effort, strings.Join(model.Efforts, ", "))}
	}
	if p, ok := llm.Providers.Get(h.scope, model.Provider); ok && p.Ready != nil {
		return p.Ready()
	}
	return nil
}

// price looks up what models cost, remembering the last one.
func (h *Harness) price() func(provider, model string) llm.Price {
	var last llm.Model
	return func(provider, model string) llm.Price {
		if last.Provider == provider && last.ID == model {
			return last.Price
		}
		last = llm.Model{Provider: provider, ID: model}
		if runtime, ok := llm.Service.Current(h.scope); ok {
			if m, err := runtime.Resolve(h.scope, last.Ref()); err == nil {
				last = m
			}
		}
		return last.Price
	}
}

// listen keeps the records of all agents: where a resumed session goes on, and what was denied.
func (h *Harness) listen() error {
	_, err := agent.SessionStart.On(h.scope, func(_ context.Context, n agent.StartNotice) error {
		if r := h.recordOf(n.Agent.Session()); r != nil {
			r.begin(n.Agent.Session())
		}
		return nil
	})
	if err != nil {
		return err
	}
	_, err = tool.PreExecute.On(h.scope, func(ctx context.Context, p *tool.Pending, next plugin.Next[*tool.Pending, tool.Verdict]) (tool.Verdict, error) {
		v, err := next(ctx, p)
		if r := h.recordOf(p.Call.Session); r != nil && err == nil && v.Decision >= tool.Ask {
			r.deny(Denial{CallID: p.Call.ID, Tool: p.Call.Name, Unanswered: v.Decision == tool.Ask, Reason: v.Reason})
		}
		return v, err
	}, plugin.At(tool.Rewrite))
	return err
}

func (h *Harness) remember(r *record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, taken := h.records[r.id]; taken {
		return fmt.Errorf("start an agent on session %s: this program has one already: %w", r.id, agent.ErrExists)
	}
	h.records[r.id] = r
	return nil
}

func (h *Harness) forget(r *record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.records[r.id] == r {
		delete(h.records, r.id)
	}
}

func (h *Harness) recordOf(s *session.Session) *record {
	if s == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.records[s.ID()]
}

// Close ends all agents and stops the plugins, newest first.
func (h *Harness) Close(ctx context.Context) error { return h.tree.Close(ctx) }
