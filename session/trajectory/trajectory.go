// Package trajectory tells from a session's log what happened when: turns, steps, requests and calls, with the time, the tokens and the bytes that
// each took. Surfaces draw a time line of it. The log has the end of an answer, not its first token, so the time of a model is that
// of its whole answer, retries included.
//
// Its functions may be called from any goroutine.
package trajectory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/session"
)

// maxExcerpt bounds the text that stands for a message, in bytes.
const maxExcerpt = 200

// Trajectory is what happened in a session.
type Trajectory struct {
	SessionID string    `json:"sessionId"`
	Cwd       string    `json:"cwd"`
	Title     string    `json:"title,omitempty"`
	Events    int64     `json:"events"`
	Usage     llm.Usage `json:"usage"`
	Turns     []Turn    `json:"turns"`
}

// Span is a time in Unix milliseconds; End is 0 while it lasts.
type Span struct {
	Start int64 `json:"start"`
	End   int64 `json:"end,omitempty"`
}

// Length is how long it lasted, in milliseconds; 0 while it lasts, and when the clock was set back.
func (s Span) Length() int64 { return max(0, s.End-s.Start) }

// Turn is one turn.
type Turn struct {
	Span
	Turn   int                `json:"turn"`
	Prompt string             `json:"prompt,omitempty"` // how its input begins
	Reason session.Reason     `json:"reason,omitempty"` // why it ended
	Error  *session.ErrorData `json:"error,omitempty"`
	Steps  []Step             `json:"steps"`
}

// Step is one request and the calls of its answer.
type Step struct {
	Span
	Step int `json:"step"`
	// Model is when the model was asked until its answer was complete.
	Model    Span       `json:"model"`
	Ref      string     `json:"ref,omitempty"` // provider/model
	Effort   string     `json:"effort,omitempty"`
	Messages int        `json:"messages"` // of the request
	Retries  []Retry    `json:"retries,omitempty"`
	Usage    *llm.Usage `json:"usage,omitempty"` // nil when the provider reported none
	Finish   llm.Finish `json:"finish,omitempty"`
	Cut      bool       `json:"cut,omitempty"`  // the answer was interrupted
	Text     string     `json:"text,omitempty"` // how the answer begins
	Calls    []Call     `json:"calls,omitempty"`
}

// Retry is a request that failed and was sent again.
type Retry struct {
	Time    int64             `json:"time"`
	Attempt int               `json:"attempt"` // that failed, from 1
	Failure session.ErrorData `json:"failure"`
}

// Call is one call of a tool.
type Call struct {
	Span
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"` // what ran, after it was rewritten
	// Asked is how long people were asked about it; its Start is 0 when nobody was.
	Asked   Span           `json:"asked,omitzero"`
	Outcome policy.Outcome `json:"outcome,omitempty"` // of the question
	IsError bool           `json:"isError,omitempty"`
	Bytes   int            `json:"bytes"`            // of the text of the result
	Result  string         `json:"result,omitempty"` // how it begins
}

// Of reads a whole log.
func Of(ctx context.Context, v session.View) (Trajectory, error) {
	f := NewFold(v.Header)
	for e, err := range v.Events(ctx, 0) {
		if err != nil {
			return f.Value(), err
		}
		if err := f.Apply(e); err != nil {
			return f.Value(), err
		}
	}
	return f.Value(), nil
}

// Fold follows a log. One goroutine uses it at a time. An event costs the same in a long log as in a short one.
type Fold struct {
	t        Trajectory
	calls    map[string]place // that have no result yet
	asked    map[string]string
	ref      string
	effort   string
	messages int
}

// place is where a call stands.
type place struct{ turn, step, call int }

// NewFold begins with the log of that header.
func NewFold(h session.Header) *Fold {
	return &Fold{t: Trajectory{SessionID: h.ID, Cwd: h.Cwd, Turns: []Turn{}}, calls: map[string]place{}, asked: map[string]string{}}
}

// Value returns what is known so far. The fold goes on in the same memory.
func (f *Fold) Value() Trajectory { return f.t }

func (f *Fold) turn() *Turn {
	if len(f.t.Turns) == 0 {
		return nil
	}
	return &f.t.Turns[len(f.t.Turns)-1]
}

func (f *Fold) step() *Step {
	if t := f.turn(); t != nil && len(t.Steps) > 0 {
		return &t.Steps[len(t.Steps)-1]
	}
	return nil
}

func (f *Fold) call(id string) *Call {
	p, ok := f.calls[id]
	if !ok {
		return nil
	}
	return &f.t.Turns[p.turn].Steps[p.step].Calls[p.call]
}

// Apply takes the next event. An event of a type that says nothing here is skipped.
func (f *Fold) Apply(e session.Event) error {
	f.t.Events = e.Seq + 1
	switch e.Type {
	case session.TurnStart:
		return with(e, func(d session.TurnStartData) {
			f.t.Turns = append(f.t.Turns, Turn{Span: Span{Start: e.Time}, Turn: d.Turn, Steps: []Step{}})
		})
	case session.TurnEnd:
		return with(e, func(d session.TurnEndData) {
			if t := f.turn(); t != nil {
				t.End, t.Reason, t.Error = e.Time, d.Reason, d.Error
			}
		})
	case session.UserMessage, session.SteeringMessage:
		f.messages++
		return with(e, func(d session.InputData) {
			if t := f.turn(); t != nil && t.Prompt == "" && (d.Source.Kind == "" || d.Source.Kind == "user") {
				t.Prompt = excerpt(llm.PlainText(d.Content))
			}
		})
	case session.StepStart:
		return with(e, func(d session.StepData) {
			if t := f.turn(); t != nil {
				t.Steps = append(t.Steps, Step{Span: Span{Start: e.Time}, Step: d.Step, Model: Span{Start: e.Time}})
			}
		})
	case session.StepEnd:
		if s := f.step(); s != nil {
			s.End = e.Time
		}
	case session.RequestHeader:
		return with(e, func(d llm.Header) { f.ref, f.effort = d.Provider+"/"+d.Model, d.Params.Effort })
	case session.Retry:
		return with(e, func(d session.RetryData) {
			if s := f.step(); s != nil {
				s.Retries = append(s.Retries, Retry{e.Time, d.Attempt, d.Failure})
			}
		})
	case session.AssistantMessage:
		return with(e, func(d session.AssistantData) { f.answered(e, d) })
	case session.ToolCall:
		return with(e, func(d session.ToolCallData) {
			s := f.step()
			if s == nil {
				return
			}
			s.Calls = append(s.Calls, Call{Span: Span{Start: e.Time}, ID: d.CallID, Name: d.Name, Arguments: d.Arguments})
			t := len(f.t.Turns) - 1
			f.calls[d.CallID] = place{t, len(f.t.Turns[t].Steps) - 1, len(s.Calls) - 1}
		})
	case session.ToolRewritten:
		return with(e, func(d session.ToolRewrittenData) {
			if c := f.call(d.CallID); c != nil {
				c.Arguments = d.Arguments
			}
		})
	case policy.Asked:
		return with(e, func(d policy.AskedData) {
			if c := f.call(d.CallID); c != nil {
				f.asked[d.ID] = d.CallID
				c.Asked = Span{Start: e.Time}
			}
		})
	case policy.Decided:
		return with(e, func(d policy.DecidedData) {
			if c := f.call(f.asked[d.ID]); c != nil {
				c.Asked.End, c.Outcome = e.Time, d.Outcome
			}
			delete(f.asked, d.ID)
		})
	case session.ToolResult:
		f.messages++
		return with(e, func(d session.ToolResultData) {
			if c := f.call(d.CallID); c != nil {
				text := llm.PlainText(d.Content)
				c.End, c.IsError, c.Bytes, c.Result = e.Time, d.IsError, len(text), excerpt(text)
			}
			delete(f.calls, d.CallID)
		})
	case session.Meta:
		return with(e, func(d session.MetaData) {
			if d.Title != nil {
				f.t.Title = *d.Title
			}
		})
	}
	return nil
}

// answered takes the answer of a step.
func (f *Fold) answered(e session.Event, d session.AssistantData) {
	if d.Usage != nil {
		f.t.Usage = f.t.Usage.Add(*d.Usage)
	}
	if s := f.step(); s != nil {
		s.Model.End, s.Ref, s.Messages = e.Time, d.Provider+"/"+d.Model, f.messages
		if s.Ref == f.ref {
			s.Effort = f.effort
		}
		s.Usage, s.Finish, s.Cut = d.Usage, d.Finish, d.Interrupted
		s.Text = excerpt(llm.PlainText(d.Message.Content))
	}
	f.messages++
}

func with[T any](e session.Event, f func(T)) error {
	var d T
	if err := json.Unmarshal(e.Data, &d); err != nil {
		return fmt.Errorf("event %d, %s, is not understood: %w", e.Seq, e.Type, err)
	}
	f(d)
	return nil
}

// excerpt is the beginning of a text.
func excerpt(s string) string {
	if len(s) <= maxExcerpt {
		return s
	}
	cut := maxExcerpt
	for cut > 0 && s[cut]&0xC0 == 0x80 {
		cut--
	}
	return s[:cut]
}

// ErrNoRequest: the log tells of no such request.
var ErrNoRequest = errors.New("the log tells of no such request")

// Request rebuilds a request of a session: that of an attempt, from 1, at a step of a turn; attempt 0 is the last one. What the loop sends is a
// function of the log, so its wire encodes it to the bytes that were sent.
func Request(ctx context.Context, v session.View, turn, step, attempt int) (*llm.Request, error) {
	at, err := find(ctx, v, turn, step, attempt)
	if err != nil {
		return nil, err
	}
	then, err := session.NewView(v.Header, v.Location, func(ctx context.Context, from int64) iter.Seq2[session.Event, error] {
		return func(yield func(session.Event, error) bool) {
			for e, err := range v.Events(ctx, from) {
				if (err == nil && e.Seq >= at) || !yield(e, err) {
					return
				}
			}
		}
	}).Summary(ctx)
	if err != nil {
		return nil, err
	}
	if then.RequestHeader == nil {
		return nil, fmt.Errorf("turn %d, step %d: %w", turn, step, ErrNoRequest)
	}
	return &llm.Request{Header: then.RequestHeader, History: then.History, Session: v.Header.ID}, nil
}

// find returns the event before which the request was sent: its answer, or the retry that followed it.
func find(ctx context.Context, v session.View, turn, step, attempt int) (int64, error) {
	attempts := 0
	for e, err := range v.Events(ctx, 0) {
		if err != nil {
			return 0, err
		}
		here := false
		switch e.Type {
		case session.AssistantMessage:
			err = with(e, func(d session.AssistantData) { here = d.Turn == turn && d.Step == step })
			if here && (attempt == 0 || attempt == attempts+1) {
				return e.Seq, err
			}
		case session.Retry:
			err = with(e, func(d session.RetryData) { here = d.Turn == turn && d.Step == step })
			if here {
				if attempts++; attempts == attempt {
					return e.Seq, err
				}
			}
		}
		if err != nil {
			return 0, err
		}
	}
	return 0, fmt.Errorf("turn %d, step %d, attempt %d: %w", turn, step, attempt, ErrNoRequest)
}
