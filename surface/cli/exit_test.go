package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dsh-harness/dsh/internal/testllm"
)

var lookAtOutside = testllm.Calls(testllm.Call{Name: "write", Arguments: `{"file_path":"new.txt","content":"x"}`})
var changeControl = testllm.Calls(testllm.Call{Name: "write", Arguments: `{"file_path":".git/config","content":"x"}`})

func TestExitCodes(t *testing.T) {
	for _, test := range []struct {
		name   string
		script []testllm.Turn
		args   []string
		code   int
		stdout string
		stderr []string
		reason string
	}{
		{
			name: "completed", script: []testllm.Turn{testllm.Text("ok")},
			code: 0, stdout: "ok\n", reason: "completed",
		},
		{
			name: "a refused key", script: []testllm.Turn{testllm.Fail(401, "no such key")},
			code: 1, stderr: []string{"deepseek", "DEEPSEEK_API_KEY"}, reason: "error",
		},
		{
			name: "no credit", script: []testllm.Turn{testllm.Fail(402, "Insufficient Balance")},
			code: 1, stderr: []string{"deepseek", "Insufficient Balance"}, reason: "error",
		},
		{
			name: "an invalid request", script: []testllm.Turn{testllm.Fail(400, "the parameter is odd")},
			code: 1, stderr: []string{"the parameter is odd"}, reason: "error",
		},
		{
			name: "nobody could approve", script: []testllm.Turn{lookAtOutside, testllm.Text("so be it")},
			args: []string{"--permission-mode", "ask"},
			code: 3, stdout: "so be it\n", stderr: []string{"nobody could approve write (c1_1_0)", "--permission-mode"}, reason: "completed",
		},
		{
			name: "no mode allows it", script: []testllm.Turn{changeControl, testllm.Text("so be it")},
			args: []string{"--permission-mode", "full-access"},
			code: 3, stdout: "so be it\n", reason: "completed",
			stderr: []string{"nobody could approve write (c1_1_0): ", "is a control file", "no permission mode allows it"},
		},
		{
			name: "denied by the mode, which asks nobody", script: []testllm.Turn{lookAtOutside, testllm.Text("so be it")},
			args: []string{"--permission-mode", "read-only"},
			code: 0, stdout: "so be it\n", reason: "completed",
		},
		{
			name: "steps", script: []testllm.Turn{testllm.Calls(testllm.Call{Name: "read", Arguments: `{"file_path":"a.txt"}`})},
			args: []string{"--max-steps", "1"},
			code: 4, stderr: []string{"limit: steps"}, reason: "budget",
		},
		{
			name: "time", script: []testllm.Turn{{Status: 200, End: testllm.Hold}},
			args: []string{"--timeout", "200ms"},
			code: 4, stderr: []string{"limit: time"}, reason: "budget",
		},
		{
			name: "output ceiling", script: []testllm.Turn{testllm.Answer{Text: "half an ans", Finish: "length"}.Turn()},
			code: 4, stdout: "half an ans\n", stderr: []string{"output ceiling"}, reason: "max-tokens",
		},
		{
			name: "a limit before an approval", script: []testllm.Turn{lookAtOutside},
			args: []string{"--permission-mode", "ask", "--max-steps", "1"},
			code: 4, stderr: []string{"limit: steps"}, reason: "budget",
		},
		{
			name: "an error before an approval", script: []testllm.Turn{lookAtOutside, testllm.Fail(401, "no such key")},
			args: []string{"--permission-mode", "ask"},
			code: 1, stderr: []string{"DEEPSEEK_API_KEY"}, reason: "error",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			b.write("a.txt", "text\n")
			b.llm.Script(test.script...)
			b.run(append([]string{"run", "go"}, test.args...)...).want(t, test.code, test.stdout, test.stderr...)

			b = newBox(t)
			b.write("a.txt", "text\n")
			b.llm.Script(test.script...)
			out := b.run(append([]string{"run", "--output-format", "json", "go"}, test.args...)...)
			got := decode(t, out.stdout)
			if out.code != test.code || got.Reason != test.reason {
				t.Errorf("as JSON: exit %d, reason %s, want %d, %s", out.code, got.Reason, test.code, test.reason)
			}
			if (got.Error != nil) != (test.reason == "error") {
				t.Errorf("as JSON: error is %+v", got.Error)
			}
			if strings.Contains(test.name, "approv") && (len(got.Denied) != 1 || got.Denied[0].Tool != "write" || got.Denied[0].CallID != "c1_1_0") {
				t.Errorf("denied: %+v", got.Denied)
			}
		})
	}
}

// Wrong use is said in one line, with what was meant, before anything is sent or stored.
func TestBadInputIsSaidBeforeAnythingIsSent(t *testing.T) {
	for _, test := range []struct {
		name  string
		args  []string
		files map[string]string
		env   map[string]string
		want  string
	}{
		{"unknown command", []string{"rnu", "x"}, nil, nil, `dsh: unknown command "rnu" for "dsh": did you mean "dsh run"?`},
		{"a task without run", []string{"fix the test"}, nil, nil, `dsh: unknown command "fix the test" for "dsh": a task is given with "dsh run"`},
		{"unknown subcommand", []string{"sessions", "lst"}, nil, nil, `dsh: unknown command "lst" for "dsh sessions": did you mean "dsh sessions list"?`},
		{"unknown topic", []string{"help", "rnu"}, nil, nil, `dsh: unknown command "rnu" for "dsh": did you mean "dsh run"?`},
		{"unknown flag", []string{"run", "--modle", "x"}, nil, nil, `dsh: unknown flag --modle for "dsh run": did you mean --model?`},
		{"unknown short flag", []string{"run", "-y"}, nil, nil, `dsh: unknown flag -y for "dsh run": see "dsh run --help"`},
		{"flag without value", []string{"run", "--model"}, nil, nil, `dsh: flag needs an argument: --model`},
		{"no number", []string{"run", "--max-steps", "many", "x"}, nil, nil, `dsh: invalid argument "many" for "--max-steps" flag: strconv.ParseInt: parsing "many": invalid syntax`},
		{"negative", []string{"run", "--max-steps", "-1", "x"}, nil, nil, `dsh: --max-steps, --max-tokens and --timeout must be above 0`},
		{"no prompt", []string{"run"}, nil, nil, `dsh: there is no prompt: give it as an argument, with --file, or on standard input, as in dsh run "fix the failing test"`},
		{"no such prompt", []string{"run", "--file", "nope.md"}, nil, nil, `dsh: read the prompt: open nope.md: no such file or directory`},
		{"unknown format", []string{"run", "--output-format", "jsn", "x"}, nil, nil, `dsh: unknown output format "jsn": did you mean "json"?`},
		{"unknown mode", []string{"run", "--permission-mode", "plann", "x"}, nil, nil, `dsh: unknown permission mode "plann": did you mean "plan"?`},
		{"unknown profile", []string{"run", "--profile", "headles", "x"}, nil, nil, `dsh: unknown profile "headles": did you mean "headless"?`},
		{"unknown model", []string{"run", "-m", "deepseek-v4-flsh", "x"}, nil, nil, `dsh: unknown model "deepseek-v4-flsh"; did you mean deepseek/deepseek-v4-flash?`},
		{"unknown model in the environment", []string{"run", "x"}, nil, map[string]string{"DSH_MODEL": "nope/x"}, `dsh: unknown provider "nope"; there are deepseek, openai`},
		{"unknown effort", []string{"run", "--effort", "huge", "x"}, nil, nil, `dsh: deepseek/deepseek-v4-flash has no reasoning effort "huge"; choose one of off, low, high, max`},
		{"missing key", []string{"run", "x"}, nil, map[string]string{"DEEPSEEK_API_KEY": ""}, `dsh: deepseek needs a key: set the environment variable DEEPSEEK_API_KEY (get one at https://platform.deepseek.com/api_keys)`},
		{"bad session id", []string{"run", "--session-id", "../x", "x"}, nil, nil, `dsh: --session-id: "../x" cannot name a session: use 1 to 128 of A-Z a-z 0-9 . _ -, the first no dot`},
		{"no such session", []string{"run", "-r", "nope", "x"}, nil, nil, `dsh: session nope: there is no session of that id; see dsh sessions list --all`},
		{"no session to go on with", []string{"-c", "x"}, nil, nil, `dsh: no session was started in $DIR: begin one with dsh run, or see dsh sessions list --all`},
		{"continue and resume", []string{"run", "-c", "-r", "x", "y"}, nil, nil, `dsh: --continue and --resume exclude each other: the one means the last session, the other names one`},
		{"fork of nothing", []string{"run", "--fork", "x"}, nil, nil, `dsh: --fork goes with --continue or --resume: it says to work on a copy of that session`},
		{"no such folder", []string{"run", "-C", "nope", "x"}, nil, nil, `dsh: work in $DIR/nope: no such file or directory`},
		{"no such patch", []string{"run", "--patch", "nope.yml", "x"}, nil, nil, `dsh: $DIR/nope.yml: cannot read the configuration: no such file or directory`},
		{"unknown key", []string{"run", "--patch", "p.yml", "x"}, map[string]string{"p.yml": "- id: deepseek\n  config:\n    basURL: x\n"}, nil, `dsh: $DIR/p.yml:3:5: deepseek: unknown key "basURL"; did you mean "baseURL"?`},
		{"wrong type", []string{"run", "--patch", "p.yml", "x"}, map[string]string{"p.yml": "- id: deepseek\n  config: {exact: perhaps}\n"}, nil, `dsh: $DIR/p.yml:2:19: deepseek.exact: expected true or false, found the text "perhaps"`},
		{"unknown plugin", []string{"run", "--patch", "p.yml", "x"}, map[string]string{"p.yml": "- id: mine\n  plugin: llm-opnai\n"}, nil, `dsh: $DIR/p.yml:2:11: mine: unknown plugin "llm-opnai"; did you mean "llm-openai"?`},
		{"unknown row", []string{"run", "--set", "deepsek.name=x", "x"}, nil, nil, `dsh: --set deepsek.name: deepsek: a new row needs a plugin, and no layer below has this row; did you mean "deepseek"?`},
		{"broken YAML", []string{"run", "--patch", "p.yml", "x"}, map[string]string{"p.yml": "- id: [\n"}, nil, `dsh: $DIR/p.yml:`},
		{"unknown plugin to show", []string{"plugins", "show", "tool"}, nil, nil, `dsh: unknown plugin "tool": did you mean "tools"?`},
		{"too few arguments", []string{"sessions", "show"}, nil, nil, `dsh: "dsh sessions show" got 0 arguments instead of 1: dsh sessions show <id> [flags]`},
		{"a relative home", []string{"run", "x"}, nil, map[string]string{"DSH_HOME": "here"}, `dsh: find dsh's folders: DSH_HOME is "here": it must be an absolute path`},
		{"a control character", []string{"run", "-m", "a\x1b[31m/x", "x"}, nil, nil, `dsh: unknown provider`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			for name, text := range test.files {
				b.write(name, text)
			}
			for name, value := range test.env {
				b.env[name] = value
			}
			dir, err := filepath.EvalSymlinks(b.dir)
			if err != nil {
				t.Fatal(err)
			}
			o := b.run(test.args...)
			got := strings.TrimSuffix(strings.ReplaceAll(strings.ReplaceAll(o.stderr, b.dir, "$DIR"), dir, "$DIR"), "\n")
			if o.code != 2 || o.stdout != "" || strings.Contains(got, "\n") || strings.Contains(got, "\x1b") || !strings.HasPrefix(got, test.want) {
				t.Errorf("exit %d, stdout %q, stderr\n%s\nwant\n%s", o.code, o.stdout, got, test.want)
			}
			if len(test.want) > 40 && got != test.want {
				t.Errorf("stderr\n%s\nwant\n%s", got, test.want)
			}
			b.sent(0)
			if entries, err := os.ReadDir(filepath.Join(b.home, "state", "sessions")); err == nil && len(entries) > 0 {
				t.Errorf("a session was stored: %v", entries)
			}
		})
	}
}

func TestWrongUseIsAnObjectForPrograms(t *testing.T) {
	b := newBox(t)
	b.env["DEEPSEEK_API_KEY"] = ""
	out := b.run("run", "--output-format", "json", "x")
	if got := decode(t, out.stdout); out.code != 2 || got.Error == nil || got.Error.Code != "missing-key" || got.Reason != "error" {
		t.Errorf("%+v", out)
	}
	out = b.run("run", "--output-format", "json", "-c", "-r", "x", "y")
	if got := decode(t, out.stdout); out.code != 2 || got.Error == nil || got.Error.Code != "usage" {
		t.Errorf("%+v", out)
	}
	out = b.run("run", "--output-format", "stream-json", "--set", "deepseek.x=1", "x")
	if got := decode(t, out.stdout); out.code != 2 || got.Error == nil || got.Error.Code != "config" {
		t.Errorf("%+v", out)
	}
}

func TestAServerThatIsDownIsSaidWithTheCause(t *testing.T) {
	b := newBox(t)
	b.env["DEEPSEEK_BASE_URL"] = "http://127.0.0.1:1/v1"
	o := b.run("run", "--set", "llm-retry.disabled=true", "x")
	o.want(t, 1, "", "127.0.0.1:1", "connection refused")
	if strings.Count(o.stderr, "\n") != 1 {
		t.Errorf("stderr has more than a line:\n%s", o.stderr)
	}
}

func TestRetriesAreSaid(t *testing.T) {
	b := newBox(t)
	b.env["DEEPSEEK_BASE_URL"] = "http://127.0.0.1:1/v1"
	for _, test := range []struct {
		name  string
		args  []string
		lines string // of stderr but the last
	}{
		{"text", nil, "connection refused"},
		{"json", []string{"--output-format", "json"}, ""},
		{"json, verbose", []string{"--output-format", "json", "-v"}, "connection refused"},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := b.run(append([]string{"run", "--timeout", "1s", "--set", "llm-retry.initialDelay=400ms", "x"}, test.args...)...)
			lines := strings.SplitAfter(strings.TrimSuffix(o.stderr, "\n"), "\n")
			last, before := lines[len(lines)-1], strings.Join(lines[:len(lines)-1], "")
			if o.code != 4 || !strings.Contains(last, "limit: time; the last request had failed: deepseek: ") || !strings.Contains(last, "connection refused") {
				t.Errorf("exit %d, the last line is %q", o.code, last)
			}
			if (before == "") != (test.lines == "") || !strings.Contains(before, test.lines) {
				t.Errorf("before the last line: %q", before)
			}
		})
	}
	// A failure that was got over is not what ended the turn.
	b = newBox(t)
	b.llm.Script(testllm.Fail(503, "busy"), testllm.Calls(testllm.Call{Name: "glob", Arguments: `{"pattern":"*"}`}))
	o := b.run("run", "--max-steps", "1", "--set", "llm-retry.initialDelay=10ms", "x")
	o.want(t, 4, "", "busy", "trying again in", "limit: steps")
	if strings.Contains(o.stderr, "had failed") {
		t.Error(o.stderr)
	}
}

func TestBareDshSaysWhatToType(t *testing.T) {
	b := newBox(t)
	b.run().want(t, 2, "", "dsh demo", "dsh run", "no terminal: give a command")
}
