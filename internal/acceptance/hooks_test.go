//go:build unix

package acceptance

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dsh-harness/dsh/internal/testllm"
)

// TestHooks_RunAsTheyAre: a person's hooks block a call, add context before the first request and keep a turn going. A hook that fails is told with -v, and
// all of it is in the events of the session.
func TestHooks_RunAsTheyAre(t *testing.T) {
	p := newPlace(t)
	config := filepath.Join(p.home, "dsh", "config")
	check(t, os.MkdirAll(config, 0o700))
	check(t, os.WriteFile(filepath.Join(config, "hooks.json"), []byte(`{"hooks":{
		"SessionStart":[{"hooks":[{"type":"command","command":"echo the house rules"}]}],
		"PreToolUse":[{"matcher":"Write","hooks":[{"type":"command","command":"exit 2"}]},
			{"matcher":"Bash","hooks":[{"type":"command","command":"echo oh no >&2; exit 7"}]}],
		"Stop":[{"hooks":[{"type":"command","command":"grep -q '\"stop_hook_active\":true' || { echo test it >&2; exit 2; }"}]}]}}`), 0o600))
	p.srv.Script(
		testllm.Calls(
			testllm.Call{ID: "w", Name: "write", Arguments: `{"file_path":"a.txt","content":"x"}`},
			testllm.Call{ID: "b", Name: "bash", Arguments: `{"command":"echo ran"}`},
		),
		testllm.Text("done"), testllm.Text("tested"),
	)
	o := p.run("-v", "--session-id", "hooked", "go")
	p.ok(o, "tested")
	all := p.requests(3)
	if res := results(all[1]); p.has("a.txt") || !strings.Contains(res["w"], "blocked by PreToolUse hook") || !strings.Contains(res["b"], "ran") {
		t.Errorf("the results are %q", res)
	}
	if first := string(all[0].Body); !strings.Contains(first, "the house rules") || strings.Index(first, "the house rules") > strings.LastIndex(first, `go"`) {
		t.Errorf("the first request is %s", first)
	}
	if !strings.Contains(string(all[2].Body), "test it") {
		t.Error("the reason of the Stop hook reached nobody")
	}
	if !strings.Contains(o.Stderr, "a hook failed") || !strings.Contains(o.Stderr, "it ended with 7") {
		t.Errorf("the failure is not on standard error: %s", o.Stderr)
	}
	shown := p.dsh("sessions", "show", "--events", "hooked").Stdout
	for _, want := range []string{`"hook/invoked"`, `"hook/result"`, `oh no`, `"exitCode":7`, `"decision":"deny"`} {
		if !strings.Contains(shown, want) {
			t.Errorf("the events lack %s", want)
		}
	}
}

// TestHooks_OfAFolderNeedTrust: hooks of a folder are not run until somebody trusts exactly them.
func TestHooks_OfAFolderNeedTrust(t *testing.T) {
	p := newPlace(t)
	files := []string{".dsh/hooks.json", ".claude/settings.json", ".claude/settings.local.json", ".codex/hooks.json"}
	for i, path := range files {
		check(t, os.MkdirAll(filepath.Join(p.work, filepath.Dir(path)), 0o700))
		p.file(path, fmt.Sprintf(`{"hooks":{"UserPromptSubmit":[{"hooks":[{"type":"command","command":"touch ran%d"}]}]}}`, i))
	}
	ran := func() (n int) {
		for i := range files {
			if p.has(fmt.Sprintf("ran%d", i)) {
				n++
			}
		}
		return n
	}
	p.srv.Script(testllm.Text("done"), testllm.Text("done"))
	o := p.run("go")
	p.ok(o, "done")
	_, hash, told := strings.Cut(strings.TrimSpace(o.Stderr), "--trust ")
	if ran() != 0 || !told {
		t.Fatalf("%d hooks that nobody trusts were run; %s", ran(), o.Stderr)
	}
	p.ok(p.run("--trust", hash, "go"), "done")
	if ran() != len(files) {
		t.Errorf("%d of %d trusted hooks were run", ran(), len(files))
	}
}
