// Package approval asks people whether a call may run, and keeps in the log what was asked and what
// became of it. It is the plugin "approvals", without configuration:
//
//	# cordis.yml
//	- {id: approvals, plugin: approvals}
//
// It serves [policy.Approvals], which any goroutine may use. A question goes to all [policy.Answerers]
// that the agent sees at that moment, at once; the first answer that fits the request counts, and the others are told. An
// answerer that fails, panics, or says what does not fit has not answered. When none is left the answer is no.
//
// Each question is one [policy.Asked] and one [policy.Decided] in the log of the session, also when nobody is
// there to answer.
package approval

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"slices"

	"github.com/dsh-harness/dsh/internal/uuid7"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/tool"
)

// Plugin asks people.
var Plugin = plugin.Plugin[struct{}]{
	Name:  "approvals",
	Doc:   "Asks people about calls that need it, and keeps what was asked and answered in the log.",
	Needs: []plugin.Need{policy.Rules.Optional()},
	Start: func(_ context.Context, s *plugin.Scope, _ struct{}) error {
		return errors.Join(
			registered(session.Types.Add(s, policy.Asked, session.EventType{
				Doc: "a person is asked whether a call may run", Data: reflect.TypeFor[policy.AskedData](),
			})),
			registered(session.Types.Add(s, policy.Decided, session.EventType{
				Doc: "what became of a question to a person", Data: reflect.TypeFor[policy.DecidedData](),
			})),
			policy.Approvals.Provide(s, &approver{scope: s}),
		)
	},
}

func registered(_ func(context.Context) error, err error) error { return err }

// approver implements [policy.Approver].
type approver struct{ scope *plugin.Scope }

// Ask implements [policy.Approver].
func (a *approver) Ask(ctx context.Context, s *plugin.Scope, r policy.Request) (policy.Answer, error) {
	if r.Call == nil {
		return policy.Answer{}, errors.New("ask a person: the request is about no call")
	}
	if r.ID == "" {
		r.ID = uuid7.New()
	}
	if err := a.logAsked(&r); err != nil {
		return policy.Answer{}, err
	}
	answer, err := a.put(ctx, s, r)
	decided := policy.DecidedData{ID: r.ID, Outcome: outcome(answer, err), By: answer.By, Reason: answer.Reason, Edited: answer.Arguments != nil}
	if err != nil {
		decided.Reason = err.Error()
	} else if answer.Remember != policy.Once {
		if err := a.remember(&r, answer); err != nil {
			a.scope.Log().Warn("the answer holds for this call only", "tool", r.Call.Name, "rule", answer.Rule, "err", err)
			answer.Remember, answer.Rule = policy.Once, ""
		}
		decided.Remember, decided.Rule = answer.Remember, answer.Rule
	}
	if logged := record(&r, policy.Decided, decided); logged != nil {
		return policy.Answer{}, errors.Join(err, logged)
	}
	return answer, err
}

func outcome(answer policy.Answer, err error) policy.Outcome {
	switch {
	case err == nil && answer.Allow:
		return policy.Allowed
	case err == nil:
		return policy.Rejected
	case errors.Is(err, policy.ErrNobody):
		return policy.Unavailable
	}
	return policy.Withdrawn
}

func (a *approver) logAsked(r *policy.Request) error {
	return record(r, policy.Asked, policy.AskedData{
		ID: r.ID, CallID: r.Call.ID, Tool: r.Call.Name, Accesses: r.Accesses, Reason: r.Reason, By: r.By,
		Digest: hex.EncodeToString(r.Digest[:]), Refused: r.Refused,
	})
}

// record appends to the log of the session of a request, if it has one.
func record(r *policy.Request, kind string, data any) error {
	if r.Call.Session == nil {
		return nil
	}
	if _, err := r.Call.Session.Append(session.Draft{Type: kind, Data: data}); err != nil {
		return fmt.Errorf("log %s of call %s: %w", kind, r.Call.ID, err)
	}
	return nil
}

// remember keeps the rule of an answer that fits r.
func (a *approver) remember(r *policy.Request, answer policy.Answer) error {
	rules, ok := policy.Rules.Current(a.scope)
	if !ok {
		return errors.New("no row keeps rules")
	}
	effect := tool.Deny
	if answer.Allow {
		effect = tool.Allow
	}
	return rules.Remember(r.Call, answer.Remember, effect, answer.Rule)
}

// reply is what became of one answerer.
type reply struct {
	name   string
	answer policy.Answer
	err    error
}

// put puts r to all answerers and returns the first answer that fits it.
func (a *approver) put(ctx context.Context, s *plugin.Scope, r policy.Request) (policy.Answer, error) {
	asked := map[string]policy.Answerer{}
	for name, answerer := range policy.Answerers.Visible(s) {
		asked[name] = answerer
	}
	// Each may change what it is given; what counts is what was asked.
	fits := policy.Fitting(s, &r)
	ctx, settle := context.WithCancelCause(ctx)
	defer settle(nil)
	replies := make(chan reply, len(asked)) // so that the slower ones need no reader
	for name, answerer := range asked {
		theirs := copyOf(&r)
		err := a.scope.Go("answerer "+name, func(life context.Context) error {
			ctx, cancel := context.WithCancelCause(ctx)
			defer cancel(nil)
			defer context.AfterFunc(life, func() { cancel(context.Cause(life)) })()
			answer, err := a.contain(ctx, name, answerer, theirs)
			replies <- reply{name, answer, err}
			return nil
		})
		if err != nil {
			return policy.Answer{}, fmt.Errorf("ask about %s: %w", r.Call.Name, err)
		}
	}
	var failed []error
	for range asked {
		select {
		case <-ctx.Done():
			return policy.Answer{}, fmt.Errorf("the question about %s is withdrawn: %w", r.Call.Name, context.Cause(ctx))
		case got := <-replies:
			if ctx.Err() != nil {
				return policy.Answer{}, fmt.Errorf("the question about %s is withdrawn: %w", r.Call.Name, context.Cause(ctx))
			}
			err := got.err
			if err == nil {
				err = fits(got.answer)
			}
			if err == nil {
				settle(&policy.AnsweredError{By: got.name})
				if got.answer.By == "" {
					got.answer.By = got.name
				}
				return got.answer, nil
			}
			err = fmt.Errorf("%s did not answer: %w", got.name, err)
			a.scope.Log().Warn("no answer to a question", "tool", r.Call.Name, "err", err)
			failed = append(failed, err)
		}
	}
	return policy.Answer{}, errors.Join(append([]error{policy.ErrNobody}, failed...)...)
}

// contain calls an answerer, and turns a panic into an error after having logged its stack.
func (a *approver) contain(ctx context.Context, name string, who policy.Answerer, r policy.Request) (answer policy.Answer, err error) {
	defer func() {
		if v := recover(); v != nil {
			p := &plugin.PanicError{Value: v, Stack: debug.Stack()}
			a.scope.Log().Error("panic", "in", "answerer "+name, "err", p, "stack", string(p.Stack))
			err = p
		}
	}()
	return who.Answer(ctx, r)
}

// copyOf returns a request that an answerer may do with as it likes.
func copyOf(r *policy.Request) policy.Request {
	c := *r
	call := *r.Call
	call.Arguments = slices.Clone(call.Arguments)
	c.Call = &call
	c.Accesses, c.Refused, c.Rules = slices.Clone(r.Accesses), slices.Clone(r.Refused), slices.Clone(r.Rules)
	if r.Wider != nil {
		wider := *r.Wider
		wider.Write, wider.Hosts = slices.Clone(wider.Write), slices.Clone(wider.Hosts)
		c.Wider = &wider
	}
	return c
}
