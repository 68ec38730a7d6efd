package loop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/dsh-harness/dsh/agent"
	"github.com/dsh-harness/dsh/internal/uuid7"
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/prompt"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/tool"
	"github.com/dsh-harness/dsh/workspace"
)

// plan says which agent to start. The first life of its node begins with a new
// session unless resume is set; a later life, after a service came back, goes on
// with the same one.
type plan struct {
	agentID string
	resume  string
	restore session.RestoreOptions
	prepare session.PrepareOptions
	options agent.Options
}

// named plans an agent on a fresh session of its own name.
func named(id string, o agent.Options) *plan {
	return &plan{
		agentID: id, options: o,
		prepare: session.PrepareOptions{ID: id + "-session-" + uuid7.New(), Cwd: o.Workspace.Dir},
	}
}

// Create starts an agent on the session <id>-session-<uuid>.
func (l *loop) Create(ctx context.Context, s *plugin.Scope, id string, o agent.Options) (agent.Agent, error) {
	if err := session.ValidID(id); err != nil {
		return nil, fmt.Errorf("create agent: %w", err)
	}
	h, err := l.start(ctx, s, named(id, o))
	if err != nil {
		return nil, err
	}
	return h.Agent(), nil
}

// factory is the loop as [agent.Factory].
type factory struct{ *loop }

func (f factory) Create(ctx context.Context, s *plugin.Scope, o agent.CreateOptions) (agent.Handle, error) {
	p := &plan{agentID: o.AgentID, prepare: o.Session, options: o.Options}
	if o.SessionID != "" {
		p.prepare.ID = o.SessionID
	}
	if p.prepare.ID == "" {
		p.prepare.ID = uuid7.New()
	}
	if p.agentID == "" {
		p.agentID = p.prepare.ID
	}
	return f.handle(f.start(ctx, s, p))
}

func (f factory) Resume(ctx context.Context, s *plugin.Scope, o agent.ResumeOptions) (agent.Handle, error) {
	p := &plan{
		agentID: o.AgentID, resume: o.ResumeSessionID, options: o.Options,
		restore: session.RestoreOptions{ContinueTurn: o.ContinueTurn},
	}
	if p.agentID == "" {
		p.agentID = p.resume
	}
	return f.handle(f.start(ctx, s, p))
}

// handle keeps a nil handle from becoming a non-nil interface.
func (factory) handle(h *handle, err error) (agent.Handle, error) {
	if err != nil {
		return nil, err
	}
	return h, nil
}

// handle owns an agent through its node.
type handle struct {
	node *plugin.Node

	mu    sync.Mutex
	agent *loopAgent // of the newest life
}

func (h *handle) Agent() agent.Agent {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.agent
}

func (h *handle) Dispose(ctx context.Context) error { return h.node.Close(ctx) }

// start mounts an agent below s and waits until it runs. What fails is rolled back.
func (l *loop) start(ctx context.Context, s *plugin.Scope, p *plan) (*handle, error) {
	h, err := l.mount(s, p)
	if err != nil {
		return nil, err
	}
	err = h.node.Settle(ctx)
	h.mu.Lock()
	running := h.agent != nil
	h.mu.Unlock()
	if err == nil && !running {
		err = errors.New("a service that agents need is missing")
	}
	if err == nil {
		return h, nil
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), plugin.CleanupTimeout)
	defer cancel()
	if closing := h.node.Close(bounded); closing != nil {
		err = errors.Join(err, closing)
	}
	return nil, fmt.Errorf("start agent %s: %w", p.agentID, err)
}

// mount adds the agent's node, in a realm of its own. Besides the five services
// it needs the loop: when one of them goes, the agent stops.
func (l *loop) mount(s *plugin.Scope, p *plan) (*handle, error) {
	h := &handle{}
	needs := append(required(), agent.LoopService.Required(), workspace.Service.Optional())
	var lives int
	start := func(ctx context.Context, s *plugin.Scope) error {
		lives++
		now := *p
		if lives > 1 && now.resume == "" {
			now.resume = p.prepare.ID
		}
		a, err := l.life(ctx, s, &now)
		if err != nil {
			return err
		}
		h.mu.Lock()
		h.agent = a
		h.mu.Unlock()
		return a.begin(ctx, lives > 1 || p.resume != "")
	}
	nodes, err := s.MountAll(plugin.Child{Name: "agent " + p.agentID, Needs: needs, Start: start, OwnRealm: true})
	if err != nil {
		return nil, err
	}
	h.node = nodes[0]
	return h, nil
}

// services are what an agent works with.
type services struct {
	llm    llm.Runtime
	tools  tool.Registry
	prompt prompt.Assembler
	log    *slog.Logger
}

// life builds one life of an agent on s. Everything it takes is given back, in
// reverse, when s ends: first the driver stops, then the agent is unregistered,
// then its session leaves the store.
func (l *loop) life(ctx context.Context, s *plugin.Scope, p *plan) (*loopAgent, error) {
	if now, ok := agent.LoopService.From(s).(*loop); ok {
		l = now // the loop may have been started anew, with another configuration
	}
	store := session.Service.From(s)
	sess, err := plugin.Acquire(s, "session", func(ctx context.Context) (*session.Session, func(context.Context) error, error) {
		return enter(ctx, store, s, p)
	})
	if err != nil {
		return nil, err
	}
	a := &loopAgent{
		id: p.agentID, scope: s, session: sess, options: p.options, loop: l,
		services: services{
			llm: llm.Service.From(s), tools: tool.Service.From(s), prompt: prompt.Service.From(s), log: s.Log(),
		},
		status:    agent.Idle,
		rested:    make(chan struct{}),
		selection: agent.Selection{Model: p.options.Model, Effort: p.options.Params.Effort},
	}
	close(a.rested)
	state := sess.State()
	a.turns, a.unfinished = state.Turn, state.TurnOpen
	for _, pending := range state.Pending {
		a.inbox.add(pending)
	}
	if provider, ok := workspace.Service.Current(s); ok {
		o := p.options.Workspace
		if o.Dir == "" {
			o.Dir = sess.Header().Cwd
		}
		o.Session = sess.ID()
		if a.workspace, err = provider.Open(ctx, s, o); err != nil {
			return nil, err
		}
	}
	if err := agent.Service.From(s).Register(s, a); err != nil {
		return nil, err
	}
	if err := store.Announce(ctx, sess); err != nil {
		return nil, err
	}
	_, err = s.Defer("agent/disposed", func(ctx context.Context) error {
		a.end(ctx)
		return agent.Gone.Emit(ctx, s, a)
	})
	if err != nil {
		return nil, err
	}
	a.tell(ctx, agent.Created.Emit(ctx, s, a))
	return a, nil
}

// enter makes the plan's session live. What it returns as cleanup closes it.
func enter(ctx context.Context, store session.Store, s *plugin.Scope, p *plan) (*session.Session, func(context.Context) error, error) {
	var sess *session.Session
	var err error
	if p.resume != "" {
		sess, err = store.Restore(ctx, p.resume, p.restore)
	} else {
		sess, err = store.Prepare(ctx, p.prepare)
	}
	if err != nil {
		return nil, nil, err
	}
	sess.Bind(s)
	detach, err := store.Enter(sess)
	if err != nil {
		return nil, nil, errors.Join(err, sess.Close(ctx))
	}
	return sess, detach, nil
}

// begin tells that the conversation starts and takes up what was waiting.
func (a *loopAgent) begin(ctx context.Context, resumed bool) error {
	source := "startup"
	if resumed {
		source = "resume"
	}
	a.tell(ctx, agent.SessionStart.Emit(ctx, a.scope, agent.StartNotice{Agent: a, Source: source}))
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wakeLocked()
	return nil
}
