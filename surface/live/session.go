package live

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dsh-harness/dsh/agent"
	"github.com/dsh-harness/dsh/internal/nearest"
	"github.com/dsh-harness/dsh/internal/uuid7"
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/protocol"
	"github.com/dsh-harness/dsh/session"
)

// Session is one holder's reference to a session: while there is one, it stays in memory.
type Session struct{ e *entry }

// ID is the session's name.
func (s *Session) ID() string { return s.e.id }

// Release gives the reference back. A turn that runs goes on. It is called once, and nothing else is called after it.
func (s *Session) Release() { s.e.release() }

// held reports whether somebody holds the session.
func (e *entry) held() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.holders > 0
}

// awake returns the feed of the agent, which is started again if a reload has ended it.
func (s *Session) awake(ctx context.Context) (*feed, error) {
	if s.e.live() {
		return s.e.now(), nil
	}
	if err := s.e.lock(ctx); err != nil {
		return nil, err
	}
	defer s.e.unlock()
	if !s.e.live() {
		if err := s.e.wakeLocked(ctx); err != nil {
			return nil, err
		}
	}
	return s.e.now(), nil
}

// Header is what the log says about itself.
func (s *Session) Header(ctx context.Context) (session.Header, error) {
	f, err := s.awake(ctx)
	if err != nil {
		return session.Header{}, err
	}
	return f.agent.Session().Header(), nil
}

// State is what the log says about the session.
func (s *Session) State(ctx context.Context) (session.State, error) {
	f, err := s.awake(ctx)
	if err != nil {
		return session.State{}, err
	}
	return f.agent.Session().State(), nil
}

// Status is "running", "waiting" for an answer, or "idle".
func (s *Session) Status() string {
	f := s.e.now()
	if f == nil {
		return "idle"
	}
	return f.state()
}

func (f *feed) state() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case len(f.questions) > 0:
		return "waiting"
	case f.agent.Status() == agent.Running:
		return "running"
	}
	return "idle"
}

// NewMessageID makes the id of a message for [Session.Deliver].
func NewMessageID() string { return uuid7.New() }

// Deliver gives the agent a message for its next turn, or for the running one when steer is set. It returns when that is durable. id names the
// message, also for [Session.Inbox].
func (s *Session) Deliver(ctx context.Context, id string, content []llm.Block, steer bool) error {
	f, err := s.awake(ctx)
	if err != nil {
		return err
	}
	m := llm.Message{ID: id, Role: llm.RoleUser, Content: content}
	if steer {
		return f.agent.Steer(ctx, m)
	}
	return f.agent.Enqueue(ctx, m)
}

// Cancel ends the running turn and drops the input that waits, unless keep is set. It does not wait.
func (s *Session) Cancel(keep bool) {
	f := s.e.now()
	switch {
	case f == nil:
	case keep:
		f.agent.Cancel(agent.CauseUser, agent.KeepInbox)
	default:
		f.agent.Cancel(agent.CauseUser)
	}
}

// WhenIdle returns when nothing runs and nothing waits to.
func (s *Session) WhenIdle(ctx context.Context) error {
	if f := s.e.now(); f != nil {
		return f.agent.WhenIdle(ctx)
	}
	return nil
}

// Inbox takes back the input that remove names, and returns what waits.
func (s *Session) Inbox(ctx context.Context, remove ...string) (protocol.InboxResult, error) {
	f, err := s.awake(ctx)
	if err != nil {
		return protocol.InboxResult{}, err
	}
	result := protocol.InboxResult{Pending: []protocol.Pending{}}
	if len(remove) > 0 {
		if result.Removed, err = f.agent.Withdraw(ctx, remove...); err != nil {
			return protocol.InboxResult{}, err
		}
	}
	for _, p := range f.agent.Pending() {
		result.Pending = append(result.Pending, protocol.Pending{
			ID: p.Message.ID, Steering: p.Steering, Quiet: p.Quiet, Text: llm.PlainText(p.Message.Content),
		})
	}
	return result, nil
}

// Commands lists the slash commands.
func (s *Session) Commands(ctx context.Context) ([]protocol.Command, error) {
	f, err := s.awake(ctx)
	if err != nil {
		return nil, err
	}
	all := []protocol.Command{}
	for name, c := range agent.Commands.Visible(f.scope()) {
		all = append(all, protocol.Command{Name: name, Doc: c.Doc, Arguments: c.Arguments, Completes: c.Complete != nil})
	}
	return all, nil
}

// command finds a slash command.
func (f *feed) command(name string) (agent.Command, error) {
	if c, ok := agent.Commands.Get(f.scope(), name); ok {
		return c, nil
	}
	var known []string
	for n := range agent.Commands.Visible(f.scope()) {
		known = append(known, n)
	}
	return agent.Command{}, &UnknownError{What: "command", Name: name, Known: nearestOf(name, known)}
}

// CompleteCommand lists what the arguments of a command may be that begin with prefix, best first.
func (s *Session) CompleteCommand(ctx context.Context, p protocol.CompleteParams) (protocol.CompleteResult, error) {
	f, err := s.awake(ctx)
	if err != nil {
		return protocol.CompleteResult{}, err
	}
	c, err := f.command(p.Name)
	if err != nil {
		return protocol.CompleteResult{}, err
	}
	result := protocol.CompleteResult{Values: []string{}}
	if c.Complete != nil {
		result.Values = append(result.Values, c.Complete(ctx, f.agent, p.Prefix)...)
	}
	return result, nil
}

// RunCommand runs a slash command; a prompt that it makes is delivered.
func (s *Session) RunCommand(ctx context.Context, p protocol.RunCommandParams) (protocol.RunCommandResult, error) {
	f, err := s.awake(ctx)
	if err != nil {
		return protocol.RunCommandResult{}, err
	}
	c, err := f.command(p.Name)
	if err != nil {
		return protocol.RunCommandResult{}, err
	}
	r, err := c.Run(ctx, f.agent, p.Arguments)
	f.retell()
	if err != nil {
		return protocol.RunCommandResult{}, err
	}
	result := protocol.RunCommandResult{Text: r.Text, Prompted: r.Prompt != ""}
	if result.Prompted {
		err = f.agent.Enqueue(ctx, llm.UserText(r.Prompt))
	}
	return result, err
}

// Projections returns the values of all projections, of one when name is not "".
func (s *Session) Projections(ctx context.Context, name string) ([]protocol.Projected, error) {
	f, err := s.awake(ctx)
	if err != nil {
		return nil, err
	}
	if err := f.project(ctx); err != nil {
		return nil, err
	}
	all, err := f.projections(name)
	if err == nil && name != "" && len(all) == 0 {
		var known []string
		f.mu.Lock()
		for n := range f.folds {
			known = append(known, n)
		}
		f.mu.Unlock()
		slices.Sort(known)
		return nil, &UnknownError{What: "projection", Name: name, Known: nearestOf(name, known)}
	}
	return all, err
}

// UnknownError says that a name is none of those that there are.
type UnknownError struct {
	What  string // "command", "model"
	Name  string
	Known []string // nearest first
}

func (e *UnknownError) Error() string {
	if len(e.Known) == 0 {
		return fmt.Sprintf("there is no %s %q", e.What, e.Name)
	}
	return fmt.Sprintf("there is no %s %q; did you mean %s?", e.What, e.Name, e.Known[0])
}

// nearestOf returns the known names with the nearest first.
func nearestOf(name string, known []string) []string {
	if best := nearest.Name(name, known); best != "" {
		known = slices.DeleteFunc(slices.Clone(known), func(n string) bool { return n == best })
		known = slices.Insert(known, 0, best)
	}
	return known
}

// Mode returns the mode of the session; "" when nothing keeps modes.
func (s *Session) Mode(ctx context.Context) (policy.Mode, error) {
	f, err := s.awake(ctx)
	if err != nil {
		return "", err
	}
	modes, ok := policy.ModeService.Current(f.entry.hub.scope)
	if !ok {
		return "", nil
	}
	return modes.Mode(f.agent.Session()), nil
}

// SetMode switches the mode from the next call on.
func (s *Session) SetMode(ctx context.Context, name, by string) error {
	f, err := s.awake(ctx)
	if err != nil {
		return err
	}
	modes, ok := policy.ModeService.Current(f.entry.hub.scope)
	if !ok {
		return errors.New(`switch the mode: no row provides "permission-mode"`)
	}
	m, err := policy.ParseMode(name)
	if err != nil {
		return err
	}
	return modes.SwitchMode(f.agent.Session(), m, by)
}

// Model returns the model of the next request, with the effort that is chosen for it, "" for the model's default.
func (s *Session) Model(ctx context.Context) (m llm.Model, effort string, err error) {
	f, err := s.awake(ctx)
	if err != nil {
		return llm.Model{}, "", err
	}
	runtime, ok := llm.Service.Current(f.entry.hub.scope)
	if !ok {
		return llm.Model{}, "", errors.New(`no row provides "llm"`)
	}
	chosen := f.agent.Selection()
	last := f.agent.Session().RequestHeader()
	if chosen.Model == "" && last != nil {
		chosen.Model = last.Provider + "/" + last.Model
	}
	if m, err = runtime.Resolve(f.scope(), chosen.Model); err != nil {
		return llm.Model{}, "", err
	}
	if chosen.Effort == "" && last != nil && last.Provider == m.Provider && last.Model == m.ID {
		chosen.Effort = last.Params.Effort
	}
	return m, chosen.Effort, nil
}

// SetModel chooses the model of the next request on. An effort that it does not have is given up.
func (s *Session) SetModel(ctx context.Context, ref string) error {
	f, err := s.awake(ctx)
	if err != nil {
		return err
	}
	runtime, ok := llm.Service.Current(f.entry.hub.scope)
	if !ok {
		return errors.New(`choose a model: no row provides "llm"`)
	}
	m, err := runtime.Resolve(f.scope(), ref)
	if err != nil {
		return err
	}
	if p, ok := llm.Providers.Get(f.scope(), m.Provider); ok && p.Ready != nil {
		if err := p.Ready(); err != nil {
			return err
		}
	}
	selection := agent.Selection{Model: m.Ref()}
	if effort := f.agent.Selection().Effort; effort != "" && m.CheckEffort(effort) != nil {
		selection.Effort = m.DefaultEffort
	}
	f.agent.SetSelection(selection)
	f.retell()
	return nil
}

// SetEffort chooses how much the model thinks.
func (s *Session) SetEffort(ctx context.Context, effort string) error {
	m, _, err := s.Model(ctx)
	if err != nil {
		return err
	}
	if err := m.CheckEffort(effort); err != nil {
		return err
	}
	f, err := s.awake(ctx)
	if err != nil {
		return err
	}
	f.agent.SetSelection(agent.Selection{Effort: effort})
	f.retell()
	return nil
}

// Models lists what can be asked.
func (h *Hub) Models() (protocol.ModelsResult, error) {
	runtime, ok := llm.Service.Current(h.scope)
	if !ok {
		return protocol.ModelsResult{}, errors.New(`no row provides "llm"`)
	}
	standard, _ := runtime.Resolve(h.scope, h.o.Defaults.Model) // without one none is marked
	result := protocol.ModelsResult{Models: []protocol.Model{}}
	for _, m := range runtime.Models(h.scope) {
		one := protocol.Model{Ref: m.Ref(), Name: m.Name, Window: m.Window, Efforts: m.Efforts, Default: m.Ref() == standard.Ref()}
		if p, ok := llm.Providers.Get(h.scope, m.Provider); ok && p.Ready != nil {
			if err := p.Ready(); err != nil {
				one.Problem = firstLine(err)
			}
		}
		result.Models = append(result.Models, one)
	}
	return result, nil
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
