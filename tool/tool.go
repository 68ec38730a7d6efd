// Package tool is the seam for what a model can do: definitions of tools, their
// schemas, the registry, and the guarded pipeline that every call goes through.
//
// A tool is made from a Go function with [New]; its plugin adds it to [Tools].
// Bodies run on goroutines of the loop, several at once where they say that they may.
package tool

import (
	"context"
	"encoding/json"
	"time"

	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/workspace"
)

// Tools is the set of tools by name. The model sees them in this order.
var Tools = plugin.NewSet[Definition]("tools")

// Service is the key of the registry.
var Service = plugin.NewKey[Registry]("tools")

// Spec describes a tool. [New] and [NewRaw] turn it into a [Definition].
type Spec struct {
	Name        string // what the model calls, [a-z0-9_]{1,64}
	Description string // what the model reads
	// Effect says what running a call twice does; crash repair depends on it.
	Effect session.Effect
	// Parallel calls may run beside others; any other call is a barrier.
	Parallel bool
	// Timeout bounds the body; 0 means the registry's default, a negative one no
	// bound but the turn's.
	Timeout time.Duration
	// Access lists what a call with these arguments touches, for the policy.
	// Nil means that the tool touches nothing outside of the harness. It is only
	// called with arguments that are valid, must not block for long, and reads
	// nothing but names.
	Access func(c *Call) []Access
	// Present says how surfaces show a call with these arguments; nil: as [PlainTitle] says. It is a pure
	// function, and only called with valid JSON, which may still not fit the schema.
	Present func(arguments json.RawMessage) Presentation
}

// Access is one thing that a call touches.
type Access struct {
	Kind AccessKind
	// Target is a path as the model gave it, a command line, or a host.
	Target string
}

// AccessKind tells what a call does with a target.
type AccessKind string

const (
	AccessRead    AccessKind = "read"    // a file or folder
	AccessWrite   AccessKind = "write"   // a file or folder
	AccessExecute AccessKind = "execute" // a shell command
	AccessNetwork AccessKind = "network" // a host
)

// Call is one call of a tool. Its fields are fixed before the body runs.
type Call struct {
	ID         string // ours, c<turn>_<step>_<index>
	ProviderID string
	Name       string
	// Arguments are valid JSON: an object that fits the tool's schema, after
	// what hooks and policy rewrote.
	Arguments json.RawMessage
	Turn      int
	Step      int

	Agent     string // name of the agent that calls
	Session   *session.Session
	Workspace workspace.Workspace // nil when the agent has none
	// Progress receives live output of the body, for surfaces; never nil.
	Progress func(text string)
	// Asking is called, at most once, right before a person is asked whether the call
	// may run, with what it touches: calls that do not depend on that need not
	// wait. May be nil.
	Asking func(touches []Access)
}

// Result is what a call gives back.
type Result struct {
	Content []llm.Block // what the model sees
	IsError bool
	Error   *session.ToolErrorData // the kind of a failure, for programs
	// Meta is for surfaces; it is encoded to JSON and never reaches the model.
	Meta any
	// Context are messages that join the conversation after all results of the step.
	Context []llm.Message
	// Conclude ends the turn after this step, when the call succeeded.
	Conclude bool
	// Decision is what the policy said about the call; the zero value is Allow.
	Decision Decision
	// Refused is what the sandbox kept the call from doing, so that a person may be asked
	// whether it may run again and do that.
	Refused []workspace.Refusal
}

// Text returns a successful result with one text block.
func Text(s string) Result { return Result{Content: []llm.Block{llm.Text(s)}} }

// Failure returns a failed result; text tells the model what to mend, code is
// one of the Code constants or a tool's own, e.g. "not-found".
func Failure(code, text string) Result {
	return Result{
		Content: []llm.Block{llm.Text("Error: " + text)},
		IsError: true,
		Error:   &session.ToolErrorData{Name: "ToolError", Code: code},
	}
}

// Codes of failed results that the pipeline itself gives.
const (
	CodeUnknownTool   = "unknown-tool"
	CodeInvalidArgs   = "invalid-arguments"
	CodeTruncated     = "truncated"       // the output ceiling cut the call; it never ran
	CodeDenied        = "denied"          // the policy or a person said no
	CodeNotStarted    = "not-started"     // cancelled before the body; it may be retried
	CodeAborted       = "aborted"         // cancelled during the body
	CodeTimeout       = "timeout"         // the body took too long
	CodeUnknownResult = "outcome-unknown" // nobody knows what the body did; verify first
	CodePanic         = "panic"           // the body failed inside
	CodeFailed        = "failed"          // the body returned an error
)

// Registry resolves and runs calls. It is used by many goroutines.
type Registry interface {
	// Schemas returns the tools that s sees, as the model sees them, in the order of [Tools].
	Schemas(s *plugin.Scope) []llm.ToolSchema
	// Lookup returns the tool of that name that s sees.
	Lookup(s *plugin.Scope, name string) (Definition, bool)
	// Prepare resolves the tool, parses and checks raw (the model's string), and
	// runs [PreExecute]. c has no arguments yet. It always returns a value: when the
	// call may not run, Prepared holds the result to give instead. Calls of one
	// step are prepared in model order. When a listener rewrote the arguments,
	// Prepare appends [session.ToolRewritten] to the session of c.
	Prepare(ctx context.Context, s *plugin.Scope, c *Call, raw string) *Prepared
	// Execute runs the body of a prepared call within [Execution] and [PostExecute];
	// a refused call only passes [PostExecute]. It always returns a result that can
	// be logged, also after a panic, a timeout, or when the body ignores that ctx
	// ended: then it waits a grace period (10 s) and returns [CodeUnknownResult],
	// leaving the body behind in the care of the registry's scope.
	Execute(ctx context.Context, s *plugin.Scope, p *Prepared) Result
}
