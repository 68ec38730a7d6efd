package cli_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/dsh-harness/dsh/internal/testllm"
)

// What a newcomer types, in order, in an empty home.
func TestFirstSteps(t *testing.T) {
	b := newBox(t)
	call := func(name, arguments string) testllm.Turn {
		return testllm.Calls(testllm.Call{Name: name, Arguments: arguments})
	}
	contains := func(o outcome, code int, part string) {
		t.Helper()
		if o.code != code || !strings.Contains(o.stdout+o.stderr, part) {
			t.Errorf("exit %d, want %d; %q is not in\n%s%s", o.code, code, part, o.stdout, o.stderr)
		}
	}
	delete(b.env, "DEEPSEEK_API_KEY")
	contains(b.run(), 2, "dsh demo")
	b.run("run", "hello").want(t, 2, "", "deepseek needs a key: set the environment variable DEEPSEEK_API_KEY")
	contains(b.run("doctor"), 1, "BAD  key ")

	b.env["DEEPSEEK_API_KEY"] = "sk-test"
	b.answers(1)
	contains(b.run("doctor"), 0, "ok   model")

	// A task that reads, changes and tests a file.
	file := b.write("add.sh", "echo $(($1 - $2))\n")
	b.llm.Script(
		call("read", `{"file_path":"add.sh"}`),
		call("edit", `{"file_path":"add.sh","old_string":"- $2","new_string":"+ $2"}`),
		call("bash", `{"command":"sh add.sh 2 2"}`),
		testllm.Text("add.sh subtracted; it adds now."),
	)
	b.run("run", "--permission-mode", "full-access", "--session-id", "first", "Why is 2 and 2 zero?").want(t, 0, "add.sh subtracted; it adds now.\n")
	if got := string(b.read(file)); got != "echo $(($1 + $2))\n" {
		t.Errorf("add.sh holds %q", got)
	}
	requests := b.llm.Requests()
	messages := requests[len(requests)-1].Chat.Messages
	if got := messages[len(messages)-1].Text(); !strings.HasPrefix(got, "4\n") {
		t.Errorf("the command printed %q", got)
	}

	// In the mode that asks the command has to be approved, and nobody is there.
	b.llm.Script(call("bash", `{"command":"sh add.sh 2 2"}`), testllm.Text("I could not try it."))
	b.run("-c", "--permission-mode", "ask", "Try it once more.").want(t, 3, "I could not try it.\n", "nobody could approve bash")

	contains(b.run("sessions", "list"), 0, "Why is 2 and 2 zero")
	contains(b.run("sessions", "show", "first"), 0, "→ edit add.sh")
	contains(b.run("sessions", "verify", "first"), 0, "first: sound")
}

// Everything that is wrong in a configuration is told at once, a line each, with its place.
func TestAllMistakesAreToldAtOnce(t *testing.T) {
	b := newBox(t)
	file := b.write("../home/config/cordis.yml", `- id: permission-mode
  config:
    mod: read-only
- id: deepseek
  config:
    baseURL: ${env:NO_SUCH_VARIABLE}
- id: openai
  config: {models: [{ide: x}], exact: perhaps}
`)
	file = filepath.Clean(file)
	want := strings.ReplaceAll(`dsh: FILE:6:14: deepseek.baseURL: ${env:NO_SUCH_VARIABLE}: the variable is not set: set it, or give a default as in ${env:NO_SUCH_VARIABLE:-default}
dsh: FILE:8:22: openai.models[0]: unknown key "ide"; did you mean "id"?
dsh: FILE:8:39: openai.exact: expected true or false, found the text "perhaps"
dsh: FILE:3:5: permission-mode: unknown key "mod"; did you mean "mode"?
`, "FILE", file)
	for _, args := range [][]string{{"config", "check"}, {"run", "x"}, {"tools"}} {
		if o := b.run(args...); o.code != 2 || o.stderr != want {
			t.Errorf("%v: exit %d, stderr\n%s\nwant\n%s", args, o.code, o.stderr, want)
		}
	}
	b.sent(0)
}
