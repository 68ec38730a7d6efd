// Package acp serves one client: the whole stable Agent Client Protocol (agentclientprotocol.com, version 1) and our extensions, whose methods
// begin with _dsh/, over the sessions of a [live.Hub]. Editors, the terminal interface and programs all come in here; what they
// may call stands in one table, [Methods].
//
// [Serve] owns everything that belongs to the client: the sessions that it holds, the watches, the questions that it was asked. All that ends
// with the connection.
package acp

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/dsh-harness/dsh"
	"github.com/dsh-harness/dsh/internal/jsonrpc"
	"github.com/dsh-harness/dsh/internal/nearest"
	"github.com/dsh-harness/dsh/protocol"
	"github.com/dsh-harness/dsh/surface/live"
)

// Options of a connection.
type Options struct {
	Hub     *live.Hub
	Version string // of the program
	// EndTurns ends the turns of the sessions that the client held when it goes away: for a process that serves nobody else.
	EndTurns bool
	// Doctor and Config answer _dsh/doctor and _dsh/config; without one its method is not offered.
	Doctor func(ctx context.Context) (protocol.DoctorResult, error)
	Config func(ctx context.Context) (protocol.ConfigResult, error)
	// Queue bounds what waits to be read by the client, in bytes, and QueueTime how long it may read nothing; 0 are the defaults of package jsonrpc.
	Queue     int64
	QueueTime time.Duration
	Logger    *slog.Logger // nil discards
}

// endTime bounds how long the end of a connection waits for the turns that it ends.
const endTime = 5 * time.Second

// Serve speaks with one client until the stream ends or ctx does. It returns when nothing of the client is left. The error is nil when the client
// went away.
func Serve(ctx context.Context, s jsonrpc.Stream, o Options) error {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))
	c := &client{o: o, life: life, held: map[string]*held{}, watches: map[string]context.CancelFunc{}, methods: map[string]method{}}
	for _, m := range methods() {
		if m.offered(o) {
			c.methods[m.Name] = m
		}
	}
	c.conn = jsonrpc.New(s, jsonrpc.Options{Handler: c.handle, QueueBytes: o.Queue, QueueTime: o.QueueTime, Logger: o.Logger})
	leave := o.Hub.Join()
	defer leave()
	var watching sync.WaitGroup
	watching.Go(func() { // who waits for the client learns that it is gone before its requests are awaited
		<-c.conn.Done()
		end(jsonrpc.ErrClosed)
	})
	err := c.conn.Serve(ctx)
	watching.Wait()
	c.leave()
	return err
}

// client is one connection.
type client struct {
	o       Options
	conn    *jsonrpc.Conn
	methods map[string]method
	life    context.Context // ends with the connection
	running sync.WaitGroup  // goroutines that belong to it

	mu           sync.Mutex
	initialized  bool
	capabilities protocol.ClientCapabilities
	ask          protocol.Ask
	name         string // for the other clients
	held         map[string]*held
	watches      map[string]context.CancelFunc
	watched      int // watches so far
	gone         bool
}

// handle is called for each message in the order of arrival.
func (c *client) handle(_ context.Context, m jsonrpc.Incoming) jsonrpc.Reply {
	switch m.Method {
	case protocol.NoteCancel:
		var p protocol.SessionParams
		if err := m.Decode(&p); err != nil {
			return jsonrpc.Fail(err)
		}
		c.cancel(p.SessionID)
		return jsonrpc.Reply{}
	case protocol.MethodInitialize:
		return c.initialize(m)
	}
	if m.Notification {
		return jsonrpc.Reply{} // none of ours; the protocol wants unknown ones ignored
	}
	t, ok := c.methods[m.Method]
	if !ok {
		return jsonrpc.Fail(c.unknown(m.Method))
	}
	c.mu.Lock()
	ready := c.initialized
	c.mu.Unlock()
	if !ready {
		return jsonrpc.Fail(jsonrpc.NewError(jsonrpc.CodeInvalid, protocol.Problem{Code: "invalid"}, "%s before initialize: call initialize first", m.Method))
	}
	return t.call(c, m)
}

func (c *client) unknown(method string) error {
	var known []string
	for name := range c.methods {
		known = append(known, name)
	}
	slices.Sort(known)
	e := jsonrpc.NoMethod(method)
	if best := nearest.Name(method, known); best != "" {
		e = jsonrpc.NewError(e.Code, protocol.Problem{Code: "unknown-method", Known: []string{best}}, "%s; did you mean %s?", e.Message, best)
	}
	return e
}

// initialize agrees on what both sides can do. A client may do it again, for example after it was reloaded.
func (c *client) initialize(m jsonrpc.Incoming) jsonrpc.Reply {
	var p protocol.InitializeParams
	if err := m.Decode(&p); err != nil {
		return jsonrpc.Fail(err)
	}
	var ask protocol.Ask
	if raw := p.ClientCapabilities.Meta["dsh"]; raw != nil {
		if err := json.Unmarshal(raw, &ask); err != nil {
			return jsonrpc.Fail(&jsonrpc.Error{Code: jsonrpc.CodeParams, Message: fmt.Sprintf("clientCapabilities._meta.dsh is not understood: %v", err)})
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.initialized, c.capabilities, c.ask = true, p.ClientCapabilities, ask
	switch {
	case ask.Name != "":
		c.name = ask.Name
	case p.ClientInfo != nil:
		c.name = p.ClientInfo.Name
	default:
		c.name = "a client"
	}
	var offered []string
	for _, t := range methods() {
		if t.extension() && t.offered(c.o) {
			offered = append(offered, t.Name)
		}
	}
	offer, err := json.Marshal(protocol.Offer{Version: protocol.Version, Methods: offered})
	if err != nil {
		return jsonrpc.Fail(err)
	}
	there := &struct{}{}
	return jsonrpc.Result(protocol.InitializeResult{
		// The highest version that both know: there is only one yet.
		ProtocolVersion: protocol.ACPVersion,
		AgentCapabilities: protocol.AgentCapabilities{
			LoadSession:        true,
			PromptCapabilities: protocol.PromptCapabilities{EmbeddedContext: true},
			SessionCapabilities: protocol.SessionCapabilities{
				List: there, Delete: there, AdditionalDirectories: there, Resume: there, Close: there,
			},
			Meta: protocol.Meta{"dsh": offer},
		},
		AuthMethods: []protocol.AuthMethod{},
		AgentInfo:   &protocol.Implementation{Name: "dsh", Title: "dsh", Version: c.o.Version},
	})
}

// start runs f on a goroutine that has to end with the connection. It reports false when that has ended already.
func (c *client) start(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.gone {
		c.running.Go(f)
	}
	return !c.gone
}

// leave ends what the client held.
func (c *client) leave() {
	c.mu.Lock()
	c.gone = true
	all := c.held
	c.held = map[string]*held{}
	c.mu.Unlock()
	c.running.Wait()
	bounded, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	var ending sync.WaitGroup
	for _, h := range all {
		ending.Go(func() {
			if c.o.EndTurns {
				h.session.Cancel(false)
				if err := h.session.WhenIdle(bounded); err != nil {
					c.o.Logger.Warn("end the turn of a client that went away", "session", h.session.ID(), "err", err)
				}
			}
			h.session.Release()
		})
	}
	ending.Wait()
}

// find returns a session that the client has opened.
func (c *client) find(id string) (*held, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h := c.held[id]; h != nil {
		return h, nil
	}
	return nil, jsonrpc.NewError(protocol.CodeNotFound, protocol.Problem{Code: "not-found"},
		"session %s is not open here: create it with session/new, or open it with session/load or session/resume", id)
}

// with calls f with a session: the one that the client holds, otherwise one that is held for that long.
func (c *client) with(ctx context.Context, id string, f func(s *live.Session) error) error {
	if h, err := c.find(id); err == nil {
		return f(h.session)
	}
	s, err := c.o.Hub.Open(ctx, id, dsh.AgentOptions{})
	if err != nil {
		return err
	}
	defer s.Release()
	return f(s)
}

// who names the client for the others.
func (c *client) who() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.name
}

// nextWatch names a watch.
func (c *client) nextWatch(cancel context.CancelFunc) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watched++
	name := "w" + strconv.Itoa(c.watched)
	c.watches[name] = cancel
	return name
}
