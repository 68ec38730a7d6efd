package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/llm/llmtest"
	"github.com/dsh-harness/dsh/plugin"
)

func request(session string, messages ...*llm.Message) *llm.Request {
	return &llm.Request{
		Header:  &llm.Header{Provider: "replay", Model: "scripted", Tools: []llm.ToolSchema{{Name: "read"}}},
		History: llm.NewHistory(messages...), Session: session,
	}
}

func user(text string) *llm.Message {
	m := llm.UserText(text)
	return &m
}

func load(t *testing.T) []Answer {
	t.Helper()
	answers, err := Load(os.DirFS("testdata"), "fix.yml")
	if err != nil {
		t.Fatal(err)
	}
	return answers
}

func TestContract(t *testing.T) {
	llmtest.Run(t, func(_ *testing.T, script ...llmtest.Answer) (llm.Adapter, *llm.Request) {
		var answers []Answer
		for _, s := range script {
			a := Answer{Reasoning: s.Reasoning, Text: s.Text, Finish: s.Finish, Usage: s.Usage, Hold: s.Hold}
			for _, c := range s.Calls {
				arguments, err := json.Marshal(c.Arguments)
				if err != nil {
					t.Fatal(err)
				}
				a.Calls = append(a.Calls, Call{ID: c.ProviderID, Name: c.Name, Arguments: arguments})
			}
			if s.Fail {
				a.Error = &Failure{Code: llm.CodeServer, Message: "down"}
			}
			answers = append(answers, a)
		}
		return New(answers, 0), request("s", user("go"))
	})
}

func TestAnswersInOrder(t *testing.T) {
	a := New(load(t), 0)
	got := llmtest.Collect(a.Stream(t.Context(), request("s", user("please fix the sum"))))
	want := []llm.Block{
		{Type: llm.BlockReasoning, Text: "The test comes first."},
		llm.Text("I look at the test."),
		{Type: llm.BlockToolCall, ProviderID: "call_1_0", Name: "read", Arguments: `{"file_path":"calc_test.sh","limit":10}`},
		{Type: llm.BlockToolCall, ProviderID: "mine", Name: "bash", Arguments: `{"command": "sh calc`},
	}
	if d := cmp.Diff(want, got.Blocks); d != "" || got.Err != nil || got.Finish != llm.FinishToolCalls {
		t.Errorf("%v %s %s", got.Err, got.Finish, d)
	}
	if d := cmp.Diff(&llm.Usage{Input: 120, Output: 30, CacheRead: 64}, got.Usage); d != "" {
		t.Error(d)
	}
	history := []*llm.Message{user("fix the sum"), {Role: llm.RoleAssistant, Content: got.Blocks}, {Role: llm.RoleTool}}
	got = llmtest.Collect(a.Stream(t.Context(), request("s", history...)))
	var e *llm.Error
	if !errors.As(got.Err, &e) || e.Code != llm.CodeRateLimit || e.Status != 429 || e.After != 2*time.Second || llm.PlainText(got.Blocks) != "I wri" {
		t.Errorf("%+v", got)
	}
	got = llmtest.Collect(a.Stream(t.Context(), request("s", history...))) // the same again, as a retry is
	if got.Err != nil || llm.PlainText(got.Blocks) != "Done: the sum\nwas off by one.\n" {
		t.Errorf("%+v", got)
	}
	got = llmtest.Collect(a.Stream(t.Context(), request("s", history...)))
	if got.Err == nil || got.Err.Error() != "the cassette has 3 answers for the conversation, and this is request 4" {
		t.Error(got.Err)
	}
	title := request("s", user("x"))
	title.Purpose = "title"
	if got := llmtest.Collect(a.Stream(t.Context(), title)); got.Err != nil || llm.PlainText(got.Blocks) != "Fix the sum" {
		t.Errorf("%+v", got)
	}
}

func TestSessionsHavePlacesOfTheirOwn(t *testing.T) {
	a := New([]Answer{{Text: "one"}, {Text: "two"}}, 0)
	ask := func(session string, messages ...*llm.Message) string {
		got := llmtest.Collect(a.Stream(t.Context(), request(session, messages...)))
		if got.Err != nil {
			t.Fatal(got.Err)
		}
		return llm.PlainText(got.Blocks)
	}
	resumed := []*llm.Message{user("x"), {Role: llm.RoleAssistant}, user("y")}
	if got := ask("a", user("x")) + ask("b", user("x")) + ask("a", user("x")) + ask("resumed", resumed...); got != "oneonetwotwo" {
		t.Error(got)
	}
}

func TestExpectations(t *testing.T) {
	for what, e := range map[string]Expect{
		`the last message is of the role "user", not "tool"`:         {Role: llm.RoleTool},
		`the last message "fix the sum" does not contain "subtract"`: {Last: "subtract"},
		`the system prompt does not contain "dsh"`:                   {System: "dsh"},
		`the tool "edit" is not offered`:                             {Tools: []string{"read", "edit"}},
	} {
		got := llmtest.Collect(New([]Answer{{Expect: e}}, 0).Stream(t.Context(), request("s", user("fix the sum"))))
		var err *llm.Error
		if !errors.As(got.Err, &err) || err.Code != llm.CodeReplayMismatch || err.Error() != "the cassette's answer 1 expects another request: "+what {
			t.Error(got.Err)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for in, want := range map[string]string{
		"text: x":                          "a cassette is a list of answers",
		"- text: x\n- txet: y":             `line 2: answer 2: json: unknown field "txet"`,
		"- text: [a]":                      "line 1: answer 1: json: cannot unmarshal",
		"- finish: never":                  `answer 1: finish "never": want stop, tool-calls, max-tokens or content-filter`,
		"- error: {message: x}":            "answer 1: error: code is missing",
		"- calls: [{arguments: {}}]":       "answer 1: calls[0]: name is missing",
		"- delay: soon":                    "answer 1: ",
		"- delay: -1s":                     `duration "-1s" is below zero`,
		"- calls: [{name: x, arguments: {": "",
	} {
		if _, err := Parse([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", in, err)
		}
	}
	if answers, err := Parse(nil); len(answers) != 0 || err != nil {
		t.Errorf("%v %v", answers, err)
	}
	if _, err := Load(os.DirFS("testdata"), "none.yml"); err == nil || !strings.Contains(err.Error(), "none.yml") {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	data, err := os.ReadFile(filepath.Join("testdata", "fix.yml"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte("- {calls: [{name: a, arguments: 1}]}\n- null\n- {}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		answers, err := Parse(data)
		if err != nil {
			return
		}
		if len(answers) == 0 || answers[0].Hold || answers[0].Delay > 0 {
			return
		}
		got := llmtest.Collect(New(answers, 0).Stream(t.Context(), request("s", user("x"))))
		if e := (*llm.Error)(nil); got.Err != nil && !errors.As(got.Err, &e) {
			t.Fatalf("%T", got.Err)
		}
	})
}

func TestDelayAndPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New([]Answer{{Delay: Duration(time.Second), Text: "one two three"}, {Delay: Duration(time.Hour)}, {Text: "a b"}}, 100*time.Millisecond)
		begin := time.Now()
		if got := llmtest.Collect(a.Stream(t.Context(), request("s"))); got.Err != nil || time.Since(begin) != 1200*time.Millisecond {
			t.Errorf("%v after %s", got.Err, time.Since(begin))
		}
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			got := llmtest.Collect(a.Stream(ctx, request("s")))
			var e *llm.Error
			if !errors.As(got.Err, &e) || e.Code != llm.CodeAborted {
				t.Errorf("%+v", got)
			}
			cancel()
		}
	})
}

func TestPlugin(t *testing.T) {
	for want, c := range map[string]Config{
		"":                       {Name: "replay", Model: "m", Answers: []Answer{{Text: "hi"}}},
		"want a cassette":        {Name: "replay", Model: "m"},
		"either file or answers": {Name: "replay", Model: "m", File: "x", Answers: []Answer{{}}},
		"must not be empty":      {File: "x"},
		"answer 1: finish":       {Name: "replay", Model: "m", Answers: []Answer{{Finish: "x"}}},
	} {
		if err := c.Validate(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	bad := filepath.Join(t.TempDir(), "bad.yml")
	if err := os.WriteFile(bad, []byte("- finish: x"), 0o600); err != nil {
		t.Fatal(err)
	}
	tree := plugin.New(nil)
	defer func() {
		if err := tree.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	start := func(c Config) error {
		n, err := tree.Root().Mount(c.Name, nil, func(ctx context.Context, s *plugin.Scope) error { return Plugin.Start(ctx, s, c) })
		if err != nil {
			t.Fatal(err)
		}
		return n.Settle(t.Context())
	}
	if err := start(Config{Name: "a", Model: "m", File: filepath.Join("testdata", "fix.yml")}); err != nil {
		t.Fatal(err)
	}
	p, ok := llm.Providers.Get(tree.Root(), "a")
	if !ok || len(p.Models) != 1 || p.Models[0].Ref() != "a/m" || !p.Exact {
		t.Errorf("%+v", p)
	}
	if err := start(Config{Name: "b", Model: "m", File: bad}); err == nil || !strings.Contains(err.Error(), "bad.yml: answer 1: finish") {
		t.Error(err)
	}
	if err := start(Config{Name: "c", Model: "m", File: "none.yml"}); err == nil || !strings.Contains(err.Error(), "none.yml") {
		t.Error(err)
	}
}

// A cassette in a test: what the model would say is written down, and what the request must
// hold.
func ExampleNew() {
	answers, err := Parse([]byte(`
- expect: {last: hello}
  text: Good morning!
- text: Good night!
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	model := New(answers, 0)
	hello := llm.UserText("hello")
	req := &llm.Request{Header: &llm.Header{Provider: "replay", Model: "scripted"}, History: llm.NewHistory(&hello)}
	for range 3 {
		var answer llm.Assembler
		for chunk, err := range model.Stream(context.Background(), req) {
			if err != nil {
				fmt.Println("error:", err)
				break
			}
			if _, err := answer.Add(chunk); err != nil {
				fmt.Println(err)
				return
			}
		}
		fmt.Println(llm.PlainText(answer.Blocks()))
	}
	// Output:
	// Good morning!
	// Good night!
	// error: the cassette has 2 answers for the conversation, and this is request 3
}
