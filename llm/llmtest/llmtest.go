// Package llmtest is the contract of model adapters, as tests: the suite that every
// implementation of [llm.Adapter] runs, and the grammar of the streams.
package llmtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dsh-harness/dsh/llm"
)

// Collected is a stream that was read to its end.
type Collected struct {
	Chunks []llm.Chunk
	Blocks []llm.Block
	Usage  *llm.Usage
	Finish llm.Finish
	Err    error
}

// Collect reads a stream.
func Collect(stream llm.Stream) (c Collected) {
	var a llm.Assembler
	for chunk, err := range stream {
		if err != nil {
			c.Err = err
			continue
		}
		c.Chunks = append(c.Chunks, chunk)
		if _, err := a.Add(chunk); err != nil {
			c.Err = err
			break
		}
	}
	c.Blocks, c.Usage, c.Finish = a.Blocks(), a.Usage(), a.Finish()
	return c
}

// CheckGrammar returns nil when the stream is well formed: a block is opened by its
// first delta and closed once; nothing follows the finish but errors, and nothing
// at all an error, which is an [*llm.Error]; a stream without an error has exactly one
// finish, before which all blocks are closed, and at most one usage.
func CheckGrammar(stream llm.Stream) error {
	open, closed := map[int]llm.BlockType{}, map[int]bool{}
	var usages, finishes, errs int
	for c, err := range stream {
		if errs > 0 {
			return errors.New("something follows an error")
		}
		if err != nil {
			errs++
			if e := (*llm.Error)(nil); !errors.As(err, &e) {
				return fmt.Errorf("the error is a %T", err)
			}
			if strings.ContainsAny(err.Error(), "\n\r<>") {
				return fmt.Errorf("the error is no line without markup: %q", err)
			}
			continue
		}
		if finishes > 0 {
			return fmt.Errorf("%+v follows the finish", c)
		}
		switch c.Kind {
		case llm.ChunkDelta:
			if kind, ok := open[c.Index]; closed[c.Index] || ok && kind != c.Block {
				return fmt.Errorf("%+v is no part of a block that is open", c)
			}
			open[c.Index] = c.Block
		case llm.ChunkBlockEnd:
			if _, ok := open[c.Index]; !ok && c.Whole == nil || closed[c.Index] {
				return fmt.Errorf("%+v ends no block that is open", c)
			}
			closed[c.Index] = true
			delete(open, c.Index)
		case llm.ChunkUsage:
			usages++
		case llm.ChunkFinish:
			finishes++
		default:
			return fmt.Errorf("unknown kind %d", c.Kind)
		}
	}
	switch {
	case errs > 0:
		return nil
	case finishes != 1 || usages > 1 || len(open) > 0:
		return fmt.Errorf("%d finishes, %d usages, %d blocks left open", finishes, usages, len(open))
	}
	return nil
}

// Answer is what the other side of an adapter under test gives.
type Answer struct {
	Reasoning string
	Text      string
	Calls     []llm.Block // with ProviderID, Name and Arguments
	Finish    llm.Finish
	Usage     *llm.Usage
	Fail      bool // the provider fails, in a way that is worth another try
	Hold      bool // after the text nothing comes any more
}

// Run runs the suite. New returns an adapter whose other side gives these answers, one
// to each request, and the request to send.
func Run(t *testing.T, newAdapter func(t *testing.T, answers ...Answer) (llm.Adapter, *llm.Request)) {
	usage := &llm.Usage{Input: 10, Output: 5, CacheRead: 3}
	call := llm.Block{Type: llm.BlockToolCall, ProviderID: "p1", Name: "read", Arguments: `{"file_path":"a"}`}
	another := llm.Block{Type: llm.BlockToolCall, ProviderID: "p2", Name: "bash", Arguments: `{}`}

	t.Run("answers", func(t *testing.T) {
		for name, tc := range map[string]struct {
			answer Answer
			want   []llm.Block
		}{
			"text":      {Answer{Text: "hello 漢字 \"x\"\n", Finish: llm.FinishStop, Usage: usage}, []llm.Block{llm.Text("hello 漢字 \"x\"\n")}},
			"reasoning": {Answer{Reasoning: "hm", Text: "yes", Finish: llm.FinishStop}, []llm.Block{{Type: llm.BlockReasoning, Text: "hm"}, llm.Text("yes")}},
			"calls":     {Answer{Text: "I look", Calls: []llm.Block{call, another}, Finish: llm.FinishToolCalls, Usage: usage}, []llm.Block{llm.Text("I look"), call, another}},
			"ceiling":   {Answer{Calls: []llm.Block{call}, Finish: llm.FinishMaxTokens}, []llm.Block{call}},
		} {
			t.Run(name, func(t *testing.T) {
				a, req := newAdapter(t, tc.answer)
				var got Collected
				if err := CheckGrammar(tee(a.Stream(t.Context(), req), &got)); err != nil {
					t.Error(err)
				}
				if d := cmp.Diff(tc.want, got.Blocks); d != "" || got.Err != nil {
					t.Errorf("error %v, blocks %s", got.Err, d)
				}
				if got.Finish != tc.answer.Finish || !cmp.Equal(got.Usage, tc.answer.Usage) {
					t.Errorf("finish %q, usage %+v", got.Finish, got.Usage)
				}
			})
		}
	})

	t.Run("a failure is the last element", func(t *testing.T) {
		a, req := newAdapter(t, Answer{Fail: true}, Answer{Text: "fine", Finish: llm.FinishStop})
		var got Collected
		if err := CheckGrammar(tee(a.Stream(t.Context(), req), &got)); err != nil {
			t.Error(err)
		}
		var e *llm.Error
		if !errors.As(got.Err, &e) || !e.Code.Retryable() {
			t.Errorf("%v", got.Err)
		}
		if again := Collect(a.Stream(t.Context(), req)); again.Err != nil || len(again.Blocks) != 1 {
			t.Errorf("the next call: %+v", again)
		}
	})

	t.Run("nothing is sent before the stream is ranged over", func(t *testing.T) {
		a, req := newAdapter(t, Answer{Text: "first", Finish: llm.FinishStop})
		_ = a.Stream(t.Context(), req)
		if got := Collect(a.Stream(t.Context(), req)); got.Err != nil || llm.PlainText(got.Blocks) != "first" {
			t.Errorf("%+v", got)
		}
	})

	t.Run("cancelled before", func(t *testing.T) {
		a, req := newAdapter(t, Answer{Text: "x", Finish: llm.FinishStop})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		aborted(t, Collect(a.Stream(ctx, req)))
	})

	t.Run("cancelled during the answer", func(t *testing.T) {
		a, req := newAdapter(t, Answer{Text: "half", Hold: true})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var got Collected
		begin := time.Now()
		for c, err := range a.Stream(ctx, req) {
			if err != nil {
				got.Err = err
				continue
			}
			if got.Chunks = append(got.Chunks, c); c.Text != "" {
				cancel()
			}
		}
		aborted(t, got)
		if d := time.Since(begin); d > 5*time.Second {
			t.Errorf("it took %s", d)
		}
	})

	t.Run("left before its end", func(t *testing.T) {
		a, req := newAdapter(t, Answer{Text: "half", Hold: true}, Answer{Text: "next", Finish: llm.FinishStop})
		for c, err := range a.Stream(t.Context(), req) {
			if err != nil {
				t.Error(err)
			}
			if c.Text != "" {
				break
			}
		}
		if got := Collect(a.Stream(t.Context(), req)); got.Err != nil || llm.PlainText(got.Blocks) != "next" {
			t.Errorf("%+v", got)
		}
	})

	t.Run("many at once", func(t *testing.T) {
		const n = 8
		answers := make([]Answer, n)
		for i := range answers {
			answers[i] = Answer{Text: strings.Repeat("word ", 50), Calls: []llm.Block{call}, Finish: llm.FinishToolCalls}
		}
		a, req := newAdapter(t, answers...)
		var wg sync.WaitGroup
		for range n {
			wg.Go(func() {
				if got := Collect(a.Stream(t.Context(), req)); got.Err != nil || len(got.Blocks) != 2 {
					t.Errorf("%+v", got)
				}
			})
		}
		wg.Wait()
	})
}

func aborted(t *testing.T, got Collected) {
	t.Helper()
	var e *llm.Error
	if !errors.As(got.Err, &e) || e.Code != llm.CodeAborted {
		t.Errorf("%v, want an error with the code %s", got.Err, llm.CodeAborted)
	}
}

// tee collects what passes through.
func tee(stream llm.Stream, into *Collected) llm.Stream {
	return func(yield func(llm.Chunk, error) bool) {
		var a llm.Assembler
		defer func() { into.Blocks, into.Usage, into.Finish = a.Blocks(), a.Usage(), a.Finish() }()
		for c, err := range stream {
			if err != nil {
				into.Err = err
			} else if _, err := a.Add(c); err != nil {
				into.Err = err
			} else {
				into.Chunks = append(into.Chunks, c)
			}
			if !yield(c, err) {
				return
			}
		}
	}
}
