// Package policy is the seam for who decides what may happen: the modes, the
// request that a person is asked, the answer, and the service that asks.
//
// The decision itself is made by plugins on [tool.PreExecute].
package policy

import (
	"context"
	"fmt"

	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/tool"
)

// Mode says what happens to a call that no rule decides.
type Mode string

const (
	ReadOnly       Mode = "read-only"
	AskFirst       Mode = "ask"
	WorkspaceWrite Mode = "workspace-write" // the default
	Plan           Mode = "plan"
	FullAccess     Mode = "full-access"
)

// Modes are all modes, strictest first.
func Modes() []Mode { return []Mode{ReadOnly, Plan, AskFirst, WorkspaceWrite, FullAccess} }

// ParseMode returns the mode of that name.
func ParseMode(name string) (Mode, error) {
	for _, m := range Modes() {
		if string(m) == name {
			return m, nil
		}
	}
	return "", fmt.Errorf("unknown permission mode %q, expected one of %v", name, Modes())
}

// Request is a question to a person about one call.
type Request struct {
	Call     *tool.Call
	Accesses []tool.Access
	Reason   string // why somebody has to allow it
	By       string // the rule or mode that asks
}

// Answer is what a person said.
type Answer struct {
	Allow  bool
	Reason string // reaches the model when it is denied
	By     string // the surface that answered
}

// Approvals is the key of the service that asks. Without it, or when it returns
// [ErrNobody], a call that has to be asked about is denied.
var Approvals = plugin.NewKey[Approver]("approvals")

// Approver asks a person.
type Approver interface {
	// Ask returns the first answer. Cancelling ctx withdraws the question.
	Ask(ctx context.Context, s *plugin.Scope, r Request) (Answer, error)
}
