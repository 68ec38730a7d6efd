// Package policy is the seam for who decides what may happen: the modes, the
// request that a person is asked, the answer, and the service that asks.
//
// The decision itself is made by plugins on [tool.PreExecute].
package policy

import (
	"fmt"
	"io"

	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/session"
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

// ModeSwitched is the event type that records a change of a session's mode; its data is [ModeData].
const ModeSwitched = "policy/mode"

// ModeData is the data of [ModeSwitched].
type ModeData struct {
	Mode Mode   `json:"mode"`
	By   string `json:"by"` // who switched: a surface, a command
}

// ModeService is the key of the service that knows the mode of each session.
var ModeService = plugin.NewKey[Switch]("permission-mode")

// Switch is the mode of sessions. It may be used by many goroutines at once.
type Switch interface {
	// Mode returns the mode of a session: what it was switched to last, else what is configured.
	Mode(s *session.Session) Mode
	// SwitchMode changes the mode from the next call on, and logs it. Calls that were decided on keep
	// their decision.
	SwitchMode(s *session.Session, m Mode, by string) error
}

// Redaction is the key of the service that keeps secrets from the model.
var Redaction = plugin.NewKey[Redactor]("redaction")

// Redactor puts marks in place of secrets. It may be used by many goroutines at once.
type Redactor interface {
	// Redact returns text with the mark ‹secret:NAME› in place of each secret. It is a
	// pure function: redacting twice changes nothing.
	Redact(text string) string
	// Writer redacts what is written through it on the way to w; a secret that is cut between
	// two writes is found too. Close writes what was held back; it does not close w.
	Writer(w io.Writer) io.WriteCloser
}
