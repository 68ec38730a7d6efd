//go:build unix

package acceptance

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/dsh-harness/dsh"
	"github.com/dsh-harness/dsh/tool"
)

// shipped returns the tools of the composition that dsh ships with.
func shipped(t testing.TB) map[string]tool.Definition {
	t.Helper()
	t.Setenv("DSH_HOME", t.TempDir())
	h, err := dsh.New(t.Context(), dsh.Options{})
	check(t, err)
	all := map[string]tool.Definition{}
	for name, d := range tool.Tools.Visible(h.Scope()) {
		all[name] = d
	}
	check(t, h.Close(context.Background()))
	if len(all) < 5 {
		t.Fatalf("only %d tools are shipped", len(all))
	}
	return all
}

// valid are arguments that a tool takes: each that it requires, with the least value of its type.
func valid(t testing.TB, d tool.Definition) map[string]any {
	t.Helper()
	var s struct {
		Properties map[string]struct{ Type string }
		Required   []string
	}
	check(t, json.Unmarshal(d.Schema(), &s))
	all := map[string]any{}
	for _, name := range s.Required {
		switch s.Properties[name].Type {
		case "string":
			all[name] = "x"
		case "integer", "number":
			all[name] = 1
		case "boolean":
			all[name] = false
		case "array":
			all[name] = []any{}
		default:
			all[name] = map[string]any{}
		}
	}
	return all
}

// FuzzTrust_P09_NoArgumentWidensACall gives each shipped tool arguments that it takes and one more that its
// schema does not name: such a call is refused, whatever it asks for, so that no model can ask for more than a tool offers.
func FuzzTrust_P09_NoArgumentWidensACall(f *testing.F) {
	for _, name := range []string{
		"sandbox", "sandbox_permissions", "with_escalated_permissions", "escalate", "justification", "dangerouslyDisableSandbox", "dangerously_disable_sandbox",
		"unsandboxed", "approved", "approval", "permission_mode", "mode", "allow", "network", "env", "roots", "add_dir", "user", "sudo", "Command", "COMMAND",
		"__proto__", "constructor", "", " ", "command ", "file_path\x00", "run_in_background", "trust",
	} {
		f.Add(name, `true`)
		f.Add(name, `"full-access"`)
		f.Add(name, `{"write":["/"]}`)
	}
	tools := shipped(f)
	f.Fuzz(func(t *testing.T, name, value string) {
		if !json.Valid([]byte(value)) {
			return
		}
		for tool, d := range tools {
			var s struct{ Properties map[string]json.RawMessage }
			check(t, json.Unmarshal(d.Schema(), &s))
			arguments := valid(t, d)
			refuses(t, tool, d, arguments, false)
			key, err := json.Marshal(name)
			check(t, err)
			var spelled string
			check(t, json.Unmarshal(key, &spelled)) // as it is once it is JSON
			if _, known := s.Properties[spelled]; known {
				continue
			}
			arguments[spelled] = json.RawMessage(value)
			refuses(t, tool, d, arguments, true)
		}
	})
}

// refuses fails the test unless a tool refuses arguments by its schema, or takes them.
func refuses(t *testing.T, name string, d tool.Definition, arguments map[string]any, want bool) {
	t.Helper()
	raw, err := json.Marshal(arguments)
	check(t, err)
	_, err = d.Check(string(raw))
	var invalid *tool.InvalidArgumentsError
	if got := errors.As(err, &invalid); got != want || !want && err != nil {
		t.Errorf("%s takes %s: %v", name, raw, err)
	}
}
