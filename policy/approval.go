package policy

import (
	"context"
	"encoding/json"

	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/tool"
	"github.com/dsh-harness/dsh/workspace"
)

// Approvals is the key of the service that asks. Without it, or when it returns
// [ErrNobody], a call that has to be asked about is denied.
var Approvals = plugin.NewKey[Approver]("approvals")

// Approver asks people. It may be used by many goroutines at once.
type Approver interface {
	// Ask puts r to everybody who can answer and returns the first answer. The question and
	// what became of it are in the log of the session of r.Call. It fails closed: an
	// answer that does not fit the request, or an answerer that fails, allows nothing.
	// The error has [ErrNobody] in its chain when nobody could answer. Cancelling ctx
	// withdraws the question. s is the scope of the agent.
	Ask(ctx context.Context, s *plugin.Scope, r Request) (Answer, error)
}

// Answerers is the set of those who can answer, by name: a surface adds itself while it
// has a person before it.
var Answerers = plugin.NewSet[Answerer]("approvals/answerers")

// Answerer is a way to a person.
type Answerer interface {
	// Answer shows r and waits for the person. When ctx ends somebody else was
	// faster or the question was withdrawn: the cause says which, see [AnsweredError]. It
	// is called from a goroutine of its own, maybe for several requests at once.
	Answer(ctx context.Context, r Request) (Answer, error)
}

// AnsweredError is the cause of the context of the answerers that were not first.
type AnsweredError struct{ By string }

func (e *AnsweredError) Error() string { return "answered by " + e.By }

// Request is a question to a person about one call. It is about exactly this call:
// what is allowed is what Digest names.
type Request struct {
	ID       string // of the question
	Call     *tool.Call
	Accesses []tool.Access
	Reason   string // why somebody has to allow it
	By       string // the rule or mode that asks
	// Digest names what an answer allows: the tool, its arguments, the folder and
	// roots, the environment, and the policy. [Digest] makes it.
	Digest [32]byte
	// Wider is set when the call has run and the sandbox refused it something: what it
	// would get when it runs again.
	Wider   *workspace.Grant
	Refused []workspace.Refusal
	// Rules are what may be remembered beside allowing it once, narrowest first.
	Rules []string
}

// Answer is what a person said. The zero value denies.
type Answer struct {
	Allow  bool
	Reason string // reaches the model when it is denied
	By     string // the surface that answered
	// Remember says for how long Rule, one of [Request.Rules], holds; with Allow false
	// it is remembered as a rule that denies.
	Remember Scope
	Rule     string
	// Arguments, when not nil, are to be used instead of the model's. They are checked and
	// decided about again; the person need not be asked again.
	Arguments json.RawMessage
}

// Scope is for how long a rule holds.
type Scope string

const (
	Once       Scope = ""        // for this call
	ForSession Scope = "session" // until the session ends, also when it is resumed
	ForUser    Scope = "user"    // in this folder, until it is revoked
)

// Rules is the key of the service that keeps the rules.
var Rules = plugin.NewKey[RuleKeeper]("permissions")

// RuleKeeper knows the rules. It may be used by many goroutines at once.
type RuleKeeper interface {
	// Suggest returns rules that would allow a call without more than it needs, narrowest
	// first; none when no rule can.
	Suggest(c *tool.Call, refused []workspace.Refusal) []string
	// Remember adds a rule for the folder and session of c. It fails when the rule is
	// not understood, or cannot be kept.
	Remember(c *tool.Call, scope Scope, effect tool.Decision, rule string) error
	// Hosts returns the hosts that rules allow and deny the commands of a session in a folder to reach.
	Hosts(session, dir string) (allow, deny []string)
	// Fingerprint changes whenever a rule does.
	Fingerprint() string
}

// Event types of the audit: each question has one [Asked] and one [Decided].
const (
	Asked   = "approval/asked"
	Decided = "approval/decided"
)

// AskedData is the data of [Asked].
type AskedData struct {
	ID       string              `json:"id"`
	CallID   string              `json:"callId"`
	Tool     string              `json:"tool"`
	Accesses []tool.Access       `json:"accesses,omitempty"`
	Reason   string              `json:"reason"`
	By       string              `json:"by"`
	Digest   string              `json:"digest"` // hex
	Refused  []workspace.Refusal `json:"refused,omitempty"`
}

// Outcome is what became of a question.
type Outcome string

const (
	Allowed     Outcome = "allowed"
	Rejected    Outcome = "rejected"
	Withdrawn   Outcome = "withdrawn"   // the turn was cancelled
	Unavailable Outcome = "unavailable" // nobody could answer
)

// DecidedData is the data of [Decided].
type DecidedData struct {
	ID       string  `json:"id"`
	Outcome  Outcome `json:"outcome"`
	By       string  `json:"by,omitempty"`
	Reason   string  `json:"reason,omitempty"`
	Remember Scope   `json:"remember,omitempty"`
	Rule     string  `json:"rule,omitempty"`
	Edited   bool    `json:"edited,omitempty"` // the arguments were changed
}
