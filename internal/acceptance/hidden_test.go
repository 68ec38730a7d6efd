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

// TestPolicy_SearchesLeaveOutWhatIsHidden: what is masked by its name, or denied by a rule, is in no search of a folder that holds it, however deep it
// stands; and a folder that holds the state of dsh, or keys of processes, is not searched at all.
func TestPolicy_SearchesLeaveOutWhatIsHidden(t *testing.T) {
	p := newPlace(t)
	check(t, os.MkdirAll(filepath.Join(p.work, "sub", "secrets"), 0o700))
	for _, name := range []string{".env", "sub/.env", "sub/secrets/a", "sub/x.key", "sub/plain"} {
		p.file(name, "KEY of "+name+"\n")
	}
	p.file("places.yml", "- id: permission-mode\n  config:\n    masked:\n      add: [.env]\n")
	state := filepath.Join(p.home, "dsh")
	in := func(id, tool, path string) testllm.Call {
		return testllm.Call{ID: id, Name: tool, Arguments: fmt.Sprintf(`{"pattern":%q,"path":%q}`, map[string]string{"grep": "KEY|type", "glob": "**/*"}[tool], path)}
	}
	p.srv.Script(testllm.Calls(
		in("found", "grep", "."), in("below", "grep", "sub"), in("names", "glob", "."), in("secrets", "grep", "sub/secrets"),
		in("state", "grep", state), in("states", "glob", filepath.Join(state, "state")), in("itself", "grep", "/proc/self"), in("thread", "grep", "/proc/thread-self"),
		testllm.Call{ID: "deleted", Name: "delete", Arguments: fmt.Sprintf(`{"file_path":%q}`, state)},
		shell("command", "cat .e?v; grep -r KEY sub/s*s; true"),
	), testllm.Text("done"))
	o := p.dsh("run", "--patch", "places.yml", "--deny", "Read(sub/secrets/**)", "--deny", "Read(*.key)", "hi")
	if o.Stdout != "done\n" {
		t.Fatalf("exit %d: %s", o.Code, o.Stderr)
	}
	got := results(p.requests(2)[1])
	for id, text := range got {
		if strings.Contains(text, "KEY of") && !strings.Contains(text, "KEY of sub/plain") {
			t.Errorf("%s: %s", id, text)
		}
		for _, hidden := range []string{".env:", ".env\n", "x.key", "KEY of .env", "KEY of sub/secrets", "log.jsonl"} {
			if strings.Contains(text, hidden) {
				t.Errorf("%s has %q: %s", id, hidden, text)
			}
		}
	}
	for _, id := range []string{"below", "names"} {
		if !strings.Contains(got[id], "plain") {
			t.Errorf("%s lacks what is not hidden: %s", id, got[id])
		}
	}
	for _, id := range []string{"secrets", "state", "states", "itself", "thread", "deleted"} {
		if !strings.HasPrefix(got[id], "Error: denied") {
			t.Errorf("%s: %s", id, got[id])
		}
	}
	if _, err := os.Stat(filepath.Join(state, "state")); err != nil {
		t.Error(err)
	}
}
