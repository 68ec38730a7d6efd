package tool_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/aymanbagabas/go-udiff"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/dsh-harness/dsh/tool"
)

func TestACallIsAlwaysShownSomehow(t *testing.T) {
	plain := tool.New(tool.Spec{Name: "plain"}, func(context.Context, *tool.Call, struct{}) (tool.Result, error) { return tool.Text(""), nil })
	shown := tool.New(tool.Spec{Name: "shown", Present: func(json.RawMessage) tool.Presentation {
		return tool.Presentation{Kind: tool.KindRead, Title: "Read a"}
	}}, func(context.Context, *tool.Call, struct{}) (tool.Result, error) { return tool.Text(""), nil })
	for _, c := range []struct {
		name      string
		tool      tool.Definition
		arguments string
		want      tool.Presentation
	}{
		{"its own", shown, `{}`, tool.Presentation{Kind: tool.KindRead, Title: "Read a"}},
		{"cut off", shown, `{"a`, tool.Presentation{Kind: tool.KindOther, Title: `shown {"a`}},
		{"nothing said", plain, `{}`, tool.Presentation{Kind: tool.KindOther, Title: "plain"}},
		{"several lines", plain, "{\"a\":\n  1}", tool.Presentation{Kind: tool.KindOther, Title: `plain {"a": 1}`}},
		{"no tool", tool.Definition{}, `{"a":1}`, tool.Presentation{Kind: tool.KindOther, Title: `{"a":1}`}},
	} {
		if d := cmp.Diff(c.want, c.tool.Present(json.RawMessage(c.arguments))); d != "" {
			t.Errorf("%s:\n%s", c.name, d)
		}
	}
	long := tool.PlainTitle("x", json.RawMessage(`"`+strings.Repeat("ä", 500)+`"`))
	if len(long) > 220 || !strings.HasSuffix(long, "ä...") {
		t.Errorf("a long title is %q", long)
	}
}

func TestAChangeIsKnownByItsMembers(t *testing.T) {
	for meta, want := range map[string]bool{
		`{"path":"a","added":1,"removed":0}`: true,
		`{"path":"a","files":1,"bytes":3}`:   false,
		`{"exitCode":0}`:                     false,
		`[1]`:                                false,
		``:                                   false,
	} {
		if _, ok := tool.ChangeOf(json.RawMessage(meta)); ok != want {
			t.Errorf("%s: %v", meta, ok)
		}
	}
}

// TestDiffsGiveBothSides: putting the new sides in the place of the old ones makes the new file of the old one.
func TestDiffsGiveBothSides(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.Custom(func(t *rapid.T) string {
			lines := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "--- a", "+++ b", "", " c", "@@ -1 +1 @@"}), 0, 30).Draw(t, "lines")
			return strings.Join(lines, "\n") + rapid.SampledFrom([]string{"", "\n"}).Draw(t, "end")
		})
		old, now := text.Draw(t, "old"), text.Draw(t, "new")
		diff, err := udiff.ToUnified("f", "f", old, udiff.Lines(old, now), 3)
		if err != nil {
			t.Fatal(err)
		}
		var made strings.Builder
		lines, at := strings.SplitAfter(old, "\n"), 0
		for _, d := range (tool.Change{Path: "f", Diff: diff}).Diffs() {
			start := max(d.Line-1, 0)
			for ; at < start; at++ {
				made.WriteString(lines[at])
			}
			made.WriteString(d.New)
			if got := strings.Join(lines[at:], ""); !strings.HasPrefix(got, *d.Old) {
				t.Fatalf("line %d does not begin with %q in %q", d.Line, *d.Old, old)
			}
			at += len(strings.SplitAfter(*d.Old, "\n"))
			if strings.HasSuffix(*d.Old, "\n") || *d.Old == "" {
				at--
			}
		}
		made.WriteString(strings.Join(lines[min(at, len(lines)):], ""))
		if made.String() != now {
			t.Fatalf("old %q\nnew %q\nmade %q\ndiff\n%s", old, now, made.String(), diff)
		}
	})
}
