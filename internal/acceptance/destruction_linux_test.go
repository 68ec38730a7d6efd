package acceptance

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dsh-harness/dsh/internal/need"
	"github.com/dsh-harness/dsh/internal/testllm"
)

// TestDestruction_NothingLiftsTheGuard: in each mode, and with rules that allow all commands, nothing deletes the home folder, the folder of the
// session or what holds them, by file tool or by command. The commands name bait in a temporary folder.
func TestDestruction_NothingLiftsTheGuard(t *testing.T) {
	for _, mode := range []string{"read-only", "plan", "ask", "workspace-write", "full-access"} {
		t.Run(mode, func(t *testing.T) {
			p := newPlace(t)
			if !p.confines() {
				need.Missing(t, "commands are not confined here: allow user namespaces")
			}
			p.file("kept", "kept")
			check(t, os.WriteFile(filepath.Join(p.home, "kept"), []byte("kept"), 0o600))
			deletes := map[string]string{"work": p.work, "dot": ".", "up": "..", "home": p.home, "tilde": "~", "base": filepath.Dir(p.home)}
			commands := map[string]string{
				"c-home": "rm -rf ~", "c-homes": "rm -rf ~/*", "c-work": "rm -rf " + p.work, "c-dot": "rm -rf ../work", "c-base": "rm -rf " + filepath.Dir(p.home),
				"c-find": "find ~ -delete", "c-sh": "sh -c 'rm -rf ~'", "c-cd": "cd ~ && rm -rf *", "c-mv": "mv ~ gone", "c-xargs": "echo ~ | xargs rm -rf " + p.home, "c-all": "rm -rf " + p.work + "/*",
			}
			var calls []testllm.Call
			call := func(id, tool string, arguments map[string]any) {
				raw, err := json.Marshal(arguments)
				check(t, err)
				calls = append(calls, testllm.Call{ID: id, Name: tool, Arguments: string(raw)})
			}
			for id, path := range deletes {
				call(id, "delete", map[string]any{"file_path": path})
			}
			// Where nothing would confine them, the commands are only judged: were the guard to fail, they would run.
			rules := []string{"--permission-mode", mode, "--allow", "Bash", "--allow", "delete", "--allow", "Bash(rm:*)"}
			for id, line := range commands {
				if mode != "full-access" {
					call(id, "bash", map[string]any{"command": line})
				} else if o := p.dsh(append(append([]string{"policy", "explain"}, rules...), line)...); !strings.Contains(o.Stdout, "decision   deny") {
					t.Errorf("%s: %s%s", line, o.Stdout, o.Stderr)
				}
			}
			p.srv.Script(testllm.Calls(calls...), testllm.Text("done"))
			if o := p.dsh(append([]string{"run", "hi"}, rules...)...); o.Stdout != "done\n" {
				t.Fatalf("exit %d: %s", o.Code, o.Stderr)
			}
			got := results(p.requests(2)[1])
			for id := range deletes {
				if !strings.HasPrefix(got[id], "Error") {
					t.Errorf("delete %s: %q", deletes[id], got[id])
				}
			}
			for id := range commands {
				if mode != "full-access" && !strings.HasPrefix(got[id], "Error: denied") {
					t.Errorf("%s: %q", commands[id], got[id])
				}
			}
			for _, path := range []string{p.work, p.home} {
				if content, err := os.ReadFile(filepath.Join(path, "kept")); err != nil || string(content) != "kept" {
					t.Errorf("%s: %q, %v", path, content, err)
				}
			}
		})
	}
}

// TestDestruction_TheMountsHold: what no parser sees, the sandbox keeps from happening: the home folder stays, and so does the folder itself.
func TestDestruction_TheMountsHold(t *testing.T) {
	p := besidePlace(t)
	if !p.confines() {
		need.Missing(t, "commands are not confined here: allow user namespaces")
	}
	check(t, os.WriteFile(filepath.Join(p.home, "kept"), []byte("kept"), 0o600))
	hidden := func(path string) string {
		return fmt.Sprintf("python3 -c 'import shutil,sys; shutil.rmtree(%q, ignore_errors=True)' || perl -e 'use File::Path; File::Path::remove_tree(%q)'", path, path)
	}
	p.srv.Script(testllm.Calls(shell("home", hidden(p.home)), shell("work", hidden(p.work))), testllm.Text("done"))
	if o := p.dsh("run", "hi"); o.Stdout != "done\n" {
		t.Fatalf("exit %d: %s", o.Code, o.Stderr)
	}
	for id, text := range results(p.requests(2)[1]) {
		if !strings.Contains(text, "[exit code") {
			t.Errorf("%s did not run: %q", id, text)
		}
	}
	if content, err := os.ReadFile(filepath.Join(p.home, "kept")); err != nil || string(content) != "kept" {
		t.Errorf("%q, %v", content, err)
	}
	if info, err := os.Stat(p.work); err != nil || !info.IsDir() {
		t.Errorf("the folder is gone: %v", err)
	}
}
