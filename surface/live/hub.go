// Package live keeps the sessions of one process for all its clients. A [Hub] opens each session once, however many
// clients ask for it; a [Session] is one holder's reference to it, and a [Watch] tells one client what happens there: the durable
// events from a sequence number on, and what is not durable yet. Questions to a person go to every watch, and the
// first answer counts.
//
// A watch is pulled: what a client has not taken stands in the log, not in a queue, so a slow one costs the others
// nothing. A session that nobody holds and that does nothing is parked: its agent ends and its log is given back, and the next who
// needs it goes on where it was.
//
// Nothing here knows a wire. Everything may be used from any goroutine, but for what says otherwise.
package live

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dsh-harness/dsh"
	"github.com/dsh-harness/dsh/agent"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/session"
)

// Options of a [Hub].
type Options struct {
	// Harness makes the agents. It lives longer than the hub.
	Harness *dsh.Harness
	// Defaults are what a session has that a client opens without saying otherwise: model, folders, limits.
	Defaults dsh.AgentOptions
	// Park is how long an idle session that nobody holds stays in memory; 0 is 10 s.
	Park time.Duration
	// Wait is how long a question waits for somebody to watch its session before it is denied; 0 is not at all.
	Wait time.Duration
	// Version of the program, for [Hub.Stats].
	Version string
	// Logger receives what goes wrong behind the back of every client; nil discards it.
	Logger *slog.Logger
}

const (
	defaultPark = 10 * time.Second
	// roomy is how many sessions may be in memory before those that nobody needs have to leave sooner.
	roomy = 64
)

// ErrClosed: the hub has been closed, or the session that was held has ended.
var ErrClosed = errors.New("the session is closed")

// Hub is the sessions of one process.
type Hub struct {
	o     Options
	since time.Time
	scope *plugin.Scope // the hub's own, below the harness
	undo  []func(context.Context) error

	live atomic.Int64 // sessions in memory

	mu      sync.Mutex
	closed  bool
	entries map[string]*entry
	feeds   map[string]*feed // of the sessions that are in memory, by id
	clients int
}

// New starts a hub on a harness. [Hub.Close] ends it.
func New(o Options) (*Hub, error) {
	if o.Park <= 0 {
		o.Park = defaultPark
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	h := &Hub{o: o, since: time.Now(), scope: o.Harness.Scope(), entries: map[string]*entry{}, feeds: map[string]*feed{}}
	if err := h.listen(); err != nil {
		return nil, errors.Join(fmt.Errorf("start the sessions' hub: %w", err), h.Close(context.Background()))
	}
	return h, nil
}

// listen has the hub told what agents tell.
func (h *Hub) listen() error {
	keep := func(dispose func(context.Context) error, err error) error {
		if err == nil {
			h.undo = append(h.undo, dispose)
		}
		return err
	}
	return errors.Join(
		keep(agent.StreamChunk.On(h.scope, func(_ context.Context, n agent.ChunkNotice) error {
			if f := h.feedOf(n.Agent); f != nil {
				f.chunk(n)
			}
			return nil
		})),
		keep(agent.ToolProgress.On(h.scope, func(_ context.Context, n agent.ProgressNotice) error {
			if f := h.feedOf(n.Agent); f != nil {
				f.output(n.CallID, n.Text)
			}
			return nil
		})),
		keep(agent.StatusChanged.On(h.scope, func(_ context.Context, n agent.StatusNotice) error {
			if f := h.feedOf(n.Agent); f != nil {
				f.setStatus(n.Status)
				if n.Status == agent.Idle {
					f.entry.rest()
				}
			}
			return nil
		})),
		keep(policy.Answerers.Add(h.scope, "client", answerer{h})),
	)
}

func (h *Hub) feedOf(a agent.Agent) *feed {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.feeds[a.Session().ID()]
}

// Close ends all agents of the hub, the turns that run included, and then the hub. The harness goes on. Held sessions end with [ErrClosed].
func (h *Hub) Close(ctx context.Context) error {
	h.mu.Lock()
	h.closed = true
	all := make([]*entry, 0, len(h.entries))
	for _, e := range h.entries {
		all = append(all, e)
	}
	h.mu.Unlock()
	errs := make([]error, len(all))
	var ending sync.WaitGroup
	for i, e := range all {
		ending.Go(func() { errs[i] = e.close(ctx) })
	}
	ending.Wait()
	for _, dispose := range h.undo {
		errs = append(errs, dispose(ctx))
	}
	return errors.Join(errs...)
}

// Create starts an agent on a new session and holds it.
func (h *Hub) Create(ctx context.Context, o dsh.AgentOptions) (*Session, error) {
	o = h.complete(o)
	o.Resume = ""
	a, err := h.o.Harness.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	id := a.Session().ID()
	e, err := h.entry(id)
	if err == nil {
		if err = e.lock(ctx); err == nil {
			err = e.startLocked(a, o)
			e.unlock()
		}
		if err != nil {
			e.release()
		}
	}
	if err != nil {
		return nil, errors.Join(err, a.Close(context.WithoutCancel(ctx)))
	}
	return &Session{e}, nil
}

// Open holds the session of that id: the one that is in memory, otherwise it is resumed with these options. It fails with
// what [session.Persistence.Open] fails with, such as a [*session.LockedError] when another process has the session.
func (h *Hub) Open(ctx context.Context, id string, o dsh.AgentOptions) (*Session, error) {
	e, err := h.entry(id)
	if err != nil {
		return nil, err
	}
	if err := e.lock(ctx); err != nil {
		e.release()
		return nil, err
	}
	defer e.unlock()
	if !e.live() {
		if !e.known {
			model, effort := o.Model, o.Effort
			o = h.complete(o)
			o.Model, o.Effort = model, effort // a session that was begun has its own
			o.Resume, o.SessionID = id, ""
			e.o = o
		}
		if err := e.wakeLocked(ctx); err != nil {
			e.release()
			return nil, err
		}
	}
	return &Session{e}, nil
}

// complete adds the hub's defaults.
func (h *Hub) complete(o dsh.AgentOptions) dsh.AgentOptions {
	d := h.o.Defaults
	if o.Model == "" {
		o.Model = d.Model
	}
	if o.Effort == "" {
		o.Effort = d.Effort
	}
	if o.MaxTokens == 0 {
		o.MaxTokens = d.MaxTokens
	}
	if o.SystemPrompt == "" {
		o.SystemPrompt = d.SystemPrompt
	}
	if o.SystemAppend == "" {
		o.SystemAppend = d.SystemAppend
	}
	if o.MaxSteps == 0 {
		o.MaxSteps = d.MaxSteps
	}
	if o.Timeout == 0 {
		o.Timeout = d.Timeout
	}
	if len(o.AddDirs) == 0 {
		o.AddDirs = d.AddDirs
	}
	o.Ephemeral = o.Ephemeral || d.Ephemeral
	return o
}

// crowded reports whether many sessions are in memory.
func (h *Hub) crowded() bool { return h.live.Load() > roomy }

// entry returns the record of a session, with one holder more.
func (h *Hub) entry(id string) (*entry, error) {
	if err := session.ValidID(id); err != nil {
		return nil, fmt.Errorf("open session %q: %w", id, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, fmt.Errorf("open session %s: this program is ending: %w", id, ErrClosed)
	}
	e := h.entries[id]
	if e == nil {
		e = &entry{hub: h, id: id, token: make(chan struct{}, 1)}
		h.entries[id] = e
	}
	e.mu.Lock()
	e.holders++
	f := e.feed
	e.mu.Unlock()
	if f != nil {
		f.nudge() // a question may wait for somebody
	}
	return e, nil
}

// current returns the session of that id if it is in memory.
func (h *Hub) current(id string) (*feed, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f, ok := h.feeds[id]
	return f, ok
}

// Join counts a client until the function that it returns is called, for [Hub.Stats].
func (h *Hub) Join() (leave func()) {
	count := func(n int) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.clients += n
	}
	count(1)
	return sync.OnceFunc(func() { count(-1) })
}
