//go:build unix

package acceptance

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dsh-harness/dsh/internal/need"
	"github.com/dsh-harness/dsh/internal/testllm"
)

// controlled are files that are executed or obeyed later, below the folder and below home.
var controlled = []string{
	".git/hooks/pre-commit", ".git/config", ".dsh/cordis.yml", ".dsh/permissions.yml", ".dsh/hooks.json", ".mcp.json", ".claude/settings.json", ".codex/hooks.json",
	".vscode/tasks.json", ".github/workflows/ci.yml", "AGENTS.md", "CLAUDE.md", "sub/AGENTS.md", "sub/.git/hooks/post-checkout", "sub/.vscode/settings.json", ".envrc",
	"~/.bashrc", "~/.profile", "~/.zshrc", "~/dsh/config/cordis.yml", "~/dsh/config/hooks.json",
}

// TestTrust_C05_ControlFilesAsk: each tool that changes files is given each control file, there already or not, in each mode, and with
// rules that allow all of it. A person is asked, or the mode denies it; as nobody is there, nothing changes.
func TestTrust_C05_ControlFilesAsk(t *testing.T) {
	const before = "BEFORE\n"
	for _, mode := range []string{"read-only", "plan", "ask", "workspace-write", "full-access"} {
		for _, there := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, there %v", mode, there), func(t *testing.T) {
				p := besidePlace(t)
				if !p.confines() {
					need.Missing(t, "commands are not confined here: allow user namespaces")
				}
				var calls []testllm.Call
				call := func(id, tool string, arguments map[string]any) {
					raw, err := json.Marshal(arguments)
					check(t, err)
					calls = append(calls, testllm.Call{ID: id, Name: tool, Arguments: string(raw)})
				}
				at := map[string]string{}
				for i, name := range controlled {
					path := filepath.Join(p.work, name)
					if rest, ok := strings.CutPrefix(name, "~/"); ok {
						path = filepath.Join(p.home, rest)
					}
					at[name] = path
					// What is in the configuration of dsh itself would keep the run from starting.
					if there && !strings.HasPrefix(name, "~/dsh") && !strings.HasPrefix(name, ".git/") {
						check(t, os.MkdirAll(filepath.Dir(path), 0o700))
						check(t, os.WriteFile(path, []byte(before), 0o600))
					}
					_, err := os.Lstat(path)
					if err == nil {
						call(fmt.Sprintf("read-%d", i), "read", map[string]any{"file_path": path})
						call(fmt.Sprintf("edit-%d", i), "edit", map[string]any{"file_path": path, "old_string": "BEFORE", "new_string": "EVIL"})
						call(fmt.Sprintf("delete-%d", i), "delete", map[string]any{"file_path": path})
					}
					call(fmt.Sprintf("write-%d", i), "write", map[string]any{"file_path": path, "content": "EVIL\n"})
					if mode != "full-access" { // nothing keeps commands from it there, and the documentation says so
						call(fmt.Sprintf("bash-%d", i), "bash", map[string]any{"command": fmt.Sprintf("mkdir -p '%s'; echo EVIL > '%s'", filepath.Dir(path), path)})
						call(fmt.Sprintf("unseen-%d", i), "bash", map[string]any{"command": fmt.Sprintf("p=$(echo %s | rev); mkdir -p \"$(dirname \"$p\")\"; echo EVIL > \"$p\"", reversed(path))})
					}
				}
				p.srv.Script(testllm.Calls(calls...), testllm.Text("done"))
				args := []string{"run", "--permission-mode", mode, "hi"}
				if there {
					args = append(args, "--allow", "Bash", "--allow", "Edit", "--allow", "Write", "--allow", "Edit(**)", "--allow", "Bash(mkdir:*)", "--allow", "delete")
				}
				o := p.dsh(args...)
				if o.Stdout != "done\n" {
					t.Fatalf("exit %d: %s", o.Code, o.Stderr)
				}
				got := results(p.requests(2)[1])
				for i, name := range controlled {
					content, err := os.ReadFile(at[name])
					changed := err == nil && string(content) != before
					// Further down than the folder itself, a command that does not name the file can change it: so says the documentation.
					unseen := strings.HasPrefix(name, "sub/") && (mode == "workspace-write" || mode == "ask" && there)
					if changed && !unseen {
						t.Errorf("%s holds %q", name, content)
					}
					if _, stands := got[fmt.Sprintf("edit-%d", i)]; stands && err != nil {
						t.Errorf("%s is gone: %v", name, err)
					}
					for _, tool := range []string{"write", "edit", "delete", "bash"} {
						r, ok := got[fmt.Sprintf("%s-%d", tool, i)]
						if ok && !strings.Contains(r, "nobody could approve") && !strings.Contains(r, "denied") && mode != "read-only" && mode != "plan" {
							t.Errorf("%s %s was not asked about: %q", tool, name, r)
						}
					}
				}
			})
		}
	}
}

// TestTrust_C05_AFolderOfControlFiles: nor is a folder deleted that a control file stands in.
func TestTrust_C05_AFolderOfControlFiles(t *testing.T) {
	for _, mode := range []string{"ask", "workspace-write", "full-access"} {
		t.Run(mode, func(t *testing.T) {
			p := newPlace(t)
			var calls []testllm.Call
			for _, name := range []string{".github/workflows/ci.yml", "nested/.git/config", "docs/AGENTS.md", "[odd]/.vscode/tasks.json", "ci/hooks/pre-commit"} {
				check(t, os.MkdirAll(filepath.Dir(filepath.Join(p.work, name)), 0o700))
				p.file(name, "kept")
				top, _, _ := strings.Cut(name, "/")
				calls = append(calls, testllm.Call{ID: name, Name: "delete", Arguments: fmt.Sprintf(`{"file_path":%q}`, top)})
			}
			// Where git is told to run hooks from is as the folder of its own.
			check(t, os.Mkdir(filepath.Join(p.work, ".git"), 0o700))
			p.file(".git/config", "[core]\n\tbare = false\n\thookspath = ci/hooks\n")
			calls = append(calls, testllm.Call{ID: "ci/hooks", Name: "write", Arguments: `{"file_path":"ci/hooks/pre-push","content":"x"}`})
			p.srv.Script(testllm.Calls(calls...), testllm.Text("done"))
			if o := p.dsh("run", "--permission-mode", mode, "--allow", "delete", "hi"); o.Code != 3 {
				t.Errorf("exit %d, want 3: %s", o.Code, o.Stderr)
			}
			for name, text := range results(p.requests(2)[1]) {
				if !p.has(name) || !strings.Contains(text, "nobody could approve") {
					t.Errorf("%s is there: %v; %s", name, p.has(name), text)
				}
			}
		})
	}
}

// besidePlace is a place that is not in the temporary folder: commands have one of their own, so that they would see nothing of the home folder anyway.
func besidePlace(t *testing.T) *place {
	t.Helper()
	p := newPlace(t)
	dir := elsewhere(t)
	p.home, p.work = filepath.Join(dir, "home"), filepath.Join(dir, "work")
	check(t, errors.Join(os.Mkdir(p.home, 0o700), os.Mkdir(p.work, 0o700)))
	check(t, os.WriteFile(filepath.Join(p.home, "plain"), []byte("seen"), 0o600))
	return p
}

func reversed(s string) string {
	b := []byte(s)
	for i, j := 0, len(b)-1; i < j; i, j = i+1, j-1 {
		b[i], b[j] = b[j], b[i]
	}
	return string(b)
}
