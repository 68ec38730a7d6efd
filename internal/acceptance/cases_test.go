//go:build unix

package acceptance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dsh-harness/dsh/internal/testllm"
)

func TestCase_o_str_01_CallsWithoutIndex(t *testing.T) {
	p := newPlace(t)
	p.file("a.txt", "alpha\n")
	p.file("b.txt", "beta\n")
	p.play("o-str-01")
	if o := p.run("read both"); o.Code != 0 {
		t.Fatalf("exit %d: %s", o.Code, o.Stderr)
	}
	second := p.requests(2)[1]
	all, res := calls(second), results(second)
	if len(all) != 2 || all[0].ID != "call_a" || all[1].ID != "call_b" {
		t.Fatalf("the calls are %+v", all)
	}
	if *all[0].Function.Arguments != `{"file_path":"a.txt"}` || *all[1].Function.Arguments != `{"file_path":"b.txt"}` {
		t.Errorf("the arguments are %s and %s", *all[0].Function.Arguments, *all[1].Function.Arguments)
	}
	if !strings.Contains(res["call_a"], "alpha") || !strings.Contains(res["call_b"], "beta") {
		t.Errorf("the results are %q", res)
	}
}

func TestCase_o_str_02_CRLFCutInTwo(t *testing.T) {
	p := newPlace(t)
	p.play("o-str-02")
	p.ok(p.run("hi"), "Hello world")
	p.requests(1)
	if !strings.Contains(p.log(), `"usage":{"input":10,"output":5}`) {
		t.Error("the usage 10/5 is not in the log")
	}
}

func TestCase_o_str_03_CommentsAndSplitData(t *testing.T) {
	p := newPlace(t)
	p.play("o-str-03")
	p.ok(p.run("hi"), "one two three")
	p.requests(1)
}

func TestCase_o_str_04_ChineseOneByteAtATime(t *testing.T) {
	p := newPlace(t)
	p.play("o-str-04")
	p.ok(p.run("hi"), "修复方法：平台适配")
	p.srv.Script(testllm.Text("next"))
	p.ok(p.run("-c", "more"), "next")
	if strings.Contains(p.log(), "\uFFFD") || strings.Contains(string(p.requests(2)[1].Body), "\uFFFD") {
		t.Error("there is a replacement character in the log or the next request")
	}
}

func TestCase_o_str_05_UsageAfterTheFinish(t *testing.T) {
	p := newPlace(t)
	p.play("o-str-05")
	o := p.run("--output-format", "json", "hi")
	var result struct{ Usage struct{ Input, Output int64 } }
	check(t, json.Unmarshal([]byte(o.Stdout), &result))
	if o.Code != 0 || result.Usage.Input != 1234 || result.Usage.Output != 56 {
		t.Errorf("exit %d, usage %+v, want 1234 and 56", o.Code, result.Usage)
	}
	if n := strings.Count(p.log(), `"usage":`); n != 1 {
		t.Errorf("the usage is in the log %d times", n)
	}
}

func TestCase_o_str_06_ReasoningGoesBack(t *testing.T) {
	p := newPlace(t)
	p.file("a.txt", "alpha\n")
	p.srv.Strict(testllm.Rules{Alternate: true, Reasoning: true})
	p.play("o-str-06")
	if o := p.run("think"); o.Code != 0 {
		t.Fatalf("exit %d: %s", o.Code, o.Stderr)
	}
	p.ok(p.run("-c", "again"), "ok") // the case has an answer for the resumed session too
	for i, r := range p.requests(3)[1:] {
		found := false
		for _, m := range r.Chat.Messages {
			if len(m.ToolCalls) > 0 {
				found = m.Reasoning != nil && *m.Reasoning == "think A"
			}
		}
		if !found {
			t.Errorf("request %d lost the reasoning: %s", i+2, r.Body)
		}
	}
}

func TestCase_o_str_07_OutputLimitInsideAWrite(t *testing.T) {
	p := newPlace(t)
	p.play("o-str-07")
	o := p.run("--output-format", "json", "write it")
	if p.has("README.md") {
		t.Error("half a file was written")
	}
	if n := len(p.srv.Requests()); n > 4 {
		t.Errorf("the model was asked %d times", n)
	}
	second := p.srv.Requests()[1]
	if res := results(second); !strings.Contains(res["call_w"], "output limit") {
		t.Errorf("the model was told %q", res)
	}
	if !strings.Contains(o.Stdout, "max-tokens") && !strings.Contains(o.Stdout, "output limit") {
		t.Errorf("the end does not name the limit: %s", o.Stdout)
	}
}

func TestCase_o_str_08_AStreamTurnsIntoAnError(t *testing.T) {
	p := newPlace(t)
	p.play("o-str-08")
	p.ok(p.run("hi"), "whole")
	second := p.requests(2)[1]
	for _, m := range second.Chat.Messages {
		if m.Role == "assistant" {
			t.Errorf("the second request holds the partial text: %s", second.Body)
		}
	}

	// When no retry is left the turn is not complete, what the provider said is shown, and the text is marked.
	c, err := testllm.LoadCase("o-str-08")
	check(t, err)
	c.Turns, c.RepeatLast = c.Turns[:1], true
	p.srv.Play(c)
	if o := p.run("-c", "--set", "llm-retry.maxAttempts=2", "hi"); o.Code != 1 || !strings.Contains(o.Stderr, "overloaded") {
		t.Errorf("exit %d: %s", o.Code, o.Stderr)
	}
	p.requests(4)
	if !strings.Contains(p.log(), `"interrupted":true`) {
		t.Error("the partial text is not marked in the log")
	}
}

func TestCase_o_str_09_AGatewayAnswersWithAPage(t *testing.T) {
	p := newPlace(t)
	p.play("o-str-09")
	if o := p.run("hi"); o.Code != 0 {
		t.Fatalf("exit %d: %s", o.Code, o.Stderr)
	}
	p.requests(2)
	if strings.Contains(p.log(), "<html") || strings.Contains(p.log(), "\\u003chtml") {
		t.Error("the page is in the log")
	}

	q := &place{t: t, home: filepath.Join(p.home, "2"), work: p.work, srv: testllm.New(t)}
	c, err := testllm.LoadCase("o-str-09")
	check(t, err)
	c.Turns, c.RepeatLast = c.Turns[:1], true
	q.srv.Play(c)
	o := q.run("--set", "llm-retry.maxAttempts=2", "hi")
	if o.Code != 1 || strings.Contains(o.Stderr, "<") || len(o.Stderr) > 400 {
		t.Errorf("exit %d, stderr of %d bytes: %s", o.Code, len(o.Stderr), o.Stderr)
	}
}

func TestCase_o_str_10_RetryAfter(t *testing.T) {
	for name, header := range map[string][2]string{
		"date":         {"retry-after", "@NOW+3@"},
		"seconds":      {"retry-after", "2"},
		"milliseconds": {"retry-after-ms", "1800"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			refused := testllm.Fail(429, "rate limited")
			if refused.Header == nil {
				refused.Header = map[string]string{}
			}
			refused.Header[header[0]] = header[1]
			p.srv.Script(refused, testllm.Text("ok"))
			p.ok(p.run("hi"), "ok")
			r := p.requests(2)
			if waited := r[1].Time.Sub(r[0].Time); waited < 1500*time.Millisecond || waited > 6*time.Second {
				t.Errorf("the second request came after %v", waited)
			}
		})
	}
}

func TestCase_o_str_11_AStreamGoesSilent(t *testing.T) {
	p := newPlace(t)
	p.play("o-str-11")
	o := p.run("--set", "deepseek.idleTimeout=1s", "hi")
	p.ok(o, "ok")
	if o.Took > 10*time.Second {
		t.Errorf("it took %v", o.Took)
	}
	p.requests(2)
}

func TestCase_o_str_11_CancelInTheSilence(t *testing.T) {
	p := newPlace(t)
	p.play("o-str-11")
	l := p.start("hi")
	l.event("assistant/chunk")
	if code, took := l.signal(syscall.SIGINT); code != 130 || took > time.Second {
		t.Errorf("exit %d after %v: %s", code, took, l.stderr.String())
	}
	p.requests(1)
}

func TestCase_o_str_12_TheBodyEndsWithoutAFinish(t *testing.T) {
	for _, end := range []testllm.End{testllm.Close, testllm.Reset} {
		t.Run(string(end), func(t *testing.T) {
			p := newPlace(t)
			c, err := testllm.LoadCase("o-str-12")
			check(t, err)
			c.Turns[0].End = end
			p.srv.Play(c)
			if o := p.run("hi"); o.Code != 0 {
				t.Errorf("exit %d: %s", o.Code, o.Stderr)
			}
			p.requests(2)
			if p.has("ran") {
				t.Error("the call of a broken stream ran")
			}
		})
	}
}

func TestCase_o_str_13_StopWithCalls(t *testing.T) {
	p := newPlace(t)
	p.file("a.txt", "alpha\n")
	p.play("o-str-13")
	if o := p.run("hi"); o.Code != 0 {
		t.Fatalf("exit %d: %s", o.Code, o.Stderr)
	}
	if res := results(p.requests(2)[1]); len(res) != 1 {
		t.Errorf("the results are %q", res)
	}
}

func TestCase_o_str_14_ArgumentsInsideAString(t *testing.T) {
	p := newPlace(t)
	p.file("NOTES.md", "# Notes\n")
	p.play("o-str-14")
	if o := p.run("hi"); o.Code != 0 {
		t.Fatalf("exit %d: %s", o.Code, o.Stderr)
	}
	second := p.requests(2)[1]
	if res := results(second); !strings.Contains(res["call_1"], "NOTES.md") {
		t.Errorf("glob gave %q", res["call_1"])
	}
	argumentsAreObjects(t, second)
}

func argumentsAreObjects(t *testing.T, r testllm.Request) {
	t.Helper()
	all := calls(r)
	if len(all) == 0 {
		t.Error("the request holds no calls")
	}
	for _, c := range all {
		var object map[string]any
		if c.Function.Arguments == nil || json.Unmarshal([]byte(*c.Function.Arguments), &object) != nil {
			t.Errorf("the arguments of %s are no string that holds an object: %s", c.ID, r.Body)
		}
	}
}

func TestCase_o_str_15_IdsRestartEveryTurn(t *testing.T) {
	p := newPlace(t)
	p.play("o-str-15")
	if o := p.run("hi"); o.Code != 0 {
		t.Fatalf("exit %d: %s", o.Code, o.Stderr)
	}
	p.ok(p.run("-c", "again"), "ok") // the case has an answer for the resumed session too
	for _, r := range p.requests(4)[2:] {
		all, res := calls(r), results(r)
		if len(all) != 2 || all[0].ID == all[1].ID {
			t.Fatalf("the calls are %+v", all)
		}
		for i, want := range []string{"1", "2"} {
			if !strings.Contains(res[all[i].ID], want) {
				t.Errorf("call %d gave %q", i, res[all[i].ID])
			}
		}
	}
}

func TestCase_o_str_16_NoArguments(t *testing.T) {
	p := newPlace(t)
	p.play("o-str-16")
	if o := p.run("hi"); o.Code != 0 {
		t.Fatalf("exit %d: %s", o.Code, o.Stderr)
	}
	argumentsAreObjects(t, p.requests(2)[1])
}

func TestCase_o_his_01_InterruptDuringATool(t *testing.T) {
	p := newPlace(t)
	told := p.pipe("up")
	p.srv.Script(
		testllm.Calls(testllm.Call{ID: "call_1", Name: "bash", Arguments: `{"command":"echo begun; echo up > up; exec sleep 30"}`}),
		testllm.Text("resumed"),
	)
	l := p.start("hi")
	told()
	if code, took := l.signal(syscall.SIGINT); code != 130 || took > 5*time.Second {
		t.Errorf("exit %d after %v: %s", code, took, l.stderr.String())
	}
	p.ok(p.run("-c", "go on"), "resumed")
	if res := results(p.requests(2)[1])["call_1"]; !strings.Contains(res, "begun") || !strings.Contains(res, "canceled") {
		t.Errorf("the result is %q", res)
	}
}

func TestCase_o_his_02_InterruptWhileOnlyReasoningCame(t *testing.T) {
	p := newPlace(t)
	p.play("o-his-02")
	if o, _ := p.interrupted(syscall.SIGINT, "assistant/chunk", "hi"); o.Code != 130 {
		t.Errorf("exit %d: %s", o.Code, o.Stderr)
	}
	p.run("-c", "again")
	p.run("-c", "and again")
	for i, r := range p.requests(3)[1:] {
		for _, m := range r.Chat.Messages {
			if m.Role == "assistant" && m.Text() == "" && len(m.ToolCalls) == 0 {
				t.Errorf("request %d holds an empty assistant message: %s", i+2, r.Body)
			}
		}
	}
}

func TestCase_o_his_03_TwoPromptsInARow(t *testing.T) {
	p := newPlace(t)
	p.play("o-his-03")
	if o, _ := p.interrupted(syscall.SIGINT, atRequest, "one"); o.Code != 130 {
		t.Errorf("exit %d: %s", o.Code, o.Stderr)
	}
	p.ok(p.run("-c", "two"), "ok")
	all := p.srv.Requests()
	last := all[len(all)-1]
	roles, text := []string{}, ""
	for _, m := range last.Chat.Messages {
		roles = append(roles, m.Role)
		text += m.Text()
	}
	if strings.Contains(fmt.Sprint(roles), "user user") || roles[0] != "system" || strings.Count(fmt.Sprint(roles), "system") != 1 {
		t.Errorf("the roles are %v", roles)
	}
	if strings.Index(text, "one") > strings.Index(text, "two") || !strings.Contains(text, "one") {
		t.Errorf("the text is %q", text)
	}
}

func TestCase_o_his_04_TheGuardEndsATurn(t *testing.T) {
	p := newPlace(t)
	p.play("o-his-04")
	o := p.run("hi")
	if o.Code != 4 {
		t.Errorf("exit %d, want 4: %s", o.Code, o.Stderr)
	}
	if end := p.lastEnd(); end.Data.Reason != "budget" {
		t.Errorf("the turn ended %+v", end.Data)
	}
	n := len(p.srv.Requests())
	// The strict server refuses a request in which a call has no result.
	if o := p.run("-c", "stop that"); o.Code != 4 {
		t.Errorf("the next prompt: exit %d: %s", o.Code, o.Stderr)
	}
	if len(p.srv.Requests()) == n {
		t.Error("the next prompt reached nobody")
	}
}

func TestCase_o_his_07_AnUnknownToolAndASibling(t *testing.T) {
	p := newPlace(t)
	p.play("o-his-07")
	if o := p.run("hi"); o.Code != 0 {
		t.Fatalf("exit %d: %s", o.Code, o.Stderr)
	}
	res := results(p.requests(2)[1])
	if len(res) != 2 || !strings.Contains(res["c1"], "no_such_tool") || !strings.Contains(res["c2"], "ok") {
		t.Errorf("the results are %q", res)
	}
}

func TestBadInput_AServerThatIsDown(t *testing.T) {
	p := newPlace(t)
	p.srv = testllm.Start()
	p.srv.Close()
	o := p.run("--set", "llm-retry.maxAttempts=1", "hi")
	if o.Code != 1 || !strings.Contains(o.Stderr, "refused") || strings.Count(strings.TrimSpace(o.Stderr), "\n") > 0 {
		t.Errorf("exit %d: %s", o.Code, o.Stderr)
	}
}

func TestBadInput_ARefusedKey(t *testing.T) {
	p := newPlace(t)
	p.srv.Script(testllm.Fail(http.StatusUnauthorized, "invalid api key"))
	o := p.run("hi")
	if o.Code != 1 || !strings.Contains(o.Stderr, "DEEPSEEK_API_KEY") || strings.Contains(o.Stderr, "sk-test") {
		t.Errorf("exit %d: %s", o.Code, o.Stderr)
	}
	p.requests(1)
}
