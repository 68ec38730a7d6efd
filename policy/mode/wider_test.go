package mode

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/tool"
	"github.com/dsh-harness/dsh/workspace"
)

// there makes somebody be there; who it is does not matter, as a person stands for the approvals.
func there() plugin.Child {
	return plugin.Child{Name: "surface", Start: func(_ context.Context, s *plugin.Scope) error {
		_, err := policy.Answerers.Add(s, "surface", nobody{})
		return err
	}}
}

type nobody struct{}

func (nobody) Answer(context.Context, policy.Request) (policy.Answer, error) {
	return policy.Answer{}, errors.New("not here")
}

func (p *person) answers(f func(r policy.Request) policy.Answer) asking { return asking{p, f} }

// asking notes what is asked and answers as a function says.
type asking struct {
	*person
	f func(policy.Request) policy.Answer
}

func (a asking) Ask(_ context.Context, _ *plugin.Scope, r policy.Request) (policy.Answer, error) {
	a.asked = append(a.asked, r)
	return a.f(r), nil
}

func host(name string) workspace.Refusal {
	return workspace.Refusal{Kind: workspace.RefusedNetwork, Target: name + ":443"}
}

// What the sandbox refused may be allowed for one more run of exactly that call.
func TestAWiderRun(t *testing.T) {
	w := newWorld(t)
	yes := func(policy.Request) policy.Answer { return policy.Answer{Allow: true} }
	no := func(policy.Request) policy.Answer { return policy.Answer{Reason: "not that host"} }
	write := func(path string) workspace.Refusal {
		return workspace.Refusal{Kind: workspace.RefusedWrite, Target: path}
	}
	for _, c := range []struct {
		name    string
		mode    policy.Mode
		answer  func(policy.Request) policy.Answer // nil: nobody is there
		refused [][]workspace.Refusal              // of each run
		asked   int
		grant   workspace.Grant // of the last run
		want    string
	}{
		{"a host", policy.WorkspaceWrite, yes, [][]workspace.Refusal{{host("a")}, nil}, 1, workspace.Grant{Hosts: []string{"a:443"}},
			"run 2\n[this is the second run, after the user allowed reaching a:443]"},
		{"a host, and then another", policy.AskFirst, yes, [][]workspace.Refusal{{host("a")}, {host("b"), host("b")}, nil}, 2, workspace.Grant{Hosts: []string{"a:443", "b:443"}},
			"run 3\n[this is another run, after the user allowed reaching b:443]"},
		{"denied", policy.WorkspaceWrite, no, [][]workspace.Refusal{{host("a")}}, 1, workspace.Grant{},
			"run 1\n[the user was asked to allow it: not that host]"},
		{"nobody there", policy.WorkspaceWrite, nil, [][]workspace.Refusal{{host("a")}}, 0, workspace.Grant{},
			"run 1\n[nobody could be asked to allow it; the user can allow hosts with a rule such as WebFetch(domain:example.org)]"},
		{"a folder, and nobody there", policy.WorkspaceWrite, nil, [][]workspace.Refusal{{write(w.outside + "/file")}}, 0, workspace.Grant{},
			"run 1\n[nobody could be asked to allow it; the user can allow folders with --add-dir]"},
		{"always another", policy.WorkspaceWrite, yes, [][]workspace.Refusal{{host("a")}, {host("b")}, {host("c")}, {host("d")}}, 3, workspace.Grant{Hosts: []string{"a:443", "b:443", "c:443"}},
			"run 4\n[this is another run, after the user allowed reaching c:443]\n[the user is not asked more often about one call]"},
		{"the same again", policy.WorkspaceWrite, yes, [][]workspace.Refusal{{host("a")}, {host("a")}}, 1, workspace.Grant{Hosts: []string{"a:443"}},
			"run 2\n[this is the second run, after the user allowed reaching a:443]"},
		{"a file", policy.WorkspaceWrite, yes, [][]workspace.Refusal{{write(w.outside + "/file")}, nil}, 1, workspace.Grant{Write: []string{w.outside + "/file"}},
			"run 2\n[this is the second run, after the user allowed writing " + w.outside + "/file]"},
		{"a file that is not there", policy.WorkspaceWrite, yes, [][]workspace.Refusal{{write(w.outside + "/none/file")}, nil}, 1, workspace.Grant{Write: []string{w.outside}},
			"run 2\n[this is the second run, after the user allowed writing " + w.outside + "/none/file]"},
		{"a control file that is not there", policy.WorkspaceWrite, yes, [][]workspace.Refusal{{write(w.project + "/.mcp.json")}, nil}, 1, workspace.Grant{Write: []string{w.project + "/.mcp.json"}},
			"run 2\n[this is the second run, after the user allowed writing " + w.project + "/.mcp.json]"},
		{"a host that nothing opens", policy.WorkspaceWrite, yes, [][]workspace.Refusal{{{Kind: workspace.RefusedNetwork, Target: "10.0.0.1:80", Final: true}}}, 0, workspace.Grant{}, "run 1"},
		{"a masked file", policy.WorkspaceWrite, yes, [][]workspace.Refusal{{write(w.home + "/.ssh/config")}}, 0, workspace.Grant{}, "run 1"},
		{"a file that would take the home along", policy.WorkspaceWrite, yes, [][]workspace.Refusal{{write(w.home + "/none/file")}}, 0, workspace.Grant{}, "run 1"},
		{"a mode that changes nothing", policy.ReadOnly, yes, [][]workspace.Refusal{{host("a")}}, 0, workspace.Grant{}, "run 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			who := &person{}
			var approver policy.Approver = who
			more := []plugin.Child{rule()}
			if c.answer != nil {
				approver, more = who.answers(c.answer), append(more, there())
			}
			p := newPipeline(t, Config{Mode: c.mode}, approver, more...)
			var last workspace.Grant
			p.body = func(ctx context.Context) (tool.Result, error) {
				last = workspace.GrantOf(ctx)
				result := tool.Text("run " + string(rune('0'+p.ran)))
				result.Refused = c.refused[p.ran-1]
				return result, nil
			}
			call := w.call(workspace.SandboxFull)
			result := p.Execute(t.Context(), p.scope, p.Prepare(t.Context(), p.scope, call, `{"run":"make"}`))
			if got := llm.PlainText(result.Content); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
			if p.ran != len(c.refused) || len(who.asked) != c.asked || result.Decision > tool.Confined {
				t.Errorf("ran %d times, want %d; asked %d times, want %d; the decision is %v", p.ran, len(c.refused), len(who.asked), c.asked, result.Decision)
			}
			if strings.Join(last.Hosts, " ") != strings.Join(c.grant.Hosts, " ") || strings.Join(last.Write, " ") != strings.Join(c.grant.Write, " ") {
				t.Errorf("the last run was granted %+v, want %+v", last, c.grant)
			}
			for _, r := range who.asked {
				if r.Wider == nil || len(r.Refused) == 0 || r.Digest == [32]byte{} || !strings.Contains(r.Reason, r.Refused[0].Target) {
					t.Errorf("asked %+v", r)
				}
				for _, path := range r.Wider.Write {
					if !filepath.IsAbs(path) {
						t.Errorf("asked for %s", path)
					}
				}
			}
		})
	}
}

func TestAWithdrawnQuestionLeavesTheResult(t *testing.T) {
	w := newWorld(t)
	p := newPipeline(t, Config{Mode: policy.WorkspaceWrite}, &person{err: context.Canceled}, there())
	p.body = func(context.Context) (tool.Result, error) {
		result := tool.Text("run")
		result.Refused = []workspace.Refusal{host("a")}
		return result, nil
	}
	result := p.Execute(t.Context(), p.scope, p.Prepare(t.Context(), p.scope, w.call(workspace.SandboxFull), `{"run":"make"}`))
	if got := llm.PlainText(result.Content); got != "run\n[asking the user to allow it failed: context canceled]" || p.ran != 1 {
		t.Errorf("ran %d times: %q", p.ran, got)
	}
}
