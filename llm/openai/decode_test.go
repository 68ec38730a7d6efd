package openai

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/llm/llmtest"
)

// say returns a stream of these chunk objects that is complete.
func say(objects ...string) string {
	var out strings.Builder
	for _, o := range append(objects, `{"choices":[{"delta":{},"finish_reason":"stop"}]}`, `[DONE]`) {
		fmt.Fprintf(&out, "data: %s\n\n", o)
	}
	return out.String()
}

func delta(s string) string { return `{"choices":[{"index":0,"delta":` + s + `}]}` }

func decoded(t *testing.T, dialect Dialect, stream string) llmtest.Collected {
	t.Helper()
	return ask(t, reading(t, dialect, func() io.Reader { return strings.NewReader(stream) }), user("x"))
}

// TestQuirks are the ways in which servers bend the wire.
func TestQuirks(t *testing.T) {
	for name, tc := range map[string]struct {
		objects []string
		want    []llm.Block
	}{
		"an object for a few letters": {[]string{delta(`{"content":"a"}`), delta(`{"content":"b"}`)}, []llm.Block{llm.Text("ab")}},
		"empty content opens no block": {
			[]string{delta(`{"role":"assistant","content":""}`), delta(`{"content":null}`), delta(`null`), delta(`{"content":"x"}`)},
			[]llm.Block{llm.Text("x")},
		},
		"thought stands before speech, whatever the order of members": {
			[]string{delta(`{"content":"said","reasoning_content":"thought"}`)}, []llm.Block{thought("thought"), llm.Text("said")},
		},
		"both names of reasoning":        {[]string{delta(`{"reasoning":"why","reasoning_content":"why"}`), delta(`{"content":"x"}`)}, []llm.Block{thought("why"), llm.Text("x")}},
		"reasoning by its other name":    {[]string{delta(`{"reasoning":"why","reasoning_details":[{}]}`), delta(`{"content":"x"}`)}, []llm.Block{thought("why"), llm.Text("x")}},
		"empty reasoning opens no block": {[]string{delta(`{"reasoning_content":""}`), delta(`{"content":"x"}`)}, []llm.Block{llm.Text("x")}},
		"a refusal is text":              {[]string{delta(`{"refusal":"I will not"}`)}, []llm.Block{llm.Text("I will not")}},
		"escapes and surrogates":         {[]string{delta(`{"content":"\u4fee\n\ud83d\udc30\"\\\/\ud83d!"}`)}, []llm.Block{llm.Text("修\n🐰\"\\/\ufffd!")}},
		"bytes that are not UTF-8":       {[]string{delta("{\"content\":\"a\xffb\"}")}, []llm.Block{llm.Text("a\ufffdb")}},
		"only the first choice": {
			[]string{`{"choices":[{"delta":{"content":"a"}},{"index":1,"delta":{"content":"b"}}]}`}, []llm.Block{llm.Text("a")},
		},
		"unknown members": {
			[]string{`{"x":{"y":[1,{"z":null}]},"choices":[{"logprobs":null,"delta":{"content":"a","audio":{}},"x":[]}],"service_tier":"default"}`}, []llm.Block{llm.Text("a")},
		},
		"indices that interleave": {
			[]string{
				delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}},{"index":1,"id":"b","function":{"name":"g","arguments":"{"}}]}`),
				delta(`{"tool_calls":[{"index":1,"function":{"arguments":"}"}},{"index":0,"function":{"arguments":"}"}}]}`),
			},
			[]llm.Block{calling("", "a", "f", "{}"), calling("", "b", "g", "{}")},
		},
		"index 0 for every call": {
			[]string{
				delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}`),
				delta(`{"tool_calls":[{"index":0,"id":"b","function":{"name":"f","arguments":"{\"x\":"}}]}`),
				delta(`{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]}`),
			},
			[]llm.Block{calling("", "a", "f", "{}"), calling("", "b", "f", `{"x":1}`)},
		},
		"a fresh id with every fragment": {
			[]string{
				delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}]}`),
				delta(`{"tool_calls":[{"index":0,"id":"b","function":{"arguments":"}"}}]}`),
			},
			[]llm.Block{calling("", "a", "f", "{}")},
		},
		"a fresh id with every fragment, no index": {
			[]string{
				delta(`{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{"}}]}`),
				delta(`{"tool_calls":[{"id":"b","function":{"arguments":"}"}}]}`),
			},
			[]llm.Block{calling("", "a", "f", "{}")},
		},
		"id and name with every fragment": {
			[]string{
				delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}]}`),
				delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"}"}}]}`),
			},
			[]llm.Block{calling("", "a", "f", "{}")},
		},
		"neither index nor id": {
			[]string{
				delta(`{"tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}`),
				delta(`{"tool_calls":[{"function":{"name":"g","arguments":"{}"}}]}`),
			},
			[]llm.Block{calling("", "", "f", "{}"), calling("", "", "g", "{}")},
		},
		"two calls of one id": {
			[]string{delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f"}},{"index":1,"id":"a","function":{"name":"g"}}]}`)},
			[]llm.Block{calling("", "a", "f", ""), calling("", "a", "g", "")},
		},
		"an id that comes late, or is a number": {
			[]string{
				delta(`{"tool_calls":[{"index":0,"id":null,"function":{"name":"f","arguments":null}}]}`),
				delta(`{"tool_calls":[{"index":0,"id":7,"function":null}]}`),
			},
			[]llm.Block{calling("", "7", "f", "")},
		},
		"arguments as an object": {
			[]string{delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":{"x": [1]}}}]}`)},
			[]llm.Block{calling("", "a", "f", `{"x": [1]}`)},
		},
		"tool_calls null": {[]string{delta(`{"content":"x","tool_calls":null}`)}, []llm.Block{llm.Text("x")}},
	} {
		t.Run(name, func(t *testing.T) { want(t, decoded(t, OpenAI, say(tc.objects...)), tc.want...) })
	}
}

func TestFinishReasons(t *testing.T) {
	call := delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}`)
	text := delta(`{"content":"x"}`)
	for reason, want := range map[string][2]llm.Finish{ // with text only, with a call
		"stop":           {llm.FinishStop, llm.FinishToolCalls},
		"tool_calls":     {llm.FinishStop, llm.FinishToolCalls},
		"function_call":  {llm.FinishStop, llm.FinishToolCalls},
		"end_turn":       {llm.FinishStop, llm.FinishToolCalls},
		"length":         {llm.FinishMaxTokens, llm.FinishMaxTokens},
		"max_tokens":     {llm.FinishMaxTokens, llm.FinishMaxTokens},
		"content_filter": {llm.FinishContentFilter, llm.FinishContentFilter},
	} {
		for i, first := range []string{text, call} {
			stream := "data: " + first + "\n\ndata: {\"choices\":[{\"delta\":{},\"finish_reason\":\"" + reason + "\"}]}\n\ndata: [DONE]\n\n"
			if got := decoded(t, OpenAI, stream); got.Err != nil || got.Finish != want[i] {
				t.Errorf("%s: %q %v", reason, got.Finish, got.Err)
			}
		}
	}
}

func TestUsage(t *testing.T) {
	for name, tc := range map[string]struct {
		usage string
		want  *llm.Usage
	}{
		"none":              {`null`, nil},
		"OpenAI":            {`{"prompt_tokens":100,"completion_tokens":20,"prompt_tokens_details":{"cached_tokens":64,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":8}}`, &llm.Usage{Input: 36, CacheRead: 64, Output: 20, Reasoning: 8}},
		"DeepSeek":          {`{"prompt_tokens":100,"completion_tokens":20,"prompt_cache_hit_tokens":64,"prompt_cache_miss_tokens":36}`, &llm.Usage{Input: 36, CacheRead: 64, Output: 20}},
		"both":              {`{"prompt_tokens":100,"completion_tokens":20,"prompt_cache_hit_tokens":64,"prompt_tokens_details":{"cached_tokens":64}}`, &llm.Usage{Input: 36, CacheRead: 64, Output: 20}},
		"details are null":  {`{"prompt_tokens":1,"completion_tokens":2,"prompt_tokens_details":null}`, &llm.Usage{Input: 1, Output: 2}},
		"more hits than it": {`{"prompt_tokens":10,"completion_tokens":2,"prompt_cache_hit_tokens":64}`, &llm.Usage{CacheRead: 10, Output: 2}},
		"more thought":      {`{"prompt_tokens":10,"completion_tokens":2,"completion_tokens_details":{"reasoning_tokens":5}}`, &llm.Usage{Input: 10, Output: 2, Reasoning: 2}},
		"zeros":             {`{"prompt_tokens":0,"completion_tokens":0}`, nil},
		"negative":          {`{"prompt_tokens":-5,"completion_tokens":2}`, nil},
		"2^63":              {`{"prompt_tokens":9223372036854775808,"completion_tokens":2}`, nil},
		"2^63-1":            {`{"prompt_tokens":1,"completion_tokens":9223372036854775807}`, nil},
		"a fraction":        {`{"prompt_tokens":1.5,"completion_tokens":2}`, nil},
		"a string":          {`{"prompt_tokens":"1","completion_tokens":2}`, nil},
		"no object":         {`[1]`, nil},
	} {
		for where, stream := range map[string]string{
			"of its own": say(delta(`{"content":"x"}`), `{"choices":[],"usage":`+tc.usage+`}`),
			"first":      say(`{"choices":[],"usage":`+tc.usage+`}`, delta(`{"content":"x"}`)),
			"beside":     say(`{"choices":[{"delta":{"content":"x"}}],"usage":` + tc.usage + `}`),
			"in choices": say(`{"choices":[{"delta":{"content":"x"},"usage":` + tc.usage + `}]}`),
		} {
			got := decoded(t, OpenAI, stream)
			if d := cmp.Diff(tc.want, got.Usage); d != "" || got.Err != nil {
				t.Errorf("%s, %s: error %v, usage %s", name, where, got.Err, d)
			}
		}
	}
	// The last one counts; an absurd one makes it unknown.
	first := `{"choices":[{"delta":{"content":"x"}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`
	if got := decoded(t, OpenAI, say(first, `{"usage":{"prompt_tokens":2,"completion_tokens":3}}`)); !cmp.Equal(got.Usage, &llm.Usage{Input: 2, Output: 3}) {
		t.Errorf("%+v", got.Usage)
	}
	if got := decoded(t, OpenAI, say(first, `{"usage":{"prompt_tokens":-1}}`)); got.Usage != nil {
		t.Errorf("%+v", got.Usage)
	}
}

func TestAnEventAboveTheLimit(t *testing.T) {
	long := strings.Repeat("x", 17<<20)
	got := decoded(t, OpenAI, "data: {\"choices\":[{\"delta\":{\"content\":\""+long+"\"}}]}\n\n")
	if e := failure(t, got.Err); e.Code != llm.CodeMalformed || !strings.Contains(e.Error(), "more than 16 MiB") {
		t.Error(e)
	}
}

// stream20k is an answer of 20,000 chunks, in the form that servers send.
func stream20k() string {
	const chunk = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1764540000,"model":"mock","choices":[{"delta":{"content":"tok "},"finish_reason":null,"index":0}]}` + "\n\n"
	return strings.Repeat(chunk, 20000) + say()
}

func BenchmarkDecode(b *testing.B) {
	stream := stream20k()
	a := reading(b, DeepSeek, func() io.Reader { return strings.NewReader(stream) })
	req := &llm.Request{Header: noHeader, History: llm.NewHistory(user("x"))}
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for _, err := range a.Stream(b.Context(), req) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n < 20000 {
			b.Fatal(n)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/20000, "ns/chunk")
}

func BenchmarkDecodeAndAssemble(b *testing.B) {
	stream := stream20k()
	a := reading(b, DeepSeek, func() io.Reader { return strings.NewReader(stream) })
	req := &llm.Request{Header: noHeader, History: llm.NewHistory(user("x"))}
	b.ReportAllocs()
	for b.Loop() {
		var answer llm.Assembler
		for c, err := range a.Stream(b.Context(), req) {
			if err != nil {
				b.Fatal(err)
			}
			if _, err := answer.Add(c); err != nil {
				b.Fatal(err)
			}
		}
		if len(answer.Blocks()[0].Text) != 80000 {
			b.Fatal("text is missing")
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/20000, "ns/chunk")
}
