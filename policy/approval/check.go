package approval

import (
	"errors"
	"fmt"
	"slices"

	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/tool"
)

// check knows which answers fit a request.
type check struct {
	tool  tool.Definition
	known bool // there is such a tool
	rules []string
	wider bool
}

func newCheck(s *plugin.Scope, r *policy.Request) *check {
	d, ok := tool.Tools.Get(s, r.Call.Name)
	return &check{tool: d, known: ok, rules: slices.Clone(r.Rules), wider: r.Wider != nil}
}

// answer says why an answer does not fit, nil when it does.
func (c *check) answer(a policy.Answer) error {
	switch a.Remember {
	case policy.Once:
		if a.Rule != "" {
			return fmt.Errorf("it does not say for how long the rule %q holds", a.Rule)
		}
	case policy.ForSession, policy.ForUser:
		if !slices.Contains(c.rules, a.Rule) {
			return fmt.Errorf("the rule %q was not offered", a.Rule)
		}
	default:
		return fmt.Errorf("it wants to be remembered for %q", a.Remember)
	}
	if a.Arguments == nil {
		return nil
	}
	switch {
	case !a.Allow:
		return errors.New("it denies the call and edits it")
	case a.Rule != "":
		return errors.New("it edits the call, and the rule is about another one")
	case c.wider:
		return errors.New("it edits a call that has run already")
	case !c.known:
		return errors.New("it edits a call of a tool that is gone")
	}
	if _, err := c.tool.Check(string(a.Arguments)); err != nil {
		return fmt.Errorf("its arguments: %w", err)
	}
	return nil
}
