package loop

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/dsh-harness/dsh/agent"
	"github.com/dsh-harness/dsh/internal/uuid7"
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/workspace"
)

// loopAgent is one life of an agent: it ends with its scope.
//
// Everything that changes stands under mu, which is held briefly and never
// across plugin code or I/O. A command checks and changes in one locked step, so
// no wake-up is lost and a listener may give any command.
type loopAgent struct {
	id        string
	scope     *plugin.Scope
	session   *session.Session
	workspace workspace.Workspace
	services  services
	options   agent.Options
	loop      *loop

	mu         sync.Mutex
	status     agent.Status
	inbox      inbox
	parked     bool          // input waits for the next wake-up
	driving    bool          // a driver goroutine is alive
	rested     chan struct{} // closed while no driver is alive
	maintained chan struct{} // closed when the work between turns is over; nil while there is none
	turn       *turn         // the one that runs, or nil
	turns      int           // the last turn's number
	unfinished bool          // the log's last turn is open and goes on
	ended      bool          // it was told that the agent is disposed
	selection  agent.Selection

	prefix prefix // used by the driver only
}

func (a *loopAgent) ID() string                     { return a.id }
func (a *loopAgent) Session() *session.Session      { return a.session }
func (a *loopAgent) Workspace() workspace.Workspace { return a.workspace }
func (a *loopAgent) Scope() *plugin.Scope           { return a.scope }

func (a *loopAgent) Status() agent.Status {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.status
}

func (a *loopAgent) Selection() agent.Selection {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.selection
}

func (a *loopAgent) SetSelection(s agent.Selection) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s.Model != "" {
		a.selection.Model = s.Model
	}
	if s.Effort != "" {
		a.selection.Effort = s.Effort
	}
}

func (a *loopAgent) Pending() []session.Pending {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.inbox.all()
}

func (a *loopAgent) Enqueue(ctx context.Context, m llm.Message) error {
	return a.deliver(ctx, session.Pending{Message: m})
}

func (a *loopAgent) Steer(ctx context.Context, m llm.Message) error {
	return a.deliver(ctx, session.Pending{Message: m, Steering: true})
}

func (a *loopAgent) Inject(ctx context.Context, m llm.Message) error {
	return a.deliver(ctx, session.Pending{Message: m, Steering: true, Quiet: true})
}

// deliver logs a message, puts it into the inbox, and wakes the driver, in one
// step; then it waits until the log is durable.
func (a *loopAgent) deliver(ctx context.Context, p session.Pending) error {
	if len(p.Message.Content) == 0 {
		return fmt.Errorf("deliver a message to agent %s: it has no content", a.id)
	}
	received, err := agent.Receiving.Run(ctx, a.scope, &agent.Incoming{Agent: a, Message: p.Message}, func(_ context.Context, in *agent.Incoming) (llm.Message, error) {
		return in.Message, nil
	})
	if err != nil {
		return fmt.Errorf("deliver a message to agent %s: %w", a.id, err)
	}
	p.Message = received
	p.ID, p.Message.Role = uuid7.New(), llm.RoleUser
	if p.Message.ID == "" {
		p.Message.ID = uuid7.New()
	}
	if err := a.accept(p); err != nil {
		return err
	}
	a.tell(ctx, agent.InboxChanged.Emit(ctx, a.scope, agent.InboxNotice{Agent: a}))
	return a.session.Flush(ctx)
}

func (a *loopAgent) accept(p session.Pending) error {
	kind := session.InboxQueued
	if p.Steering {
		kind = session.InboxSteered
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.status == agent.Disposed {
		return fmt.Errorf("deliver a message to agent %s: %w", a.id, agent.ErrDisposed)
	}
	data := session.InboxData{ID: p.ID, Message: p.Message, Quiet: p.Quiet}
	if _, err := a.session.Append(session.Draft{Type: kind, Data: data}); err != nil {
		return fmt.Errorf("deliver a message to agent %s: %w", a.id, err)
	}
	a.inbox.add(p)
	if !p.Quiet {
		a.parked = false
		a.wakeLocked()
	}
	return nil
}

// wakeLocked starts the driver when there is work and none is alive.
func (a *loopAgent) wakeLocked() {
	if !a.hasWorkLocked() || a.maintained != nil {
		return
	}
	a.status = agent.Running
	if a.driving {
		return
	}
	a.driving, a.rested = true, make(chan struct{})
	if err := a.scope.Go("driver", a.drive); err != nil { // the scope has begun to stop
		a.status, a.driving = agent.Disposed, false
		close(a.rested)
	}
}

func (a *loopAgent) hasWorkLocked() bool {
	return a.status != agent.Disposed && !a.parked && (a.unfinished || a.inbox.wakes())
}

func (a *loopAgent) Abort(c agent.Cause) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.turn != nil {
		a.turn.cancel(c)
	}
}

func (a *loopAgent) Cancel(c agent.Cause, options ...agent.CancelOption) {
	a.mu.Lock()
	defer a.mu.Unlock()
	keep := false
	for _, o := range options {
		keep = keep || o == agent.KeepInbox
	}
	if keep {
		a.parked = a.parked || a.inbox.wakes()
	} else {
		a.clearLocked(a.inbox.clear())
	}
	if a.turn != nil {
		a.turn.cancel(c)
	}
}

// clearLocked logs that deliveries will never run. A log that cannot take the event
// keeps them as pending, which is what is true on disk.
func (a *loopAgent) clearLocked(dropped []session.Pending) {
	if len(dropped) == 0 {
		return
	}
	ids := make([]string, len(dropped))
	for i, p := range dropped {
		ids[i] = p.ID
	}
	_, err := a.session.Append(session.Draft{Type: session.InboxCleared, Data: session.InboxClearedData{IDs: ids}})
	if err != nil {
		a.services.log.Error("clear the inbox", "agent", a.id, "err", err)
	}
}

func (a *loopAgent) Withdraw(ctx context.Context, ids ...string) ([]string, error) {
	a.mu.Lock()
	gone := a.inbox.remove(ids)
	a.clearLocked(gone)
	a.mu.Unlock()
	if len(gone) == 0 {
		return nil, nil
	}
	found := make([]string, len(gone))
	for i, p := range gone {
		found[i] = p.Message.ID
	}
	a.tell(ctx, agent.InboxChanged.Emit(ctx, a.scope, agent.InboxNotice{Agent: a}))
	return found, a.session.Flush(ctx)
}

func (a *loopAgent) WhenIdle(ctx context.Context) error {
	if drivenBy(ctx) == a {
		return fmt.Errorf("wait for agent %s from inside its own turn: %w", a.id, plugin.ErrWouldDeadlock)
	}
	for {
		a.mu.Lock()
		wait := a.rested
		if !a.driving {
			if wait = a.maintained; !a.hasWorkLocked() {
				wait = nil
			}
		}
		a.mu.Unlock()
		if wait == nil {
			return nil
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return fmt.Errorf("wait for agent %s: %w", a.id, context.Cause(ctx))
		}
	}
}

var errMaintained = errors.New("other work runs between its turns")

func (a *loopAgent) Maintain(ctx context.Context, f func(context.Context) error) error {
	for {
		if err := a.WhenIdle(ctx); err != nil {
			return err
		}
		a.mu.Lock()
		switch {
		case a.status == agent.Disposed:
			a.mu.Unlock()
			return fmt.Errorf("maintain agent %s: %w", a.id, agent.ErrDisposed)
		case a.maintained != nil:
			a.mu.Unlock()
			return fmt.Errorf("maintain agent %s: %w", a.id, errMaintained)
		case a.driving:
			a.mu.Unlock()
			continue
		}
		a.maintained = make(chan struct{})
		a.mu.Unlock()
		return a.maintain(ctx, f)
	}
}

func (a *loopAgent) maintain(ctx context.Context, f func(context.Context) error) error {
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		close(a.maintained)
		a.maintained = nil
		a.wakeLocked()
	}()
	ctx, cancel := context.WithCancelCause(withDriver(ctx, a))
	defer cancel(nil)
	defer context.AfterFunc(a.scope.Context(), func() { cancel(agent.CauseDisposed) })()
	return f(ctx)
}

// drive runs turns until there is nothing to do.
func (a *loopAgent) drive(ctx context.Context) error {
	ctx = withDriver(ctx, a)
	told := agent.Idle
	for {
		if a.Status() == agent.Running && told != agent.Running {
			told = a.announce(ctx, agent.Running)
		}
		a.mu.Lock()
		t := a.takeTurnLocked(ctx)
		status := a.status
		done := t == nil && (status == told || status == agent.Disposed)
		if done {
			a.driving = false
			close(a.rested)
		}
		a.mu.Unlock()
		switch {
		case status == agent.Disposed:
			a.end(ctx)
			return nil
		case done:
			return nil
		case t == nil:
			told = a.announce(ctx, status)
		default:
			a.run(ctx, t)
		}
	}
}

// takeTurnLocked begins a turn with what is queued. When there is no work it
// settles the status and returns nil.
func (a *loopAgent) takeTurnLocked(ctx context.Context) *turn {
	if ctx.Err() != nil {
		a.status = agent.Disposed
	}
	if !a.hasWorkLocked() || a.maintained != nil {
		if a.status == agent.Running {
			a.status = agent.Idle
		}
		return nil
	}
	a.turn = newTurn(ctx, a)
	return a.turn
}

func (a *loopAgent) announce(ctx context.Context, s agent.Status) agent.Status {
	// The notice of an end reaches its listeners although the context has ended.
	ctx = context.WithoutCancel(ctx)
	a.tell(ctx, agent.StatusChanged.Emit(ctx, a.scope, agent.StatusNotice{Agent: a, Status: s}))
	return s
}

// tell logs what observers failed with; it reaches nobody else.
func (a *loopAgent) tell(ctx context.Context, err error) {
	if err != nil {
		a.services.log.WarnContext(ctx, "an observer failed", "agent", a.id, "err", err)
	}
}

// end tells that the agent is disposed, once: the driver does when it stops in
// mid-turn, otherwise the scope when it ends.
func (a *loopAgent) end(ctx context.Context) {
	a.mu.Lock()
	again := a.ended
	a.status, a.ended = agent.Disposed, true
	a.mu.Unlock()
	if !again {
		a.announce(ctx, agent.Disposed)
	}
}

type driverKey struct{}

func withDriver(ctx context.Context, a *loopAgent) context.Context {
	return context.WithValue(ctx, driverKey{}, a)
}

func drivenBy(ctx context.Context) *loopAgent {
	a, _ := ctx.Value(driverKey{}).(*loopAgent)
	return a
}
