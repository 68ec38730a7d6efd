package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/dsh-harness/dsh/agent"
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/session"
)

// watched is a progress whose output a test looks at.
type watched struct {
	*progress
	t   *testing.T
	out *bytes.Buffer
}

func watch(t *testing.T) watched {
	out := &bytes.Buffer{}
	p := &program{lookup: func(string) (string, bool) { return "", false }}
	w := p.newProgress(stream{Writer: out})
	w.width = 40
	return watched{w, t, out}
}

func (w watched) tell(kind string, data any) {
	w.t.Helper()
	raw, err := json.Marshal(data)
	if err != nil {
		w.t.Fatal(err)
	}
	w.event(session.Event{Type: kind, Data: raw})
}

func (w watched) hear(step, attempt int, block llm.BlockType, text string) {
	w.chunk(agent.ChunkNotice{Turn: 1, Step: step, Attempt: attempt, Chunk: llm.Chunk{Kind: llm.ChunkDelta, Block: block, Text: text}})
}

func (w watched) want(want string) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.out.String()); diff != "" {
		w.t.Error(diff)
	}
}

func TestProgressIsInTheOrderOfTheLog(t *testing.T) {
	w := watch(t)
	w.tell(session.StepStart, session.StepData{Turn: 1, Step: 1})
	w.hear(1, 1, llm.BlockReasoning, "hidden")
	w.hear(1, 1, llm.BlockText, "\n\nI look ")
	w.hear(1, 1, llm.BlockText, "at it.")
	w.tell(session.ToolCall, session.ToolCallData{CallID: "a", Name: "read", Arguments: `{"offset":3,"file_path":"a.txt"}`})
	w.tell(session.ToolCall, session.ToolCallData{CallID: "b", Name: "bash", Arguments: `{"command":"printf 'one\ntwo'   | sort --reverse"}`})
	// The next answer begins before anybody has heard of the results.
	w.hear(2, 1, llm.BlockText, "It was")
	w.tell(session.ToolResult, session.ToolResultData{CallID: "a", Content: []llm.Block{llm.Text("Error: there is no file a.txt\nlook elsewhere")}, IsError: true})
	w.tell(session.ToolResult, session.ToolResultData{CallID: "b", Content: []llm.Block{llm.Text("one\ntwo")}})
	w.tell(session.StepStart, session.StepData{Turn: 1, Step: 2})
	w.tell(session.Retry, session.RetryData{Attempt: 1, DelayMS: 1540, Failure: session.ErrorData{Message: "it was slow"}})
	w.hear(2, 2, llm.BlockText, "It is")
	w.hear(2, 2, llm.BlockText, " not there.")
	if !w.end("It is not there.\n") || w.end("another") {
		t.Error("it does not know what it has written")
	}
	w.want(`I look at it.
→ read a.txt
→ bash printf 'one two' | sort --rever…
  ✗ there is no file a.txt
It was
… again in 1.5s: it was slow
It is not there.
`)
}

func TestProgressShowsResultsWhereThatIsWanted(t *testing.T) {
	w := watch(t)
	w.output, w.reason = 2, true
	w.tell(session.StepStart, session.StepData{Turn: 1, Step: 1})
	w.hear(1, 1, llm.BlockReasoning, "hm")
	w.hear(1, 1, llm.BlockText, "so")
	w.tell(session.ToolCall, session.ToolCallData{CallID: "a", Name: "x", Arguments: `{}`})
	w.tell(session.ToolResult, session.ToolResultData{CallID: "a", Content: []llm.Block{llm.Text("\tone\n  two\nthree\nfour\n")}})
	w.tell(session.StepStart, session.StepData{Turn: 1, Step: 2})
	w.tell(session.ToolCall, session.ToolCallData{CallID: "b", Name: "x", Arguments: `{}`})
	w.tell(session.ToolCall, session.ToolCallData{CallID: "c", Name: "y", Arguments: `broken`})
	w.tell(session.ToolResult, session.ToolResultData{CallID: "b", Content: []llm.Block{llm.Text("1\n2\n3")}})
	w.tell(session.ToolResult, session.ToolResultData{CallID: "c"})
	w.want(`hm
so
→ x {}
        one
      two
    … 2 more lines
→ x {}
→ y broken
  x:
    1
    2
    3
`)
}

func TestWhatOthersWroteCannotControlTheTerminal(t *testing.T) {
	w := watch(t)
	w.tell(session.StepStart, session.StepData{Turn: 1, Step: 1})
	w.hear(1, 1, llm.BlockText, "a\x1b[31mb\x07\u202ec\r\n")
	w.tell(session.ToolCall, session.ToolCallData{CallID: "a", Name: "x\x1b]0;y", Arguments: `{"command":"\u001b[2J"}`})
	w.want("a[31mbc\n→ x]0;y [2J\n")
}

func FuzzPlain(f *testing.F) {
	for _, s := range []string{"", "a\tb\n", "\x1b[0m", "\xff\xfe", "\u202e\u2066", "äöü 漢字"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p := plain(s)
		if strings.ContainsFunc(p, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 || r == '\u202e' }) || !utf8.ValidString(p) || plain(p) != p {
			t.Errorf("%q became %q", s, p)
		}
		if one := oneLine(s, 10); utf8.RuneCountInString(one) > 10 || strings.ContainsAny(one, "\n\t") {
			t.Errorf("%q became the line %q", s, one)
		}
	})
}

func TestArgument(t *testing.T) {
	for raw, want := range map[string]string{
		`{"description":"d","command":"c"}`: "c",
		`{"n":1,"text":"t","more":"m"}`:     "t",
		`{"n":1}`:                           `{"n":1}`,
		`{"a":{"command":"inner"}}`:         `{"a":{"command":"inner"}}`,
		`[1]`:                               `[1]`,
		`{"command":`:                       `{"command":`,
		``:                                  ``,
	} {
		if got := argument(raw); got != want {
			t.Errorf("%s: %q, want %q", raw, got, want)
		}
	}
}
