package mode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/tool"
	"github.com/dsh-harness/dsh/workspace"
)

// maxWider is how often a person is asked whether one call may run again with more.
const maxWider = 3

// widen asks, when the sandbox kept a call from something, whether exactly that call may run again and do
// it. What was refused is a result like any other: where nobody can be asked, it stays, and the turn does not
// count as one in which something was left unanswered.
func (m *manager) widen(ctx context.Context, p *tool.Prepared, next plugin.Next[*tool.Prepared, tool.Result]) (tool.Result, error) {
	result, err := next(ctx, p)
	mode, _, ok := decided(p)
	if err != nil || len(result.Refused) == 0 || !ok || !changes(mode) || p.Call.Workspace == nil {
		return result, err
	}
	for asked := 0; ctx.Err() == nil; asked++ {
		grant, refused := m.rules().grant(p.Call, result.Refused, workspace.GrantOf(ctx))
		if len(refused) == 0 {
			return result, nil
		}
		if asked == maxWider {
			return noted(result, "the user is not asked more often about one call"), nil
		}
		answer, err := m.askWider(ctx, p, mode, grant, refused)
		switch {
		case errors.Is(err, policy.ErrNobody):
			return noted(result, "nobody could be asked to allow it; "+howToAllow(grant)), nil
		case err != nil:
			return noted(result, fmt.Sprintf("asking the user to allow it failed: %v", err)), nil
		case !answer.Allow:
			return noted(result, "the user was asked to allow it: "+reasonOf(answer)), nil
		}
		ctx = workspace.WithGrant(ctx, grant)
		result, err = next(ctx, p)
		if err != nil {
			return result, err
		}
		which := "another run"
		if asked == 0 {
			which = "the second run"
		}
		result = noted(result, "this is "+which+", after the user allowed "+targets(refused))
		if len(result.Refused) == 0 {
			return result, nil
		}
	}
	return result, nil
}

func (m *manager) askWider(ctx context.Context, p *tool.Prepared, mode policy.Mode, grant workspace.Grant, refused []workspace.Refusal) (policy.Answer, error) {
	approvals, ok := policy.Approvals.Current(m.scope)
	scope := m.scopeOf(p.Call)
	if !ok || !anybody(scope) {
		return policy.Answer{}, policy.ErrNobody
	}
	return approvals.Ask(ctx, scope, policy.Request{
		Call: p.Call, Accesses: p.Definition.Access(p.Call), By: "sandbox",
		Reason: "the sandbox kept it from " + targets(refused) + "; allowed, it runs once more with that",
		Digest: m.digest(p.Call, mode), Wider: &grant, Refused: refused, Rules: m.suggest(p.Call, refused),
	})
}

// anybody reports whether there is somebody to ask.
func anybody(s *plugin.Scope) bool {
	for range policy.Answerers.Visible(s) {
		return true
	}
	return false
}

// grant returns what would let a call do what it was refused and was not granted yet, with the refusals it answers.
func (r *rules) grant(c *tool.Call, refused []workspace.Refusal, before workspace.Grant) (grant workspace.Grant, answered []workspace.Refusal) {
	for _, refusal := range refused {
		if refusal.Final {
			continue
		}
		switch refusal.Kind {
		case workspace.RefusedNetwork:
			if slices.Contains(before.Hosts, refusal.Target) {
				continue
			}
			if !slices.Contains(grant.Hosts, refusal.Target) {
				grant.Hosts = append(grant.Hosts, refusal.Target)
			}
		case workspace.RefusedWrite:
			path := r.grantable(c, refusal.Target)
			if path == "" || slices.Contains(before.Write, path) {
				continue
			}
			if !slices.Contains(grant.Write, path) {
				grant.Write = append(grant.Write, path)
			}
		default:
			continue
		}
		answered = append(answered, refusal)
	}
	return grant, answered
}

// grantable returns the place that has to be writable for a path to be, "" when nobody may grant it: it is
// private, or so much would come with it that it is no answer to one refusal.
func (r *rules) grantable(c *tool.Call, path string) string {
	if !filepath.IsAbs(path) {
		return ""
	}
	path = resolver{}.resolve(filepath.Clean(path))
	if r.hides(path, r.masks(c.Workspace.Roots())) {
		return ""
	}
	if slices.ContainsFunc(c.Workspace.Roots(), func(root string) bool { return isWithin(root, path) }) {
		return path // a control file, which may have to come into being
	}
	for {
		if _, err := os.Lstat(path); err == nil {
			break
		}
		up := filepath.Dir(path)
		if up == path {
			return ""
		}
		path = up
	}
	for _, kept := range append(c.Workspace.Roots(), r.home, r.realHome) {
		if isWithin(path, kept) {
			return ""
		}
	}
	return path
}

func targets(refused []workspace.Refusal) string {
	var all []string
	for _, r := range refused {
		verb := "writing "
		if r.Kind == workspace.RefusedNetwork {
			verb = "reaching "
		}
		if text := verb + r.Target; !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return strings.Join(all, " and ")
}

// howToAllow says what the user can do where nobody is asked.
func howToAllow(g workspace.Grant) string {
	var ways []string
	if len(g.Hosts) > 0 {
		ways = append(ways, "hosts with a rule such as WebFetch(domain:example.org)")
	}
	if len(g.Write) > 0 {
		ways = append(ways, "folders with --add-dir")
	}
	return "the user can allow " + strings.Join(ways, ", and ")
}

// noted adds a line for the model to a result.
func noted(r tool.Result, note string) tool.Result {
	r.Content = append(slices.Clip(r.Content), llm.Text("\n["+note+"]"))
	return r
}
