//go:build unix

package acceptance

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dsh-harness/dsh/internal/testllm"
)

// count is how many events of that type the one session's log holds.
func (p *place) count(kind string) (n int) {
	p.t.Helper()
	for _, k := range p.types() {
		if k == kind {
			n++
		}
	}
	return n
}

func TestTrust_A02_RateLimitedFiveTimes(t *testing.T) {
	p := newPlace(t)
	const asked = 400 * time.Millisecond // Retry-After in seconds is o-str-10
	for range 5 {
		refused := testllm.Fail(429, "slow down")
		refused.Header["retry-after-ms"] = "400"
		p.srv.Script(refused)
	}
	p.srv.Script(testllm.Text("whole"))
	p.ok(p.run("hi"), "whole")
	all := p.requests(6)
	for i := range all[1:] {
		// It begins once the refusal has arrived; the rest is what this machine takes.
		if waited := all[i+1].Time.Sub(all[i].Time); waited < asked*8/10 || waited > asked*12/10+300*time.Millisecond {
			t.Errorf("wait %d took %v, want %v", i+1, waited, asked)
		}
	}
	if a, r := p.count("assistant/message"), p.count("llm/retry"); a != 1 || r != 5 {
		t.Errorf("the log holds %d answers and %d retries", a, r)
	}
}

func TestTrust_A02_AnInterruptEndsTheWait(t *testing.T) {
	p := newPlace(t)
	refused := testllm.Fail(429, "slow down")
	refused.Header["Retry-After"] = "30"
	p.srv.Script(refused)
	l := p.start("hi")
	l.event("llm/retry")
	if code, took := l.signal(syscall.SIGINT); code != 130 || took > time.Second {
		t.Errorf("exit %d after %v", code, took)
	}
	p.requests(1)
}

func TestTrust_A03_Stalls(t *testing.T) {
	for name, deltas := range map[string][]string{
		"at 0 bytes":       nil,
		"after deltas":     {`{"content":"half "}`, `{"content":"an answer"}`},
		"in the arguments": {`{"content":"half"}`, `{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"bash","arguments":"{\"command\":\"touch ran\"}"}}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			stalled := testllm.Stream("")
			for _, d := range deltas {
				stalled.Packets = append(stalled.Packets, []byte("data: {\"choices\":[{\"index\":0,\"delta\":"+d+"}]}\n\n"))
			}
			stalled.End = testllm.Hold
			p.srv.Script(stalled, testllm.Text("whole"))
			p.ok(p.run("--set", "deepseek.idleTimeout=200ms", "hi"), "whole")
			for _, m := range p.requests(2)[1].Chat.Messages {
				if strings.Contains(m.Text(), "half") {
					t.Errorf("the second request holds the first attempt: %q", m.Text())
				}
			}
			if p.has("ran") {
				t.Error("a call of a broken stream ran")
			}
			if n := p.count("assistant/message"); n != 1 {
				t.Errorf("the log holds %d answers", n)
			}
		})
	}
}

func TestTrust_A06_BrokenArguments(t *testing.T) {
	for name, arguments := range map[string]string{
		"truncated":      `{"file_path":"out.txt","content":"half of a fi`,
		"duplicate keys": `{"file_path":"out.txt","content":"a","content":"b"}`,
		"depth 10,000":   `{"file_path":"out.txt","content":` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + `}`,
		"10 MB":          `{"file_path":"out.txt","content":"` + strings.Repeat("x", 10<<20) + `"}`,
		"no object":      `["out.txt"]`,
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.srv.Script(testllm.Calls(testllm.Call{ID: "call_1", Name: "write", Arguments: arguments}), testllm.Text("sorry"))
			p.ok(p.run("hi"), "sorry")
			if p.has("out.txt") {
				t.Error("the tool ran")
			}
			second := p.requests(2)[1]
			if res := results(second)["call_1"]; !strings.HasPrefix(res, "Error: ") || len(res) > 2000 {
				t.Errorf("the model was told %.300q", res)
			}
			argumentsAreObjects(t, second)
		})
	}
}

func TestTrust_A07_OutputLimitInACall(t *testing.T) {
	p := newPlace(t)
	cut := testllm.Answer{Calls: []testllm.Call{bash("touch first"), {Name: "write", Arguments: `{"file_path":"out.txt","content":"half`}}, Finish: "length"}.Turn()
	p.srv.Script(cut, testllm.Text("sorry"))
	o := p.run("hi")
	if o.Stdout != "sorry\n" || o.Code != 4 {
		t.Errorf("exit %d: %q %s", o.Code, o.Stdout, o.Stderr)
	}
	if p.has("out.txt") || p.has("first") {
		t.Error("a call of an answer that was cut ran")
	}
	res := results(p.requests(2)[1])
	if len(res) != 2 {
		t.Fatalf("the results are %q", res)
	}
	for id, r := range res {
		if !strings.Contains(r, "output limit") {
			t.Errorf("%s: the model was told %q", id, r)
		}
	}
	if end := p.lastEnd(); end.Data.Reason != "max-tokens" {
		t.Errorf("the turn ended %+v", end.Data)
	}
}

func TestTrust_A08_IdsTwiceInOneAnswer(t *testing.T) {
	p := newPlace(t)
	one, two := bash("echo 1"), bash("echo 2")
	one.ID, two.ID = "same", "same"
	p.srv.Script(testllm.Calls(one, two), testllm.Text("ok"))
	p.ok(p.run("hi"), "ok")
	second := p.requests(2)[1]
	all, res := calls(second), results(second)
	if len(all) != 2 || all[0].ID == all[1].ID {
		t.Fatalf("the calls are %+v", all)
	}
	for i, c := range all {
		if !strings.Contains(res[c.ID], strconv.Itoa(i+1)) {
			t.Errorf("call %d gave %q", i+1, res[c.ID])
		}
	}
}

func TestTrust_A08_UnknownAndMisspelledTools(t *testing.T) {
	p := newPlace(t)
	p.srv.Script(testllm.Calls(
		testllm.Call{ID: "case", Name: "Bash", Arguments: `{"command":"touch ran"}`},
		testllm.Call{ID: "none", Name: "launch_missiles", Arguments: `{}`},
	), testllm.Text("ok"))
	p.ok(p.run("hi"), "ok")
	if p.has("ran") {
		t.Error("a misspelled tool ran")
	}
	res := results(p.requests(2)[1])
	if !strings.Contains(res["case"], `did you mean "bash"`) || !strings.Contains(res["none"], "launch_missiles") {
		t.Errorf("the model was told %q", res)
	}
}

func TestTrust_A08_EmptyAnswers(t *testing.T) {
	for name, empty := range map[string]testllm.Turn{
		"nothing":        testllm.Answer{}.Turn(),
		"white space":    testllm.Text(" \n\t "),
		"only reasoning": testllm.Answer{Reasoning: "hm"}.Turn(),
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.srv.Script(empty, testllm.Text("there"))
			p.ok(p.run("hi"), "there")
			p.requests(2)

			p.srv.Script(empty, empty)
			o := p.run("-c", "again")
			if o.Code != 1 || !strings.Contains(o.Stderr, "nothing") {
				t.Errorf("exit %d: %s", o.Code, o.Stderr)
			}
			p.requests(4)
			if n := p.count("assistant/message"); n != 1 && name != "only reasoning" {
				t.Errorf("the log holds %d answers, want the one that was not empty", n)
			}
			p.srv.Script(testllm.Text("back"))
			p.ok(p.run("-c", "and now"), "back")
			for _, m := range p.requests(5)[4].Chat.Messages {
				if m.Role == "assistant" && strings.TrimSpace(m.Text()) == "" {
					t.Errorf("an empty answer is in the next request")
				}
			}
		})
	}
}

// TestS04_ABadListOfAgentsIsRefused where it stands.
func TestS04_ABadListOfAgentsIsRefused(t *testing.T) {
	p := newPlace(t)
	p.file("patch.yml", "- id: agent-loop\n  config:\n    agents:\n      - id: one\n      - model: deepseek/x\n")
	o := p.dsh("config", "check", "--patch", "patch.yml")
	if o.Code != 2 || !strings.Contains(o.Stdout+o.Stderr, "agents[1].id") || !strings.Contains(o.Stdout+o.Stderr, "patch.yml") {
		t.Errorf("exit %d: %s%s", o.Code, o.Stdout, o.Stderr)
	}
}

// TestLimits_CallsAreAnsweredBeforeTheTurnEnds at a limit of steps, and the session goes on.
func TestLimits_CallsAreAnsweredBeforeTheTurnEnds(t *testing.T) {
	p := newPlace(t)
	for n := range 3 {
		p.srv.Script(testllm.Calls(bash(fmt.Sprint("echo ", n))))
	}
	if o := p.run("--max-steps", "2", "hi"); o.Code != 4 {
		t.Errorf("exit %d: %s", o.Code, o.Stderr)
	}
	p.requests(2)
	p.srv.Play(testllm.Case{Turns: []testllm.Turn{testllm.Text("ok")}})
	p.ok(p.run("-c", "go on"), "ok")
}
