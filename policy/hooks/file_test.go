package hooks

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// described is a hook in one line.
func described(k *hook) string {
	text := fmt.Sprintf("%s %v %s %.30s", k.event, k.timeout, k.onFailure, k.command)
	if k.background {
		text += " (background)"
	}
	if k.unconfined {
		text += " (unconfined)"
	}
	return text
}

func TestFilesOfOthersAreReadAsTheyAre(t *testing.T) {
	for file, test := range map[string]struct {
		origin origin
		hooks  []string
		notes  []string // what each begins with
	}{
		"claude-settings.json": {
			origin{name: ".claude/settings.json", style: Claude, onFailure: allowOnFailure},
			[]string{
				`PostToolUse 10m0s allow gofmt -l . >&2; exit 0 (background)`,
				`PreToolUse 5s allow jq -r '.tool_input.command' >>`,
				`PreToolUse 10m0s allow "$CLAUDE_PROJECT_DIR"/.claude/`,
				`PreToolUse 10m0s allow exit 2`,
				`SessionStart 10s allow cat CONTEXT.md`,
				`Stop 10m0s allow ./check.sh`,
				`UserPromptSubmit 10m0s allow git log --oneline -3`,
			},
			[]string{
				`.claude/settings.json: there is no event "Notification" here`,
				`.claude/settings.json: there is no event "PreCompact" here`,
				`.claude/settings.json: PreToolUse: a hook of the type "prompt" is not supported`,
				`.claude/settings.json: there is no event "SubagentStop" here`,
			},
		},
		"codex-hooks.json": {
			origin{name: ".codex/hooks.json", style: Codex, onFailure: blockOnFailure},
			[]string{
				`PreToolUse 10s block /usr/bin/python3 .codex/hooks/`,
				`PreToolUse 10m0s block exit 0`,
				`SessionStart 30s block python3 ~/.codex/hooks/start.p`,
				`Stop 30s block ./check.sh`,
				`UserPromptSubmit 10m0s block ./scan.sh`,
			},
			[]string{
				`.codex/hooks.json: there is no event "PostCompact" here`,
				`.codex/hooks.json: PostToolUse: "./log.sh" is async and not run`,
			},
		},
	} {
		content, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		hooks, notes, err := parse(test.origin, content)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, k := range hooks {
			got = append(got, described(k))
		}
		if diff := cmp.Diff(test.hooks, got); diff != "" {
			t.Errorf("%s: %s", file, diff)
		}
		if len(notes) != len(test.notes) {
			t.Fatalf("%s: the notes are %q", file, notes)
		}
		for i, note := range notes {
			if !strings.HasPrefix(note, test.notes[i]) {
				t.Errorf("%s: %q does not begin with %q", file, note, test.notes[i])
			}
		}
	}
}

func TestParse(t *testing.T) {
	own := origin{name: "hooks.json", style: Claude, onFailure: allowOnFailure, own: true}
	project := origin{name: ".dsh/hooks.json", style: Claude, onFailure: allowOnFailure}
	entry := func(members string) string {
		return `{"PreToolUse":[{"hooks":[{"type":"command","command":"x"` + members + `}]}]}`
	}
	for name, test := range map[string]struct {
		origin  origin
		content string
		want    string // the hooks, or a part of the error behind !
		note    string
	}{
		"bare map":             {own, entry(""), "PreToolUse 10m0s allow x", ""},
		"byte order mark":      {own, "\ufeff" + entry(""), "PreToolUse 10m0s allow x", ""},
		"with a description":   {own, `{"description":"ours","$schema":"x","PreToolUse":[]}`, "", ""},
		"settings without any": {origin{name: "/h/.claude/settings.json", style: Claude}, `{"model":"x","permissions":{"allow":[]},"list":["a"]}`, "", ""},
		"unknown, bare":        {own, `{"BeforeTool":[]}`, "", `there is no event "BeforeTool" here`},
		"disabled":             {own, `{"disableAllHooks":true,"hooks":` + entry("") + `}`, "", "disableAllHooks"},
		"half a second":        {own, entry(`,"timeout":0.5`), "PreToolUse 500ms allow x", ""},
		"for ever":             {own, entry(`,"timeout":1e30`), "PreToolUse 24h0m0s allow x", ""},
		"no time":              {own, entry(`,"timeout":0`), "!positive", ""},
		"block":                {own, entry(`,"on_failure":"block"`), "PreToolUse 10m0s block x", ""},
		"block otherwise":      {own, entry(`,"on_failure":"perhaps"`), "!perhaps", ""},
		"unconfined":           {own, entry(`,"unconfined":true`), "PreToolUse 10m0s allow x (unconfined)", ""},
		"unconfined, project":  {project, entry(`,"unconfined":true`), "PreToolUse 10m0s allow x", "only the person's own files"},
		"a condition":          {own, entry(`,"if":"Bash(git *)"`), "PreToolUse 10m0s allow x", "condition (if)"},
		"no command":           {own, `{"Stop":[{"hooks":[{"type":"command","command":" "}]}]}`, "!no command", ""},
		"a broken expression":  {own, `{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"x"}]}],"PreToolUse":[{"matcher":"Bash(","hooks":[]}]}}`, "!matcher", ""},
		"no groups":            {own, `{"hooks":{"Stop":{"hooks":[]}}}`, "!Stop", ""},
		"no object":            {own, `[]`, "!read the hooks in hooks.json", ""},
		"no JSON":              {own, `hooks: x`, "!read the hooks in hooks.json", ""},
	} {
		t.Run(name, func(t *testing.T) {
			hooks, notes, err := parse(test.origin, []byte(test.content))
			if wrong, fails := strings.CutPrefix(test.want, "!"); fails {
				if err == nil || !strings.Contains(err.Error(), wrong) || strings.Contains(err.Error(), "\n") {
					t.Errorf("the error is %v, want %q in it", err, wrong)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, k := range hooks {
				got = append(got, described(k))
			}
			if strings.Join(got, "\n") != test.want {
				t.Errorf("got %q", got)
			}
			if told := strings.Join(notes, "\n"); !strings.Contains(told, test.note) || test.note == "" && told != "" {
				t.Errorf("the notes are %q", notes)
			}
		})
	}
}

func TestMatcher(t *testing.T) {
	for _, test := range []struct {
		style   Style
		matcher string
		tool    string
		want    bool
	}{
		{Claude, "", "bash", true}, {Claude, "*", "read", true}, {Codex, "*", "read", true},
		{Claude, "Bash", "bash", true}, {Claude, "bash", "bash", true}, {Claude, "Bas", "bash", false}, {Claude, "BASH", "bash", false},
		{Claude, "Edit|Write", "write", true}, {Claude, "Edit|Write", "read", false}, {Claude, "Edit|Write", "todo_write", false},
		{Claude, "Edit.*", "edit", true}, {Claude, "mcp__.*", "mcp__git__push", true}, {Claude, "^Re", "read", true},
		{Codex, "Bas", "bash", true}, {Codex, "^Bash$", "bash", true}, {Codex, "^apply_patch$", "edit", true}, {Codex, "^apply_patch$", "bash", false},
	} {
		match, err := matcher(test.style, preToolUse, test.matcher)
		if err != nil {
			t.Fatal(err)
		}
		got := false
		for _, subject := range subjects(test.tool) {
			got = got || match(subject)
		}
		if got != test.want {
			t.Errorf("%s: %q is for %s: %v, want %v", test.style, test.matcher, test.tool, got, test.want)
		}
	}
	// These events are about nothing that could be matched.
	for _, on := range []event{stop, userPromptSubmit} {
		if match, err := matcher(Codex, on, "(("); err != nil || !match("") {
			t.Errorf("%s: %v", on, err)
		}
	}
}

func TestConfigIsValidated(t *testing.T) {
	for want, c := range map[string]Config{
		"":                        {OnFailure: "allow", Files: []File{{Path: "~/.claude/settings.json"}, {Path: "/x.json", Style: Codex, OnFailure: "block"}}},
		"neither allow nor block": {OnFailure: "no"},
		"neither absolute":        {OnFailure: "allow", Files: []File{{Path: "x.json"}}},
		"neither claude nor":      {OnFailure: "allow", Files: []File{{Path: "/x.json", Style: "vim"}}},
		"files[0]":                {OnFailure: "allow", Files: []File{{Path: "/x.json", OnFailure: "x"}}},
	} {
		err := c.Validate()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// FuzzParse: whatever a file holds, its hooks can be run.
func FuzzParse(f *testing.F) {
	for _, file := range []string{"claude-settings.json", "codex-hooks.json"} {
		content, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content, true)
		f.Add(content, false)
	}
	f.Add([]byte(`{"PreToolUse":[{"matcher":"[","hooks":[]}]}`), true)
	f.Add([]byte(`{"hooks":null}`), false)
	f.Fuzz(func(t *testing.T, content []byte, codex bool) {
		o := origin{name: ".dsh/hooks.json", style: Claude, onFailure: allowOnFailure}
		if codex {
			o.style = Codex
		}
		hooks, notes, err := parse(o, content)
		if err != nil && (hooks != nil || notes != nil) {
			t.Errorf("hooks of a file that was rejected: %v", err)
		}
		for _, k := range hooks {
			if !k.event.exists() || k.timeout <= 0 || k.timeout > maxTimeout || k.timeout < time.Nanosecond || strings.TrimSpace(k.command) == "" || k.unconfined || k.onFailure.validate() != nil {
				t.Errorf("a hook that cannot be run: %+v", k)
			}
			k.match("Bash")
		}
	})
}
