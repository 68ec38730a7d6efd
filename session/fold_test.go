package session

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dsh-harness/dsh/llm"
)

// tb is what testing.TB and rapid.T have in common that the helpers need.
type tb interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// take applies drafts to f, as the events that come next.
func take(t tb, f *fold, drafts ...Draft) {
	t.Helper()
	for _, d := range drafts {
		if err := tryTake(t, f, d); err != nil {
			t.Fatalf("%s: %v", d.Type, err)
		}
	}
}

func tryTake(t tb, f *fold, d Draft) error {
	t.Helper()
	e, err := d.Event(f.next, 1000+f.next)
	if err != nil {
		t.Fatal(err)
	}
	return f.apply(&e, declaredInTests)
}

func declaredInTests(name string) (EventType, bool) {
	switch name {
	case "test/shown":
		return EventType{Surface: true}, true
	case "test/plain":
		return EventType{}, true
	}
	return EventType{}, false
}

func turnStart(n int) Draft { return Draft{Type: TurnStart, Data: TurnStartData{n}} }
func turnEnd(n int) Draft {
	return Draft{Type: TurnEnd, Data: TurnEndData{Turn: n, Reason: Completed}}
}
func stepStart(n, m int) Draft { return Draft{Type: StepStart, Data: StepData{n, m}} }
func stepEnd(n, m int) Draft   { return Draft{Type: StepEnd, Data: StepData{n, m}} }
func user(text string) Draft {
	return Draft{Type: UserMessage, Data: InputData{ID: "u", Content: []llm.Block{llm.Text(text)}}}
}
func answer(n, m int, text string, calls ...string) Draft {
	d := AssistantData{Turn: n, Step: m, Message: AssistantContent{ID: "m"}, Usage: &llm.Usage{Input: 10, Output: 1}}
	if text != "" {
		d.Message.Content = append(d.Message.Content, llm.Text(text))
	}
	for _, id := range calls {
		d.Message.Content = append(d.Message.Content, llm.Block{Type: llm.BlockToolCall, CallID: id, Name: "read"})
	}
	return Draft{Type: AssistantMessage, Data: d}
}
func toolCall(n, m int, id string) Draft {
	return Draft{Type: ToolCall, Data: ToolCallData{Turn: n, Step: m, CallID: id}}
}
func result(n, m int, id, text string) Draft {
	return Draft{Type: ToolResult, Data: ToolResultData{Turn: n, Step: m, CallID: id, Content: []llm.Block{llm.Text(text)}}}
}
func queued(id string) Draft {
	return Draft{Type: InboxQueued, Data: InboxData{ID: id, Message: llm.UserText(id)}}
}
func (d Draft) on(op SurfaceOp) Draft {
	d.Surface = &op
	return d
}

func TestALogRefusesWhatDoesNotFit(t *testing.T) {
	inStep := []Draft{turnStart(1), user("hi"), stepStart(1, 1)}
	inCalls := append(slices.Clone(inStep), answer(1, 1, "", "a", "b"), toolCall(1, 1, "a"), toolCall(1, 1, "b"))
	afterTurn := append(slices.Clone(inCalls), result(1, 1, "a", "A"), result(1, 1, "b", "B"), stepEnd(1, 1), turnEnd(1))
	for _, test := range []struct {
		name   string
		before []Draft
		draft  Draft
		want   string
	}{
		{"a turn that skips one", nil, turnStart(2), "begins turn 2 where turn 1 comes next"},
		{"a turn within a turn", inStep, turnStart(2), "turn 1 is still open"},
		{"the end of no turn", nil, turnEnd(1), "turn 1 is not open"},
		{"the end of another turn", []Draft{turnStart(1)}, turnEnd(2), "turn 2 is not open"},
		{"the end of a turn before its step", inStep, turnEnd(1), "step 1 of the turn is still open"},
		{"a step outside of a turn", nil, stepStart(1, 1), "turn 1 is not open"},
		{"a step that skips one", []Draft{turnStart(1)}, stepStart(1, 2), "begins step 2 where step 1 comes next"},
		{"a step within a step", inStep, stepStart(1, 2), "step 1 is still open"},
		{"the end of another step", inStep, stepEnd(1, 2), "step 2 of turn 1 is not open"},
		{"the end of a step with an open call", inCalls, stepEnd(1, 1), "call a has no result"},
		{"an answer outside of a step", []Draft{turnStart(1)}, answer(1, 1, "x"), "step 1 of turn 1 is not open"},
		{"a second answer", append(slices.Clone(inStep), answer(1, 1, "x")), answer(1, 1, "y"), "the step has its message already"},
		{"an answer after the results of another", append(slices.Clone(inCalls), result(1, 1, "a", ""), result(1, 1, "b", "")), answer(1, 1, "y"), "the step has its message already"},
		{"an answer with a call twice", inStep, answer(1, 1, "", "a", "a"), `the id "a" of a call is empty or there twice`},
		{"an answer with a call without id", inStep, answer(1, 1, "", ""), `the id "" of a call is empty or there twice`},
		{"an answer that replaces", inStep, answer(1, 1, "x").on(SurfaceOp{Op: OpReplace, From: 1, To: 1}), "must append to the surface"},
		{"a chunk outside of a step", nil, Draft{Type: AssistantChunk, Data: ChunkData{Turn: 1, Step: 1}}, "step 1 of turn 1 is not open"},
		{"a retry outside of a step", nil, Draft{Type: Retry, Data: RetryData{Turn: 1, Step: 1}}, "step 1 of turn 1 is not open"},
		{"a call that nobody made", inCalls, toolCall(1, 1, "c"), "call c is not one of the step's that waits to start"},
		{"a call that started", inCalls, toolCall(1, 1, "a"), "call a is not one of the step's that waits to start"},
		{"a call of another step", inCalls, toolCall(1, 2, "a"), "step 2 of turn 1 is not open"},
		{"the arguments of a call that did not start", append(slices.Clone(inStep), answer(1, 1, "", "a")),
			Draft{Type: ToolRewritten, Data: ToolRewrittenData{CallID: "a"}}, "call a is not under way"},
		{"a result that nobody asked for", inCalls, result(1, 1, "c", ""), "call c is not one of the step's that waits for its result"},
		{"a result out of order", inCalls, result(1, 1, "b", ""), "the result of call b where that of call a comes next"},
		{"a second result", append(slices.Clone(inCalls), result(1, 1, "a", "")), result(1, 1, "a", ""), "call a is not one of the step's that waits for its result"},
		{"success of a call that never started", append(slices.Clone(inStep), answer(1, 1, "", "a")), result(1, 1, "a", ""), "never started, so its result must be an error"},
		{"a request header outside of a turn", nil, Draft{Type: RequestHeader, Data: llm.Header{Model: "m"}}, "no turn is open"},
		{"a request header without a model", []Draft{turnStart(1)}, Draft{Type: RequestHeader, Data: llm.Header{}}, "does not have the form of its type"},
		{"a request context outside of a turn", nil, Draft{Type: RequestContext, Data: RequestContextData{}}, "no turn is open"},
		{"a message that consumes nothing", nil, Draft{Type: UserMessage, Data: InputData{ID: "u", Inbox: "d"}}, "delivery d does not wait"},
		{"a message that consumes again", []Draft{queued("d"), {Type: UserMessage, Data: InputData{ID: "u", Inbox: "d"}}},
			Draft{Type: SteeringMessage, Data: InputData{ID: "v", Inbox: "d"}}, "delivery d does not wait"},
		{"a delivery twice", []Draft{queued("d")}, queued("d"), "delivery d waits already"},
		{"a delivery without id", nil, queued(""), "does not have the form of its type"},
		{"a seed's end in a session of its own", []Draft{user("x")}, Draft{Type: Seeded}, "only the first 0 events were copied"},
		{"rewinding within a turn", inStep, Draft{Type: Rewound, Data: RewoundData{To: 1}}, "turn 1 is still open"},
		{"rewinding to what is not on the surface", afterTurn, Draft{Type: Rewound, Data: RewoundData{To: 0}}, "cuts behind event 0, which is not on the surface"},
		{"rewinding into a step", afterTurn, Draft{Type: Rewound, Data: RewoundData{To: 3}}, "would part a tool call from its result"},
		{"replacing backwards", afterTurn, user("x").on(SurfaceOp{Op: OpReplace, From: 6, To: 1}), "which are no run of the surface"},
		{"replacing what is not there", afterTurn, user("x").on(SurfaceOp{Op: OpReplace, From: 0, To: 1}), "which are no run of the surface"},
		{"replacing half a step", afterTurn, user("x").on(SurfaceOp{Op: OpReplace, From: 1, To: 3}), "would part a tool call from its result"},
		{"replacing a result outside of a turn", afterTurn, result(1, 1, "a", "").on(SurfaceOp{Op: OpReplace, From: 6, To: 6}), "no turn is open"},
		{"replacing the result of another call", append(slices.Clone(afterTurn), turnStart(2)), result(1, 1, "b", "").on(SurfaceOp{Op: OpReplace, From: 6, To: 6}), "which is no result of call b"},
		{"replacing two results by one", append(slices.Clone(afterTurn), turnStart(2)), result(1, 1, "a", "").on(SurfaceOp{Op: OpReplace, From: 6, To: 7}), "exactly one result"},
		{"a surface operation of a type without", nil, turnStart(1).on(SurfaceOp{Op: OpAppend}), "never on the surface"},
		{"an unknown operation", nil, user("x").on(SurfaceOp{Op: "swap"}), `unknown surface operation "swap"`},
		{"a message that truncates", nil, user("x").on(SurfaceOp{Op: OpTruncate, To: -1}), "needs a surface operation that appends or replaces"},
		{"a citation of itself", nil, Draft{Type: UserMessage, Data: InputData{}, Cites: []Range{{0, 0}}}, "cites the events 0 to 0"},
		{"a citation backwards", afterTurn, Draft{Type: UserMessage, Data: InputData{}, Cites: []Range{{3, 2}}}, "cites the events 3 to 2"},
		{"a type that nobody declares", nil, Draft{Type: "other/thing"}, "nobody declares its type"},
		{"a surface operation that was not declared", nil, Draft{Type: "test/plain", Surface: &SurfaceOp{Op: OpAppend}}, "not declared to change the surface"},
		{"a plugin's tool call", nil, Draft{Type: "test/shown", Surface: &SurfaceOp{Op: OpAppend}, Data: map[string]any{
			"message": llm.Message{Role: llm.RoleAssistant, Content: []llm.Block{{Type: llm.BlockToolCall, CallID: "x"}}}}}, "without tool calls"},
		{"a plugin's result", nil, Draft{Type: "test/shown", Surface: &SurfaceOp{Op: OpAppend}, Data: map[string]any{"message": llm.Message{Role: llm.RoleTool}}}, "of the user, or of the assistant"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := &fold{}
			take(t, f, test.before...)
			before := *f
			before.calls = slices.Clone(f.calls)
			err := tryTake(t, f, test.draft)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("the error is %v, want one with %q", err, test.want)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("the error has several lines: %q", err)
			}
			f.scanner, before.scanner = scanner{}, scanner{}
			if !reflect.DeepEqual(*f, before) {
				t.Errorf("the refused event changed the fold from\n%+v to\n%+v", before, *f)
			}
		})
	}
}

func TestAnEventMustBeNext(t *testing.T) {
	f := &fold{}
	take(t, f, user("a"))
	for _, seq := range []int64{0, 2, -1} {
		e, err := user("b").Event(seq, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.apply(&e, nil); err == nil {
			t.Errorf("event %d was taken where event 1 comes next", seq)
		}
	}
}

func TestTheSurfaceIsWhatTheModelSees(t *testing.T) {
	f := &fold{}
	shown := func(text string, op SurfaceOp) Draft {
		return Draft{Type: "test/shown", Data: map[string]any{"message": llm.UserText(text)}, Surface: &op}
	}
	for _, step := range []struct {
		draft Draft
		want  string
	}{
		{user("one"), "one"},
		{turnStart(1), "one"},
		{stepStart(1, 1), "one"},
		{answer(1, 1, "", "c"), "one | call c"},
		{toolCall(1, 1, "c"), "one | call c"},
		{result(1, 1, "c", "long output"), "one | call c | c: long output"},
		{stepEnd(1, 1), "one | call c | c: long output"},
		{result(1, 1, "c", "cut").on(SurfaceOp{Op: OpReplace, From: 5, To: 5}), "one | call c | c: cut"},
		{stepStart(1, 2), "one | call c | c: cut"},
		{answer(1, 2, ""), "one | call c | c: cut"}, // an empty answer shows nothing
		{stepEnd(1, 2), "one | call c | c: cut"},
		{turnEnd(1), "one | call c | c: cut"},
		{Draft{Type: "test/plain"}, "one | call c | c: cut"},
		{user("two"), "one | call c | c: cut | two"},
		{shown("summary", SurfaceOp{Op: OpReplace, From: 0, To: 7}), "summary | two"},
		{Draft{Type: "test/shown", Surface: &SurfaceOp{Op: OpReplace, From: 14, To: 14}}, "two"}, // shows nothing
		{user("three"), "two | three"},
		{Draft{Type: Rewound, Data: RewoundData{To: 13}}, "two"},
		{Draft{Type: Rewound, Data: RewoundData{To: -1}}, ""},
		{user("four"), "four"},
	} {
		before := f.surface.history.History()
		kept := slices.Clone(before.Messages())
		take(t, f, step.draft)
		var texts []string
		for _, m := range f.surface.history.History().Messages() {
			text := llm.PlainText(m.Content)
			for _, c := range llm.ToolCalls(m.Content) {
				text += "call " + c.CallID
			}
			if m.Role == llm.RoleTool {
				text = m.CallID + ": " + text
			}
			texts = append(texts, text)
		}
		if got := strings.Join(texts, " | "); got != step.want {
			t.Fatalf("after event %d, %s, the model sees %q, want %q", f.next-1, step.draft.Type, got, step.want)
		}
		if !slices.Equal(before.Messages(), kept) {
			t.Fatalf("event %d changed a history that was given away", f.next-1)
		}
	}
}

// TestTheSurfaceFollowsANaiveModel compares random surface operations with a list
// that is computed anew for each.
func TestTheSurfaceFollowsANaiveModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := &fold{}
		var model []int64
		for range rapid.IntRange(1, 40).Draw(t, "operations") {
			d := Draft{Type: "test/shown", Data: map[string]any{"message": llm.UserText(fmt.Sprint(f.next))}}
			i, j := rapid.IntRange(-1, len(model)).Draw(t, "i"), rapid.IntRange(-1, len(model)).Draw(t, "j")
			at := func(i int) int64 {
				if i < 0 || i >= len(model) {
					return f.next + 5 // never on the surface
				}
				return model[i]
			}
			next, ok := slices.Clone(model), true
			switch op := rapid.SampledFrom([]Op{OpAppend, OpAppend, OpReplace, OpTruncate}).Draw(t, "op"); op {
			case OpAppend:
				d.Surface = &SurfaceOp{Op: op}
				next = append(next, f.next)
			case OpReplace:
				d.Surface = &SurfaceOp{Op: op, From: at(i), To: at(j)}
				if ok = 0 <= i && i <= j && j < len(model); ok {
					next = slices.Concat(model[:i], []int64{f.next}, model[j+1:])
				}
			case OpTruncate:
				d.Type, d.Data, d.Surface = Rewound, RewoundData{}, &SurfaceOp{Op: op, To: at(i)}
				if ok = 0 <= i && i < len(model); ok {
					next = model[:i+1]
				}
			}
			if err := tryTake(t, f, d); (err == nil) != ok {
				t.Fatalf("%+v on %v: %v", *d.Surface, model, err)
			}
			if ok {
				model = next
			}
			var got []int64
			for _, m := range f.surface.history.History().Messages() {
				var seq int64
				if _, err := fmt.Sscan(llm.PlainText(m.Content), &seq); err != nil {
					t.Fatal(err)
				}
				got = append(got, seq)
			}
			if !slices.Equal(got, model) {
				t.Fatalf("after %+v the surface is %v, want %v", *d.Surface, got, model)
			}
		}
	})
}

func TestTheStateIsWhatTheLogSays(t *testing.T) {
	f := &fold{}
	title, no, yes, labels := "T", false, true, []string{"l"}
	take(t, f,
		queued("a"), queued("b"), Draft{Type: InboxSteered, Data: InboxData{ID: "c", Quiet: true, Message: llm.UserText("c")}}, queued("d"),
		turnStart(1), Draft{Type: UserMessage, Data: InputData{ID: "u", Inbox: "b"}}, stepStart(1, 1),
		answer(1, 1, "x"), stepEnd(1, 1), stepStart(1, 2), answer(1, 2, "y"),
		Draft{Type: InboxCleared, Data: InboxClearedData{IDs: []string{"a", "never"}}},
		Draft{Type: Meta, Data: MetaData{Title: &title, Archived: &yes}}, Draft{Type: Meta, Data: MetaData{Archived: &no, Labels: &labels}},
	)
	want := State{
		Turn: 1, TurnOpen: true, Step: 2, StepOpen: true, Title: "T", Labels: []string{"l"}, Usage: llm.Usage{Input: 20, Output: 2},
		Pending: []Pending{{ID: "c", Steering: true, Quiet: true, Message: llm.UserText("c")}, {ID: "d", Message: llm.UserText("d")}},
	}
	if !reflect.DeepEqual(f.state, want) {
		t.Errorf("the state is\n%+v, want\n%+v", f.state, want)
	}
}

func TestASeedGivesItsHistoryAndNotItsInput(t *testing.T) {
	yes := true
	f := &fold{seed: 6}
	take(t, f, turnStart(1), user("hi"), stepStart(1, 1), answer(1, 1, "x"), stepEnd(1, 1), turnEnd(1))
	f.seed = 8
	take(t, f, queued("d"), Draft{Type: Meta, Data: MetaData{Archived: &yes}}, Draft{Type: Seeded})
	if s := f.state; len(s.Pending) != 0 || s.Archived || s.Usage != (llm.Usage{}) || s.Turn != 1 {
		t.Errorf("the fork begins with %+v", s)
	}
	if n := f.surface.history.Len(); n != 2 {
		t.Errorf("the fork's history has %d messages, want 2", n)
	}
	take(t, f, turnStart(2), turnEnd(2))
}

func TestTheRequestHeaderInForceIsTheLastOne(t *testing.T) {
	f := &fold{}
	take(t, f, turnStart(1))
	if f.header != nil {
		t.Error("there is a header before any was written")
	}
	for i := range 3 {
		h := llm.Header{Provider: "p", Model: fmt.Sprint("m", i), System: "s\n<>", Params: llm.Params{Effort: "high", MaxTokens: 7},
			Tools: []llm.ToolSchema{{Name: "t", Description: "d", Parameters: []byte(`{"type":"object"}`)}}}
		take(t, f, Draft{Type: RequestHeader, Data: h}, Draft{Type: RequestContext, Data: RequestContextData{Model: h.Model}})
		if !reflect.DeepEqual(*f.header, h) {
			t.Errorf("the header in force is %+v, want %+v", *f.header, h)
		}
	}
}
