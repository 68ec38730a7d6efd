package policy

import (
	"errors"
	"fmt"
	"slices"

	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/tool"
)

// Fitting returns what says of an answer to r why it does not fit, nil when it does. It remembers what was asked: whatever becomes of r later, that counts. s
// is the scope of the agent. A surface may look before it passes an answer on; who asks looks in any case.
func Fitting(s *plugin.Scope, r *Request) func(a Answer) error {
	d, known := tool.Tools.Get(s, r.Call.Name)
	rules, wider := slices.Clone(r.Rules), r.Wider != nil
	return func(a Answer) error {
		switch a.Remember {
		case Once:
			if a.Rule != "" {
				return fmt.Errorf("it does not say for how long the rule %q holds", a.Rule)
			}
		case ForSession, ForUser:
			if !slices.Contains(rules, a.Rule) {
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
		case wider:
			return errors.New("it edits a call that has run already")
		case !known:
			return errors.New("it edits a call of a tool that is gone")
		}
		if _, err := d.Check(string(a.Arguments)); err != nil {
			return fmt.Errorf("its arguments: %w", err)
		}
		return nil
	}
}
