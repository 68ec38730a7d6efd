package session_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/session/jsonl"
	"github.com/dsh-harness/dsh/session/sessiontest"
)

// readStep is what a step in which the model reads a file appends, in the batches
// between which the loop flushes. About 1,500 bytes.
func readStep(turn, step int) [][]session.Draft {
	call := fmt.Sprintf("c%d_%d_1", turn, step)
	arguments := fmt.Sprintf(`{"file_path":"internal/server/handler_%d.go"}`, step)
	return [][]session.Draft{{
		{Type: session.StepStart, Data: session.StepData{Turn: turn, Step: step}},
	}, {
		{Type: session.AssistantMessage, Data: session.AssistantData{
			Turn: turn, Step: step, Provider: "deepseek", Model: "deepseek-v4-flash", Finish: llm.FinishToolCalls,
			Usage: &llm.Usage{Input: 120, Output: 60, CacheRead: 4000},
			Message: session.AssistantContent{ID: fmt.Sprintf("m%d-%d", turn, step), Content: []llm.Block{
				{Type: llm.BlockReasoning, Text: strings.Repeat("The handler must be read first. ", 3)},
				{Type: llm.BlockToolCall, CallID: call, ProviderID: "call_" + call, Name: "read", Arguments: arguments},
			}},
		}},
		{Type: session.ToolCall, Data: session.ToolCallData{
			Turn: turn, Step: step, CallID: call, ProviderID: "call_" + call, Name: "read", Arguments: arguments, Effect: session.EffectRead,
		}},
	}, {
		{Type: session.ToolResult, Data: session.ToolResultData{
			Turn: turn, Step: step, CallID: call, Content: []llm.Block{llm.Text(strings.Repeat("\tif err != nil {\n\t\treturn err\n\t}\n", 15))},
		}},
		{Type: session.StepEnd, Data: session.StepData{Turn: turn, Step: step}},
	}}
}

func openTurn(tb testing.TB, s *session.Session, turn int) {
	tb.Helper()
	mustAppend(tb, s,
		session.Draft{Type: session.TurnStart, Data: session.TurnStartData{Turn: turn}},
		session.Draft{Type: session.UserMessage, Data: session.InputData{ID: fmt.Sprint("u", turn), Content: []llm.Block{llm.Text("Read all handlers.")}}},
	)
}

func closeTurn(tb testing.TB, s *session.Session, turn int) {
	tb.Helper()
	mustAppend(tb, s, session.Draft{Type: session.TurnEnd, Data: session.TurnEndData{Turn: turn, Reason: session.Completed}})
}

func mustAppend(tb testing.TB, s *session.Session, drafts ...session.Draft) {
	tb.Helper()
	if _, err := s.Append(drafts...); err != nil {
		tb.Fatal(err)
	}
}

func files(tb testing.TB) *sessiontest.Env {
	dir := tb.TempDir()
	return sessiontest.RunPlugin(tb, jsonl.Plugin, func(c *jsonl.Config) { c.Dir = dir })
}

func BenchmarkAppendStep(b *testing.B) {
	s := sessiontest.Run(b, nil).New(session.PrepareOptions{})
	openTurn(b, s, 1)
	b.ReportAllocs()
	step := 0
	for b.Loop() {
		step++
		for _, batch := range readStep(1, step) {
			mustAppend(b, s, batch...)
		}
	}
}

func BenchmarkAppendFlushStep(b *testing.B) {
	s := files(b).New(session.PrepareOptions{})
	openTurn(b, s, 1)
	if err := s.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	step, before := 0, cpuTime()
	for b.Loop() {
		step++
		for i, batch := range readStep(1, step) {
			mustAppend(b, s, batch...)
			if i < 2 {
				if err := s.Flush(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	b.ReportMetric(float64((cpuTime()-before).Microseconds())/float64(b.N), "cpu-µs/op")
}

func BenchmarkHistory(b *testing.B) {
	s := sessiontest.Run(b, nil).New(session.PrepareOptions{})
	fill(b, s, 2000)
	b.ReportAllocs()
	for b.Loop() {
		if s.History().Len() != 4001 {
			b.Fatal(s.History().Len())
		}
	}
}

func fill(tb testing.TB, s *session.Session, steps int) {
	tb.Helper()
	openTurn(tb, s, 1)
	for i := range steps {
		for _, batch := range readStep(1, i+1) {
			mustAppend(tb, s, batch...)
		}
	}
	closeTurn(tb, s, 1)
}

func benchmarkOpen(b *testing.B, steps int) {
	e := files(b)
	s := e.New(session.PrepareOptions{ID: "long"})
	fill(b, s, steps)
	if err := s.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	before := cpuTime()
	for b.Loop() {
		s, err := e.Store.Restore(b.Context(), "long", session.RestoreOptions{})
		if err != nil {
			b.Fatal(err)
		}
		if s.History().Len() != 2*steps+1 {
			b.Fatal(s.History().Len())
		}
		if err := s.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64((cpuTime()-before).Microseconds())/float64(b.N), "cpu-µs/op")
}

func BenchmarkOpen200(b *testing.B)  { benchmarkOpen(b, 200) }
func BenchmarkOpen2000(b *testing.B) { benchmarkOpen(b, 2000) }

func BenchmarkFollow(b *testing.B) {
	e := files(b)
	s := e.New(session.PrepareOptions{ID: "long"})
	fill(b, s, 2000)
	if err := s.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for _, err := range s.Follow(b.Context(), 0) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != 5*2000+3 {
			b.Fatal(n)
		}
	}
}
