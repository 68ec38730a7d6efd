package acp

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dsh-harness/dsh"
	"github.com/dsh-harness/dsh/internal/jsonrpc"
	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/protocol"
	"github.com/dsh-harness/dsh/surface/live"
)

const (
	// openTime bounds how long a short method waits for a session that is just being opened.
	openTime = 10 * time.Second
	// listPage is how many sessions one page of a list has.
	listPage = 100
)

// held is a session that the client has opened.
type held struct {
	session *live.Session
	dir     string
	end     context.CancelFunc // ends the goroutine that sends updates

	mu      sync.Mutex
	prompts []*prompt     // that are not answered yet
	last    chan struct{} // closed when the prompt that came last is delivered
}

// opening is a method that opens a session. What happens there is told behind its answer.
func opening(name, doc string, f func(c *client, ctx context.Context, p protocol.OpenParams) (protocol.OpenResult, func(), error)) method {
	return method{Method: describe[protocol.OpenParams, protocol.OpenResult](name, doc), call: func(c *client, m jsonrpc.Incoming) jsonrpc.Reply {
		var p protocol.OpenParams
		if err := m.Decode(&p); err != nil {
			return jsonrpc.Fail(err)
		}
		var begin func()
		return jsonrpc.Later(func(ctx context.Context) (any, error) {
			r, then, err := f(c, ctx, p)
			begin = then
			return r, explain(err)
		}).Then(func() {
			if begin != nil {
				begin()
			}
		})
	}}
}

// where checks the folders of a session.
func where(p protocol.OpenParams) (o dsh.AgentOptions, err error) {
	if !filepath.IsAbs(p.Cwd) {
		return o, invalid("cwd must be an absolute path, and is %q", p.Cwd)
	}
	for _, dir := range p.AdditionalDirectories {
		if !filepath.IsAbs(dir) {
			return o, invalid("additional directories must be absolute paths, and one is %q", dir)
		}
	}
	return dsh.AgentOptions{Dir: filepath.Clean(p.Cwd), AddDirs: p.AdditionalDirectories}, nil
}

func (c *client) newSession(ctx context.Context, p protocol.OpenParams) (protocol.OpenResult, func(), error) {
	o, err := where(p)
	if err != nil {
		return protocol.OpenResult{}, nil, err
	}
	s, err := c.o.Hub.Create(ctx, o)
	if err != nil {
		return protocol.OpenResult{}, nil, err
	}
	r, begin, err := c.hold(ctx, s, 0, false, p)
	r.SessionID = s.ID()
	return r, begin, err
}

func (c *client) loadSession(ctx context.Context, p protocol.OpenParams) (protocol.OpenResult, func(), error) {
	return c.reopen(ctx, p, 0, true)
}

func (c *client) resumeSession(ctx context.Context, p protocol.OpenParams) (protocol.OpenResult, func(), error) {
	return c.reopen(ctx, p, 1<<62, false)
}

// reopen opens a stored or live session.
func (c *client) reopen(ctx context.Context, p protocol.OpenParams, from int64, replay bool) (protocol.OpenResult, func(), error) {
	o, err := where(p)
	if err != nil {
		return protocol.OpenResult{}, nil, err
	}
	c.drop(p.SessionID) // a client may load what it has open, to see it anew
	s, err := c.o.Hub.Open(ctx, p.SessionID, o)
	if err != nil {
		return protocol.OpenResult{}, nil, err
	}
	return c.hold(ctx, s, from, replay, p)
}

// hold makes s a session of the client. With replay it sends what was, before it returns.
func (c *client) hold(ctx context.Context, s *live.Session, from int64, replay bool, p protocol.OpenParams) (r protocol.OpenResult, begin func(), err error) {
	defer func() {
		if err != nil {
			s.Release()
		}
	}()
	header, err := s.Header(ctx)
	if err != nil {
		return r, nil, err
	}
	w, err := s.Watch(ctx, live.WatchOptions{From: from, Deltas: !c.quiet(), Name: c.who()})
	if err != nil {
		return r, nil, err
	}
	h := &held{session: s, dir: header.Cwd}
	u := &updates{client: c, held: h, watch: w, replaying: replay}
	if replay {
		if err := u.replay(ctx); err != nil {
			return r, nil, err
		}
	}
	if r.Modes, err = modes(ctx, s); err != nil {
		return r, nil, err
	}
	if r.ConfigOptions, err = c.options(ctx, s); err != nil {
		return r, nil, err
	}
	if len(p.MCPServers) > 0 {
		ignored, err := json.Marshal(map[string][]string{"ignored": {"mcpServers"}})
		if err != nil {
			return r, nil, err
		}
		r.Meta = protocol.Meta{"dsh": ignored}
	}
	life, end := context.WithCancel(c.life)
	h.end = end
	c.mu.Lock()
	gone := c.gone
	if !gone {
		c.held[s.ID()] = h
	}
	c.mu.Unlock()
	if gone {
		end()
		return r, nil, jsonrpc.ErrClosed
	}
	return r, func() { c.start(func() { u.run(life) }) }, nil
}

func (c *client) quiet() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ask.Quiet
}

// drop gives a session back, without a word about what it does.
func (c *client) drop(id string) {
	c.mu.Lock()
	h := c.held[id]
	delete(c.held, id)
	c.mu.Unlock()
	if h != nil {
		h.end()
		h.settleAll(protocol.PromptResult{StopReason: protocol.StopCancelled}, nil)
		h.session.Release()
	}
}

func (c *client) closeSession(ctx context.Context, p protocol.SessionParams) (none, error) {
	h, err := c.find(p.SessionID)
	if err != nil {
		return none{}, err
	}
	h.session.Cancel(false)
	bounded, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	err = h.session.WhenIdle(bounded)
	c.drop(p.SessionID)
	return none{}, err
}

// listSessions gives a page of the sessions. The cursor is how many came before.
func (c *client) listSessions(ctx context.Context, p protocol.ListParams) (protocol.ListResult, error) {
	from := 0
	if p.Cursor != nil {
		n, err := strconv.Atoi(*p.Cursor)
		if err != nil || n < 0 {
			return protocol.ListResult{}, invalid("the cursor %q is not one that a list gave", *p.Cursor)
		}
		from = n
	}
	search := protocol.SearchParams{Limit: from + listPage + 1}
	if p.Cwd != nil {
		search.Cwd = *p.Cwd
		if real, err := filepath.EvalSymlinks(*p.Cwd); err == nil {
			search.Cwd = real
		}
	}
	found, err := c.o.Hub.Search(ctx, search)
	if err != nil {
		return protocol.ListResult{}, err
	}
	all := found.Sessions[min(from, len(found.Sessions)):]
	r := protocol.ListResult{Sessions: []protocol.SessionInfo{}}
	if len(all) > listPage {
		all = all[:listPage]
		r.NextCursor = strconv.Itoa(from + listPage)
	}
	for _, s := range all {
		title := s.Title
		if title == "" {
			title = s.Prompt
		}
		r.Sessions = append(r.Sessions, protocol.SessionInfo{SessionID: s.SessionID, Cwd: s.Cwd, Title: title, UpdatedAt: s.UpdatedAt})
	}
	return r, nil
}

// modes describes the modes of a session, nil when nothing keeps them.
func modes(ctx context.Context, s *live.Session) (*protocol.ModeState, error) {
	now, err := s.Mode(ctx)
	if err != nil || now == "" {
		return nil, err
	}
	state := &protocol.ModeState{CurrentModeID: string(now)}
	for _, m := range policy.Modes() {
		name, doc := modeText(m)
		state.AvailableModes = append(state.AvailableModes, protocol.Mode{ID: string(m), Name: name, Description: doc})
	}
	return state, nil
}

// modeText names a mode for people.
func modeText(m policy.Mode) (name, doc string) {
	switch m {
	case policy.ReadOnly:
		return "Read only", "Reads and searches; changes nothing and asks nothing."
	case policy.Plan:
		return "Plan", "Reads and makes a plan; changes nothing."
	case policy.AskFirst:
		return "Ask", "Asks before each change and each command."
	case policy.WorkspaceWrite:
		return "Workspace", "Changes the folder and runs commands in the sandbox; asks about the rest."
	case policy.FullAccess:
		return "Full access", "Asks nothing, and runs commands without a sandbox."
	}
	return string(m), ""
}

// Ids of the options of a session.
const (
	optionMode   = "mode"
	optionModel  = "model"
	optionEffort = "effort"
)

// options lists what can be chosen for a session.
func (c *client) options(ctx context.Context, s *live.Session) ([]protocol.ConfigOption, error) {
	var all []protocol.ConfigOption
	state, err := modes(ctx, s)
	if err != nil {
		return nil, err
	}
	if state != nil {
		o := protocol.ConfigOption{Type: "select", ID: optionMode, Name: "Mode", Category: protocol.CategoryMode, CurrentValue: state.CurrentModeID}
		for _, m := range state.AvailableModes {
			o.Options = append(o.Options, protocol.ConfigValue{Value: m.ID, Name: m.Name, Description: m.Description})
		}
		all = append(all, o)
	}
	now, effort, err := s.Model(ctx)
	if err != nil {
		return nil, err
	}
	models, err := c.o.Hub.Models()
	if err != nil {
		return nil, err
	}
	o := protocol.ConfigOption{Type: "select", ID: optionModel, Name: "Model", Category: protocol.CategoryModel, CurrentValue: now.Ref()}
	listed := false
	for _, m := range models.Models {
		if m.Problem != "" && m.Ref != now.Ref() {
			continue // it could not be asked
		}
		name := m.Name
		if name == "" {
			name = m.Ref
		}
		listed = listed || m.Ref == now.Ref()
		o.Options = append(o.Options, protocol.ConfigValue{Value: m.Ref, Name: name})
	}
	if !listed {
		o.Options = append(o.Options, protocol.ConfigValue{Value: now.Ref(), Name: now.Ref()})
	}
	all = append(all, o)
	if len(now.Efforts) > 0 {
		if effort == "" {
			effort = now.DefaultEffort
		}
		o := protocol.ConfigOption{Type: "select", ID: optionEffort, Name: "Effort", Category: protocol.CategoryThoughtLevel, CurrentValue: effort}
		if effort == "" {
			o.CurrentValue = now.Efforts[0]
		}
		for _, e := range now.Efforts {
			o.Options = append(o.Options, protocol.ConfigValue{Value: e, Name: strings.ToUpper(e[:1]) + e[1:]})
		}
		all = append(all, o)
	}
	return all, nil
}

func (c *client) setMode(ctx context.Context, p protocol.SetModeParams) (none, error) {
	h, err := c.find(p.SessionID)
	if err != nil {
		return none{}, err
	}
	if err := h.session.SetMode(ctx, p.ModeID, c.who()); err != nil {
		return none{}, invalid("switch the mode: %v", err)
	}
	return none{}, nil
}

func (c *client) setConfigOption(ctx context.Context, p protocol.SetConfigOptionParams) (protocol.SetConfigOptionResult, error) {
	h, err := c.find(p.SessionID)
	if err != nil {
		return protocol.SetConfigOptionResult{}, err
	}
	var value string
	if err := json.Unmarshal(p.Value, &value); err != nil {
		return protocol.SetConfigOptionResult{}, invalid("the value of %s must be a string, and is %s", p.ConfigID, p.Value)
	}
	switch p.ConfigID {
	case optionMode:
		err = h.session.SetMode(ctx, value, c.who())
	case optionModel:
		err = h.session.SetModel(ctx, value)
	case optionEffort:
		err = h.session.SetEffort(ctx, value)
	default:
		err = fmt.Errorf("there is no option %q; there are %s, %s and %s", p.ConfigID, optionMode, optionModel, optionEffort)
	}
	if err != nil {
		return protocol.SetConfigOptionResult{}, invalid("choose %s: %v", p.ConfigID, err)
	}
	all, err := c.options(ctx, h.session)
	return protocol.SetConfigOptionResult{ConfigOptions: all}, err
}
