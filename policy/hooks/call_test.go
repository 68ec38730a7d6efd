package hooks_test

import (
	"strings"
	"testing"

	"github.com/dsh-harness/dsh/policy"
)

// say is a hook that writes one line of JSON.
func say(json string) string { return "cat >/dev/null; echo '" + json + "'" }

func specific(event, members string) string {
	return say(`{"hookSpecificOutput":{"hookEventName":"` + event + `",` + members + `}}`)
}

func TestPreToolUse(t *testing.T) {
	for name, test := range map[string]struct {
		hook string
		more string // of the entry
		ran  bool
		says string // in the result
	}{
		"silent":               {"exit 0", "", true, "out"},
		"allow":                {specific("PreToolUse", `"permissionDecision":"allow"`), "", true, "out"},
		"deny":                 {specific("PreToolUse", `"permissionDecision":"deny","permissionDecisionReason":"not today"`), "", false, "not today"},
		"deny without event":   {say(`{"hookSpecificOutput":{"permissionDecision":"deny"}}`), "", false, "blocked by PreToolUse hook"},
		"older block":          {say(`{"decision":"block","reason":"no"}`), "", false, "no"},
		"older approve":        {say(`{"decision":"approve"}`), "", true, "out"},
		"block beats allow":    {say(`{"decision":"block","reason":"no","hookSpecificOutput":{"permissionDecision":"allow"}}`), "", false, "no"},
		"ask, and nobody":      {specific("PreToolUse", `"permissionDecision":"ask","permissionDecisionReason":"sure?"`), "", false, "sure?"},
		"2 with a reason":      {"echo because >&2; exit 2", "", false, "because"},
		"2 and JSON":           {`echo '{"hookSpecificOutput":{"permissionDecision":"allow"}}'; exit 2`, "", false, "blocked by PreToolUse hook"},
		"1":                    {"exit 1", "", true, "out"},
		"1, to block":          {"exit 1", `,"on_failure":"block"`, false, "it ended with 1"},
		"1, Claude's spelling": {"exit 1", `,"onFailure":"block"`, false, "it ended with 1"},
		"1 and a block":        {`echo '{"decision":"block","reason":"no"}'; exit 1`, "", false, "no"},
		"not found, to block":  {"no-such-program-here", `,"on_failure":"block"`, false, "it ended with 127"},
		"killed, to block":     {"kill -9 $$", `,"on_failure":"block"`, false, "SIGKILL"},
		"another event":        {specific("PostToolUse", `"permissionDecision":"allow"`), `,"on_failure":"block"`, false, "PostToolUse"},
		"unknown decision":     {say(`{"decision":"maybe"}`), `,"on_failure":"block"`, false, "maybe"},
		"too much, to block":   {"head -c 1100000 /dev/zero | tr '\\0' ' '", `,"on_failure":"block"`, false, "more than 1048576 bytes"},
		"too much":             {"head -c 1100000 /dev/zero | tr '\\0' ' '", "", true, "out"},
		"no shell":             {"/bin/sh", `,"args":["-c","exit 2"]`, false, "blocked by PreToolUse hook"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.user(hook("PreToolUse", "Bash", test.hook, test.more))
			w.run("go", bash("echo out; touch ran"), done)
			if w.err != nil || len(w.results()) != 1 {
				t.Fatalf("%v, %q\n%s", w.err, w.results(), w.log.String())
			}
			if got := w.results()[0]; !strings.Contains(got, test.says) {
				t.Errorf("the result is %q, want %q in it", got, test.says)
			}
			w.file(".probe", "") // the folder is there
			if ran := w.exists("ran"); ran != test.ran {
				t.Errorf("it ran: %v, want %v\n%s", ran, test.ran, w.log.String())
			}
			if n := len(w.outcomes()); n != 1 {
				t.Errorf("%d hooks have ended", n)
			}
		})
	}
}

// What a hook allows answers the question of a mode; that of a control file or of a rule stays.
func TestAllowLiftsOnlyTheQuestionOfTheMode(t *testing.T) {
	for name, test := range map[string]struct {
		mode     policy.Mode
		call     string
		file     string
		set      string
		happened bool
	}{
		"the mode asks":   {policy.AskFirst, call("write", `{"file_path":"a.txt","content":"x"}`), "a.txt", "", true},
		"a control file":  {policy.WorkspaceWrite, call("write", `{"file_path":".git/hooks/pre-commit","content":"x"}`), ".git/hooks/pre-commit", "", false},
		"a rule asks":     {policy.AskFirst, call("write", `{"file_path":"a.txt","content":"x"}`), "a.txt", `permissions.ask=["Edit(a.txt)"]`, false},
		"a rule denies":   {policy.AskFirst, call("write", `{"file_path":"a.txt","content":"x"}`), "a.txt", `permissions.deny=["Edit(a.txt)"]`, false},
		"the mode denies": {policy.ReadOnly, call("write", `{"file_path":"a.txt","content":"x"}`), "a.txt", "", false},
		"a masked place":  {policy.AskFirst, call("write", `{"file_path":"~/.ssh/never-written","content":"x"}`), ".ssh/never-written", "", false},
	} {
		for event, what := range map[string]string{
			"PreToolUse":        specific("PreToolUse", `"permissionDecision":"allow"`),
			"PermissionRequest": specific("PermissionRequest", `"decision":{"behavior":"allow"}`),
		} {
			t.Run(name+", "+event, func(t *testing.T) {
				w := newWorld(t)
				w.mode = test.mode
				if test.set != "" {
					w.set = append(w.set, test.set)
				}
				w.user(hook(event, "", what))
				w.run("go", test.call, done)
				if w.err != nil || len(w.results()) != 1 {
					t.Fatalf("%v\n%s", w.err, w.log.String())
				}
				if got := w.exists(test.file); got != test.happened {
					t.Errorf("it happened: %v, want %v; %q", got, test.happened, w.results())
				}
			})
		}
	}
}

func TestPermissionRequestDenies(t *testing.T) {
	w := newWorld(t)
	w.mode = policy.AskFirst
	w.user(hook("PermissionRequest", "Write", specific("PermissionRequest", `"decision":{"behavior":"deny","message":"ask me later"}`)))
	w.run("go", call("write", `{"file_path":"a.txt","content":"x"}`), done)
	if r := w.results(); w.exists("a.txt") || len(r) != 1 || !strings.Contains(r[0], "ask me later") {
		t.Errorf("%q\n%s", r, w.log.String())
	}
}

// A PreToolUse hook that asks for a person is not answered by another hook.
func TestAHookDoesNotAnswerForAnother(t *testing.T) {
	w := newWorld(t)
	w.user(`{"hooks":{
		"PreToolUse":[{"hooks":[{"type":"command","command":` + quoted(specific("PreToolUse", `"permissionDecision":"ask","permissionDecisionReason":"a person, please"`)) + `}]}],
		"PermissionRequest":[{"hooks":[{"type":"command","command":` + quoted(specific("PermissionRequest", `"decision":{"behavior":"allow"}`)) + `}]}]}}`)
	w.run("go", bash("touch ran"), done)
	if w.exists("ran") || !strings.Contains(w.results()[0], "a person, please") {
		t.Errorf("%q", w.results())
	}
}

// What a hook rewrites is decided about by everybody: the rule hits the command that would run.
func TestTheRewrittenCommandIsDecidedAbout(t *testing.T) {
	w := newWorld(t)
	w.set = []string{`permissions.deny=["Bash(touch evil)"]`}
	w.user(hook("PreToolUse", "Bash", specific("PreToolUse", `"permissionDecision":"allow","updatedInput":{"command":"touch evil"}`)))
	w.run("go", bash("touch good"), done)
	if w.exists("evil") || w.exists("good") || !strings.Contains(w.results()[0], "denied") {
		t.Errorf("%q", w.results())
	}

	w = newWorld(t)
	w.user(hook("PreToolUse", "Bash", specific("PreToolUse", `"updatedInput":{"command":"touch other"}`)))
	w.run("go", bash("touch good"), done)
	if !w.exists("other") || w.exists("good") || len(w.data("tool/rewritten")) != 1 {
		t.Errorf("%q\n%s", w.results(), w.log.String())
	}

	// Arguments that do not fit run nothing.
	w = newWorld(t)
	w.user(hook("PreToolUse", "Bash", specific("PreToolUse", `"updatedInput":{"line":"touch other"}`)))
	w.run("go", bash("touch good"), done)
	if w.exists("good") || !strings.Contains(w.results()[0], "do not fit") {
		t.Errorf("%q", w.results())
	}
}

// The hook before the one that rewrites is asked again, and a rewrite does not help past it.
func TestAnEarlierHookSeesWhatALaterOneRewrites(t *testing.T) {
	w := newWorld(t)
	guard := `grep -q '"command":"touch evil"' && { echo evil >&2; exit 2; }; exit 0`
	w.user(`{"PreToolUse":[{"matcher":"Bash","hooks":[
		{"type":"command","command":` + quoted(guard) + `},
		{"type":"command","command":` + quoted(specific("PreToolUse", `"updatedInput":{"command":"touch evil"}`)) + `}]}]}`)
	w.run("go", bash("touch good"), done)
	if w.exists("evil") || w.exists("good") || !strings.Contains(w.results()[0], "evil") {
		t.Errorf("%q\n%s", w.results(), w.log.String())
	}
}

func TestDenyBeatsAskBeatsAllow(t *testing.T) {
	w := newWorld(t)
	entry := func(d, why string) string {
		return `{"type":"command","command":` + quoted(specific("PreToolUse", `"permissionDecision":"`+d+`","permissionDecisionReason":"`+why+`"`)) + `}`
	}
	w.user(`{"PreToolUse":[{"hooks":[` + strings.Join([]string{entry("allow", "fine"), entry("deny", "first"), entry("ask", "hm"), entry("deny", "second")}, ",") + `]}]}`)
	w.run("go", bash("touch ran"), done)
	if r := w.results()[0]; w.exists("ran") || !strings.Contains(r, "first\n\nsecond") || strings.Contains(r, "hm") {
		t.Errorf("%q", r)
	}
	if n := len(w.outcomes()); n != 4 {
		t.Errorf("%d hooks ran, want all 4", n)
	}
}

func TestPostToolUse(t *testing.T) {
	for name, test := range map[string]struct{ event, style, hook, command, result, context string }{
		"feedback":         {"PostToolUse", "claude", say(`{"decision":"block","reason":"format it"}`), "echo out", "[exit code 0]\nPostToolUse hook: format it", ""},
		"codex replaces":   {"PostToolUse", "codex", say(`{"decision":"block","reason":"format it"}`), "echo out", "PostToolUse hook: format it", ""},
		"2":                {"PostToolUse", "claude", "echo bad >&2; exit 2", "echo out", "bad", ""},
		"context":          {"PostToolUse", "claude", specific("PostToolUse", `"additionalContext":"remember"`), "echo out", "out", "PostToolUse: remember"},
		"failure":          {"PostToolUseFailure", "claude", specific("PostToolUseFailure", `"additionalContext":"it broke"`), "", "does not exist", "PostToolUseFailure: it broke"},
		"not on a failure": {"PostToolUse", "claude", specific("PostToolUse", `"additionalContext":"it broke"`), "", "does not exist", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			path := w.config + "/" + test.style + ".json"
			w.user(hook(test.event, "", test.hook))
			check(t, rename(w.config+"/hooks.json", path))
			w.set = []string{`hooks.files=[{"path":"` + path + `","style":"` + test.style + `"}]`}
			answer := bash(test.command)
			if test.command == "" {
				answer = call("read", `{"file_path":"missing"}`)
			}
			w.run("go", answer, done)
			if w.err != nil {
				t.Fatalf("%v\n%s", w.err, w.log.String())
			}
			if r := w.results()[0]; !strings.Contains(r, test.result) || test.style == "codex" && strings.Contains(r, "out\n") {
				t.Errorf("the result is %q", r)
			}
			in := strings.Join(w.inputs()[1:], "|")
			if in != test.context {
				t.Errorf("the context is %q, want %q", in, test.context)
			}
		})
	}
}

// The context of PreToolUse comes with the results of the step, also when the call is denied.
func TestPreToolUseContext(t *testing.T) {
	w := newWorld(t)
	w.user(hook("PreToolUse", "", specific("PreToolUse", `"permissionDecision":"deny","additionalContext":"read the manual"`)))
	w.run("go", bash("touch ran"), done)
	if in := w.inputs(); len(in) != 2 || in[1] != "PreToolUse: read the manual" {
		t.Errorf("%q", in)
	}
}
