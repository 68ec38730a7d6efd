package cli_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dsh-harness/dsh/internal/testllm"
)

// request is what the model was asked last.
func (b *box) request() (body map[string]any, system string) {
	b.t.Helper()
	requests := b.llm.Requests()
	last := requests[len(requests)-1]
	if err := json.Unmarshal(last.Body, &body); err != nil {
		b.t.Fatal(err)
	}
	return body, last.Chat.Messages[0].Text()
}

func TestFlagsReachTheModel(t *testing.T) {
	b := newBox(t)
	b.answers(6)
	b.run("run", "-m", "deepseek/deepseek-v4-pro", "--effort", "low", "--max-tokens", "99", "x").want(t, 0, "ok\n")
	body, system := b.request()
	if body["model"] != "deepseek-v4-pro" || body["max_tokens"] != 99.0 || body["reasoning_effort"] != "low" || !strings.Contains(system, b.dir) {
		t.Errorf("%v", body)
	}
	b.run("run", "--system-prompt", "You are a parrot.", "--append-system-prompt", "Be loud.", "x").want(t, 0, "ok\n")
	if _, system = b.request(); !strings.HasPrefix(system, "You are a parrot.") || !strings.HasSuffix(system, "Be loud.") {
		t.Errorf("system prompt: %s", system)
	}
	b.env["DSH_MODEL"] = "deepseek/deepseek-v4-pro"
	b.run("run", "x").want(t, 0, "ok\n")
	if body, _ = b.request(); body["model"] != "deepseek-v4-pro" {
		t.Errorf("DSH_MODEL: %v", body["model"])
	}
	b.run("run", "-m", "deepseek-v4-flash", "x").want(t, 0, "ok\n")
	if body, _ = b.request(); body["model"] != "deepseek-v4-flash" {
		t.Errorf("--model over DSH_MODEL: %v", body["model"])
	}
	// A session goes on with its own model, unless another is named.
	b.run("-c", "x").want(t, 0, "ok\n")
	if body, _ = b.request(); body["model"] != "deepseek-v4-flash" {
		t.Errorf("resumed: %v", body["model"])
	}
	b.run("-c", "-m", "deepseek-v4-pro", "x").want(t, 0, "ok\n")
	if body, _ = b.request(); body["model"] != "deepseek-v4-pro" {
		t.Errorf("resumed with --model: %v", body["model"])
	}
}

func TestTheFolderIsTheOneThatWasNamed(t *testing.T) {
	b := newBox(t)
	other := b.in("other")
	other.write("a.txt", "in the other folder\n")
	b.llm.Script(testllm.Calls(testllm.Call{Name: "read", Arguments: `{"file_path":"a.txt"}`}), testllm.Text("ok"))
	b.run("run", "-C", other.dir, "x").want(t, 0, "ok\n")
	messages := b.llm.Requests()[1].Chat.Messages
	if got := messages[len(messages)-1].Text(); !strings.Contains(got, "in the other folder") {
		t.Error(got)
	}
	if len(b.listed()) != 0 || len(other.listed()) != 1 {
		t.Error("the session does not belong to the folder that was named")
	}
}

func TestThePermissionModeIsWhatFlagEnvironmentAndConfigurationSay(t *testing.T) {
	b := newBox(t)
	try := func(want int, args ...string) {
		t.Helper()
		b.llm.Script(testllm.Calls(testllm.Call{Name: "write", Arguments: `{"file_path":".envrc","content":"x"}`}), testllm.Text("ok"))
		if o := b.run(append([]string{"run", "x"}, args...)...); o.code != want {
			t.Errorf("%v: %+v", args, o)
		}
	}
	try(3)                                   // it is a control file
	try(0, "--permission-mode", "read-only") // it is denied: nobody has to be asked
	try(0, "--set", "permission-mode.mode=read-only")
	b.env["DSH_PERMISSION_MODE"] = "read-only"
	try(0)
	try(3, "--permission-mode", "ask")
}

func TestDiagnosticsGoWhereTheyWereSent(t *testing.T) {
	b := newBox(t)
	b.write("a.txt", "text\n")
	b.llm.Script(testllm.Calls(testllm.Call{Name: "read", Arguments: `{"file_path":"a.txt"}`}), testllm.Text("ok"))
	b.run("run", "-v", "x").want(t, 0, "ok\n", "→ read a.txt")

	file := filepath.Join(b.dir, "diagnostics.log")
	b.answers(1)
	b.run("run", "--log-file", file, "--set", "extra={plugin: llm-replay, config: {file: nope.yml}}", "x").want(t, 0, "ok\n", "extra failed")
	for line := range strings.Lines(string(b.read(file))) {
		var entry struct{ Msg, Level string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.Msg == "" || entry.Level == "" {
			t.Errorf("%v in %s", err, line)
		}
	}
	if !strings.Contains(string(b.read(file)), "nope.yml") {
		t.Errorf("the file lacks the failure:\n%s", b.read(file))
	}
	b.run("run", "--log-file", filepath.Join(b.dir, "no", "such", "folder"), "x").want(t, 2, "", "open the log file")
}
