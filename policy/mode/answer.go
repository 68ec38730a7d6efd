package mode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/tool"
	"github.com/dsh-harness/dsh/workspace"
)

// answer has a person asked about a call that needs it. Where nobody can answer the
// decision stays, and the reason says what would allow the call.
func (m *manager) answer(ctx context.Context, p *tool.Pending, next plugin.Next[*tool.Pending, tool.Verdict]) (tool.Verdict, error) {
	if p.Verdict.Decision != tool.Ask {
		return next(ctx, p)
	}
	if by, ok := p.ApprovedAlready(); ok {
		p.Settle(true, by, "the user edited and allowed it")
		return next(ctx, p)
	}
	mode := m.Mode(p.Call.Session)
	answer, err := m.ask(ctx, p, mode)
	if err == nil && answer.Arguments != nil {
		// It is decided about again; until then, as far as anybody looks at it, it is allowed.
		err = p.Amend(answer.By, answer.Arguments)
	}
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

func (m *manager) ask(ctx context.Context, p *tool.Pending, mode policy.Mode) (policy.Answer, error) {
	approvals, ok := policy.Approvals.Current(m.scope)
	if !ok {
		return policy.Answer{}, policy.ErrNobody
	}
	accesses := p.Definition.Access(p.Call)
	if p.Call.Asking != nil {
		p.Call.Asking(accesses)
	}
	request := policy.Request{
		Call: p.Call, Accesses: accesses, Reason: p.Verdict.Reason, By: p.Verdict.By, Digest: m.digest(p.Call, mode),
	}
	if m.ruleWouldDo(p, accesses, mode) {
		request.Rules = m.suggest(p.Call, nil)
	}
	return approvals.Ask(ctx, m.scopeOf(p.Call), request)
}

// digest names what an answer about a call allows.
func (m *manager) digest(c *tool.Call, mode policy.Mode) [32]byte {
	fingerprint := ""
	if rules, ok := policy.Rules.Current(m.scope); ok {
		fingerprint = rules.Fingerprint()
	}
	return policy.Digest(c, os.Environ(), string(mode), m.settings, fingerprint)
}

// ruleWouldDo reports whether a rule that allows the call would have kept it from being asked about.
func (m *manager) ruleWouldDo(p *tool.Pending, accesses []tool.Access, mode policy.Mode) bool {
	for _, o := range p.Opinions() {
		if o.Decision == tool.Ask && o.Part == "" && !strings.HasPrefix(o.By, signed) {
			return false
		}
	}
	for _, a := range accesses {
		if m.rules().judge(mode, p.Call, a).permitted == tool.Ask {
			return false
		}
	}
	return true
}

// suggest returns rules that would allow a call, narrowest first.
func (m *manager) suggest(c *tool.Call, refused []workspace.Refusal) []string {
	rules, ok := policy.Rules.Current(m.scope)
	if !ok {
		return nil
	}
	return rules.Suggest(c, refused)
}

// scopeOf is the scope of the agent that makes a call.
func (m *manager) scopeOf(c *tool.Call) *plugin.Scope {
	if c.Session == nil {
		return m.scope
	}
	return c.Session.Scope()
}

func reasonOf(a policy.Answer) string {
	switch {
	case a.Reason != "":
		return a.Reason
	case a.Arguments != nil:
		return "the user edited and allowed it"
	case a.Allow:
		return "the user allowed it"
	default:
		return "the user did not allow it"
	}
}

// advice names the strictest mode in which the call would need nobody, and could do what it is for.
func (m *manager) advice(p *tool.Pending) string {
	now := m.Mode(p.Call.Session)
	for _, mode := range policy.Modes() {
		if changes(now) && !changes(mode) {
			continue
		}
		strictest := tool.Allow
		for _, a := range p.Definition.Access(p.Call) {
			strictest = max(strictest, m.rules().judge(mode, p.Call, a).decision)
		}
		if strictest <= tool.Confined {
			return fmt.Sprintf("the user can allow it with --permission-mode %s", mode)
		}
	}
	return "no permission mode allows it: the user has to do it, or take the place off the list in the row permission-mode"
}
