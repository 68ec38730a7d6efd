package llm

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestHistoryLaws runs random appends and replacements against a plain slice:
// views never change, and share a memo exactly while they only grew.
func TestHistoryLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b Builder
		var model []*Message
		type view struct {
			h    History
			want []*Message
			line int
		}
		var views []view
		line, n := 0, 0
		fresh := func() *Message { n++; return &Message{ID: fmt.Sprint(n)} }
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				m := fresh()
				b.Append(m)
				model = append(model[:len(model):len(model)], m)
			},
			"replace": func(t *rapid.T) {
				i := rapid.IntRange(0, len(model)).Draw(t, "i")
				j := rapid.IntRange(i, len(model)).Draw(t, "j")
				m := fresh()
				b.Replace(i, j, m)
				next := append([]*Message{}, model[:i]...)
				model = append(append(next, m), model[j:]...)
				line++
			},
			"view": func(t *rapid.T) {
				h := b.History()
				at := h.Memo("line", func() any { return line })
				if at != line {
					t.Fatalf("the memo is of line %v, not %d", at, line)
				}
				views = append(views, view{h, model, line})
			},
			"": func(t *rapid.T) {
				if b.Len() != len(model) {
					t.Fatalf("length %d, want %d", b.Len(), len(model))
				}
				for _, v := range views {
					if !slices.Equal(v.h.Messages(), v.want) || v.h.Len() != len(v.want) {
						t.Fatalf("a view changed: %v", v.h.Messages())
					}
					if at := v.h.Memo("line", func() any { return -1 }); at != v.line {
						t.Fatalf("a view of line %d has the memo of %v", v.line, at)
					}
				}
			},
		})
	})
}

func TestHistoryMemo(t *testing.T) {
	made := 0
	makeOne := func() any { made++; return made }
	h := NewHistory(&Message{ID: "a"})
	for _, want := range []struct {
		key   string
		value int
	}{{"x", 1}, {"x", 1}, {"y", 2}, {"x", 1}} {
		if got := h.Memo(want.key, makeOne); got != want.value {
			t.Errorf("the value of %s is %v", want.key, got)
		}
	}
	if NewHistory(h.Messages()...).Memo("x", makeOne) != 3 {
		t.Error("a new history shares a memo")
	}
	if (History{}).Memo("x", makeOne) != 4 || (History{}).Len() != 0 {
		t.Error("the zero history does not work")
	}
}

func TestUsage(t *testing.T) {
	u := Usage{Input: 1, Output: 2, CacheRead: 3, CacheWrite: 4, Reasoning: 1}
	if u.Total() != 10 {
		t.Errorf("total %d", u.Total())
	}
	if got := u.Add(Usage{Input: math.MaxInt64}); got.Input != math.MaxInt64 || got.Output != 2 {
		t.Errorf("%+v", got)
	}
	if cost, known := (Price{Input: 1, Output: 2}).Cost(Usage{Input: 1e6, Output: 5e5}); cost != 2 || !known {
		t.Errorf("%v %v", cost, known)
	}
	if _, known := (Price{}).Cost(u); known {
		t.Error("a price that nobody knows gave a cost")
	}
}

func TestContent(t *testing.T) {
	content := []Block{
		{Type: BlockReasoning, Text: "hidden"}, Text("a"), {Type: BlockToolCall, Name: "read"}, Text("b"), {Type: BlockToolCall, Name: "edit"},
	}
	if got := PlainText(content); got != "ab" {
		t.Errorf("%q", got)
	}
	if calls := ToolCalls(content); len(calls) != 2 || calls[1].Name != "edit" {
		t.Errorf("%v", calls)
	}
}
