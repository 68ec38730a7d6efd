package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dsh-harness/dsh/internal/testllm"
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/llm/llmtest"
)

// connected returns a server and a provider that calls it.
func connected(t *testing.T, change func(*Config)) (*testllm.Server, *adapter) {
	t.Helper()
	t.Setenv("DEEPSEEK_API_KEY", "sk-test-0123456789")
	t.Setenv("OPENAI_API_KEY", "sk-test-0123456789")
	srv := testllm.New(t)
	a := provider(t, func(c *Config) {
		c.BaseURL = srv.URL
		if change != nil {
			change(c)
		}
	})
	t.Cleanup(a.client.CloseIdle)
	return srv, a
}

func ask(t *testing.T, a *adapter, messages ...*llm.Message) llmtest.Collected {
	t.Helper()
	req := &llm.Request{Header: &llm.Header{Provider: a.config.Name, Model: "m"}, History: llm.NewHistory(messages...)}
	return llmtest.Collect(a.Stream(t.Context(), req))
}

func failure(t *testing.T, err error) *llm.Error {
	t.Helper()
	var e *llm.Error
	if !errors.As(err, &e) {
		t.Fatalf("the error is %v (%T)", err, err)
	}
	if s := e.Error(); strings.ContainsAny(s, "<>\n\r") || len(s) > 400 {
		t.Errorf("no short line without markup: %q", s)
	}
	return e
}

func TestContract(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-test-0123456789")
	llmtest.Run(t, func(t *testing.T, answers ...llmtest.Answer) (llm.Adapter, *llm.Request) {
		srv := testllm.New(t)
		a := provider(t, func(c *Config) { asOpenAI(c); c.BaseURL = srv.URL })
		t.Cleanup(a.client.CloseIdle)
		for _, answer := range answers {
			if answer.Fail {
				srv.Script(testllm.Fail(http.StatusServiceUnavailable, "overloaded"))
				continue
			}
			say := testllm.Answer{Reasoning: answer.Reasoning, Text: answer.Text, Usage: "-"}
			for _, c := range answer.Calls {
				say.Calls = append(say.Calls, testllm.Call{ID: c.ProviderID, Name: c.Name, Arguments: c.Arguments})
			}
			if answer.Finish == llm.FinishMaxTokens {
				say.Finish = "length"
			}
			if u := answer.Usage; u != nil {
				say.Usage = fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}}`, u.Input+u.CacheRead, u.Output, u.CacheRead)
			}
			turn := say.Turn()
			if answer.Hold {
				events, _, _ := strings.Cut(string(turn.Packets[0]), `data: {"choices":[{"delta":{},`)
				turn = testllm.Stream(events)
				turn.End = testllm.Hold
			}
			srv.Script(turn)
		}
		return a, &llm.Request{Header: noHeader, History: llm.NewHistory(user("go"))}
	})
}

// replayed runs the first turn of a case as the answer to a first prompt.
func replayed(t *testing.T, name string, change func(*Config)) (*testllm.Server, *adapter, llmtest.Collected) {
	t.Helper()
	c, err := testllm.LoadCase(name)
	if err != nil {
		t.Fatal(err)
	}
	srv, a := connected(t, change)
	srv.Play(c)
	return srv, a, ask(t, a, user("go"))
}

// answered returns the messages that follow an answer once its calls were run.
func answered(got llmtest.Collected, step int) []*llm.Message {
	m := assistant(got.Blocks...)
	out := []*llm.Message{m}
	n := 0
	for i := range m.Content {
		if b := &m.Content[i]; b.Type == llm.BlockToolCall {
			b.CallID = fmt.Sprintf("c1_%d_%d", step, n)
			out = append(out, result(b.CallID, llm.Text(fmt.Sprint(step))))
			n++
		}
	}
	return out
}

// want compares the blocks and says that nothing failed.
func want(t *testing.T, got llmtest.Collected, blocks ...llm.Block) {
	t.Helper()
	if d := cmp.Diff(blocks, got.Blocks); d != "" || got.Err != nil {
		t.Errorf("error %v, blocks %s", got.Err, d)
	}
}

func TestCase_o_str_01_CallsWithoutAnIndex(t *testing.T) {
	srv, a, got := replayed(t, "o-str-01", nil)
	want(t, got, calling("", "call_a", "read", `{"file_path":"a.txt"}`), calling("", "call_b", "read", `{"file_path":"b.txt"}`))
	want(t, ask(t, a, append([]*llm.Message{user("go")}, answered(got, 1)...)...), llm.Text("ok"))
	m := srv.Requests()[1].Chat.Messages
	if len(m) != 4 || len(m[1].ToolCalls) != 2 || m[1].ToolCalls[1].ID != "call_b" || m[2].ToolCallID != "call_a" || m[3].ToolCallID != "call_b" {
		t.Errorf("%+v", m)
	}
}

func TestCase_o_str_02_CRLFCutBetweenItsBytes(t *testing.T) {
	_, _, got := replayed(t, "o-str-02", nil)
	want(t, got, llm.Text("Hello world"))
	if d := cmp.Diff(&llm.Usage{Input: 10, Output: 5}, got.Usage); d != "" {
		t.Error(d)
	}
}

func TestCase_o_str_03_CommentsEmptyDataAndManyLines(t *testing.T) {
	srv, _, got := replayed(t, "o-str-03", nil)
	want(t, got, llm.Text("one two three"))
	if n := len(srv.Requests()); n != 1 {
		t.Errorf("%d requests", n)
	}
}

func TestCase_o_str_04_TextCutInsideACharacter(t *testing.T) {
	srv, a, got := replayed(t, "o-str-04", nil)
	want(t, got, llm.Text("修复方法：平台适配"))
	srv.Script(testllm.Text("ok"))
	ask(t, a, user("go"), assistant(got.Blocks...), user("on"))
	if body := string(srv.Requests()[1].Body); !strings.Contains(body, "修复方法：平台适配") || strings.Contains(body, "\ufffd") {
		t.Error(body)
	}
}

func TestCase_o_str_05_UsageAfterTheFinish(t *testing.T) {
	_, _, got := replayed(t, "o-str-05", nil)
	want(t, got, llm.Text("hi"))
	if d := cmp.Diff(&llm.Usage{Input: 1234, Output: 56}, got.Usage); d != "" {
		t.Error(d)
	}
}

func TestCase_o_str_06_ReasoningGoesBack(t *testing.T) {
	srv, a, got := replayed(t, "o-str-06", nil)
	srv.Strict(testllm.Rules{Alternate: true, Reasoning: true})
	want(t, got, thought("think A"), calling("", "call_1", "read", `{"file_path":"a.txt"}`))
	history := append([]*llm.Message{user("go")}, answered(got, 1)...)
	want(t, ask(t, a, history...), llm.Text("ok"))
	if m := srv.Requests()[1].Chat.Messages[1]; m.Reasoning == nil || *m.Reasoning != "think A" {
		t.Errorf("%+v", m)
	}
	// What a resumed session holds is what the log holds: the same message, decoded.
	encoded, err := json.Marshal(history)
	if err != nil {
		t.Fatal(err)
	}
	var resumed []*llm.Message
	if err := json.Unmarshal(encoded, &resumed); err != nil {
		t.Fatal(err)
	}
	want(t, ask(t, a, append(resumed, assistant(llm.Text("ok")), user("more"))...), llm.Text("ok"))
	if err := testllm.CheckPrefix(srv.Requests()); err != nil {
		t.Error(err)
	}
}

func TestCase_o_str_06_AnEmptyThoughtGoesBackToo(t *testing.T) {
	srv, a := connected(t, nil)
	srv.Strict(testllm.Rules{Reasoning: true})
	srv.Script(testllm.Stream(
		`data: {"choices":[{"delta":{"role":"assistant","content":null,"reasoning_content":""}}]}`+"\n\n"+
			`data: {"choices":[{"delta":{"content":"","reasoning_content":""}}]}`+"\n\n"+
			`data: {"choices":[{"delta":{"content":"yes"},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n"), testllm.Text("ok"))
	got := ask(t, a, user("go"))
	want(t, got, thought(""), llm.Text("yes"))
	ask(t, a, user("go"), assistant(got.Blocks...), user("on"))
	if m := srv.Requests()[1].Chat.Messages[1]; m.Reasoning == nil || *m.Reasoning != "" {
		t.Errorf("%+v", m)
	}
}

func TestCase_o_str_07_CutByTheOutputCeiling(t *testing.T) {
	_, _, got := replayed(t, "o-str-07", nil)
	want(t, got, calling("", "call_w", "write", `{"file_path":"README.md","content":"# T\n\nline 1\nli`))
	if got.Finish != llm.FinishMaxTokens || !got.Finish.Truncated() {
		t.Errorf("finish %q", got.Finish)
	}
}

func TestCase_o_str_08_AnErrorInsideTheStream(t *testing.T) {
	_, a, got := replayed(t, "o-str-08", nil)
	e := failure(t, got.Err)
	if e.Code != llm.CodeServer || e.Status != 503 || !strings.Contains(e.Error(), "overloaded") || !e.Code.Retryable() {
		t.Errorf("%+v", e)
	}
	if llm.PlainText(got.Blocks) != "partial" {
		t.Errorf("%v", got.Blocks)
	}
	want(t, ask(t, a, user("go")), llm.Text("whole"))
}

func TestCase_o_str_09_AnErrorPage(t *testing.T) {
	_, a, got := replayed(t, "o-str-09", nil)
	e := failure(t, got.Err)
	host := a.client.Base.Host
	if want := "deepseek: " + host + " answered 502: example.test | 521: Web server is down"; e.Error() != want || e.Code != llm.CodeServer || e.Status != 502 {
		t.Errorf("%+v", e)
	}
	want(t, ask(t, a, user("go")), llm.Text("ok"))
}

func TestCase_o_str_10_RetryAfterAsADate(t *testing.T) {
	_, a, got := replayed(t, "o-str-10", nil)
	if e := failure(t, got.Err); e.Code != llm.CodeRateLimit || e.After < 2*time.Second || e.After > 4*time.Second {
		t.Errorf("%+v", e)
	}
	want(t, ask(t, a, user("go")), llm.Text("ok"))
}

func TestCase_o_str_11_SilenceOnAnOpenConnection(t *testing.T) {
	_, a, got := replayed(t, "o-str-11", func(c *Config) { c.IdleTimeout = 50 * time.Millisecond })
	e := failure(t, got.Err)
	if e.Code != llm.CodeTimeout || !strings.Contains(e.Error(), "nothing came from "+a.client.Base.Host+" for 50ms") {
		t.Errorf("%+v", e)
	}
	if d := cmp.Diff([]llm.Block{thought("hmm")}, got.Blocks); d != "" {
		t.Error(d)
	}
	want(t, ask(t, a, user("go")), llm.Text("ok"))
}

func TestCase_o_str_12_TheBodyEndsWithoutAFinish(t *testing.T) {
	c, err := testllm.LoadCase("o-str-12")
	if err != nil {
		t.Fatal(err)
	}
	for _, end := range []testllm.End{testllm.Close, testllm.Reset} {
		srv, a := connected(t, nil)
		first := c.Turns[0]
		first.End = end
		srv.Script(first, c.Turns[1])
		got := ask(t, a, user("go"))
		if e := failure(t, got.Err); e.Code != llm.CodeStreamClosed {
			t.Errorf("%s: %+v", end, e)
		}
		want(t, ask(t, a, user("go")), llm.Text("ok"))
	}
}

func TestAFinishWithoutDoneIsAccepted(t *testing.T) {
	finish := `data: {"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1}}` + "\n\n"
	for _, end := range []testllm.End{testllm.Close, testllm.Reset, testllm.Hold} {
		srv, a := connected(t, func(c *Config) { c.IdleTimeout = 100 * time.Millisecond })
		turn := testllm.Stream(finish)
		turn.End = end
		srv.Script(turn)
		got := ask(t, a, user("go"))
		want(t, got, llm.Text("x"))
		if d := cmp.Diff(&llm.Usage{Input: 3, Output: 1}, got.Usage); d != "" {
			t.Error(d)
		}
	}
	// [DONE] without a finish says that it is complete as well.
	srv, a := connected(t, nil)
	srv.Script(testllm.Stream(`data: {"choices":[{"delta":{"content":"x"}}]}` + "\n\ndata: [DONE]\n\n"))
	want(t, ask(t, a, user("go")), llm.Text("x"))
}

func TestCase_o_str_13_StopAlthoughToolsAreCalled(t *testing.T) {
	_, a, got := replayed(t, "o-str-13", nil)
	want(t, got, calling("", "call_1", "read", `{"file_path":"a.txt"}`))
	if got.Finish != llm.FinishToolCalls {
		t.Errorf("finish %q", got.Finish)
	}
	want(t, ask(t, a, append([]*llm.Message{user("go")}, answered(got, 1)...)...), llm.Text("ok"))
}

func TestCase_o_str_14_ArgumentsInsideAString(t *testing.T) {
	srv, a, got := replayed(t, "o-str-14", nil)
	want(t, ask(t, a, append([]*llm.Message{user("go")}, answered(got, 1)...)...), llm.Text("ok"))
	if args := srv.Requests()[1].Chat.Messages[1].ToolCalls[0].Function.Arguments; *args != `{"pattern":"**/*.md"}` {
		t.Error(*args)
	}
}

func TestCase_o_str_15_TheSameIdInEveryTurn(t *testing.T) {
	srv, a, first := replayed(t, "o-str-15", nil)
	history := append([]*llm.Message{user("go")}, answered(first, 1)...)
	second := ask(t, a, history...)
	history = append(history, answered(second, 2)...)
	want(t, ask(t, a, history...), llm.Text("ok"))
	m := srv.Requests()[2].Chat.Messages
	if m[1].ToolCalls[0].ID != "bash:0" || m[3].ToolCalls[0].ID != "c1_2_0" || m[4].ToolCallID != "c1_2_0" || m[2].Text() != "1" || m[4].Text() != "2" {
		t.Errorf("%+v", m)
	}
	want(t, ask(t, a, append(history, assistant(llm.Text("ok")), user("on"))...), llm.Text("ok"))
	if err := testllm.CheckPrefix(srv.Requests()); err != nil {
		t.Error(err)
	}
}

func TestCase_o_str_16_NoArguments(t *testing.T) {
	srv, a, got := replayed(t, "o-str-16", nil)
	want(t, got, calling("", "call_1", "job_list", ""), calling("", "call_2", "job_list", ""))
	want(t, ask(t, a, append([]*llm.Message{user("go")}, answered(got, 1)...)...), llm.Text("ok"))
	for _, c := range srv.Requests()[1].Chat.Messages[1].ToolCalls {
		if *c.Function.Arguments != "{}" {
			t.Errorf("%q", *c.Function.Arguments)
		}
	}
}

func TestCase_o_his_02_OnlyReasoningHadStreamed(t *testing.T) {
	srv, a := connected(t, nil)
	srv.Script(testllm.Text("ok"))
	interrupted := &llm.Message{Role: llm.RoleAssistant, Provider: "deepseek", Interrupted: true, Content: []llm.Block{thought("let me")}}
	want(t, ask(t, a, user("one"), interrupted, user("two")), llm.Text("ok"))
	if m := srv.Requests()[0].Chat.Messages; len(m) != 1 || m[0].Text() != "one\n\ntwo" {
		t.Errorf("%+v", m)
	}
}

func TestCase_o_his_03_UserMessagesInARow(t *testing.T) {
	srv, a := connected(t, nil)
	srv.Script(testllm.Text("ok"))
	reminder := &llm.Message{Role: llm.RoleUser, Source: llm.Source{Kind: "plugin"}, Content: []llm.Block{llm.Text("remember")}}
	want(t, ask(t, a, user("one"), reminder, user("two")), llm.Text("ok"))
	if m := srv.Requests()[0].Chat.Messages; len(m) != 1 || m[0].Text() != "one\n\nremember\n\ntwo" {
		t.Errorf("%+v", m)
	}
}

// memory answers every request with a body, without a network.
type memory struct {
	header http.Header
	body   func() io.Reader
}

func (m memory) RoundTrip(r *http.Request) (*http.Response, error) {
	header := m.header
	if header == nil {
		header = http.Header{"Content-Type": {"text/event-stream"}}
	}
	return &http.Response{StatusCode: 200, Header: header, Body: io.NopCloser(m.body()), Request: r}, nil
}

// reading returns a provider that is answered with these bytes.
func reading(t testing.TB, dialect Dialect, body func() io.Reader) *adapter {
	a := provider(t, func(c *Config) {
		c.Name, c.BaseURL, c.Dialect = "local", "http://local.test/v1", dialect
	})
	a.client.Transport = memory{body: body}
	return a
}

// TestTrust_A04_AnyChunkingGivesTheSameAnswer cuts each case at every byte.
func TestTrust_A04_AnyChunkingGivesTheSameAnswer(t *testing.T) {
	for n := 1; n <= 16; n++ {
		name := fmt.Sprintf("o-str-%02d", n)
		c, err := testllm.LoadCase(name)
		if err != nil {
			t.Fatal(err)
		}
		if c.Turns[0].Status != 200 {
			continue
		}
		data := strings.Join(func() (packets []string) {
			for _, p := range c.Turns[0].Packets {
				packets = append(packets, string(p))
			}
			return packets
		}(), "")
		var body io.Reader
		a := reading(t, DeepSeek, func() io.Reader { return body })
		read := func(r io.Reader) llmtest.Collected {
			body = r
			got := ask(t, a, user("x"))
			if got.Err != nil {
				got.Err = errors.New(got.Err.Error())
			}
			return got
		}
		whole := read(strings.NewReader(data))
		step := 1
		if testing.Short() {
			step = 13
		}
		for i := 0; i <= len(data); i += step {
			got := read(io.MultiReader(strings.NewReader(data[:i]), strings.NewReader(data[i:])))
			if d := cmp.Diff(whole, got, cmp.Comparer(sameError)); d != "" {
				t.Fatalf("%s cut at byte %d: %s", name, i, d)
			}
		}
		if d := cmp.Diff(whole, read(iotest.OneByteReader(strings.NewReader(data))), cmp.Comparer(sameError)); d != "" {
			t.Fatalf("%s byte by byte: %s", name, d)
		}
	}
}

func sameError(a, b error) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Error() == b.Error()
}

// TestTrust_A05_MalformedStreams: whatever comes, there is no panic, the error is typed
// and says which answer it was, and the stream keeps its grammar.
func TestTrust_A05_MalformedStreams(t *testing.T) {
	files, err := filepath.Glob("testdata/malformed/*.sse")
	if err != nil || len(files) < 60 {
		t.Fatalf("%d streams, %v", len(files), err)
	}
	var said strings.Builder
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		checkStream(t, data)
		a := reading(t, DeepSeek, func() io.Reader { return strings.NewReader(string(data)) })
		e := failure(t, ask(t, a, user("x")).Err)
		fmt.Fprintf(&said, "%s\t%s\t%s\n", strings.TrimSuffix(filepath.Base(f), ".sse"), e.Code, e)
	}
	golden := filepath.Join("testdata", "golden", "malformed.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(said.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), said.String()); d != "" {
		t.Error(d)
	}
}

// checkStream holds any bytes against the grammar.
func checkStream(t *testing.T, data []byte) {
	t.Helper()
	for _, dialect := range []Dialect{DeepSeek, OpenAI} {
		a := reading(t, dialect, func() io.Reader { return strings.NewReader(string(data)) })
		stream := a.Stream(t.Context(), &llm.Request{Header: noHeader, History: llm.NewHistory(user("x"))})
		if err := llmtest.CheckGrammar(stream); err != nil {
			t.Error(err)
		}
	}
}

func FuzzStream(f *testing.F) {
	files, err := filepath.Glob("testdata/malformed/*.sse")
	if err != nil {
		f.Fatal(err)
	}
	more, err := filepath.Glob("../../internal/sse/testdata/*.sse")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range append(files, more...) {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		if len(data) < 8<<10 {
			f.Add(data)
		}
	}
	f.Fuzz(checkStream)
}
