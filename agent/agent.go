// Package agent is the seam for agents: one agent works on one session, takes
// messages into its inbox, and runs turns. The loop that drives it stands behind
// the [Factory]; everybody reaches it through the interfaces here.
//
// All methods may be called from any goroutine, also from listeners of the
// agent's own events.
package agent

import (
	"context"
	"time"

	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/workspace"
)

// Status says what an agent does.
type Status string

const (
	Idle     Status = "idle"
	Running  Status = "running"
	Disposed Status = "disposed"
)

// Agent is one agent on one session.
type Agent interface {
	ID() string // the agent's name, unique among live agents
	Session() *session.Session
	// Workspace is nil when the agent has none.
	Workspace() workspace.Workspace
	// Scope is the agent's own: what is registered on it is this agent's alone
	// and ends with it.
	Scope() *plugin.Scope
	Status() Status

	// Enqueue delivers a prompt for the next turn. It returns when the message is
	// durable: a crash after that loses nothing.
	Enqueue(ctx context.Context, m llm.Message) error
	// Steer delivers a message that joins the running turn at its next step, or
	// opens a turn when the agent is idle. Durable as [Agent.Enqueue].
	Steer(ctx context.Context, m llm.Message) error
	// Inject delivers context that wakes nobody: the next step, whenever it comes,
	// takes it. Durable as [Agent.Enqueue].
	Inject(ctx context.Context, m llm.Message) error
	// Pending returns the input that is waiting, steering first.
	Pending() []session.Pending
	// Withdraw takes waiting input back that has the id of one of these messages, and returns those that it found: the
	// others run already, or never were. Durable as [Agent.Enqueue].
	Withdraw(ctx context.Context, ids ...string) ([]string, error)

	// Abort ends the step in flight. The turn ends with it, queued input stays.
	// Without a running turn it does nothing. It does not wait.
	Abort(c Cause)
	// Cancel drops queued and steering input, and ends the step and the turn, one
	// that is about to start included. Its mark governs exactly one turn: it
	// never reaches a prompt that is delivered after it. It does not wait.
	Cancel(c Cause, o ...CancelOption)

	// WhenIdle returns when the agent is not running and nothing that would wake
	// it is waiting, or when it is disposed.
	WhenIdle(ctx context.Context) error
	// Maintain runs f between turns: no turn starts before it returned. Its context
	// ends with the agent. It waits, bounded by ctx, for the running turn.
	Maintain(ctx context.Context, f func(context.Context) error) error

	// Selection returns what was chosen for the next request.
	Selection() Selection
	// SetSelection changes the fields that are not empty, from the next request on.
	SetSelection(Selection)
}

// Selection is which model an agent asks, and how.
type Selection struct {
	Model  string // provider/model
	Effort string
}

// Cause tells who ended a step or a turn. The first one wins.
type Cause string

const (
	CauseUser     Cause = "user"
	CauseParent   Cause = "parent"
	CauseHook     Cause = "hook"
	CausePolicy   Cause = "policy"
	CauseTimeout  Cause = "timeout"  // a limit of time; the turn ends with budget
	CauseDisposed Cause = "disposed" // the agent goes away
)

// Error makes a cause the cause of a cancelled context.
func (c Cause) Error() string { return "cancelled: " + string(c) }

// CancelOption refines [Agent.Cancel].
type CancelOption int

// KeepInbox keeps queued and steering input; it waits for the next wake-up.
const KeepInbox CancelOption = 1

// Options are what an agent starts with.
type Options struct {
	Model  string // provider/model, "" for the default
	Params llm.Params
	// SystemPrompt replaces the base sections, SystemAppend follows all of them.
	SystemPrompt string
	SystemAppend string
	Limits       Limits
	// Workspace says where the agent works; the session's folder when empty.
	Workspace workspace.Options
}

// Limits bound a turn. Zero means no bound.
type Limits struct {
	Steps int           // steps a turn
	Time  time.Duration // wall time of a turn
}

// CreateOptions make an agent on a new session.
type CreateOptions struct {
	AgentID   string // "" means the session's id
	SessionID string // "" means a new UUIDv7
	Session   session.PrepareOptions
	Options   Options
}

// ResumeOptions make an agent on a session that is persisted.
type ResumeOptions struct {
	AgentID         string // "" means the session's id
	ResumeSessionID string
	// ContinueTurn goes on with a turn that a crash cut off instead of closing it.
	ContinueTurn bool
	Options      Options
}

// Handle owns an agent: who holds it decides when the agent ends.
type Handle interface {
	Agent() Agent
	// Dispose stops the loop, waits until it is quiet, unregisters the agent and
	// removes its session. Every caller returns only after the same teardown is
	// complete, or when its own ctx ends.
	Dispose(ctx context.Context) error
}

// Factory makes agents; the loop is one.
type Factory interface {
	Create(ctx context.Context, s *plugin.Scope, o CreateOptions) (Handle, error)
	Resume(ctx context.Context, s *plugin.Scope, o ResumeOptions) (Handle, error)
}

// Service is the key of the registry of agents.
var Service = plugin.NewKey[Registry]("agents")

// Registry knows the live agents.
type Registry interface {
	// SetFactory installs the one factory until s ends; a second one is an error.
	SetFactory(s *plugin.Scope, f Factory) error
	// Create and Resume mount an agent below s: it is disposed with s, at the
	// latest. They fail with [ErrNoFactory] while no loop runs.
	Create(ctx context.Context, s *plugin.Scope, o CreateOptions) (Handle, error)
	Resume(ctx context.Context, s *plugin.Scope, o ResumeOptions) (Handle, error)
	// Register makes an agent known until s ends; the factory calls it. A taken
	// name is an error.
	Register(s *plugin.Scope, a Agent) error
	Get(id string) (Agent, bool)
	List() []Agent
}

// LoopService is the key of the loop.
var LoopService = plugin.NewKey[Loop]("agentLoop")

// Loop starts agents by name, each on a fresh session.
type Loop interface {
	// Create starts an agent on the session <id>-session-<uuid>; it is disposed
	// with s.
	Create(ctx context.Context, s *plugin.Scope, id string, o Options) (Agent, error)
}
