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

	"github.com/dsh-harness/dsh/internal/testllm"
)

// TestTrust_F01_EveryFileToolEveryWayOut: each file tool is given each kind of name that leads to a
// key or out of the folder. Nothing is read, written or deleted there, in a mode that asks nobody.
func TestTrust_F01_EveryFileToolEveryWayOut(t *testing.T) {
	const nfc, nfd = "priv\u00e9", "prive\u0301"
	content := func(path string) string {
		b, err := os.ReadFile(path)
		if err != nil {
			return err.Error()
		}
		return string(b)
	}
	for name, arguments := range map[string]func(path string) map[string]any{
		"read": func(path string) map[string]any { return map[string]any{"file_path": path} },
		"write": func(path string) map[string]any {
			return map[string]any{"file_path": path, "content": "OVERWRITTEN"}
		},
		"edit": func(path string) map[string]any {
			return map[string]any{"file_path": path, "old_string": "TOPSECRET", "new_string": "OVERWRITTEN"}
		},
		"delete": func(path string) map[string]any { return map[string]any{"file_path": path} },
		"glob":   func(path string) map[string]any { return map[string]any{"pattern": "*", "path": filepath.Dir(path)} },
		"grep": func(path string) map[string]any {
			return map[string]any{"pattern": "SECRET", "path": path, "output_mode": "content"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			key, other := filepath.Join(p.home, ".ssh", "id"), filepath.Join(p.home, nfc, "f")
			outside := filepath.Join(filepath.Dir(p.work), "outside", "f")
			for _, path := range []string{key, other, outside} {
				check(t, os.MkdirAll(filepath.Dir(path), 0o700))
				check(t, os.WriteFile(path, []byte("TOPSECRET\n"), 0o600))
			}
			link := func(to, name string) { check(t, os.Symlink(to, filepath.Join(p.work, name))) }
			link(key, "link")
			link(filepath.Dir(key), "folder")
			link("chain2", "chain1")
			link("chain3", "chain2")
			link(key, "chain3")
			link(filepath.Join(p.home, ".ssh", "new"), "dangling")
			link("../home/.ssh", "up")
			ways := map[string]string{
				"link": "link", "folder": "folder/id", "chain": "chain1", "dangling": "dangling", "relative link": "up/id",
				"root of the process": "/proc/self/root" + key, "folder of the process": "/proc/self/cwd/../home/.ssh/id",
				"dots": "../home/.ssh/id", "dots behind a folder": "nothing/../../home/.ssh/id", "absolute": key, "slashes": strings.ReplaceAll(key, "/", "//"),
				"home": "~/.ssh/id", "case": "~/.SSH/ID", "trailing dot": "~/.ssh./id", "trailing blank": "~/.ssh /id",
				"composed": filepath.Join(p.home, nfc, "f"), "decomposed": filepath.Join(p.home, nfd, "f"),
			}
			changes := name == "write" || name == "edit" || name == "delete"
			if changes {
				link(outside, "out-link")
				link(filepath.Dir(outside), "out")
				link(filepath.Join(filepath.Dir(outside), "new"), "out-dangling")
				for way, path := range map[string]string{
					"outside": outside, "link outside": "out-link", "folder outside": "out/f", "dangling outside": "out-dangling", "dots outside": "../outside/f",
					"new outside": "out/new", "process outside": "/proc/self/root" + outside,
				} {
					ways[way] = path
				}
			}
			var calls []testllm.Call
			for way, path := range ways {
				raw, err := json.Marshal(arguments(path))
				check(t, err)
				calls = append(calls, testllm.Call{ID: strings.ReplaceAll(way, " ", "_"), Name: name, Arguments: string(raw)})
			}
			p.srv.Script(testllm.Calls(calls...), testllm.Text("done"))
			o := p.dsh("run", "--set", fmt.Sprintf("permission-mode.masked.add=[%q]", "~/"+nfc), "--permission-mode", "workspace-write", "hi")
			if o.Code != 0 && o.Code != 3 || o.Stdout != "done\n" {
				t.Fatalf("exit %d: %s", o.Code, o.Stderr)
			}
			got := results(p.requests(2)[1])
			for way := range ways {
				result, ok := got[strings.ReplaceAll(way, " ", "_")]
				refused := strings.Contains(result, "Error") || name == "glob" && result == "No files found"
				if !ok || strings.Contains(result, "TOPSECRET") || !refused {
					t.Errorf("%s: %q", way, result)
				}
			}
			for _, path := range []string{key, other, outside} {
				if content(path) != "TOPSECRET\n" {
					t.Errorf("%s holds %q", path, content(path))
				}
			}
			for _, path := range []string{filepath.Join(filepath.Dir(key), "new"), filepath.Join(filepath.Dir(outside), "new")} {
				if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("%s exists: %v", path, err)
				}
			}
		})
	}
}
