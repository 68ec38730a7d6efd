package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/dsh-harness/dsh/llm"
)

var update = flag.Bool("update", false, "write the golden files")

type fataler interface {
	Helper()
	Fatal(...any)
}

// provider returns an adapter made of the config that change leaves.
func provider(t fataler, change func(*Config)) *adapter {
	t.Helper()
	c := defaultConfig()
	c.Name = "deepseek"
	if change != nil {
		change(&c)
	}
	a, err := newAdapter(c)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func asOpenAI(c *Config) { c.Name, c.Dialect = "openai", OpenAI }

func bodyOf(t fataler, a *adapter, req *llm.Request) []byte {
	body, err := a.encode(req)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Join(body, nil)
}

func user(text string) *llm.Message {
	m := llm.UserText(text)
	return &m
}

func assistant(blocks ...llm.Block) *llm.Message {
	return &llm.Message{Role: llm.RoleAssistant, Provider: "deepseek", Model: "deepseek-v4-flash", Content: blocks}
}

func result(callID string, blocks ...llm.Block) *llm.Message {
	return &llm.Message{Role: llm.RoleTool, CallID: callID, Content: blocks}
}

func thought(s string) llm.Block { return llm.Block{Type: llm.BlockReasoning, Text: s} }

func calling(callID, providerID, name, arguments string) llm.Block {
	return llm.Block{Type: llm.BlockToolCall, CallID: callID, ProviderID: providerID, Name: name, Arguments: arguments}
}

var (
	noHeader = &llm.Header{Model: "m"}
	warm     = 0.25
)

// TestGoldenRequests compares whole bodies, byte for byte.
func TestGoldenRequests(t *testing.T) {
	full := &llm.Header{
		Provider: "deepseek", Model: "deepseek-v4-flash", System: "You are \"dsh\".\nBe brief.",
		Params: llm.Params{Effort: "max", MaxTokens: 4096, Temperature: &warm, Stop: []string{"END", "\n"}},
		Tools: []llm.ToolSchema{
			{Name: "read", Description: "Reads a file.", Parameters: json.RawMessage("{\n  \"type\": \"object\",\n  \"properties\": {\"file_path\": {\"type\": \"string\"}},\n  \"required\": [\"file_path\"]\n}")},
			{Name: "job_list", Description: "Lists <jobs> & more."},
		},
	}
	conversation := []*llm.Message{
		user("fix it"),
		{Role: llm.RoleUser, Content: []llm.Block{llm.Text("and"), llm.Text("test it 🐰")}},
		assistant(thought("let me "), llm.Text("I look."), calling("c1_1_0", "call_9", "read", `{"file_path":"a.txt"}`), calling("c1_1_1", "", "job_list", "")),
		result("c1_1_0", llm.Text("line\ttwo\x00")),
		result("c1_1_1"),
		assistant(calling("c1_2_0", "call_9", "no such tool!", `{"file_path":`)), // an id for the second time
		{Role: llm.RoleTool, CallID: "c1_2_0", IsError: true, Content: []llm.Block{llm.Text("Error: unknown tool"), {Type: llm.BlockImage, MediaType: "image/png"}}},
		{Role: llm.RoleAssistant, Provider: "other", Content: []llm.Block{thought("not ours"), calling("c1_3_0", "x", "read", `"{\"file_path\":\"b\"}"`)}},
		result("c1_3_0", llm.Text("b\xff")),
		{Role: llm.RoleAssistant, Provider: "deepseek", Interrupted: true, Content: []llm.Block{thought("hm"), llm.Text("half an ans")}},
		user("go on"),
		{Role: llm.RoleAssistant, Provider: "deepseek", Interrupted: true, Content: []llm.Block{thought("only thinking")}},
		user("again"),
	}
	for name, tc := range map[string]struct {
		a   *adapter
		req *llm.Request
	}{
		"full-deepseek":     {provider(t, nil), &llm.Request{Header: full, History: llm.NewHistory(conversation...)}},
		"full-openai":       {provider(t, asOpenAI), &llm.Request{Header: full, History: llm.NewHistory(conversation...)}},
		"plain-deepseek":    {provider(t, nil), &llm.Request{Header: &llm.Header{Model: "deepseek-v4-pro"}, History: llm.NewHistory(user("hi"))}},
		"plain-openai":      {provider(t, asOpenAI), &llm.Request{Header: noHeader, History: llm.NewHistory(user("hi"))}},
		"thinking-off":      {provider(t, nil), &llm.Request{Header: &llm.Header{Model: "deepseek-v4-flash", Params: llm.Params{Effort: "off"}}, History: llm.NewHistory(user("hi"))}},
		"roles-as-they-are": {provider(t, func(c *Config) { c.AlternateRoles = false }), &llm.Request{Header: noHeader, History: llm.NewHistory(user("one"), user("two"))}},
	} {
		t.Run(name, func(t *testing.T) {
			got := bodyOf(t, tc.a, tc.req)
			if !json.Valid(got) {
				t.Fatalf("no JSON: %s", got)
			}
			file := filepath.Join("testdata", "golden", name+".json")
			if *update {
				if err := os.WriteFile(file, append(got, '\n'), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(bytes.TrimSuffix(want, []byte("\n"))), string(got)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestArguments(t *testing.T) {
	for in, want := range map[string]string{
		"":                      `{}`,
		`{}`:                    `{}`,
		` {"a": 1} `:            ` {"a": 1} `,
		`"{\"a\":1}"`:           `{"a":1}`,
		`"[1]"`:                 `{"_invalid":"\"[1]\""}`,
		`[]`:                    `{"_invalid":"[]"}`,
		`null`:                  `{"_invalid":"null"}`,
		`{"a":`:                 `{"_invalid":"{\"a\":"}`,
		"{\"a\":\"\xff\"}":      "{\"a\":\"\xff\"}", // the outer string repairs it
		"\x00":                  `{"_invalid":"\u0000"}`,
		"\xff":                  `{"_invalid":"` + "\ufffd" + `"}`,
		strings.Repeat("[", 99): `{"_invalid":"` + strings.Repeat("[", 99) + `"}`,
	} {
		got := arguments(in)
		var object map[string]any
		if err := json.Unmarshal([]byte(got), &object); got != want || err != nil || object == nil {
			t.Errorf("%q: %q, want %q (%v)", in, got, want, err)
		}
	}
}

func TestFunctionName(t *testing.T) {
	for in, want := range map[string]string{"": "unknown", "read": "read", "a b.c/é": "a_b_c___", strings.Repeat("x", 99): strings.Repeat("x", 64)} {
		if got := functionName(in); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
}

func TestHeadErrors(t *testing.T) {
	nan := 0.0
	nan /= nan
	for want, h := range map[string]*llm.Header{
		`deepseek/deepseek-v4-flash has no reasoning effort "medium"; choose one of off, low, high, max`: {Model: "deepseek-v4-flash", Params: llm.Params{Effort: "medium"}},
		"temperature NaN is no number":                                      {Model: "m", Params: llm.Params{Temperature: &nan}},
		"the schema of the tool x is no JSON: unexpected end of JSON input": {Model: "m", Tools: []llm.ToolSchema{{Name: "x", Parameters: json.RawMessage(`{`)}}},
	} {
		_, err := provider(t, nil).encode(&llm.Request{Header: h, History: llm.NewHistory(user("x"))})
		var e *llm.Error
		if !errors.As(err, &e) || e.Error() != want || e.Code.Retryable() {
			t.Errorf("%v", err)
		}
	}
}

// conversation draws messages as a session may hold them: calls are answered.
func conversation(t *rapid.T) []*llm.Message {
	text := rapid.SampledFrom([]string{"", "a", "two words", "\"}", "\n\n", "漢\xff", `{"role":"user"}`})
	var out []*llm.Message
	step := 0
	for range rapid.IntRange(1, 12).Draw(t, "length") {
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 0, 1:
			out = append(out, user(text.Draw(t, "user")))
		case 2:
			step++
			m := assistant(thought(text.Draw(t, "thought")), llm.Text(text.Draw(t, "text")))
			m.Provider = rapid.SampledFrom([]string{"deepseek", "other"}).Draw(t, "provider")
			m.Interrupted = rapid.Bool().Draw(t, "interrupted")
			n := rapid.IntRange(0, 2).Draw(t, "calls")
			for i := range n {
				id := fmt.Sprintf("c1_%d_%d", step, i)
				m.Content = append(m.Content, calling(id, rapid.SampledFrom([]string{"", "x", "c1_2_0"}).Draw(t, "id"), text.Draw(t, "name"), text.Draw(t, "arguments")))
			}
			out = append(out, m)
			for i := range n {
				out = append(out, result(fmt.Sprintf("c1_%d_%d", step, i), llm.Text(text.Draw(t, "result"))))
			}
		}
	}
	return out
}

type wireMessage struct {
	Role      string  `json:"role"`
	Content   *string `json:"content"`
	ToolCalls []struct {
		ID       string `json:"id"`
		Function struct {
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
	ToolCallID string `json:"tool_call_id"`
}

// TestEncodingLaws: however a history grows, and whatever views of it were encoded
// before, a request is the same as one encoded afresh; each begins with the one before
// it; and what goes out is what strict providers accept.
func TestEncodingLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		messages := conversation(t)
		a := provider(t, func(c *Config) {
			c.AlternateRoles = rapid.Bool().Draw(t, "merge")
			c.Dialect = rapid.SampledFrom([]Dialect{DeepSeek, OpenAI}).Draw(t, "dialect")
		})
		header := &llm.Header{Model: "m", System: rapid.SampledFrom([]string{"", "system"}).Draw(t, "system")}
		var b llm.Builder
		var before []byte
		var views []llm.History
		for i, m := range messages {
			b.Append(m)
			if rapid.Bool().Draw(t, "skip") {
				continue
			}
			got := bodyOf(t, a, &llm.Request{Header: header, History: b.History()})
			fresh := bodyOf(t, a, &llm.Request{Header: header, History: llm.NewHistory(messages[:i+1]...)})
			if !bytes.Equal(got, fresh) {
				t.Fatalf("encoded step by step\n%s\nafresh\n%s", got, fresh)
			}
			if kept := bytes.TrimSuffix(bytes.TrimSuffix(before, []byte(`]}`)), []byte(`"}`)); !bytes.HasPrefix(got, kept) {
				t.Fatalf("the request\n%s\ndoes not begin with the one before it\n%s", got, before)
			}
			before = got
			views = append(views, b.History())
			if v := rapid.SampledFrom(views).Draw(t, "view"); !bytes.Equal( // as a side request takes one
				bodyOf(t, a, &llm.Request{Header: header, History: v}),
				bodyOf(t, a, &llm.Request{Header: header, History: llm.NewHistory(v.Messages()...)}),
			) {
				t.Fatalf("the first %d messages are encoded in another way by now", v.Len())
			}
			checkWire(t, got, a.config.AlternateRoles)
		}
	})
}

func checkWire(t *rapid.T, body []byte, alternate bool) {
	var req struct {
		Messages []wireMessage `json:"messages"`
	}
	if err := json.Unmarshal(body, &req); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	ids, open, last := map[string]bool{}, map[string]bool{}, ""
	for _, m := range req.Messages {
		switch {
		case m.Content == nil:
			t.Fatalf("content is no string: %s", body)
		case m.Role == "assistant" && *m.Content == "" && len(m.ToolCalls) == 0:
			t.Fatalf("an empty assistant message: %s", body)
		case m.Role == "tool" && (!open[m.ToolCallID] || *m.Content == ""):
			t.Fatalf("a result without a call, or empty: %s", body)
		case m.Role == "user" && (alternate && last == "user" || *m.Content == ""):
			t.Fatalf("neighbouring or empty user messages: %s", body)
		}
		delete(open, m.ToolCallID)
		for _, c := range m.ToolCalls {
			var object map[string]any
			if c.ID == "" || ids[c.ID] || json.Unmarshal([]byte(c.Function.Arguments), &object) != nil || object == nil {
				t.Fatalf("call %+v: %s", c, body)
			}
			ids[c.ID], open[c.ID] = true, true
		}
		last = m.Role
	}
}

// TestRequestsShareTheirBytes: a request under way is not disturbed by later ones.
func TestRequestsShareTheirBytes(t *testing.T) {
	a := provider(t, nil)
	var b llm.Builder
	var bodies [][][]byte
	var want [][]byte
	for i := range 200 {
		b.Append(user(fmt.Sprint("question ", i)), user("and more"), assistant(llm.Text(fmt.Sprint("answer ", i))))
		body, err := a.encode(&llm.Request{Header: noHeader, History: b.History()})
		if err != nil {
			t.Fatal(err)
		}
		bodies = append(bodies, body)
		want = append(want, bytes.Join(body, nil))
	}
	for i := range bodies {
		if !bytes.Equal(bytes.Join(bodies[i], nil), want[i]) {
			t.Fatalf("request %d changed afterwards", i)
		}
	}
}

// TestAShorterViewOfTheSameLine is what a side request over the beginning of a
// conversation encodes, after all of it was.
func TestAShorterViewOfTheSameLine(t *testing.T) {
	a := provider(t, nil)
	var b llm.Builder
	b.Append(user("one"))
	short := b.History()
	b.Append(user("two"), assistant(llm.Text("x")), user("three"))
	bodyOf(t, a, &llm.Request{Header: noHeader, History: b.History()})
	got := bodyOf(t, a, &llm.Request{Header: noHeader, History: short})
	if want := bodyOf(t, a, &llm.Request{Header: noHeader, History: llm.NewHistory(user("one"))}); !bytes.Equal(got, want) {
		t.Errorf("%s", got)
	}
	if none := bodyOf(t, a, &llm.Request{Header: noHeader}); !bytes.HasSuffix(none, []byte(`"messages":[]}`)) {
		t.Errorf("%s", none)
	}
}

// TestAnotherHeadForTheSameHistory: the head follows the header and the row, also
// when the messages are already encoded.
func TestAnotherHeadForTheSameHistory(t *testing.T) {
	h := llm.NewHistory(user("x"))
	a, b := provider(t, nil), provider(t, func(c *Config) { c.MaxTokensField = "max_completion_tokens" })
	header := &llm.Header{Model: "deepseek-v4-flash", Params: llm.Params{MaxTokens: 5}}
	for _, tc := range []struct {
		a    *adapter
		h    *llm.Header
		want string
	}{
		{a, header, `"max_tokens":5`}, {b, header, `"max_completion_tokens":5`}, {a, header, `"max_tokens":5`},
		{a, &llm.Header{Model: "other"}, `"model":"other"`}, {a, header, `"model":"deepseek-v4-flash"`},
	} {
		if got := bodyOf(t, tc.a, &llm.Request{Header: tc.h, History: h}); !bytes.Contains(got, []byte(tc.want)) {
			t.Errorf("no %s in %s", tc.want, got)
		}
	}
}

// steps returns a session of n steps that each read a file, as the benchmarks know it.
func steps(n int) []*llm.Message {
	messages := make([]*llm.Message, 0, 2*n+1)
	messages = append(messages, user("[[mock tools]] go"))
	for i := range n {
		id := fmt.Sprintf("c1_%d_0", i+1)
		messages = append(messages,
			assistant(calling(id, fmt.Sprintf("call_%d_%d", i, i), "read", fmt.Sprintf(`{"file_path":"f%d.txt"}`, i))),
			result(id, llm.Text(fmt.Sprintf("     1\tline %d\n", i))))
	}
	return messages
}

// BenchmarkFirstEncode is the first request after the resume of 2,000 steps.
func BenchmarkFirstEncode(b *testing.B) {
	a, messages := provider(b, nil), steps(2000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := a.encode(&llm.Request{Header: noHeader, History: llm.NewHistory(messages...)}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkNextEncode is one step more in a session of 2,000 messages.
func BenchmarkNextEncode(b *testing.B) {
	a, messages := provider(b, nil), steps(1000)
	var h llm.Builder
	h.Append(messages...)
	bodyOf(b, a, &llm.Request{Header: noHeader, History: h.History()})
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		i++
		id := fmt.Sprint("c2_", i, "_0")
		h.Append(assistant(calling(id, "call_x", "read", `{"file_path":"f1.txt"}`)), result(id, llm.Text("     1\tline\n")))
		if _, err := a.encode(&llm.Request{Header: noHeader, History: h.History()}); err != nil {
			b.Fatal(err)
		}
	}
}
