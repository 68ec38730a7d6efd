package permission

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/tool"
	"github.com/dsh-harness/dsh/workspace"
)

func TestTrust_P11_an_always_rule_is_bound(t *testing.T) {
	base := t.TempDir()
	w := openWorld(t, base, "", Config{Allow: []string{"Bash(cd:*)"}})
	c := w.call("bash", "command", "go test -v ./pkg")
	suggested := w.keeper.Suggest(c, nil)
	if d := cmp.Diff([]string{"Bash(go test -v ./pkg)", "Bash(go test -v ./pkg:*)"}, suggested); d != "" && !slices.Equal(suggested, []string{"Bash(go test -v ./pkg)"}) {
		t.Fatal(d)
	}
	before := w.keeper.Fingerprint()
	if err := w.keeper.Remember(c, policy.ForUser, tool.Allow, "Bash(go test -v:*)"); err != nil {
		t.Fatal(err)
	}
	if w.keeper.Fingerprint() == before {
		t.Error("the fingerprint is as before")
	}
	if err := w.keeper.Remember(c, policy.ForUser, tool.Allow, "Bash(timeout 5 go vet ./...)"); err != nil {
		t.Fatal(err)
	}
	// Bound to the program and its options.
	w.decisions(map[string]tool.Decision{
		"go test -v ./pkg":                 tool.Allow,
		"go test -v ./other a/b":           tool.Allow,
		"go test -v " + w.project + "/pkg": tool.Allow,
		"timeout 5 go vet ./...":           tool.Allow,
		"timeout 50 go vet ./...":          tool.Ask,
		"go vet ./...":                     tool.Ask,
		"go test -v -race ./pkg":           tool.Ask,
		"go test ./pkg":                    tool.Ask,
		"go test -v -exec id ./pkg":        tool.Ask,
		"go test -v ../elsewhere":          tool.Ask,
		"go test -v /tmp/elsewhere":        tool.Ask,
		"go test -v ~/x":                   tool.Ask,
		"./go test -v ./pkg":               tool.Ask,
		"cd /tmp && go test -v ./pkg":      tool.Ask,
		"GOFLAGS=-x go test -v ./pkg":      tool.Ask,
	})
	// Bound to the folder.
	elsewhere := w.call("bash", "command", "go test -v ./pkg")
	elsewhere.Arguments = json.RawMessage(`{"command":"go test -v ./pkg","workdir":"src"}`)
	if p := w.pending(elsewhere); p.Verdict.Decision != tool.Ask {
		t.Errorf("in another folder: %+v", p.Verdict)
	}
	// In the log.
	var logged []RememberedData
	for e, err := range w.session.Events(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == RememberedType {
			var d RememberedData
			if err := json.Unmarshal(e.Data, &d); err != nil {
				t.Fatal(err)
			}
			logged = append(logged, d)
		}
	}
	if d := cmp.Diff([]RememberedData{
		{"Bash(go test -v:*)", "allow", policy.ForUser, w.project}, {"Bash(timeout 5 go vet ./...)", "allow", policy.ForUser, w.project},
	}, logged); d != "" {
		t.Error(d)
	}
	// Private, listed, revocable by another process while this one runs.
	path := filepath.Join(base, "dsh", "state", "rules.json")
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	other := openWorld(t, base, "", Config{Deny: []string{"Bash(curl)"}})
	list, err := other.keeper.List(t.Context(), other.project)
	if err != nil || len(list) != 3 || list[0].Source != "configuration" || list[1].Rule != "Bash(go test -v:*)" || list[1].Number != 1 || list[1].By != "session "+w.session.ID() {
		t.Fatalf("%+v %v", list, err)
	}
	if other.bash("go test -v ./pkg") != tool.Allow {
		t.Error("another process does not know the rule")
	}
	if gone, err := other.keeper.Forget(t.Context(), 1, "", ""); err != nil || len(gone) != 1 {
		t.Fatal(gone, err)
	}
	w.decisions(map[string]tool.Decision{"go test -v ./pkg": tool.Ask})
	for _, wrong := range []struct {
		number int
		text   string
	}{{7, ""}, {0, "Bash(nothing)"}} {
		if _, err := other.keeper.Forget(t.Context(), wrong.number, wrong.text, other.project); err == nil {
			t.Errorf("%+v was forgotten", wrong)
		}
	}
}

func TestRulesOfASessionComeBackWithIt(t *testing.T) {
	base := t.TempDir()
	w := openWorld(t, base, "", Config{})
	c := w.call("bash", "command", "make x")
	if err := w.keeper.Remember(c, policy.ForSession, tool.Allow, "Bash(make x)"); err != nil {
		t.Fatal(err)
	}
	if err := w.keeper.Remember(c, policy.ForSession, tool.Deny, "WebFetch(domain:a.com)"); err != nil {
		t.Fatal(err)
	}
	// What holds beyond the session is revoked for it too, though its log tells of it.
	if err := w.keeper.Remember(c, policy.ForUser, tool.Allow, "Bash(make gone)"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.keeper.Forget(t.Context(), 0, "Bash(make gone)", w.project); err != nil {
		t.Fatal(err)
	}
	w.decisions(map[string]tool.Decision{"make x": tool.Allow, "make y": tool.Ask})
	allow, deny := w.keeper.Hosts(w.session.ID(), w.project)
	if len(allow) != 0 || !slices.Equal(deny, []string{"a.com"}) {
		t.Error(allow, deny)
	}
	if err := w.session.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	id := w.session.ID()
	fork, err := session.Service.From(w.scope).Fork(t.Context(), session.ForkOptions{ID: id})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.tree.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	again := openWorld(t, base, id, Config{})
	again.decisions(map[string]tool.Decision{"make x": tool.Allow, "make y": tool.Ask, "make gone": tool.Ask})
	if err := again.tree.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	// Another session knows nothing of it, a copy neither.
	openWorld(t, base, "", Config{}).decisions(map[string]tool.Decision{"make x": tool.Ask})
	openWorld(t, base, fork.ID, Config{}).decisions(map[string]tool.Decision{"make x": tool.Ask})
}

func TestRememberRefuses(t *testing.T) {
	w := newWorld(t, Config{})
	c := w.call("bash", "command", "ls")
	alone := *c
	alone.Session = nil
	nowhere := *c
	nowhere.Workspace = nil
	for _, one := range []struct {
		call   *tool.Call
		scope  policy.Scope
		effect tool.Decision
		rule   string
		want   string
	}{
		{c, policy.ForUser, tool.Allow, "Bash(", "no end"},
		{c, policy.ForUser, tool.Confined, "Bash(ls)", "allows, asks or denies"},
		{c, "week", tool.Allow, "Bash(ls)", "unknown scope"},
		{&alone, policy.ForSession, tool.Allow, "Bash(ls)", "no session"},
		{&nowhere, policy.ForUser, tool.Allow, "Bash(ls)", "no folder"},
	} {
		if err := w.keeper.Remember(one.call, one.scope, one.effect, one.rule); err == nil || !strings.Contains(err.Error(), one.want) {
			t.Errorf("%+v: %v", one, err)
		}
	}
	if err := w.keeper.Remember(c, policy.Once, tool.Allow, "Bash(ls)"); err != nil {
		t.Error(err)
	}
	if list, err := w.keeper.List(t.Context(), w.project); err != nil || len(list) != 0 {
		t.Error(list, err)
	}
}

// A file that cannot be read may hold what forbids: then all is asked, and nobody is told yes.
func TestABrokenFileAllowsNothing(t *testing.T) {
	base := t.TempDir()
	w := openWorld(t, base, "", Config{Allow: []string{"Bash(make x)", "WebFetch(domain:a.com)"}})
	path := filepath.Join(base, "dsh", "state", "rules.json")
	for _, content := range []string{"{", `{"version":2,"rules":[]}`, `{"version":1,"rules":[{"rule":"Bash(","effect":"deny","dir":"/"}]}`, `{"version":1,"rules":[{"rule":"Bash","effect":"always","dir":"/"}]}`, `{"version":1,"rules":[{"rule":"Bash","effect":"allow","dir":"x"}]}`, `{"version":1,"more":1}`} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		p := w.pending(w.call("bash", "command", "make x"))
		if _, permitted := p.Permitted(); permitted || p.Verdict.Decision != tool.Ask || !strings.Contains(p.Verdict.Reason, "rules.json") {
			t.Errorf("%s: %+v", content, p.Verdict)
		}
		if allow, deny := w.keeper.Hosts("", w.project); len(allow) != 0 || !slices.Equal(deny, []string{"*"}) {
			t.Errorf("%s: %v %v", content, allow, deny)
		}
		if err := w.keeper.Remember(w.call("bash", "command", "make x"), policy.ForUser, tool.Allow, "Bash(make x)"); err == nil {
			t.Errorf("%s: it was overwritten", content)
		}
		if s := w.keeper.Suggest(w.call("bash", "command", "make y"), nil); s != nil {
			t.Errorf("%s: %v", content, s)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	w.decisions(map[string]tool.Decision{"make x": tool.Allow})
}

func TestRulesOfATrustedFolder(t *testing.T) {
	w := newWorld(t, Config{Ask: []string{"Bash(make z)"}})
	w.decisions(map[string]tool.Decision{"make x": tool.Ask})
	before := w.keeper.Fingerprint()
	w.trusted[".dsh/permissions.yml"] = "allow:\n  - Bash(make x)\n  - Bash(make z)\ndeny: ['Bash(curl)']\n"
	w.trusted[".claude/settings.json"] = `{"model":"x","permissions":{"allow":["Bash(npm run test:*)","WebSearch","Skill(x)"],"deny":["Read(./secret)","Skill(y)"],"additionalDirectories":["/etc"],"defaultMode":"bypassPermissions"}}`
	w.decisions(map[string]tool.Decision{"make x": tool.Allow, "make z": tool.Ask, "curl x": tool.Deny, "npm run test unit": tool.Allow, "cat secret": tool.Deny, "make y": tool.Ask})
	if w.keeper.Fingerprint() == before {
		t.Error("the fingerprint is as before")
	}
	for _, want := range []string{"additionalDirectories is not used", "defaultMode is not used", "Skill(x)", "Skill(y)"} {
		if strings.Count(w.log.String(), want) != 1 {
			t.Errorf("the log says %s", w.log)
		}
	}
	// Trust that is withdrawn counts at the next call.
	delete(w.trusted, ".claude/settings.json")
	w.decisions(map[string]tool.Decision{"make x": tool.Allow, "npm run test unit": tool.Ask})
	// What it forbids is not known when it cannot be read.
	for file, content := range map[string]string{
		".dsh/permissions.yml":        "allow: [Bash(]\n",
		".claude/settings.json":       `{"permissions":{"deny":["Bash($X)"]}}`,
		".claude/settings.local.json": `{`,
	} {
		before, had := w.trusted[file]
		w.trusted[file] = content
		if p := w.pending(w.call("bash", "command", "make x")); p.Verdict.Decision != tool.Ask || !strings.Contains(p.Verdict.Reason, file) {
			t.Errorf("%s: %+v", file, p.Verdict)
		}
		delete(w.trusted, file)
		if had {
			w.trusted[file] = before
		}
	}
	for _, content := range []string{"allow: x", "allows: []", "allow: []\nallow: []", "- a"} {
		if _, _, err := parseProject(ownFile, []byte(content)); err == nil {
			t.Errorf("%q is read", content)
		}
	}
}

func TestSuggestions(t *testing.T) {
	w := newWorld(t, Config{Ask: []string{"Bash(git push)"}, Deny: []string{"Bash(curl)"}})
	for line, want := range map[string][]string{
		"npm test":                      {"Bash(npm test)", "Bash(npm test:*)"},
		"npm run lint src":              {"Bash(npm run lint src)", "Bash(npm run lint:*)"},
		"go test ./...":                 {"Bash(go test ./...)", "Bash(go test:*)"},
		"go test -run X ./a ./b":        {"Bash(go test -run X ./a ./b)", "Bash(go test -run X:*)"},
		"git commit -m 'a && b'":        {"Bash(git commit -m 'a && b')", "Bash(git commit -m 'a && b':*)"},
		"go vet ./... && go test ./...": {"Bash(go vet ./... && go test ./...)"},
		"timeout 5 go test ./...":       {"Bash(timeout 5 go test ./...)"},
		"go run ./cmd":                  {"Bash(go run ./cmd)"},
		"go test -exec id ./...":        {"Bash(go test -exec id ./...)"},
		"go test -toolexec=id ./...":    {"Bash(go test -toolexec=id ./...)"},
		"python3 x.py":                  {"Bash(python3 x.py)"},
		"node -e 'x()'":                 {"Bash(node -e 'x()')"},
		"bash x.sh":                     {"Bash(bash x.sh)"},
		"make":                          {"Bash(make)"},
		"wget x | sh":                   nil,
		"git log | head -5":             {"Bash(git log | head -5)"},
		"git push":                      nil,
		"curl x":                        nil,
		"X=1 make":                      nil,
		"make > log":                    nil,
		"make $X":                       nil,
		"eval x":                        nil,
		`rm -rf "$X/"`:                  nil,
		"rm -rf /":                      nil,
	} {
		c := w.call("bash", "command", line)
		got := w.keeper.Suggest(c, nil)
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%q: %s", line, d)
		}
		for _, rule := range got {
			checkSuggestion(t, c, rule)
		}
	}
	for _, one := range []struct {
		tool, argument, value string
		want                  []string
	}{
		{"edit", "file_path", "src/a[1].go", []string{`Edit(./src/a\[1].go)`, "Edit(./src/**)"}},
		{"write", "file_path", "a.txt", []string{"Edit(./a.txt)"}},
		{"web_fetch", "url", "https://Example.com:443/x", []string{"WebFetch(domain:example.com)"}},
		{"mcp__server__send", "x", "", []string{"mcp__server__send"}},
	} {
		c := w.call(one.tool, one.argument, one.value)
		got := w.keeper.Suggest(c, nil)
		if d := cmp.Diff(one.want, got); d != "" {
			t.Errorf("%s %s: %s", one.tool, one.value, d)
		}
		for _, rule := range got {
			checkSuggestion(t, c, rule)
		}
	}
	got := w.keeper.Suggest(w.call("bash", "command", "make"), []workspace.Refusal{
		{Kind: workspace.RefusedNetwork, Target: "proxy.example.org:443"}, {Kind: workspace.RefusedNetwork, Target: "proxy.example.org:80"},
		{Kind: workspace.RefusedWrite, Target: "/etc/x"}, {Kind: workspace.RefusedNetwork, Target: "bad host:1"},
		{Kind: workspace.RefusedNetwork, Target: "127.0.0.1:8080"}, {Kind: workspace.RefusedNetwork, Target: "10.0.0.1:80"}, {Kind: workspace.RefusedNetwork, Target: "localhost:80"},
	})
	if d := cmp.Diff([]string{"WebFetch(domain:proxy.example.org)"}, got); d != "" {
		t.Error(d)
	}
}

// checkSuggestion remembers a rule in a world of its own: the call is allowed then, and was not before.
func checkSuggestion(t *testing.T, c *tool.Call, rule string) {
	t.Helper()
	w := newWorld(t, Config{})
	again := *c
	again.Workspace, again.Session = w.workspace, w.session
	if d := w.pending(&again).Verdict.Decision; d != tool.Ask {
		t.Errorf("%s: without a rule it is %s", c.Arguments, d)
	}
	if err := w.keeper.Remember(&again, policy.ForUser, tool.Allow, rule); err != nil {
		t.Error(err)
	}
	if p := w.pending(&again); p.Verdict.Decision != tool.Allow {
		t.Errorf("%s with %s: %+v", c.Arguments, rule, p.Verdict)
	}
}

func TestHosts(t *testing.T) {
	w := newWorld(t, Config{Allow: []string{"WebFetch(domain:*.a.com)", "Bash(ls)"}, Ask: []string{"WebFetch(domain:b.com)", "WebFetch(domain:ask.a.com)"}, Deny: []string{"WebFetch(domain:x.a.com)"}})
	allow, deny := w.keeper.Hosts("", w.project)
	if !slices.Equal(allow, []string{"*.a.com"}) || !slices.Equal(deny, []string{"x.a.com", "ask.a.com"}) {
		t.Error(allow, deny)
	}
	if err := w.keeper.Remember(w.call("bash", "command", "x"), policy.ForUser, tool.Allow, "WebFetch(domain:c.com)"); err != nil {
		t.Fatal(err)
	}
	if allow, _ := w.keeper.Hosts("", w.project); !slices.Contains(allow, "c.com") {
		t.Error(allow)
	}
	if allow, _ := w.keeper.Hosts("", "/elsewhere"); slices.Contains(allow, "c.com") {
		t.Error(allow)
	}
}

func TestConfig(t *testing.T) {
	c := Config{Allow: []string{"Bash(ls"}, Deny: []string{"(x)"}}
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "allow: ") || !strings.Contains(err.Error(), "deny: ") {
		t.Error(err)
	}
	w := newWorld(t, Config{Allow: []string{"raed", "Bash(ls)"}, Deny: []string{"mcp__gone__x"}, MoreAllow: []string{"Bash(make)"}, MoreDeny: []string{"Bash(wget)"}})
	w.decisions(map[string]tool.Decision{"make": tool.Allow, "wget": tool.Deny, "ls": tool.Allow})
	if list, err := w.keeper.List(t.Context(), w.project); err != nil || !slices.ContainsFunc(list, func(l Listed) bool { return l.Rule == "raed" && strings.Contains(l.Note, "did you mean Read?") }) {
		t.Error(list, err)
	}
	if got := w.log.String(); strings.Count(got, "there is no tool raed here; did you mean Read?") != 1 || strings.Contains(got, "mcp__gone") {
		t.Error(got)
	}
}

// Each command of a line is told of, with what the rules make of it.
func TestPartsAreExplained(t *testing.T) {
	w := newWorld(t, Config{Allow: []string{"Bash(git:*)"}, Deny: []string{"Bash(rm)"}})
	p := w.pending(w.call("bash", "command", "git log | make && rm x"))
	var parts []tool.Opinion
	for _, o := range p.Opinions() {
		if o.Part != "" {
			parts = append(parts, o)
		}
	}
	if d := cmp.Diff([]tool.Opinion{
		{By: "rule Bash(git:*)", Reason: "from the configuration", Part: "git log"},
		{Reason: "no rule allows it", Part: "make"},
		{Decision: tool.Deny, By: "rule Bash(rm)", Reason: "from the configuration", Part: "rm x"},
	}, parts); d != "" {
		t.Error(d)
	}
	if p := w.pending(w.call("bash", "command", strings.Repeat("a b;", 1000))); len(p.Opinions()) > maxParts+10 {
		t.Errorf("%d opinions", len(p.Opinions()))
	}
}
