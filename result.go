package dsh

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/session"
)

// Result is what became of a prompt. As JSON it has the members sessionId, reason, result, usage,
// cost, steps, durationMs, denied and error.
type Result struct {
	SessionID string
	Reason    session.Reason // why the last turn ended; "" when none began
	Text      string         // the last thing that the model said
	Usage     llm.Usage      // of all answers
	Cost      *float64       // in US dollars; nil when a price is unknown
	Steps     int
	Duration  time.Duration
	Denied    []Denial
	Error     *session.ErrorData // when Reason is "error" or "blocked"
}

// Denial is a tool call that was not allowed to run.
type Denial struct {
	CallID string `json:"callId"`
	Tool   string `json:"tool"`
	// Unanswered calls could have been allowed by a person, and nobody was there to ask.
	Unanswered bool `json:"-"`
	// Reason is what the agent was told: why it was not allowed and, where nobody was there to ask,
	// what would allow it.
	Reason string `json:"-"`
}

// MarshalJSON writes the result as programs read it: the duration in milliseconds.
func (r Result) MarshalJSON() ([]byte, error) {
	if r.Denied == nil {
		r.Denied = []Denial{}
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false) // what the model says stays readable
	err := encoder.Encode(struct {
		SessionID  string             `json:"sessionId"`
		Reason     session.Reason     `json:"reason"`
		Result     string             `json:"result"`
		Usage      llm.Usage          `json:"usage"`
		Cost       *float64           `json:"cost"`
		Steps      int                `json:"steps"`
		DurationMS int64              `json:"durationMs"`
		Denied     []Denial           `json:"denied"`
		Error      *session.ErrorData `json:"error,omitempty"`
	}{r.SessionID, r.Reason, r.Text, r.Usage, r.Cost, r.Steps, r.Duration.Milliseconds(), r.Denied, r.Error})
	return bytes.TrimSpace(out.Bytes()), err
}

// TurnError tells that a turn ended otherwise than completed.
type TurnError struct {
	End session.TurnEndData
}

func (e *TurnError) Error() string {
	switch e.End.Reason {
	case session.Budget:
		return fmt.Sprintf("the turn ended at its limit: %s", e.End.Budget)
	case session.MaxTokens:
		return "an answer was cut off at the output ceiling of the model: allow more tokens, or ask for less at once"
	case session.Aborted:
		return fmt.Sprintf("the turn was aborted: %s", e.End.Cause)
	case session.Disposed:
		return "the agent was ended in mid-turn"
	case session.Failed, session.Blocked, session.Interrupted, session.Completed:
	}
	if e.End.Error != nil {
		return e.End.Error.Message
	}
	return fmt.Sprintf("the turn ended with %s", e.End.Reason)
}
