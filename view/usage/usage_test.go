package usage

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/protocol"
	"github.com/dsh-harness/dsh/session"
)

func event(t *testing.T, kind string, data any) session.Event {
	t.Helper()
	e, err := session.Draft{Type: kind, Data: data}.Event(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func answer(t *testing.T, model string, u *llm.Usage) session.Event {
	return event(t, session.AssistantMessage, session.AssistantData{Turn: 1, Step: 1, Provider: "p", Model: model, Usage: u})
}

func TestUsageIsCounted(t *testing.T) {
	f := newFold(func(ref string) llm.Price {
		if ref == "p/dear" {
			return llm.Price{Input: 1, Output: 10, CacheRead: 0.1}
		}
		return llm.Price{}
	})
	for _, e := range []session.Event{
		event(t, session.RequestHeader, llm.Header{Provider: "p", Model: "dear", Params: llm.Params{Effort: "high"}}),
		event(t, session.RequestContext, session.RequestContextData{Provider: "p", Model: "dear", Window: 1000}),
		answer(t, "dear", &llm.Usage{Input: 100, CacheRead: 700, Output: 50, Reasoning: 20}),
	} {
		if !f.Apply(e) {
			t.Errorf("%s changed nothing", e.Type)
		}
	}
	if f.Apply(event(t, session.TurnStart, session.TurnStartData{Turn: 1})) {
		t.Error("a turn's start changed the usage")
	}
	first := f.Value().(Usage)
	cost := (100*1 + 700*0.1 + 50*10) / 1e6
	want := Usage{Model: "p/dear", Effort: "high", Context: 850, Window: 1000, Requests: 1, Input: 100, CacheRead: 700, Output: 50, Reasoning: 20, Cost: &cost}
	if d := cmp.Diff(want, first); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(protocol.Update{Kind: protocol.UsageUpdate, Body: protocol.Usage{Used: 850, Size: 1000, Cost: &protocol.Cost{Amount: cost, Currency: "USD"}}}, update(first)); d != "" {
		t.Error(d)
	}
	f.Apply(answer(t, "cheap", &llm.Usage{Input: 10, Output: 1}))
	f.Apply(answer(t, "cheap", nil))
	if v := f.Value().(Usage); v.Cost != nil || v.Requests != 3 || v.Context != 11 {
		t.Errorf("with an unknown price: %+v", v)
	}
	if d := cmp.Diff(want, first); d != "" {
		t.Errorf("a value that was given away changed:\n%s", d)
	}
	f.Apply(event(t, session.Rewound, session.RewoundData{To: -1}))
	if v := f.Value().(Usage); v.Context != 0 {
		t.Errorf("after rewinding the context is %d", v.Context)
	}
}

func TestThePanelSaysWhatMatters(t *testing.T) {
	cost := 0.0123
	for _, c := range []struct {
		name  string
		value Usage
		want  protocol.Panel
	}{
		{"nothing yet", Usage{}, protocol.Panel{Title: "Usage", Lines: []protocol.PanelLine{{Text: "Nothing has been sent yet."}}}},
		{
			"all known", Usage{Model: "p/m", Effort: "high", Context: 90_000, Window: 100_000, Requests: 3, Input: 1000, CacheRead: 3000, Output: 1_250_000, Reasoning: 40, Cost: &cost},
			protocol.Panel{Title: "Usage", Status: "90 % context, $0.012", Lines: []protocol.PanelLine{
				{Text: "Model", Note: "p/m high"},
				{Mark: protocol.MarkWarning, Text: "Context", Note: "90.0k of 100k tokens, 90 %"},
				{Text: "Requests", Note: "3"},
				{Text: "Input", Note: "4.0k tokens, 75 % from the cache"},
				{Text: "Output", Note: "1.2M tokens, 40 of them reasoning"},
				{Text: "Cost", Note: "$0.012"},
			}},
		},
		{
			"no window, no price", Usage{Context: 12, Requests: 1, Input: 10, Output: 2},
			protocol.Panel{Title: "Usage", Status: "12 context", Lines: []protocol.PanelLine{
				{Text: "Context", Note: "12 tokens"},
				{Text: "Requests", Note: "1"},
				{Text: "Input", Note: "10 tokens"},
				{Text: "Output", Note: "2 tokens"},
				{Text: "Cost", Note: "not known: a model has no price in the configuration, or did not tell what it used"},
			}},
		},
	} {
		if d := cmp.Diff(c.want, panel(c.value)); d != "" {
			t.Errorf("%s:\n%s", c.name, d)
		}
	}
	if u := update(Usage{Context: 1}); u.Kind != "" {
		t.Errorf("without a window an editor is told %v", u)
	}
}

func TestFoldsIgnoreWhatTheyCannotRead(t *testing.T) {
	f := newFold(func(string) llm.Price { return llm.Price{} })
	for _, kind := range []string{session.RequestContext, session.RequestHeader, session.AssistantMessage} {
		if f.Apply(session.Event{Type: kind, Data: json.RawMessage(`{"usage":3,"window":"x","params":[]}`)}) {
			t.Errorf("%s changed the usage", kind)
		}
	}
}
