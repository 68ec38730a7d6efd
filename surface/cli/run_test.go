package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dsh-harness/dsh/internal/testllm"
)

func TestRunPrintsTheAnswerAndNothingElse(t *testing.T) {
	b := newBox(t)
	b.llm.Script(testllm.Answer{Reasoning: "hm", Text: "hello\n\n"}.Turn())
	b.run("run", "say", "hello").want(t, 0, "hello\n")
	if got := b.lastUser(); got != "say hello" {
		t.Errorf("the prompt was %q", got)
	}
	b.sent(1) // no request but the conversation's own
}

func TestPromptSources(t *testing.T) {
	b := newBox(t)
	task := b.write("task.md", "\ufefffrom a file\n")
	for _, test := range []struct {
		name  string
		stdin string
		args  []string
		want  string
	}{
		{"arguments", "", []string{"run", "one", "two"}, "one two"},
		{"print", "", []string{"-p", "one"}, "one"},
		{"print behind other flags", "", []string{"--effort", "low", "-p", "one"}, "one"},
		{"print with its long name", "", []string{"--print", "one"}, "one"},
		{"print behind the prompt", "", []string{"run", "one", "-p"}, "one"},
		{"a command's name as prompt", "", []string{"-p", "demo"}, "demo"},
		{"dashes behind --", "", []string{"run", "--", "-x"}, "-x"},
		{"pipe", "piped\n", []string{"run"}, "piped"},
		{"file", "", []string{"run", "--file", task}, "from a file"},
		{"standard input as file", "piped", []string{"run", "first", "-f", "-"}, "first\n\npiped"},
		{"all", "piped\n", []string{"run", "first", "--file", task}, "first\n\nfrom a file\n\npiped"},
		{"blank pipe", "\n\n", []string{"run", "first"}, "first"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b.llm.Script(testllm.Text("ok"))
			b.pipe(test.stdin, test.args...).want(t, 0, "ok\n")
			if got := b.lastUser(); got != test.want {
				t.Errorf("the prompt was %q, want %q", got, test.want)
			}
		})
	}
}

func TestAFileOnStandardInputCountsAlways(t *testing.T) {
	b := newBox(t)
	b.llm.Script(testllm.Text("ok"))
	in, err := os.Open(b.write("in.txt", "from the file"))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	cmd, cancel := b.command("run", "first")
	defer cancel()
	cmd.Stdin = in
	b.finish(cmd).want(t, 0, "ok\n")
	if got := b.lastUser(); got != "first\n\nfrom the file" {
		t.Errorf("the prompt was %q", got)
	}
}

// An open pipe that says nothing is one that a script inherited: the prompt does not wait for its end.
func TestCase_o_acp_03_AnOpenPipeDoesNotHoldAPromptUp(t *testing.T) {
	b := newBox(t)
	silent := func(args ...string) outcome {
		cmd, cancel := b.command(args...)
		defer cancel()
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		defer w.Close() // only when the run is over
		cmd.Stdin = r
		began := time.Now()
		o := b.finish(cmd)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("it took %v", took)
		}
		return o
	}
	b.llm.Script(testllm.Text("ok"), testllm.Text("ok"), testllm.Text("ok"))
	silent("-p", "hi").want(t, 0, "ok\n")

	closed, cancel := b.command("-p", "hi")
	defer cancel()
	closed.Path, closed.Args = "/bin/sh", []string{"sh", "-c", `exec "$0" "$@" <&-`, binary, "-p", "hi"}
	b.finish(closed).want(t, 0, "ok\n")

	b.pipe("extra\n", "-p", "hi").want(t, 0, "ok\n")
	if got := b.lastUser(); got != "hi\n\nextra" {
		t.Errorf("the prompt was %q", got)
	}

	delete(b.env, "DEEPSEEK_API_KEY")
	silent("-p", "hi").want(t, 2, "", "DEEPSEEK_API_KEY")
	b.sent(3)
}

// object is the object that the JSON formats end with.
type object struct {
	SessionID  string           `json:"sessionId"`
	Reason     string           `json:"reason"`
	Result     string           `json:"result"`
	Usage      map[string]int64 `json:"usage"`
	Cost       *float64         `json:"cost"`
	Steps      int              `json:"steps"`
	DurationMS int64            `json:"durationMs"`
	Denied     []struct {
		CallID string `json:"callId"`
		Tool   string `json:"tool"`
	} `json:"denied"`
	Error *struct {
		Code    string `json:"code"`
		Message string `json:"message"`
		Status  int    `json:"status"`
	} `json:"error"`
}

// decode reads an object strictly.
func decode(t *testing.T, line string) object {
	t.Helper()
	var o object
	d := json.NewDecoder(strings.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&o); err != nil {
		t.Fatalf("%v in %q", err, line)
	}
	return o
}

func TestJSONIsOneObject(t *testing.T) {
	b := newBox(t)
	b.write("a.txt", "text\n")
	b.llm.Script(
		testllm.Calls(testllm.Call{Name: "read", Arguments: `{"file_path":"a.txt"}`}),
		testllm.Answer{Text: "done", Usage: `{"prompt_tokens":100,"completion_tokens":7,"prompt_cache_hit_tokens":60,"prompt_cache_miss_tokens":40}`}.Turn(),
	)
	prices := b.write("prices.yml", `- id: deepseek
  config: {models: [{id: deepseek-v4-flash, price: {input: 1, output: 2, cacheRead: 0.5}}]}
`)
	out := b.run("run", "--output-format", "json", "--patch", prices, "--session-id", "mine", "go")
	if out.code != 0 || out.stderr != "" || strings.Count(out.stdout, "\n") != 1 {
		t.Fatalf("%+v", out)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(out.stdout), &members); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sessionId", "reason", "result", "usage", "cost", "steps", "durationMs", "denied"} {
		if members[name] == nil {
			t.Errorf("there is no %s", name)
		}
	}
	if members["error"] != nil {
		t.Errorf("error is %s", members["error"])
	}
	got := decode(t, out.stdout)
	if got.Cost == nil || fmt.Sprintf("%.8f", *got.Cost) != "0.00010400" { // 50 input, 12 output and 60 read from the cache, for 1, 2 and 0.5 dollars a million
		t.Errorf("cost %v", got.Cost)
	}
	want := object{SessionID: "mine", Reason: "completed", Result: "done", Steps: 2,
		Usage: map[string]int64{"input": 50, "output": 12, "cacheRead": 60}, Cost: got.Cost, DurationMS: got.DurationMS}
	want.Denied = got.Denied
	if diff := cmp.Diff(want, got); diff != "" || got.Denied == nil || len(got.Denied) != 0 {
		t.Error(diff)
	}
}

func TestJSONCostIsNullWhenNobodyKnowsIt(t *testing.T) {
	b := newBox(t)
	b.llm.Script(testllm.Text("ok"))
	out := b.run("run", "--output-format", "json", "go")
	if !strings.Contains(out.stdout, `"cost":null`) {
		t.Error(out.stdout)
	}
}

func TestStreamJSONIsTheLogAndThenTheObject(t *testing.T) {
	b := newBox(t)
	b.write("a.txt", "text\n")
	b.llm.Script(testllm.Calls(testllm.Call{Name: "read", Arguments: `{"file_path":"a.txt"}`}), testllm.Text("done"))
	out := b.run("run", "--output-format", "stream-json", "--session-id", "s1", "go")
	if out.code != 0 || out.stderr != "" {
		t.Fatalf("%+v", out)
	}
	lines := strings.SplitAfter(strings.TrimSuffix(out.stdout, "\n"), "\n")
	last := decode(t, lines[len(lines)-1])
	if last.Reason != "completed" || last.Result != "done" {
		t.Errorf("%+v", last)
	}
	log, err := os.ReadFile(filepath.Join(b.home, "state", "sessions", "s1", "log.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	_, events, _ := strings.Cut(string(log), "\n")
	if streamed := strings.Join(lines[:len(lines)-1], ""); !strings.HasPrefix(events, streamed) || !strings.Contains(streamed, `"turn/end"`) {
		t.Errorf("the stream is not the log:\n%s", cmp.Diff(events, streamed))
	}
}

func TestStreamJSONOfAResumedSessionBeginsWhereTheLogEnded(t *testing.T) {
	b := newBox(t)
	b.llm.Script(testllm.Text("one"), testllm.Text("two"))
	first := b.run("run", "--output-format", "stream-json", "1")
	second := b.run("run", "--output-format", "stream-json", "-c", "2")
	seq := -1
	for _, out := range []outcome{first, second} {
		lines := strings.Split(strings.TrimSpace(out.stdout), "\n")
		for _, line := range lines[:len(lines)-1] {
			var e struct{ Seq int }
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatal(err)
			}
			if e.Seq != seq+1 && (e.Seq <= seq || seq < 0) {
				t.Errorf("event %d follows on %d", e.Seq, seq)
			}
			seq = e.Seq
		}
	}
	if a, b := decode(t, last(first.stdout)), decode(t, last(second.stdout)); a.SessionID != b.SessionID || b.Steps != 1 {
		t.Errorf("%+v, then %+v", a, b)
	}
}

func last(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

func TestAStreamThatNobodyReadsEndsTheTurn(t *testing.T) {
	b := newBox(t)
	gone := make(chan struct{})
	turn := testllm.Text("to nobody")
	turn.Wait = gone
	b.llm.Script(turn)
	cmd, cancel := b.command("run", "--output-format", "stream-json", "go")
	defer cancel()
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b.await(1)
	if err := pipe.Close(); err != nil {
		t.Fatal(err)
	}
	close(gone)
	err = cmd.Wait()
	b.outcome(cmd, err, &bytes.Buffer{}, &stderr).want(t, 1, "", "write to standard output")
}
