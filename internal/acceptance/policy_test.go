//go:build unix

package acceptance

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dsh-harness/dsh/internal/need"
	"github.com/dsh-harness/dsh/internal/testllm"
)

// TestPolicy_TheTable makes the same calls in every mode where nobody can answer: what the table allows has happened, what
// it denies or would ask about has not, the turn goes on, and the exit code tells. Where there is no sandbox, commands are asked about.
func TestPolicy_TheTable(t *testing.T) {
	type world struct{ read, masked, write, control, outside, command bool }
	for mode, want := range map[string]struct {
		happens world
		code    int
		alone   int // the code where nothing confines commands
	}{
		"read-only": {world{read: true}, 0, 3}, // the command runs, and changes nothing
		"plan":      {world{read: true}, 0, 3},
		"ask":       {world{read: true}, 3, 3},
		// Control files ask in each mode that lets files be changed.
		"workspace-write": {world{read: true, write: true, command: true}, 3, 3},
		"full-access":     {world{read: true, write: true, outside: true, command: true}, 3, 3},
	} {
		t.Run(mode, func(t *testing.T) {
			p := newPlace(t)
			p.file("a.txt", "plain content\n")
			key := filepath.Join(p.home, ".ssh", "id_rsa")
			outside := filepath.Join(filepath.Dir(p.work), "outside.txt")
			check(t, os.MkdirAll(filepath.Dir(key), 0o700))
			check(t, os.WriteFile(key, []byte("PRIVATE KEY"), 0o600))
			write := func(id, path string) testllm.Call {
				return testllm.Call{ID: id, Name: "write", Arguments: fmt.Sprintf(`{"file_path":%q,"content":"x\n"}`, path)}
			}
			p.srv.Script(testllm.Calls(
				testllm.Call{ID: "read", Name: "read", Arguments: `{"file_path":"a.txt"}`},
				testllm.Call{ID: "masked", Name: "read", Arguments: fmt.Sprintf(`{"file_path":%q}`, key)},
				write("write", "b.txt"), write("control", ".git/hooks/pre-commit"), write("outside", outside),
				testllm.Call{ID: "command", Name: "bash", Arguments: `{"command":"touch ran"}`},
			), testllm.Text("done"))
			if !p.confines() {
				want.code = want.alone
				want.happens.command = mode == "full-access"
			}
			o := p.dsh("run", "--permission-mode", mode, "hi")
			if o.Code != want.code || o.Stdout != "done\n" {
				t.Errorf("exit %d, want %d; stdout %q: %s", o.Code, want.code, o.Stdout, o.Stderr)
			}
			res := results(p.requests(2)[1])
			_, err := os.Stat(outside)
			happened := world{
				read: strings.Contains(res["read"], "plain content"), masked: strings.Contains(res["masked"], "PRIVATE"),
				write: p.has("b.txt"), control: p.has(".git/hooks/pre-commit"), outside: err == nil, command: p.has("ran"),
			}
			if happened != want.happens {
				t.Errorf("what happened is %+v, want %+v", happened, want.happens)
			}
			if len(res) != 6 {
				t.Errorf("%d of 6 calls have a result", len(res))
			}
			for id, r := range res {
				if r == "" {
					t.Errorf("%s has an empty result", id)
				}
			}
		})
	}
}

// confines reports whether commands run in a full sandbox here.
func (p *place) confines() bool {
	p.t.Helper()
	return strings.Contains(p.dsh("doctor", "--offline").Stdout, "ok   commands ")
}

// TestPolicy_ReadOnlyCommandsSeeTheFolder: a command that may change nothing still finds the folder that it works in.
func TestPolicy_ReadOnlyCommandsSeeTheFolder(t *testing.T) {
	p := newPlace(t)
	if !p.confines() {
		need.Missing(t, "commands are not confined here: allow user namespaces")
	}
	p.file("a.txt", "plain content\n")
	p.srv.Script(testllm.Calls(shell("one", "cat a.txt; touch b.txt || echo kept; rm -f a.txt; echo x > $TMPDIR/t && echo temporary")), testllm.Text("done"))
	p.ok(p.dsh("run", "--permission-mode", "read-only", "hi"), "done")
	got := results(p.requests(2)[1])["one"]
	for _, want := range []string{"plain content", "kept", "temporary"} {
		if !strings.Contains(got, want) {
			t.Errorf("the command said %q, which lacks %q", got, want)
		}
	}
	if !p.has("a.txt") || p.has("b.txt") {
		t.Errorf("a.txt is there: %v, b.txt: %v", p.has("a.txt"), p.has("b.txt"))
	}
}

// TestPolicy_ReadOnlyHoldsForLinkedWorktrees: what git keeps of a linked worktree elsewhere is not changed either.
func TestPolicy_ReadOnlyHoldsForLinkedWorktrees(t *testing.T) {
	git := need.Program(t, "git", "git")
	p := newPlace(t)
	if !p.confines() {
		need.Missing(t, "commands are not confined here: allow user namespaces")
	}
	repository := filepath.Join(p.home, "repository")
	tree := filepath.Join(repository, "..", "tree")
	for _, args := range [][]string{
		{"init", "-q", repository},
		{"-C", repository, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "--allow-empty", "-m", "x"},
		{"-C", repository, "worktree", "add", "-q", tree},
	} {
		c := exec.CommandContext(t.Context(), git, args...)
		c.Env = append(os.Environ(), "HOME="+p.home)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v: %s", args, err, out)
		}
	}
	for mode, want := range map[string]bool{"read-only": false, "workspace-write": true} {
		branch := "new-" + mode
		p.srv.Script(testllm.Calls(shell("one", "git branch "+branch)), testllm.Text("done"))
		p.ok(p.dsh("run", "--permission-mode", mode, "-C", tree, "hi"), "done")
		out, err := exec.CommandContext(t.Context(), git, "-C", repository, "branch", "--list", branch).Output()
		if err != nil || strings.Contains(string(out), branch) != want {
			t.Errorf("%s: %q, %v", mode, out, err)
		}
	}
}
