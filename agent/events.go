package agent

import (
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/tool"
)

// What agents tell. Each is dispatched in the agent's realm, so listeners of the
// agent hear their own agent, and a root listener hears all. A listener that
// fails or panics is logged and reaches nobody else.
var (
	Created       = plugin.NewEmit[Agent]("agent/created")
	Gone          = plugin.NewEmit[Agent]("agent/disposed")
	StatusChanged = plugin.NewEmit[StatusNotice]("agent/status")
	Erred         = plugin.NewEmit[ErrorNotice]("agent/error")
	InboxChanged  = plugin.NewEmit[InboxNotice]("agent/inbox")
	StreamChunk   = plugin.NewEmit[ChunkNotice]("agent/stream-chunk")
	SessionStart  = plugin.NewEmit[StartNotice]("agent/session-start")
	ToolProgress  = plugin.NewEmit[ProgressNotice]("agent/tool-progress")
)

type (
	// StatusNotice tells a change of status.
	StatusNotice struct {
		Agent  Agent
		Status Status
	}
	// ErrorNotice tells an error that ended a turn.
	ErrorNotice struct {
		Agent      Agent
		Turn, Step int
		Err        error
	}
	// InboxNotice tells that the waiting input changed.
	InboxNotice struct{ Agent Agent }
	// ChunkNotice is a live piece of an answer; it is not durable. Attempt counts
	// from 1: a higher one replaces what was streamed in this step before.
	ChunkNotice struct {
		Agent               Agent
		Turn, Step, Attempt int
		Chunk               llm.Chunk
	}
	// StartNotice tells that a conversation begins: "startup", "resume", "clear", "compact".
	StartNotice struct {
		Agent  Agent
		Source string
	}
	// ProgressNotice is live output of a running tool; it is not durable.
	ProgressNotice struct {
		Agent  Agent
		CallID string
		Text   string
	}
)

// Receiving passes a message on its way into an inbox, before anything of it is logged:
// agent/input. The innermost answer is the message of the last argument. An error refuses it.
var Receiving = plugin.NewWaterfall[*Incoming, llm.Message]("agent/input")

// Incoming is a message that somebody gives to an agent.
type Incoming struct {
	Agent   Agent
	Message llm.Message
}

// Step is where a waterfall of the loop stands.
type Step struct {
	Agent Agent
	Turn  int
	Step  int
}

// PreStep admits, changes or rejects the input of a step: agent/pre-step. It
// runs before the step opens; the input is in [StepInput.Messages].
var PreStep = plugin.NewWaterfall[*StepInput, Admission]("agent/pre-step", Guard, Contribute)

// Stages of the waterfalls of the loop.
const (
	Guard      plugin.Stage = "guard"      // may refuse
	Contribute plugin.Stage = "contribute" // adds context
	Select     plugin.Stage = "select"     // model and parameters
	Compact    plugin.Stage = "compact"    // makes the request fit
	Recover    plugin.Stage = "recover"    // compaction, fail-over
	Retry      plugin.Stage = "retry"      // the same again
	Rework     plugin.Stage = "rework"     // changes an answer
	Limit      plugin.Stage = "limit"      // ends a turn
	Continue   plugin.Stage = "continue"   // keeps a turn going
)

// StepInput is the input of a step: what was waiting, in order.
type StepInput struct {
	Step
	Messages []session.Pending
}

// Admission is the outcome of [PreStep].
type Admission struct {
	// Reject ends the turn with the reason blocked; Reason says why. What was
	// waiting is consumed and logged as rejected.
	Reject bool
	Reason string
	// Messages enter the step. A message without an ID is added by the listener.
	Messages []session.Pending
}

// Requesting is the whole request before it is sent: agent/request. Listeners may
// change the header through a copy (it is logged when it differs) and replace the history.
var Requesting = plugin.NewWaterfall[*RequestDraft, *llm.Request]("agent/request", Select, Contribute, Compact)

// RequestDraft is the request that the loop would send.
type RequestDraft struct {
	Step
	Attempt int // from 1
	Request *llm.Request
}

// RequestFailed decides what follows a failed request: agent/request-error.
var RequestFailed = plugin.NewWaterfall[*RequestFailure, Recovery]("agent/request-error", Recover, Retry)

// RequestFailure is a request that failed.
type RequestFailure struct {
	Step
	Attempt int // the one that failed, from 1
	Request *llm.Request
	Err     *llm.Error
	// Streamed tells that text of this attempt was already shown.
	Streamed bool
}

// Recovery is the outcome of [RequestFailed].
type Recovery struct {
	// Retry makes the loop build and send the request again, in the same step.
	Retry bool
}

// StepResult passes the assembled message before it is logged: agent/step-result.
var StepResult = plugin.NewWaterfall[*Answer, *Answer]("agent/step-result", Rework)

// Answer is the assembled answer of a step.
type Answer struct {
	Step
	Content []llm.Block
	Usage   *llm.Usage
	Finish  llm.Finish
}

// TurnContinuation asks whether the turn goes on: agent/turn-continuation. The
// innermost answer is yes when tools ran or steering input waits.
var TurnContinuation = plugin.NewWaterfall[*StepDone, Continuation]("agent/turn-continuation", Limit, Continue)

// StepDone is a step that is complete.
type StepDone struct {
	Step
	Answer *Answer
	// Calls and Results are the tool calls of the step and what they gave, in model order.
	Calls    []llm.Block
	Results  []tool.Result
	Conclude bool // a tool asked to end the turn
	Waiting  bool // steering input waits
}

// Continuation is the outcome of [TurnContinuation].
type Continuation struct {
	Continue bool
	// Reason, when the turn stops for another reason than being complete:
	// [session.Budget] or [session.Blocked], with Detail.
	Reason session.Reason
	Detail string
	// Messages join the next step as context.
	Messages []llm.Message
}
