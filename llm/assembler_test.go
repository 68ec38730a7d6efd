package llm

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func assemble(t interface{ Fatalf(string, ...any) }, chunks ...Chunk) *Assembler {
	a := &Assembler{}
	for _, c := range chunks {
		if _, err := a.Add(c); err != nil {
			t.Fatalf("Add(%+v): %v", c, err)
		}
	}
	return a
}

func delta(index int, b BlockType, text string) Chunk {
	return Chunk{Index: index, Block: b, Text: text}
}
func end(index int, whole *Block) Chunk {
	return Chunk{Kind: ChunkBlockEnd, Index: index, Whole: whole}
}

func TestAssembler(t *testing.T) {
	whole := Block{Type: BlockToolCall, ProviderID: "w", Name: "edit", Arguments: `{"all":1}`}
	opaque := Block{Type: BlockOpaque, Opaque: []byte(`{"x":1}`)}
	for name, tc := range map[string]struct {
		chunks []Chunk
		want   []Block
	}{
		"nothing": {nil, []Block{}},
		"deltas are joined": {
			[]Chunk{delta(0, BlockText, "a"), delta(0, BlockText, "b"), end(0, nil)},
			[]Block{{Type: BlockText, Text: "ab"}},
		},
		"blocks stand in the order of first sight": {
			[]Chunk{delta(7, BlockReasoning, "r"), delta(2, BlockText, "t"), delta(7, BlockReasoning, "r")},
			[]Block{{Type: BlockReasoning, Text: "rr"}, {Type: BlockText, Text: "t"}},
		},
		"an empty block is a block": {
			[]Chunk{delta(0, BlockReasoning, "")}, []Block{{Type: BlockReasoning}},
		},
		"a call's id and name may come late, the last wins, arguments add up": {
			[]Chunk{
				{Block: BlockToolCall, Text: `{"a"`},
				{Block: BlockToolCall, Text: `:`, ProviderID: "x", Name: "rea"},
				{Block: BlockToolCall, Text: `1}`, ProviderID: "y", Name: "read"},
				{Block: BlockToolCall},
			},
			[]Block{{Type: BlockToolCall, ProviderID: "y", Name: "read", Arguments: `{"a":1}`}},
		},
		"a whole block replaces what was accumulated": {
			[]Chunk{delta(0, BlockToolCall, `{"al`), end(0, &whole)}, []Block{whole},
		},
		"a whole block needs no deltas":    {[]Chunk{end(3, &opaque)}, []Block{opaque}},
		"an end of nothing is nothing":     {[]Chunk{end(3, nil)}, []Block{}},
		"a delta of another type is none":  {[]Chunk{delta(0, BlockText, "a"), delta(0, BlockToolCall, "b")}, []Block{Text("a")}},
		"opaque blocks have no deltas":     {[]Chunk{delta(0, BlockOpaque, "a")}, []Block{}},
		"a straggler for a closed block":   {[]Chunk{delta(0, BlockText, "a"), end(0, nil), delta(0, BlockText, "b")}, []Block{Text("a")}},
		"usage and finish make no blocks":  {[]Chunk{{Kind: ChunkUsage}, {Kind: ChunkFinish, Finish: FinishStop}}, []Block{}},
		"deltas after the finish still do": {[]Chunk{{Kind: ChunkFinish, Finish: FinishStop}, delta(0, BlockText, "a")}, []Block{Text("a")}},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(tc.want, assemble(t, tc.chunks...).Blocks()); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestS18_TheFirstEndOfABlockWins(t *testing.T) {
	second := Text("another")
	a := assemble(t, delta(0, BlockText, "shown"), end(0, nil))
	for _, c := range []Chunk{end(0, &second), end(0, nil), delta(0, BlockText, "late")} {
		if kept, err := a.Add(c); kept || err != nil {
			t.Errorf("Add(%+v) = %v, %v after the block was closed", c, kept, err)
		}
	}
	if d := cmp.Diff([]Block{Text("shown")}, a.Blocks()); d != "" {
		t.Error(d)
	}
}

func TestAssemblerInterrupted(t *testing.T) {
	a := assemble(t,
		delta(0, BlockReasoning, "why"), end(0, nil), delta(1, BlockText, "par"),
		delta(2, BlockText, " \n\t"), delta(3, BlockToolCall, "{}"), end(3, nil), delta(4, BlockReasoning, ""))
	want := []Block{{Type: BlockReasoning, Text: "why"}, Text("par")}
	if d := cmp.Diff(want, a.Interrupted()); d != "" {
		t.Error(d)
	}
	if len(a.Blocks()) != 5 {
		t.Errorf("%d blocks after Interrupted", len(a.Blocks()))
	}
}

func TestAssemblerBounds(t *testing.T) {
	var a Assembler
	half := strings.Repeat("x", MaxBlock/2)
	for range 2 {
		if _, err := a.Add(delta(0, BlockText, half)); err != nil {
			t.Fatal(err)
		}
	}
	_, err := a.Add(delta(0, BlockText, "x"))
	var e *Error
	if !errors.As(err, &e) || e.Code != CodeMalformed {
		t.Fatalf("one byte too many: %v", err)
	}
	if len(a.Blocks()[0].Text) != MaxBlock {
		t.Error("the text so far is gone")
	}
	for i := 1; ; i++ {
		if _, err := a.Add(delta(i, BlockText, "")); err != nil {
			if i != maxBlocks {
				t.Errorf("the error came at block %d: %v", i, err)
			}
			break
		}
	}
}

func TestFinishTruncated(t *testing.T) {
	for f, want := range map[Finish]bool{
		FinishStop: false, FinishToolCalls: false, FinishMaxTokens: true, FinishContentFilter: true, "something new": false,
	} {
		if f.Truncated() != want {
			t.Errorf("%q: %v", f, !want)
		}
	}
}

// anyChunk is a chunk of any known kind, in any order, also against the grammar.
func anyChunk() *rapid.Generator[Chunk] {
	types := []BlockType{BlockText, BlockReasoning, BlockToolCall, BlockImage, BlockOpaque}
	text := rapid.SampledFrom([]string{"", "a", "bc", " ", "漢", "\xff", `{"x":`})
	return rapid.Custom(func(t *rapid.T) Chunk {
		c := Chunk{Kind: rapid.SampledFrom([]ChunkKind{ChunkDelta, ChunkDelta, ChunkDelta, ChunkBlockEnd, ChunkUsage, ChunkFinish}).Draw(t, "kind")}
		switch c.Kind {
		case ChunkDelta:
			c.Index, c.Block, c.Text = rapid.IntRange(-1, 4).Draw(t, "index"), rapid.SampledFrom(types).Draw(t, "type"), text.Draw(t, "text")
			if c.Block == BlockToolCall {
				c.ProviderID, c.Name = rapid.SampledFrom([]string{"", "id", "other"}).Draw(t, "id"), rapid.SampledFrom([]string{"", "read"}).Draw(t, "name")
			}
		case ChunkBlockEnd:
			c.Index = rapid.IntRange(-1, 4).Draw(t, "index")
			if rapid.Bool().Draw(t, "whole") {
				c.Whole = &Block{Type: rapid.SampledFrom(types).Draw(t, "type"), Text: text.Draw(t, "text")}
			}
		case ChunkUsage:
			c.Usage.Input = rapid.Int64Range(0, 9).Draw(t, "input")
		case ChunkFinish:
			c.Finish = rapid.SampledFrom([]Finish{FinishStop, FinishToolCalls, FinishMaxTokens, FinishContentFilter}).Draw(t, "finish")
		}
		return c
	})
}

func TestAssemblerLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		chunks := rapid.SliceOfN(anyChunk(), 0, 40).Draw(t, "chunks")
		a, seen := &Assembler{}, map[int]bool{}
		var kept []Chunk
		finish, usage := FinishStop, (*Usage)(nil)
		for _, c := range chunks {
			before := a.Blocks()
			ok, err := a.Add(c)
			if err != nil {
				t.Fatalf("a stream of known kinds failed: %v", err)
			}
			if !ok && !cmp.Equal(before, a.Blocks()) {
				t.Fatalf("%+v was not kept and changed the blocks", c)
			}
			if ok {
				kept = append(kept, c)
			}
			switch c.Kind {
			case ChunkDelta, ChunkBlockEnd:
				seen[c.Index] = true
			case ChunkFinish:
				finish = c.Finish
			case ChunkUsage:
				usage = &c.Usage
			}
		}
		blocks := a.Blocks()
		if len(blocks) > len(seen) {
			t.Fatalf("%d blocks from %d indices", len(blocks), len(seen))
		}
		if !cmp.Equal(blocks, a.Blocks()) {
			t.Fatal("assembling twice gives two answers")
		}
		for _, b := range blocks {
			if !slices.Contains([]BlockType{BlockText, BlockReasoning, BlockToolCall, BlockImage, BlockOpaque}, b.Type) {
				t.Fatalf("unknown type %q", b.Type)
			}
		}
		if a.Finish() != finish || !cmp.Equal(a.Usage(), usage) {
			t.Fatalf("finish %q, usage %v; the last were %q, %v", a.Finish(), a.Usage(), finish, usage)
		}
		// What was kept is the answer: a reader of it sees the same.
		if d := cmp.Diff(blocks, assemble(t, kept...).Blocks()); d != "" {
			t.Fatal(d)
		}
	})
}

// TestS18_WhatWasStreamedAgreesWithTheBlocks: at any moment, what a reader has put
// together from the kept chunks is the beginning of the final answer.
func TestS18_WhatWasStreamedAgreesWithTheBlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		chunks := rapid.SliceOfN(anyChunk(), 0, 40).Draw(t, "chunks")
		type shown struct {
			text   string
			closed bool
		}
		reader, replaced := map[int]*shown{}, map[int]bool{}
		var order []int
		a := &Assembler{}
		var history []map[int]shown
		for _, c := range chunks {
			kept, err := a.Add(c)
			if err != nil {
				t.Fatalf("%v", err)
			}
			if kept && (c.Kind == ChunkDelta || c.Kind == ChunkBlockEnd) {
				if reader[c.Index] == nil {
					reader[c.Index] = &shown{}
					order = append(order, c.Index)
				}
				s := reader[c.Index]
				if s.closed {
					t.Fatalf("%+v was kept after the end of its block", c)
				}
				s.text += c.Text
				if s.closed = c.Kind == ChunkBlockEnd; s.closed && c.Whole != nil {
					s.text, replaced[c.Index] = c.Whole.Text, true
				}
			}
			now := map[int]shown{}
			for i, s := range reader {
				now[i] = *s
			}
			history = append(history, now)
		}
		final := map[int]Block{}
		blocks := a.Blocks()
		for _, i := range order { // blocks that came without a type of their own are not in the answer
			if s := a.places[i]; s != nil {
				if _, ok := s.block(); ok {
					final[i], blocks = blocks[0], blocks[1:]
				}
			}
		}
		for _, now := range history {
			for i, s := range now {
				b, ok := final[i]
				if !ok {
					continue
				}
				text := b.Text
				if b.Type == BlockToolCall && !replaced[i] {
					text = b.Arguments
				}
				switch {
				case s.closed && s.text != text:
					t.Fatalf("block %d was closed as %q and is %q", i, s.text, text)
				case !s.closed && !replaced[i] && !strings.HasPrefix(text, s.text):
					t.Fatalf("block %d showed %q and is %q", i, s.text, text)
				}
			}
		}
	})
}

func TestCheckEffort(t *testing.T) {
	m := Model{Provider: "p", ID: "m", Efforts: []string{"low", "high"}}
	for _, ok := range []error{m.CheckEffort(""), m.CheckEffort("low"), Model{}.CheckEffort("anything")} {
		if ok != nil {
			t.Error(ok)
		}
	}
	err := m.CheckEffort("huge")
	if want := `p/m has no reasoning effort "huge"; choose one of low, high`; err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
	m.Efforts = []string{}
	if err := m.CheckEffort("low"); err == nil {
		t.Error("a model without efforts took one")
	}
}

func BenchmarkAssemble(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		var a Assembler
		for range 1000 {
			if _, err := a.Add(Chunk{Block: BlockText, Text: "tok "}); err != nil {
				b.Fatal(err)
			}
		}
		if len(a.Blocks()[0].Text) != 4000 {
			b.Fatal("text is missing")
		}
	}
}
