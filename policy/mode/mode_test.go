package mode

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/dsh-harness/dsh/internal/home"
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/tool"
	"github.com/dsh-harness/dsh/tool/registry"
	"github.com/dsh-harness/dsh/workspace"
	"github.com/dsh-harness/dsh/workspace/local"
	"github.com/dsh-harness/dsh/workspace/workspacetest"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) { flag.Parse(); goleak.VerifyTestMain(m) }

// level is a workspace that claims a sandbox.
type level struct {
	workspace.Workspace
	sandbox workspace.SandboxLevel
}

func (l level) Sandbox() (workspace.SandboxLevel, string) { return l.sandbox, "" }

// judged is what a mode makes of an access.
func judged(r *rules, m policy.Mode, c *tool.Call, a tool.Access) (tool.Decision, string) {
	f := r.judge(m, c, a)
	return f.decision, f.reason
}

// world is a home, a project in it, and what lies around.
type world struct {
	home, project, outside string
	workspace              workspace.Workspace
	dirs                   home.Dirs
}

func newWorld(t *testing.T) *world {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		home: filepath.Join(base, "home", "me"), outside: filepath.Join(base, "outside"),
		dirs: home.Dirs{Config: filepath.Join(base, "dsh", "config"), State: filepath.Join(base, "dsh", "state"), Cache: filepath.Join(base, "dsh", "cache")},
	}
	w.project = filepath.Join(w.home, "project")
	for _, file := range []string{
		w.home + "/.ssh/id_ed25519", w.home + "/notes.txt", w.outside + "/file",
		w.project + "/src/main.go", w.project + "/.git/config", w.project + "/.git/hooks/pre-commit",
		w.dirs.State + "/sessions/s1/log.jsonl", w.dirs.State + "/sessions/s1/spill/c1_1_0.txt", w.dirs.Config + "/cordis.yml",
	} {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{
		"keys":        w.home + "/.ssh",
		"key":         "../.ssh/id_ed25519",
		"away":        w.outside,
		"hooks":       ".git/hooks",
		"chain":       "keys",
		"dangling":    w.outside + "/none",
		"src/up":      "..",
		"state":       w.dirs.State,
		"innocent.md": ".git/config",
	} {
		if err := os.Symlink(target, filepath.Join(w.project, name)); err != nil {
			t.Skipf("this system makes no links: %v", err)
		}
	}
	t.Setenv("HOME", w.home)
	t.Setenv("USERPROFILE", w.home)
	t.Setenv("DSH_HOME", filepath.Join(base, "dsh"))
	w.workspace = workspacetest.Open(t, local.Plugin.Definition(), workspace.Options{Dir: w.project})
	return w
}

// call is a call in the world, under a sandbox.
func (w *world) call(sandbox workspace.SandboxLevel) *tool.Call {
	return &tool.Call{ID: "c1_1_0", Name: "work", Workspace: level{w.workspace, sandbox}}
}

// The policy's table, over all modes, sandbox levels and kinds of places. The golden
// file is meant to be read.
func TestThePolicyTable(t *testing.T) {
	w := newWorld(t)
	r := newRules(w.home, w.dirs, Config{})
	var b strings.Builder
	for _, sandbox := range []workspace.SandboxLevel{workspace.SandboxNone, workspace.SandboxPartial, workspace.SandboxFull} {
		fmt.Fprintf(&b, "sandbox %s\n%-34s", sandbox, "")
		for _, m := range policy.Modes() {
			fmt.Fprintf(&b, "%-17s", m)
		}
		for _, a := range []struct {
			kind   tool.AccessKind
			target string
		}{
			{tool.AccessRead, "src/main.go"},
			{tool.AccessRead, "."},
			{tool.AccessRead, ".git/config"},
			{tool.AccessRead, "../notes.txt"},
			{tool.AccessRead, "../../../outside/file"},
			{tool.AccessRead, "~/.ssh/id_ed25519"},
			{tool.AccessRead, "keys/id_ed25519"},
			{tool.AccessRead, ".."},
			{tool.AccessWrite, "src/main.go"},
			{tool.AccessWrite, "src/new.go"},
			{tool.AccessWrite, "AGENTS.md"},
			{tool.AccessWrite, ".git/hooks/post-merge"},
			{tool.AccessWrite, "innocent.md"},
			{tool.AccessWrite, "../notes.txt"},
			{tool.AccessWrite, "away/file"},
			{tool.AccessWrite, "~/.ssh/config"},
			{tool.AccessExecute, "go test ./..."},
			{tool.AccessNetwork, "example.org"},
		} {
			fmt.Fprintf(&b, "\n%-8s %-25s", a.kind, a.target)
			for _, m := range policy.Modes() {
				d, reason := judged(r, m, w.call(sandbox), tool.Access{Kind: a.kind, Target: a.target})
				if reason == "" || strings.Contains(reason, "\n") {
					t.Errorf("%s %s in mode %s: the reason is %q", a.kind, a.target, m, reason)
				}
				fmt.Fprintf(&b, "%-17s", d)
			}
		}
		b.WriteString("\n\n")
	}
	var lines []string
	for line := range strings.Lines(b.String()) {
		lines = append(lines, strings.TrimRight(line, " \n")+"\n")
	}
	golden(t, "table.golden", strings.TrimSpace(strings.Join(lines, ""))+"\n")
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (run with -update after reading): %s", name, d)
	}
}

// Ways to reach a place under another name.
func TestNoNameGetsAroundAPlace(t *testing.T) {
	w := newWorld(t)
	r := newRules(w.home, w.dirs, Config{})
	for _, c := range []struct {
		kind   tool.AccessKind
		target string
		want   tool.Decision
		reason string
	}{
		{tool.AccessRead, w.home + "/.ssh", tool.Deny, "is masked (~/.ssh)"},
		{tool.AccessRead, w.home + "/.ssh/../.ssh/id_ed25519", tool.Deny, "is masked (~/.ssh)"},
		{tool.AccessRead, "../.ssh/id_ed25519", tool.Deny, "is masked (~/.ssh)"},
		{tool.AccessRead, "key", tool.Deny, "is masked (~/.ssh)"},
		{tool.AccessRead, "chain/id_ed25519", tool.Deny, "is masked (~/.ssh)"},
		{tool.AccessRead, "src/up/key", tool.Deny, "is masked (~/.ssh)"},
		{tool.AccessRead, w.home + "/.SSH/id_ed25519", tool.Deny, "is masked (~/.ssh)"},
		{tool.AccessRead, "state/sessions/s1/log.jsonl", tool.Deny, "the harness's own state"},
		{tool.AccessRead, w.dirs.State, tool.Deny, "the harness's own state"},
		{tool.AccessRead, w.home, tool.Deny, "holds ~/.ssh, which is masked"},
		{tool.AccessRead, "/home/somebody-else/x", tool.Deny, "somebody else's home"},
		{tool.AccessRead, "/proc/self/environ", tool.Deny, "is masked"},
		{tool.AccessRead, w.home + "/.sshx", tool.Allow, ""},
		{tool.AccessRead, "src/up/src/main.go", tool.Allow, ""},
		{tool.AccessRead, "a\x00b", tool.Deny, "NUL"},

		{tool.AccessWrite, "hooks/pre-commit", tool.Ask, "is a control file (.git)"},
		{tool.AccessWrite, "src/up/.git/config", tool.Ask, "is a control file (.git)"},
		{tool.AccessWrite, "src/../.git/config", tool.Ask, "is a control file (.git)"},
		{tool.AccessWrite, ".GIT/config", tool.Ask, "is a control file (.git)"},
		{tool.AccessWrite, ".g\u200cit/config", tool.Ask, "is a control file (.git)"},
		{tool.AccessWrite, ".git./config", tool.Ask, "is a control file (.git)"},
		{tool.AccessWrite, ".git", tool.Ask, "is a control file (.git)"},
		{tool.AccessWrite, "vendor/x/.git/hooks/post-checkout", tool.Ask, "is a control file (.git)"},
		{tool.AccessWrite, "claude.md", tool.Ask, "is a control file (CLAUDE.md)"},
		{tool.AccessWrite, ".github/workflows/ci.yml", tool.Ask, "is a control file (.github/workflows)"},
		{tool.AccessWrite, ".dsh/cordis.yml", tool.Ask, "is a control file (.dsh)"},
		{tool.AccessWrite, ".mcp.json", tool.Ask, "is a control file (.mcp.json)"},
		{tool.AccessWrite, "my.code-workspace", tool.Ask, "is a control file (*.code-workspace)"},
		{tool.AccessWrite, ".bashrc", tool.Ask, "is a control file (.bashrc)"},
		{tool.AccessWrite, ".github/README.md", tool.Allow, ""},
		{tool.AccessWrite, ".gitignore", tool.Allow, ""},
		{tool.AccessWrite, "src/git/config", tool.Allow, ""},
		{tool.AccessWrite, "dangling", tool.Deny, "lies outside of the folders that may be written: " + w.project},
		{tool.AccessWrite, "away/new", tool.Deny, "lies outside"},
		{tool.AccessWrite, w.project + "2/x", tool.Deny, "lies outside"},
		{tool.AccessWrite, w.dirs.Config + "/cordis.yml", tool.Deny, "lies outside"},
		{"teleport", "x", tool.Deny, "unknown kind of access"},
	} {
		t.Run(fmt.Sprintf("%s %q", c.kind, c.target), func(t *testing.T) {
			d, reason := judged(r, policy.WorkspaceWrite, w.call(workspace.SandboxNone), tool.Access{Kind: c.kind, Target: c.target})
			if d != c.want || !strings.Contains(reason, c.reason) {
				t.Errorf("got %v: %s\nwant %v: …%s…", d, reason, c.want, c.reason)
			}
		})
	}
}

// What stands above the workspace makes nothing in it a control file.
func TestNamesAboveTheWorkspaceDoNotCount(t *testing.T) {
	w := newWorld(t)
	r := newRules(w.home, w.dirs, Config{})
	nested := filepath.Join(w.project, ".claude", "worktrees", "one")
	if err := os.MkdirAll(nested, 0o755); err != nil {
		t.Fatal(err)
	}
	c := &tool.Call{Workspace: workspacetest.Open(t, local.Plugin.Definition(), workspace.Options{Dir: nested})}
	if d, reason := judged(r, policy.WorkspaceWrite, c, tool.Access{Kind: tool.AccessWrite, Target: "main.go"}); d != tool.Allow {
		t.Errorf("got %v: %s", d, reason)
	}
}

func TestConfigurationWidensAndNarrows(t *testing.T) {
	w := newWorld(t)
	r := newRules(w.home, w.dirs, Config{
		Masked:  Places{Add: []string{".env", "~/notes.txt"}, Remove: []string{"~/.ssh"}},
		Control: Places{Add: []string{"deploy/*.yml"}, Remove: []string{"AGENTS.md"}},
	})
	for _, c := range []struct {
		access tool.Access
		want   tool.Decision
	}{
		{tool.Access{Kind: tool.AccessRead, Target: "~/.ssh/id_ed25519"}, tool.Allow},
		{tool.Access{Kind: tool.AccessRead, Target: "../notes.txt"}, tool.Deny},
		{tool.Access{Kind: tool.AccessRead, Target: "src/.env"}, tool.Deny},
		{tool.Access{Kind: tool.AccessRead, Target: "src/.env.example"}, tool.Allow},
		{tool.Access{Kind: tool.AccessWrite, Target: "deploy/prod.yml"}, tool.Ask},
		{tool.Access{Kind: tool.AccessWrite, Target: "deploy/prod.txt"}, tool.Allow},
		{tool.Access{Kind: tool.AccessWrite, Target: "AGENTS.md"}, tool.Allow},
	} {
		if d, reason := judged(r, policy.WorkspaceWrite, w.call(workspace.SandboxNone), c.access); d != c.want {
			t.Errorf("%s %s: got %v (%s), want %v", c.access.Kind, c.access.Target, d, reason, c.want)
		}
	}
}

func TestConfigurationIsChecked(t *testing.T) {
	for _, c := range []struct {
		config Config
		want   string
	}{
		{Config{Mode: policy.Plan}, ""},
		{Config{Mode: "yolo"}, `mode: unknown permission mode "yolo", expected one of [read-only plan ask workspace-write full-access]`},
		{Config{Mode: policy.Plan, Masked: Places{Remove: []string{"~/.shh"}}}, `masked: remove "~/.shh": it is not on the list; did you mean "~/.ssh"?`},
		{Config{Mode: policy.Plan, Masked: Places{Remove: []string{"/home/*"}}}, ""},
		{Config{Mode: policy.Plan, Control: Places{Add: []string{"/"}}}, `control: add: "/" is no place: expected a path from / or ~/, or names below the workspace`},
		{Config{Mode: policy.Plan, Control: Places{Add: []string{"~bob/x"}}}, `control: add: "~bob/x" is no place: expected a path from / or ~/, or names below the workspace`},
		{Config{Mode: policy.Plan, Control: Places{Add: []string{"a/../b"}}}, `control: add: "a/../b" is no place: .. has no meaning in it`},
		{Config{Mode: policy.Plan, Control: Places{Add: []string{"[a"}}}, `control: add: "[a" is no place: syntax error in pattern`},
		{Config{Mode: policy.Plan, Control: Places{Add: []string{`a\b`}}}, `control: add: "a\\b" is no place: write / between names, also on Windows`},
	} {
		got := ""
		if err := c.config.Validate(); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
	for _, pattern := range append(append(masked(), otherHomes()...), control()...) {
		if err := checkPattern(pattern); err != nil {
			t.Error(err)
		}
	}
}

// person answers approvals.
type person struct {
	answer policy.Answer
	err    error
	asked  []policy.Request
}

func (p *person) Ask(_ context.Context, _ *plugin.Scope, r policy.Request) (policy.Answer, error) {
	p.asked = append(p.asked, r)
	return p.answer, p.err
}

// pipeline is the registry, the plugin under test, and a tool that writes and runs.
type pipeline struct {
	tool.Registry
	scope *plugin.Scope
	ran   int
	body  func(ctx context.Context) (tool.Result, error) // of the tool, when it does more than return
}

type workInput struct {
	Write string `json:"write,omitempty"`
	Run   string `json:"run,omitempty"`
	Fetch string `json:"fetch,omitempty"`
}

func newPipeline(t *testing.T, c Config, who policy.Approver, more ...plugin.Child) *pipeline {
	p := &pipeline{}
	work := tool.New(tool.Spec{Name: "work", Access: func(c *tool.Call) []tool.Access {
		var as []tool.Access
		if _, file, ok := strings.Cut(string(c.Arguments), `"write":"`); ok {
			as = append(as, tool.Access{Kind: tool.AccessWrite, Target: strings.Split(file, `"`)[0]})
		}
		if _, line, ok := strings.Cut(string(c.Arguments), `"run":"`); ok {
			as = append(as, tool.Access{Kind: tool.AccessExecute, Target: strings.Split(line, `"`)[0]})
		}
		if _, host, ok := strings.Cut(string(c.Arguments), `"fetch":"`); ok {
			as = append(as, tool.Access{Kind: tool.AccessNetwork, Target: strings.Split(host, `"`)[0]})
		}
		return as
	}}, func(ctx context.Context, _ *tool.Call, _ workInput) (tool.Result, error) {
		p.ran++
		if p.body != nil {
			return p.body(ctx)
		}
		return tool.Text("done"), nil
	})
	children := []plugin.Child{
		{Name: "tools", Start: func(ctx context.Context, s *plugin.Scope) error { return registry.Plugin.Start(ctx, s, struct{}{}) }},
		{Name: "approvals", Start: func(_ context.Context, s *plugin.Scope) error {
			if who == nil {
				return nil
			}
			return policy.Approvals.Provide(s, who)
		}},
		{Name: "permission-mode", Needs: Plugin.Needs, Start: func(ctx context.Context, s *plugin.Scope) error { return Plugin.Start(ctx, s, c) }},
		{Name: "work", Start: func(_ context.Context, s *plugin.Scope) error { return tool.Add(s, work) }},
		{Name: "agent", Needs: []plugin.Need{tool.Service.Required()}, Start: func(_ context.Context, s *plugin.Scope) error {
			p.scope, p.Registry = s, tool.Service.From(s)
			return nil
		}},
	}
	tree := plugin.New(nil)
	t.Cleanup(func() {
		if err := tree.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if _, err := tree.Root().MountAll(append(more, children...)...); err != nil {
		t.Fatal(err)
	}
	if err := tree.Settle(context.Background()); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAskingAPerson(t *testing.T) {
	w := newWorld(t)
	const commands = "mode workspace-write asks about a command where the sandbox is none, because nothing confines it"
	for _, c := range []struct {
		name      string
		mode      policy.Mode
		who       *person
		arguments string
		want      string
		decision  tool.Decision
		asked     int
	}{
		{"nothing to ask", policy.WorkspaceWrite, &person{}, `{"write":"a.go"}`, "done", tool.Allow, 0},
		{"nothing touched", policy.ReadOnly, nil, `{}`, "done", tool.Allow, 0},
		{"yes", policy.WorkspaceWrite, &person{answer: policy.Answer{Allow: true, By: "me"}}, `{"run":"make"}`, "done", tool.Allow, 1},
		{"no", policy.WorkspaceWrite, &person{answer: policy.Answer{By: "me"}}, `{"run":"make"}`, "Error: denied: the user did not allow it", tool.Deny, 1},
		{"no, and why", policy.WorkspaceWrite, &person{answer: policy.Answer{By: "me", Reason: "use task"}}, `{"run":"make"}`, "Error: denied: use task", tool.Deny, 1},
		{"no approvals", policy.WorkspaceWrite, nil, `{"run":"make"}`,
			"Error: nobody could approve this call: " + commands + "; the user can allow it with --permission-mode full-access", tool.Ask, 0},
		{"nobody there", policy.WorkspaceWrite, &person{err: fmt.Errorf("no terminal: %w", policy.ErrNobody)}, `{"run":"make"}`,
			"Error: nobody could approve this call: " + commands + "; the user can allow it with --permission-mode full-access", tool.Ask, 1},
		{"nobody for an edit", policy.AskFirst, nil, `{"write":"a.go"}`,
			"Error: nobody could approve this call: mode ask asks about every change to a file; the user can allow it with --permission-mode workspace-write", tool.Ask, 0},
		{"nobody for a control file", policy.FullAccess, nil, `{"write":".git/config"}`,
			"Error: nobody could approve this call: .git/config is a control file (.git): what is in it is executed or obeyed later, so a person has to approve the change; " +
				"no permission mode allows it: the user has to do it, or take the place off the list in the row permission-mode", tool.Ask, 0},
		{"the question fails", policy.WorkspaceWrite, &person{err: errors.New("the line is dead")}, `{"run":"make"}`, "Error: denied: asking about it failed: the line is dead", tool.Deny, 1},
		{"the strictest access counts", policy.WorkspaceWrite, &person{answer: policy.Answer{Allow: true}}, `{"run":"make","write":"../x"}`,
			"Error: denied: ../x lies outside of the folders that may be written: " + strings.Join(w.workspace.Roots(), ", "), tool.Deny, 0},
		{"everything", policy.FullAccess, nil, `{"run":"make"}`, "done", tool.Allow, 0},
		{"elsewhere", policy.FullAccess, nil, `{"write":"../x"}`, "done", tool.Allow, 0},
		{"elsewhere, asked", policy.AskFirst, &person{answer: policy.Answer{Allow: true}}, `{"write":"../x"}`, "done", tool.Allow, 1},
		{"a control file elsewhere", policy.FullAccess, &person{}, `{"write":"../.bashrc"}`, "Error: denied: the user did not allow it", tool.Deny, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var who policy.Approver
			if c.who != nil {
				who = c.who
			}
			p := newPipeline(t, Config{Mode: c.mode}, who)
			call, touched := w.call(workspace.SandboxNone), 0
			call.Asking = func(touches []tool.Access) { touched = len(touches) }
			result := p.Execute(context.Background(), p.scope, p.Prepare(context.Background(), p.scope, call, c.arguments))
			if got := llm.PlainText(result.Content); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if result.Decision != c.decision {
				t.Errorf("the decision is %v, want %v", result.Decision, c.decision)
			}
			if runs := map[bool]int{true: 1}[c.want == "done"]; p.ran != runs {
				t.Errorf("the tool ran %d times", p.ran)
			}
			if c.who != nil && len(c.who.asked) != c.asked {
				t.Errorf("the person was asked %d times", len(c.who.asked))
			}
			if c.who != nil && c.asked > 0 && (touched == 0 || len(c.who.asked[0].Accesses) != touched) {
				t.Errorf("the loop heard of %d accesses, the person of %d", touched, len(c.who.asked[0].Accesses))
			}
		})
	}
}

func TestCancellingWithdrawsTheQuestion(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(context.Background())
	p := newPipeline(t, Config{Mode: policy.WorkspaceWrite}, asker(func(ctx context.Context) (policy.Answer, error) {
		cancel()
		<-ctx.Done()
		return policy.Answer{}, ctx.Err()
	}))
	prepared := p.Prepare(ctx, p.scope, w.call(workspace.SandboxNone), `{"run":"make"}`)
	if prepared.Refused == nil || prepared.Refused.Error.Code != tool.CodeNotStarted {
		t.Errorf("the call was prepared as %+v", prepared.Refused)
	}
}

type asker func(ctx context.Context) (policy.Answer, error)

func (f asker) Ask(ctx context.Context, _ *plugin.Scope, _ policy.Request) (policy.Answer, error) {
	return f(ctx)
}

// An approval is for exactly one call.
func TestTrust_P05_OnlyWhatWasDecidedOnRuns(t *testing.T) {
	w := newWorld(t)
	const start = "Error: denied: work did not run, because "
	elsewhere := workspacetest.Open(t, local.Plugin.Definition(), workspace.Options{Dir: w.outside})
	for _, c := range []struct {
		name   string
		change func(*tool.Prepared)
		want   string
	}{
		{"unchanged", func(*tool.Prepared) {}, "done"},
		{"another argument", func(p *tool.Prepared) { p.Call.Arguments = []byte(`{"write":"b.go"}`) }, start + "it is not any more what was decided on"},
		{"one byte", func(p *tool.Prepared) { p.Call.Arguments[len(p.Call.Arguments)-3] ^= 1 }, start + "it is not any more what was decided on"},
		{"another folder", func(p *tool.Prepared) { p.Call.Workspace = elsewhere }, start + "it is not any more what was decided on"},
		{"another tool", func(p *tool.Prepared) { p.Call.Name = "work2" }, "Error: denied: work2 did not run, because it is not any more what was decided on"},
		{"no decision", func(p *tool.Prepared) { p.Digest = [32]byte{} }, start + "nobody decided about it"},
		{"a denied call", func(p *tool.Prepared) { p.Verdict.Decision = tool.Deny }, start + "the decision is deny"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPipeline(t, Config{Mode: policy.WorkspaceWrite}, nil)
			prepared := p.Prepare(context.Background(), p.scope, w.call(workspace.SandboxNone), `{"write":"a.go"}`)
			c.change(prepared)
			got := llm.PlainText(p.Execute(context.Background(), p.scope, prepared).Content)
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if ran := p.ran > 0; ran != (c.want == "done") {
				t.Errorf("the tool ran: %v", ran)
			}
		})
	}
}

// A place stays masked when it became a link after the plugin started.
func TestAMaskedLinkIsMaskedByItsName(t *testing.T) {
	w := newWorld(t)
	r := newRules(w.home, w.dirs, Config{})
	if err := os.Symlink(w.outside, filepath.Join(w.home, ".gnupg")); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"~/.gnupg/file", "../.gnupg/file", w.home + "/.gnupg/file"} {
		if d, reason := judged(r, policy.FullAccess, w.call(workspace.SandboxNone), tool.Access{Kind: tool.AccessRead, Target: target}); d != tool.Deny {
			t.Errorf("%s: got %v: %s", target, d, reason)
		}
	}
}

func TestOnesOwnHomeIsNotSomebodyElses(t *testing.T) {
	w := newWorld(t)
	r := newRules("/home/me", w.dirs, Config{})
	for target, want := range map[string]tool.Decision{
		"/home/me/notes.txt": tool.Allow, "/home/me": tool.Allow, "/home/me/.ssh": tool.Deny, "/home/mel/notes.txt": tool.Deny, "/root/notes.txt": tool.Deny,
	} {
		if d, reason := judged(r, policy.FullAccess, w.call(workspace.SandboxNone), tool.Access{Kind: tool.AccessRead, Target: target}); d != want {
			t.Errorf("%s: got %v: %s", target, d, reason)
		}
	}
}

func TestACallWithoutAWorkspaceTouchesNoFile(t *testing.T) {
	r := newRules("/home/me", home.Dirs{State: "/s", Config: "/c"}, Config{})
	d, reason := judged(r, policy.FullAccess, &tool.Call{}, tool.Access{Kind: tool.AccessRead, Target: "x"})
	if d != tool.Deny || reason != "there is no workspace to find x in" {
		t.Errorf("got %v: %s", d, reason)
	}
}

func BenchmarkJudgeRead(b *testing.B) {
	base := b.TempDir()
	r := newRules(base, home.Dirs{State: base + "/s", Config: base + "/c"}, Config{})
	c := &tool.Call{Workspace: workspacetest.Open(b, local.Plugin.Definition(), workspace.Options{Dir: base})}
	if err := os.WriteFile(filepath.Join(base, "f12.txt"), nil, 0o644); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if d, reason := judged(r, policy.WorkspaceWrite, c, tool.Access{Kind: tool.AccessRead, Target: "f12.txt"}); d != tool.Allow {
			b.Fatal(reason)
		}
	}
}

func BenchmarkNewRules(b *testing.B) {
	base := b.TempDir()
	for b.Loop() {
		newRules(base, home.Dirs{State: base + "/s", Config: base + "/c"}, Config{})
	}
}
