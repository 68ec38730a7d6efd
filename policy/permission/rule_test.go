package permission

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dsh-harness/dsh/tool"
)

func TestNotation(t *testing.T) {
	for _, one := range []struct {
		text   string
		effect tool.Decision
		want   rule
	}{
		{"Bash", tool.Allow, rule{kind: tool.AccessExecute}},
		{"Bash(*)", tool.Allow, rule{kind: tool.AccessExecute}},
		{"bash(git status)", tool.Allow, rule{kind: tool.AccessExecute, spec: exactly, words: []string{"git", "status"}}},
		{"Bash(git status:*)", tool.Allow, rule{kind: tool.AccessExecute, spec: prefix, words: []string{"git", "status"}}},
		{"Bash(git status *)", tool.Allow, rule{kind: tool.AccessExecute, spec: prefix, words: []string{"git", "status"}}},
		{"Bash(ls*)", tool.Allow, rule{kind: tool.AccessExecute, spec: prefix, words: []string{"ls"}}},
		{"Bash(rm*)", tool.Deny, rule{kind: tool.AccessExecute, spec: pattern, words: []string{"rm*"}}},
		{"Bash(git * main)", tool.Ask, rule{kind: tool.AccessExecute, spec: pattern, words: []string{"git", "*", "main"}}},
		{`Bash(git commit -m 'a && b')`, tool.Allow, rule{kind: tool.AccessExecute, spec: exactly, words: []string{"git", "commit", "-m", "a && b"}}},
		{`Bash(find . -name '*')`, tool.Allow, rule{kind: tool.AccessExecute, spec: exactly, words: []string{"find", ".", "-name", "*"}}},
		{"Bash(go vet ./... && go test ./...)", tool.Allow, rule{kind: tool.AccessExecute, spec: lines, line: "go vet ./... && go test ./..."}},
		{"Read(.env)", tool.Deny, rule{kind: tool.AccessRead, spec: paths, path: pathPattern{anyDepth, ".env", true}}},
		{"Read(.env)", tool.Allow, rule{kind: tool.AccessRead, spec: paths, path: pathPattern{fromFolder, ".env", true}}},
		{"Edit(src/**)", tool.Allow, rule{kind: tool.AccessWrite, spec: paths, path: pathPattern{fromFolder, "src/**", false}}},
		{"Edit(./src/)", tool.Allow, rule{kind: tool.AccessWrite, spec: paths, path: pathPattern{fromFolder, "src/**", false}}},
		{"Write(a)", tool.Allow, rule{kind: tool.AccessWrite, tool: "write", spec: paths, path: pathPattern{fromFolder, "a", true}}},
		{"Write(a/b)", tool.Deny, rule{kind: tool.AccessWrite, spec: paths, path: pathPattern{fromFolder, "a/b", true}}},
		{"edit(a)", tool.Allow, rule{kind: tool.AccessWrite, tool: "edit", spec: paths, path: pathPattern{fromFolder, "a", true}}},
		{"delete(a/b)", tool.Deny, rule{kind: tool.AccessWrite, tool: "delete", spec: paths, path: pathPattern{fromFolder, "a/b", true}}},
		{"Read(//etc/hosts)", tool.Deny, rule{kind: tool.AccessRead, spec: paths, path: pathPattern{fromRoot, "etc/hosts", true}}},
		{"Read(/etc/hosts)", tool.Deny, rule{kind: tool.AccessRead, spec: paths, path: pathPattern{fromEither, "etc/hosts", true}}},
		{"Read(~/notes/**)", tool.Allow, rule{kind: tool.AccessRead, spec: paths, path: pathPattern{fromHome, "notes/**", false}}},
		{"WebFetch(domain:Example.COM.)", tool.Allow, rule{kind: tool.AccessNetwork, spec: hosts, host: "example.com"}},
		{"WebFetch(domain:*.example.com)", tool.Deny, rule{kind: tool.AccessNetwork, spec: hosts, host: "*.example.com"}},
		{"mcp__server", tool.Allow, rule{tool: "mcp__server__", family: true}},
		{"mcp__server__*", tool.Allow, rule{tool: "mcp__server__", family: true}},
		{"mcp__*", tool.Deny, rule{tool: "mcp__", family: true}},
		{"mcp__server__send", tool.Allow, rule{tool: "mcp__server__send"}},
		{"note", tool.Deny, rule{tool: "note"}},
	} {
		r, err := parseRule(one.text, one.effect)
		if err != nil {
			t.Errorf("%s: %v", one.text, err)
			continue
		}
		want := one.want
		want.text, want.effect = one.text, one.effect
		if got, want := show(r), show(&want); got != want {
			t.Errorf("%s as %s:\n got %s\nwant %s", one.text, one.effect, got, want)
		}
	}
}

func TestMistakesInRules(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "names no tool",
		"(x)":                           "names no tool",
		"Bash(":                         "has no end",
		"Bash(git status":               "has no end",
		"Bash()":                        "write Bash for all of it",
		"Bash git":                      "no name of a tool",
		"mcp__":                         "names no tool",
		"Bash(:*)":                      "names no command",
		"Bash(git 'status)":             "has no end",
		"Bash(echo $HOME)":              "single quotes",
		"Bash(ls `id`:*)":               "single quotes",
		"Bash(a && b:*)":                "one simple command",
		"Bash(git * main)":              "single quotes",
		"Bash(*ls)":                     "single quotes",
		"Bash(X=1 git status)":          "assignment",
		"Bash(ls\tx)":                   "control character",
		"Read(../x)":                    "not part of a pattern",
		"Read(a[)":                      "no pattern of paths",
		"Read(~bob/x)":                  "own home folder",
		"WebFetch(example.com)":         "domain:",
		"WebFetch(domain:)":             "no domain",
		"WebFetch(domain:a..b)":         "no domain",
		"WebFetch(domain:exa_mple.com)": "no domain",
		"WebFetch(domain:*)":            "no domain",
		"note(x)":                       "without parentheses",
		"Bash(" + strings.Repeat("a", 5000) + ")": "more than 4096",
	} {
		_, err := parseRule(text, tool.Allow)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.60q: %v, want %q", text, err, want)
		}
	}
	for text, want := range map[string]string{
		"Bash(a && b)": "one simple command",
		"Bash(:*)":     "names no command",
		"Bash(* x)":    "begins with a *",
	} {
		if _, err := parseRule(text, tool.Deny); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// What is quoted for a rule is read back as it was.
func TestWordsSurviveQuoting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.StringOfN(rapid.RuneFrom([]rune("ab-*:'\"\\$&;|(){}~# \u00e9")), 0, 6, -1), 1, 4).Draw(t, "words")
		text := join(words)
		got, err := split(text)
		if err != nil || strings.Join(got, "\x00") != strings.Join(words, "\x00") {
			t.Fatalf("%q is %q, and then %q (%v)", words, text, got, err)
		}
		if strings.ContainsRune(words[0], '=') {
			return
		}
		r, err := parseRule("Bash("+text+")", tool.Allow)
		if err != nil || r.spec != exactly || strings.Join(r.words, "\x00") != strings.Join(words, "\x00") {
			t.Fatalf("the rule of %q is %+v (%v)", words, r, err)
		}
	})
}

// show spells all that a rule holds.
func show(r *rule) string {
	text, err := jsonOf(map[string]any{
		"text": r.text, "effect": r.effect, "kind": r.kind, "tool": r.tool, "family": r.family, "spec": r.spec, "words": r.words, "line": r.line,
		"from": r.path.from, "pattern": r.path.pattern, "literal": r.path.literal, "host": r.host,
	})
	if err != nil {
		return err.Error()
	}
	return text
}

func FuzzRule(f *testing.F) {
	for _, seed := range []string{"Bash", "Bash(:*)", "Bash( *)", "x\n()", "Bash(git status:*)", "Bash(ls*)", `Bash(a 'b c' "d")`, "Edit(src/**)", "Read(//a[b]{c,d})", "WebFetch(domain:*.a.com)", "mcp__a__b", "Bash(a\\", "Bash(')"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, effect := range []tool.Decision{tool.Allow, tool.Ask, tool.Deny} {
			r, err := parseRule(text, effect)
			if err != nil {
				if strings.ContainsAny(err.Error(), "\n\x1b") {
					t.Errorf("%q: the error is %q", text, err)
				}
				continue
			}
			again, err := parseRule(r.text, effect)
			if err != nil || show(again) != show(r) {
				t.Errorf("%q is %s, and read again %s (%v)", text, show(r), show(again), err)
			}
			if (r.spec == exactly || r.spec == prefix || r.spec == pattern) && (len(r.words) == 0 || r.kind != tool.AccessExecute) {
				t.Errorf("%q is a rule about commands without words: %s", text, show(r))
			}
			if r.spec == pattern && effect == tool.Allow || r.spec == lines && effect != tool.Allow {
				t.Errorf("%q is no rule that may be %s", text, effect)
			}
		}
	})
}
