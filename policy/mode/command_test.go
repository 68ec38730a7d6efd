package mode

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/tool"
	"github.com/dsh-harness/dsh/workspace"
)

// What a command line names is judged as files are, wherever it runs.
func TestCommandsAreJudgedByWhatTheyName(t *testing.T) {
	w := newWorld(t)
	r := newRules(w.home, w.dirs, Config{})
	const masked, control = "is masked", "is a control file"
	for _, c := range []struct {
		mode    policy.Mode
		sandbox workspace.SandboxLevel
		command string
		workdir string
		want    tool.Decision
		reason  string
	}{
		{policy.WorkspaceWrite, workspace.SandboxFull, "go test ./...", "", tool.Confined, "commands run in the sandbox"},
		{policy.WorkspaceWrite, workspace.SandboxPartial, "go test ./...", "", tool.Ask, "the sandbox is partial"},
		{policy.WorkspaceWrite, workspace.SandboxFull, "cat ~/.ssh/id_ed25519", "", tool.Deny, masked},
		{policy.WorkspaceWrite, workspace.SandboxFull, "cat keys/id_ed25519", "", tool.Deny, masked},
		{policy.WorkspaceWrite, workspace.SandboxFull, "cat keys/id_ed25519", "src", tool.Confined, ""},
		{policy.WorkspaceWrite, workspace.SandboxFull, "cat ../keys/id_ed25519", "src", tool.Deny, masked},
		{policy.WorkspaceWrite, workspace.SandboxFull, "cat " + w.dirs.State + "/sessions/s1/log.jsonl", "", tool.Deny, "the harness's own state"},
		{policy.FullAccess, workspace.SandboxNone, "cat ~/.ssh/id_ed25519", "", tool.Deny, masked},
		{policy.FullAccess, workspace.SandboxNone, "touch AGENTS.md", "", tool.Allow, "allows commands"},
		{policy.WorkspaceWrite, workspace.SandboxFull, "touch AGENTS.md", "", tool.Ask, control},
		{policy.WorkspaceWrite, workspace.SandboxFull, "touch ../AGENTS.md", "src", tool.Ask, control},
		{policy.WorkspaceWrite, workspace.SandboxFull, "echo x > .vscode/settings.json", "", tool.Ask, control},
		{policy.WorkspaceWrite, workspace.SandboxFull, "echo x > hooks/pre-commit", "", tool.Ask, control},
		{policy.WorkspaceWrite, workspace.SandboxFull, "cat AGENTS.md", "", tool.Confined, ""},
		{policy.ReadOnly, workspace.SandboxFull, "touch AGENTS.md", "", tool.Confined, ""}, // where nothing can be written
		{policy.AskFirst, workspace.SandboxFull, "ls -la", "", tool.Confined, "proven to only read"},
		{policy.AskFirst, workspace.SandboxFull, "make", "", tool.Ask, "not proven to only read"},
		{policy.AskFirst, workspace.SandboxFull, "ls -la > list", "", tool.Ask, "not proven to only read"},
		{policy.AskFirst, workspace.SandboxPartial, "ls -la", "", tool.Ask, "not proven to only read"},
		{policy.AskFirst, workspace.SandboxFull, "ls ~/.ssh", "", tool.Deny, masked},
	} {
		call := w.call(c.sandbox)
		arguments, err := json.Marshal(map[string]string{"command": c.command, "workdir": c.workdir})
		if err != nil {
			t.Fatal(err)
		}
		call.Arguments = arguments
		d, reason := judged(r, c.mode, call, tool.Access{Kind: tool.AccessExecute, Target: c.command})
		if d != c.want || !strings.Contains(reason, c.reason) {
			t.Errorf("%s, sandbox %s: %q in %q: got %v: %s\nwant %v: …%s…", c.mode, c.sandbox, c.command, c.workdir, d, reason, c.want, c.reason)
		}
	}
}

// rule allows every call, as a rule that a person made would.
func rule() plugin.Child {
	return plugin.Child{Name: "permissions", Start: func(_ context.Context, s *plugin.Scope) error {
		_, err := tool.PreExecute.On(s, func(ctx context.Context, p *tool.Pending, next plugin.Next[*tool.Pending, tool.Verdict]) (tool.Verdict, error) {
			p.Permit("rule", "the rule allows it")
			return next(ctx, p)
		}, plugin.At(tool.Decide))
		return err
	}}
}

// A rule that allows answers the mode's own question and no other.
func TestARuleAnswersOnlyWhatTheModeAsks(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		mode      policy.Mode
		sandbox   workspace.SandboxLevel
		arguments string
		want      tool.Decision
	}{
		{policy.WorkspaceWrite, workspace.SandboxNone, `{"run":"make"}`, tool.Allow},
		{policy.WorkspaceWrite, workspace.SandboxPartial, `{"run":"make"}`, tool.Confined},
		{policy.WorkspaceWrite, workspace.SandboxFull, `{"run":"make"}`, tool.Confined},
		{policy.AskFirst, workspace.SandboxFull, `{"run":"make"}`, tool.Confined},
		{policy.AskFirst, workspace.SandboxNone, `{"run":"make"}`, tool.Allow},
		{policy.AskFirst, workspace.SandboxFull, `{"write":"a.go"}`, tool.Allow},
		{policy.AskFirst, workspace.SandboxFull, `{"run":"make","write":"a.go"}`, tool.Confined},
		// What stays: control files, masked places, what lies outside, and that nothing is changed.
		{policy.AskFirst, workspace.SandboxFull, `{"write":"AGENTS.md"}`, tool.Ask},
		{policy.WorkspaceWrite, workspace.SandboxFull, `{"run":"touch AGENTS.md"}`, tool.Ask},
		{policy.FullAccess, workspace.SandboxFull, `{"write":"AGENTS.md"}`, tool.Ask},
		{policy.AskFirst, workspace.SandboxFull, `{"write":"../x"}`, tool.Ask},
		{policy.WorkspaceWrite, workspace.SandboxFull, `{"write":"../x"}`, tool.Deny},
		{policy.WorkspaceWrite, workspace.SandboxFull, `{"run":"cat ~/.ssh/id_ed25519"}`, tool.Deny},
		{policy.ReadOnly, workspace.SandboxFull, `{"write":"a.go"}`, tool.Deny},
		{policy.ReadOnly, workspace.SandboxNone, `{"run":"make"}`, tool.Ask},
		{policy.Plan, workspace.SandboxNone, `{"run":"make"}`, tool.Ask},
	} {
		p := newPipeline(t, Config{Mode: c.mode}, nil, rule())
		prepared := p.Prepare(t.Context(), p.scope, w.call(c.sandbox), c.arguments)
		if prepared.Verdict.Decision != c.want {
			t.Errorf("%s, sandbox %s: %s: got %v (%s), want %v", c.mode, c.sandbox, c.arguments, prepared.Verdict.Decision, prepared.Verdict.Reason, c.want)
		}
	}
}

// suggesting is a keeper of rules that suggests.
type suggesting struct{ policy.RuleKeeper }

func (suggesting) Suggest(*tool.Call, []workspace.Refusal) []string { return []string{"Bash(make)"} }
func (suggesting) Fingerprint() string                              { return "f" }

// A rule is only offered where it would have kept the call from being asked about.
func TestRulesAreOfferedWhereTheyWouldDo(t *testing.T) {
	w := newWorld(t)
	keeper := plugin.Child{Name: "permissions", Start: func(_ context.Context, s *plugin.Scope) error {
		return policy.Rules.Provide(s, suggesting{})
	}}
	hook := plugin.Child{Name: "hooks", Start: func(_ context.Context, s *plugin.Scope) error {
		_, err := tool.PreExecute.On(s, func(ctx context.Context, p *tool.Pending, next plugin.Next[*tool.Pending, tool.Verdict]) (tool.Verdict, error) {
			p.Raise(tool.Ask, "hooks", "a hook asks")
			return next(ctx, p)
		}, plugin.At(tool.Decide))
		return err
	}}
	for _, c := range []struct {
		arguments string
		more      []plugin.Child
		offered   bool
	}{
		{`{"run":"make"}`, nil, true},
		{`{"write":"a.go"}`, nil, true},
		{`{"write":"AGENTS.md"}`, nil, false},
		{`{"run":"make","write":"AGENTS.md"}`, nil, false},
		{`{"write":"../x"}`, nil, false},
		{`{"run":"make"}`, []plugin.Child{hook}, false},
	} {
		who := &person{answer: policy.Answer{Allow: true}}
		p := newPipeline(t, Config{Mode: policy.AskFirst}, who, append(c.more, keeper)...)
		p.Prepare(t.Context(), p.scope, w.call(workspace.SandboxFull), c.arguments)
		if len(who.asked) != 1 || (len(who.asked[0].Rules) > 0) != c.offered {
			t.Errorf("%s with %d more: asked %+v", c.arguments, len(c.more), who.asked)
		}
	}
}

// What a person makes of the arguments is decided about like any others, but not asked about again.
func TestEditingACall(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		edit, ran string
		want      string
		decision  tool.Decision
	}{
		{`{"run":"make test"}`, `{"run":"make test"}`, "done", tool.Allow},
		{`{"write":"AGENTS.md"}`, `{"write":"AGENTS.md"}`, "done", tool.Allow}, // the person wrote it
		{`{"run":"cat ~/.ssh/id_ed25519"}`, "", "is masked (~/.ssh)", tool.Deny},
		{`{"walk":"far"}`, "", "asking about it failed: me edits the arguments of work", tool.Deny},
	} {
		who := &person{answer: policy.Answer{Allow: true, By: "me", Arguments: json.RawMessage(c.edit)}}
		p := newPipeline(t, Config{Mode: policy.WorkspaceWrite}, who)
		call := w.call(workspace.SandboxNone)
		prepared := p.Prepare(t.Context(), p.scope, call, `{"run":"make"}`)
		got := llm.PlainText(p.Execute(t.Context(), p.scope, prepared).Content)
		if !strings.Contains(got, c.want) || prepared.Verdict.Decision != c.decision || len(who.asked) != 1 {
			t.Errorf("%s: got %q, %v, asked %d times; want %q, %v", c.edit, got, prepared.Verdict.Decision, len(who.asked), c.want, c.decision)
		}
		if c.ran != "" && (p.ran != 1 || string(call.Arguments) != c.ran) {
			t.Errorf("%s: ran %d times, with %s", c.edit, p.ran, call.Arguments)
		}
	}
}

// The same call is asked about again whenever anything of it is different: an answer is about one call.
func TestTrust_P05_AnotherCallIsAskedAboutAgain(t *testing.T) {
	w := newWorld(t)
	who := &person{answer: policy.Answer{Allow: true}}
	p := newPipeline(t, Config{Mode: policy.WorkspaceWrite}, who)
	var digests [][32]byte
	ask := func(arguments string) {
		p.Prepare(t.Context(), p.scope, w.call(workspace.SandboxNone), arguments)
		if len(who.asked) != len(digests)+1 {
			t.Fatalf("%s was not asked about", arguments)
		}
		d := who.asked[len(digests)].Digest
		if slices.Contains(digests, d) {
			t.Errorf("%s has the digest of a call before it", arguments)
		}
		digests = append(digests, d)
	}
	ask(`{"run":"make x"}`)
	ask(`{"run":"make y"}`)
	t.Setenv("DSH_TEST_ENVIRONMENT", "1")
	ask(`{"run":"make x"}`)
	p = newPipeline(t, Config{Mode: policy.AskFirst}, who)
	ask(`{"run":"make x"}`)
	p = newPipeline(t, Config{Mode: policy.AskFirst, Control: Places{Add: []string{"deploy"}}}, who)
	ask(`{"run":"make x"}`)
	p = newPipeline(t, Config{Mode: policy.AskFirst}, who, plugin.Child{Name: "permissions", Start: func(_ context.Context, s *plugin.Scope) error {
		return policy.Rules.Provide(s, suggesting{})
	}})
	ask(`{"run":"make x"}`)
	w.project = w.outside
	w.workspace = folders{w.workspace, w.outside}
	ask(`{"run":"make x"}`)
}

// folders is a workspace in another folder.
type folders struct {
	workspace.Workspace
	dir string
}

func (f folders) Dir() string     { return f.dir }
func (f folders) Roots() []string { return []string{f.dir} }
