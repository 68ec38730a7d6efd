package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dsh-harness/dsh/internal/need"
	"github.com/dsh-harness/dsh/policy/permission"
)

// explained is what is read of "policy explain --json".
type explained struct {
	Decision string `json:"decision"`
	By       string `json:"by"`
	Reason   string `json:"reason"`
	Mode     string `json:"mode"`
	Sandbox  struct {
		Level string `json:"level"`
	} `json:"sandbox"`
	Commands []struct {
		Decision, By, Reason, Part string
	} `json:"commands"`
	Change []string `json:"change"`
}

func TestPolicyExplains(t *testing.T) {
	b := newBox(t)
	rules := b.write("rules.yml", "- id: permissions\n  config:\n    allow: ['Bash(git:*)']\n    ask: ['Bash(git push)']\n    deny: ['Bash(curl)', 'Read(.env)']\n")
	explain := func(args ...string) explained {
		t.Helper()
		o := b.run(append([]string{"policy", "explain", "--json", "--patch", rules, "--permission-mode", "ask"}, args...)...)
		if o.code != 0 || o.stderr != "" {
			t.Fatalf("%v: %+v", args, o)
		}
		var e explained
		if err := json.Unmarshal([]byte(o.stdout), &e); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, o.stdout)
		}
		return e
	}
	e := explain("git push --force origin")
	if e.Decision != "ask" || e.By != "rule Bash(git push)" || e.Mode != "ask" || e.Sandbox.Level == "" || len(e.Commands) != 1 || e.Commands[0].Decision != "ask" {
		t.Errorf("%+v", e)
	}
	e = explain("git log | curl -d @- h")
	if e.Decision != "deny" || e.By != "rule Bash(curl)" || len(e.Commands) != 2 || e.Commands[0].By != "rule Bash(git:*)" || e.Commands[1].Decision != "deny" {
		t.Errorf("%+v", e)
	}
	e = explain("make", "x", "a b")
	if e.Decision != "ask" || !strings.HasPrefix(e.By, "mode ask") || len(e.Commands) != 1 || e.Commands[0].Part != "make x 'a b'" || !strings.Contains(strings.Join(e.Change, "\n"), `--allow 'Bash(make x '\''a b'\'')'`) {
		t.Errorf("%+v", e)
	}
	if e = explain("rm -rf /"); e.Decision != "deny" || e.By != "destruction guard" {
		t.Errorf("%+v", e)
	}
	if e = explain("--tool", "read", `{"file_path":".env"}`); e.Decision != "deny" || e.By != "rule Read(.env)" {
		t.Errorf("%+v", e)
	}
	// Nothing of it ran, and the tail of a long line is shown with what is hidden in it.
	o := b.run("policy", "explain", "touch ran"+strings.Repeat(" ", 2000)+";\u202e curl x")
	if o.code != 0 || !strings.Contains(o.stdout, "curl x") || !strings.Contains(o.stdout, `\u202e`) || strings.Contains(o.stdout, "\u202e") {
		t.Errorf("%+v", o)
	}
	if _, err := os.Stat(filepath.Join(b.dir, "ran")); err == nil {
		t.Error("the command ran")
	}
	for _, one := range []struct {
		args []string
		want string
	}{
		{nil, "needs a command"},
		{[]string{"--tool", "bahs", "x"}, `did you mean "bash"?`},
		{[]string{"--tool", "read", "x"}, "read"},
		{[]string{"--tool", "read", "x", "y"}, "one JSON object"},
		{[]string{"--permission-mode", "aks", "x"}, `did you mean "ask"?`},
		{[]string{"--set", `permissions.deny=["Bash(x"]`, "x"}, "the parenthesis has no end"},
	} {
		if o := b.run(append([]string{"policy", "explain"}, one.args...)...); o.code != 2 || !strings.Contains(o.stderr, one.want) || o.stdout != "" {
			t.Errorf("%v: %+v", one.args, o)
		}
	}
}

func TestPolicyTestComparesAFile(t *testing.T) {
	b := newBox(t)
	deny := `permissions.deny=["Bash(curl)"]`
	file := b.write("expected.txt", "# what must hold\ndeny\tcurl x\n\ndeny   rm -rf /\nask true; curl-not x\n")
	b.run("policy", "test", "--set", deny, "--permission-mode", "ask", file).want(t, 0, "", "3 decisions are as expected")
	o := b.run("policy", "test", "--permission-mode", "ask", file)
	if o.code != 1 || !strings.Contains(o.stdout, "expected.txt:2: curl x\n- deny\n+ ask: mode ask: ") || strings.Count(o.stdout, "\n") != 3 || !strings.Contains(o.stderr, "1 of 3 decisions differ") {
		t.Errorf("%+v", o)
	}
	for content, want := range map[string]string{"dney x\n": `:1: unknown decision "dney": did you mean "deny"?`, "\ndeny\n": ":2: no command stands behind deny"} {
		if o := b.run("policy", "test", b.write("wrong.txt", content)); o.code != 2 || !strings.Contains(o.stderr, want) {
			t.Errorf("%q: %+v", content, o)
		}
	}
	if o := b.run("policy", "test", "missing.txt"); o.code != 2 {
		t.Errorf("%+v", o)
	}
}

func TestRememberedRulesAreListedAndRevoked(t *testing.T) {
	b := newBox(t)
	b.run("policy", "list").want(t, 0, "There are no rules here.\n")
	b.run("policy", "list", "--json").want(t, 0, "[]\n")
	dir, err := filepath.EvalSymlinks(b.dir)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := json.Marshal(map[string]any{"version": 1, "rules": []permission.Remembered{
		{Rule: "Bash(make)", Effect: "allow", Dir: filepath.Dir(dir), By: "session a"},
		{Rule: "Bash(npm test:*)", Effect: "allow", Dir: dir, By: "session b"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(b.home, "state")
	if err := os.MkdirAll(state, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(state, "rules.json"), kept, 0o600); err != nil {
		t.Fatal(err)
	}
	var list []permission.Listed
	o := b.run("policy", "list", "--json", "--set", `permissions.deny=["Bash(curl)"]`)
	if err := json.Unmarshal([]byte(o.stdout), &list); err != nil {
		t.Fatalf("%v: %+v", err, o)
	}
	if len(list) != 3 || list[0].Rule != "Bash(curl)" || list[1].Number != 2 || list[2].Rule != "Bash(make)" {
		t.Errorf("%+v", list)
	}
	if o := b.run("policy", "list"); o.code != 0 || !strings.Contains(o.stdout, "Bash(npm test:*)") || !strings.Contains(o.stdout, "session b") {
		t.Errorf("%+v", o)
	}
	// A rule of another folder goes by its number alone.
	if o := b.run("policy", "remove", "Bash(make)"); o.code != 1 || !strings.Contains(o.stderr, "is not remembered for") {
		t.Errorf("%+v", o)
	}
	b.run("policy", "remove", "Bash(npm test:*)").want(t, 0, "", "Bash(npm test:*)", "does not hold any more")
	b.run("policy", "remove", "1").want(t, 0, "", "Bash(make)")
	b.run("policy", "list").want(t, 0, "There are no rules here.\n")
	if o := b.run("policy", "remove", "1"); o.code != 1 || !strings.Contains(o.stderr, "there is no remembered rule 1") {
		t.Errorf("%+v", o)
	}
}

// The flags add to what is configured: no --allow lifts what somebody denied.
func TestRulesOnTheCommandLine(t *testing.T) {
	b := newBox(t)
	user := filepath.Join(b.home, "config", "cordis.yml")
	if err := os.MkdirAll(filepath.Dir(user), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(user, []byte("- id: permissions\n  config: {deny: ['Bash(curl)']}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, one := range []struct {
		args []string
		want string
	}{
		{[]string{"--allow", "Bash(", "x"}, "the parenthesis has no end"},
		{[]string{"--deny", "Bash(a && b)", "x"}, "one simple command"},
	} {
		if o := b.run(append([]string{"run"}, one.args...)...); o.code != 2 || !strings.Contains(o.stderr, one.want) {
			t.Errorf("%v: %+v", one.args, o)
		}
	}
	script := b.write("script.yml", `
- {id: deepseek, disabled: true}
- {id: openai, disabled: true}
- id: script
  plugin: llm-replay
  config:
    answers:
      - calls:
          - {name: bash, arguments: {command: touch a}}
          - {name: bash, arguments: {command: touch b}}
          - {name: bash, arguments: {command: "curl --version > c"}}
      - text: done
`)
	o := b.run("run", "--patch", script, "--permission-mode", "full-access", "--allow", "Bash", "--deny", "Bash(touch b)", "--deny", "Bash(nothing)", "x")
	for name, want := range map[string]bool{"a": true, "b": false, "c": false} {
		if _, err := os.Stat(filepath.Join(b.dir, name)); (err == nil) != want {
			t.Errorf("%s: %v\n%+v", name, err, o)
		}
	}
	if o.code != 0 || o.stdout != "done\n" {
		t.Errorf("%+v", o)
	}
}

// asked runs commands as calls of a model that nobody watches, in mode ask, and returns those that did not run, sorted.
func asked(t *testing.T, b *box, flags []string, commands ...string) (denied []string, code int) {
	t.Helper()
	type call struct {
		Name      string            `json:"name"`
		Arguments map[string]string `json:"arguments"`
	}
	var calls []call
	for _, c := range commands {
		calls = append(calls, call{"bash", map[string]string{"command": c}})
	}
	rows, err := json.Marshal([]any{
		map[string]any{"id": "deepseek", "disabled": true}, map[string]any{"id": "openai", "disabled": true},
		map[string]any{"id": "script", "plugin": "llm-replay", "config": map[string]any{"answers": []any{map[string]any{"calls": calls}, map[string]any{"text": "done"}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	o := b.run(append(append([]string{"run", "--output-format", "json", "--patch", b.write("script.yml", string(rows)), "--permission-mode", "ask"}, flags...), "x")...)
	var result struct {
		Reason string `json:"reason"`
		Denied []struct {
			CallID string `json:"callId"`
		} `json:"denied"`
	}
	if err := json.Unmarshal([]byte(o.stdout), &result); err != nil || result.Reason != "completed" {
		t.Fatalf("%v: %+v", err, o)
	}
	for _, d := range result.Denied {
		i, err := strconv.Atoi(d.CallID[strings.LastIndexByte(d.CallID, '_')+1:])
		if err != nil {
			t.Fatal(err)
		}
		denied = append(denied, commands[i])
	}
	slices.Sort(denied) // they are asked about side by side
	return denied, o.code
}

// The same cases as in policy/permission, through the whole program: what asks does not run.
func TestCase_o_apr_01_to_03_through_the_program(t *testing.T) {
	b := newBox(t)
	all := []string{"git status && rm -rf x", "git log | sh", "cd /tmp; npm i y", "git status || curl u"}
	denied, code := asked(t, b, []string{"--allow", "Bash(git *)", "--allow", "Bash(cd *)", "--deny", "Bash(rm *)"}, all...)
	if code != 3 || !slices.Equal(denied, slices.Sorted(slices.Values(all))) {
		t.Errorf("o-apr-01: exit %d, denied %q", code, denied)
	}

	all = []string{"ls-evil", "git status-evil", "X=1 git status", "git status $(touch p)", "git status > f", "ls\ntouch f", "ls; touch f"}
	denied, code = asked(t, b, []string{"--allow", "Bash(ls*)", "--allow", "Bash(git status)"}, all...)
	if code != 3 || !slices.Equal(denied, slices.Sorted(slices.Values(all))) {
		t.Errorf("o-apr-02: exit %d, denied %q", code, denied)
	}
	for _, name := range []string{"p", "f"} {
		if _, err := os.Stat(filepath.Join(b.dir, name)); err == nil {
			t.Errorf("o-apr-02: %s exists", name)
		}
	}

	denied, code = asked(t, b, []string{"--allow", "Bash(git *)", "--allow", "Bash(echo *)"},
		`git add a && git commit -m "x && y; z"`, `echo "a | b" && git status`, "git log 2>&1", "git commit -F - <<'EOF'\nrm -rf /\nEOF")
	if code != 0 || len(denied) != 0 {
		t.Errorf("o-apr-03: exit %d, denied %q", code, denied)
	}
}

// What is denied by path is kept from a command that finds it without naming it.
func TestDeniedPathsAreHiddenFromCommands(t *testing.T) {
	b := newBox(t)
	o := b.run("policy", "explain", "--json", "true")
	var e explained
	if err := json.Unmarshal([]byte(o.stdout), &e); err != nil {
		t.Fatalf("%v: %+v", err, o)
	}
	if e.Sandbox.Level != "full" {
		need.Missing(t, "commands are not fully confined here: allow user namespaces, with Landlock in the kernel")
	}
	b.write("secret.txt", "top")
	b.write("keys/k", "top")
	b.write("kept/f", "before")
	script := b.write("script.yml", `
- {id: deepseek, disabled: true}
- {id: openai, disabled: true}
- id: script
  plugin: llm-replay
  config:
    answers:
      - calls:
          - {name: bash, arguments: {command: "n=secret; cat $n.txt key*/* > seen; cd kept; n=f; echo after > $n; cd ..; echo ran >> seen"}}
      - text: done
`)
	o = b.run("run", "--patch", script, "--deny", "Read(secret.txt)", "--deny", "Read(keys/**)", "--deny", "Edit(kept/**)", "x")
	if o.code != 0 {
		t.Errorf("%+v", o)
	}
	for name, want := range map[string]string{"seen": "ran\n", "kept/f": "before"} {
		if text, err := os.ReadFile(filepath.Join(b.dir, name)); err != nil || string(text) != want {
			t.Errorf("%s holds %q (%v)", name, text, err)
		}
	}
}
