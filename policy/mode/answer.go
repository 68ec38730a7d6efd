package mode

import (
	"context"
	"errors"
	"fmt"

	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/tool"
)

// answer has a person asked about a call that needs it. Where nobody can answer the
// decision stays, and the reason says what would allow the call.
func (m *manager) answer(ctx context.Context, p *tool.Pending, next plugin.Next[*tool.Pending, tool.Verdict]) (tool.Verdict, error) {
	if p.Verdict.Decision != tool.Ask {
		return next(ctx, p)
	}
	answer, err := m.ask(ctx, p)
	switch {
	case err == nil:
		p.Settle(answer.Allow, answer.By, reasonOf(answer))
	case errors.Is(err, policy.ErrNobody):
		p.Verdict.Reason += "; " + m.advice(p)
	default:
		p.Settle(false, p.Verdict.By, fmt.Sprintf("asking about it failed: %v", err))
	}
	return next(ctx, p)
}

func (m *manager) ask(ctx context.Context, p *tool.Pending) (policy.Answer, error) {
	approvals, ok := policy.Approvals.Current(m.scope)
	if !ok {
		return policy.Answer{}, policy.ErrNobody
	}
	accesses := p.Definition.Access(p.Call)
	if p.Call.Asking != nil {
		p.Call.Asking(accesses)
	}
	scope := m.scope
	if p.Call.Session != nil {
		scope = p.Call.Session.Scope()
	}
	return approvals.Ask(ctx, scope, policy.Request{
		Call: p.Call, Accesses: accesses, Reason: p.Verdict.Reason, By: p.Verdict.By,
	})
}

func reasonOf(a policy.Answer) string {
	switch {
	case a.Reason != "":
		return a.Reason
	case a.Allow:
		return "the user allowed it"
	default:
		return "the user did not allow it"
	}
}

// advice names the strictest mode in which the call would need nobody.
func (m *manager) advice(p *tool.Pending) string {
	for _, mode := range policy.Modes() {
		strictest := tool.Allow
		for _, a := range p.Definition.Access(p.Call) {
			d, _ := m.rules().judge(mode, p.Call, a)
			strictest = max(strictest, d)
		}
		if strictest <= tool.Confined {
			return fmt.Sprintf("the user can allow it with --permission-mode %s", mode)
		}
	}
	return "no permission mode allows it: the user has to do it, or take the place off the list in the row permission-mode"
}
