package session

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dsh-harness/dsh/llm"
)

// generatedLog draws a log as a loop and plugins write it, cut off anywhere.
func generatedLog() *rapid.Generator[[]Event] {
	return rapid.Custom(func(t *rapid.T) []Event {
		w := &logWriter{t: t}
		for range rapid.IntRange(1, 3).Draw(t, "turns") {
			w.turn()
		}
		return w.events[:rapid.IntRange(1, len(w.events)).Draw(t, "cut")]
	})
}

type logWriter struct {
	t      *rapid.T
	f      fold
	events []Event
}

func (w *logWriter) write(d Draft) {
	e, err := d.Event(w.f.next, 1_000+w.f.next)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.f.apply(&e, declaredInTests); err != nil {
		w.t.Fatalf("the generator wrote %s: %v", d.Type, err)
	}
	w.events = append(w.events, e)
}

func (w *logWriter) chance(what string) bool { return rapid.IntRange(0, 3).Draw(w.t, what) == 0 }

// noise writes events that change nothing of what the model sees.
func (w *logWriter) noise() {
	if w.chance("title") {
		title := generatedText().Draw(w.t, "title")
		w.write(Draft{Type: Meta, Data: MetaData{Title: &title}})
	}
	if w.chance("plain") {
		w.write(Draft{Type: "test/plain", Data: map[string]any{"message": llm.UserText("not on the surface")}})
	}
	if w.chance("delivery") {
		w.write(queued(fmt.Sprint("d", w.f.next)))
	}
}

func (w *logWriter) turn() {
	n := w.f.state.Turn + 1
	w.noise()
	w.write(turnStart(n))
	w.write(user(generatedText().Draw(w.t, "prompt")))
	if p := w.f.state.Pending; len(p) > 0 && w.chance("consume") {
		w.write(Draft{Type: SteeringMessage, Data: InputData{ID: "s", Content: p[0].Message.Content, Inbox: p[0].ID}})
	}
	for m := range rapid.IntRange(0, 3).Draw(w.t, "steps") {
		w.step(n, m+1)
	}
	w.write(turnEnd(n))
	if w.chance("rewind") && len(w.f.surface.nodes) > 0 {
		w.write(Draft{Type: Rewound, Data: RewoundData{To: -1}})
	}
	if w.chance("compact") && len(w.f.surface.nodes) > 0 {
		nodes := w.f.surface.nodes
		w.write(Draft{Type: "test/shown", Data: map[string]any{"message": llm.UserText("summary")},
			Surface: &SurfaceOp{Op: OpReplace, From: nodes[0].seq, To: nodes[len(nodes)-1].seq}})
	}
}

func (w *logWriter) step(n, m int) {
	w.write(stepStart(n, m))
	w.noise()
	if w.chance("header") {
		w.write(Draft{Type: RequestHeader, Data: llm.Header{Provider: "p", Model: fmt.Sprint("m", w.f.next), System: generatedText().Draw(w.t, "system")}})
	}
	for range rapid.IntRange(0, 2).Draw(w.t, "chunks") {
		w.write(Draft{Type: AssistantChunk, Data: ChunkData{Turn: n, Step: m, Deltas: []ChunkText{{Index: 0, Kind: llm.BlockText, Text: "so far "}}}})
		if w.chance("retry") {
			w.write(Draft{Type: Retry, Data: RetryData{Turn: n, Step: m, Attempt: 1}})
		}
	}
	if w.chance("failed") {
		w.write(stepEnd(n, m))
		return
	}
	var calls []string
	for i := range rapid.IntRange(0, 3).Draw(w.t, "calls") {
		calls = append(calls, fmt.Sprintf("c%d_%d_%d", n, m, i))
	}
	w.write(answer(n, m, generatedText().Draw(w.t, "answer"), calls...))
	for _, id := range calls {
		w.write(Draft{Type: ToolCall, Data: ToolCallData{
			Turn: n, Step: m, CallID: id, Effect: rapid.SampledFrom([]Effect{EffectRead, EffectIdempotent, EffectWrite, EffectUnknown}).Draw(w.t, "effect"),
		}})
		w.noise()
	}
	for _, id := range calls {
		w.write(result(n, m, id, generatedText().Draw(w.t, "result")))
	}
	w.write(stepEnd(n, m))
}

// refold folds events anew from their lines, as a reader does.
func refold(t tb, seed int64, events []Event) *fold {
	t.Helper()
	f := &fold{seed: seed}
	for _, e := range events {
		read, err := ParseEnvelope(slices.Clone(e.Line()))
		if err != nil {
			t.Fatal(err)
		}
		if err := f.apply(&read, nil); err != nil {
			t.Fatalf("event %d, %s: %v", e.Seq, e.Type, err)
		}
		clear(read.line) // the fold may keep none of the bytes
	}
	return f
}

func messages(f *fold) []*llm.Message { return f.surface.history.History().Messages() }

func TestLaw_DerivingIsDeterministic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := generatedLog().Draw(t, "log")
		a, b := refold(t, 0, events), refold(t, 0, events)
		if !reflect.DeepEqual(messages(a), messages(b)) || !reflect.DeepEqual(a.state, b.state) || !reflect.DeepEqual(a.header, b.header) {
			t.Fatal("two derivations of one log differ")
		}
	})
}

func TestLaw_ASeedReproducesTheHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := generatedLog().Draw(t, "log")
		source := refold(t, 0, events)
		if source.state.TurnOpen {
			t.Skip("a fork needs a closed turn")
		}
		mark, err := Draft{Type: Seeded}.Event(int64(len(events)), 1)
		if err != nil {
			t.Fatal(err)
		}
		fork := refold(t, int64(len(events)), append(slices.Clone(events), mark))
		if !reflect.DeepEqual(messages(source), messages(fork)) || source.state.Turn != fork.state.Turn || !reflect.DeepEqual(source.header, fork.header) {
			t.Fatal("the fork differs from its source")
		}
	})
}

func TestLaw_NoiseDoesNotChangeTheHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := generatedLog().Draw(t, "log")
		at := rapid.IntRange(0, len(events)).Draw(t, "at")
		noisy := &fold{}
		for i, e := range events {
			if i == at {
				take(t, noisy, Draft{Type: "test/plain", Data: map[string]any{"n": 1}}, Draft{Type: "test/plain"})
			}
			e.Seq, e.line = noisy.next, nil
			if e.Surface != nil && e.Surface.Op == OpReplace { // it names events, which have moved
				op := *e.Surface
				for _, end := range []*int64{&op.From, &op.To} {
					if *end >= int64(at) {
						*end += 2
					}
				}
				e.Surface = &op
			}
			if err := noisy.apply(&e, nil); err != nil {
				t.Fatal(err)
			}
		}
		if !reflect.DeepEqual(messages(noisy), messages(refold(t, 0, events))) {
			t.Fatal("events that are not on the surface changed the history")
		}
	})
}

func TestLaw_EveryCallIsFollowedByItsResult(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := generatedLog().Draw(t, "log")
		f := refold(t, 0, events)
		if f.state.StepOpen {
			t.Skip("results are still to come")
		}
		checkPairs(t, messages(f))
	})
}

// checkPairs fails unless roles are legal and each call has its result directly
// behind its message, in model order.
func checkPairs(t tb, history []*llm.Message) {
	t.Helper()
	var waiting []string
	for i, m := range history {
		switch m.Role {
		case llm.RoleTool:
			if len(waiting) == 0 || waiting[0] != m.CallID {
				t.Fatalf("message %d is the result of %s, while %v wait", i, m.CallID, waiting)
			}
			waiting = waiting[1:]
		case llm.RoleAssistant, llm.RoleUser:
			if len(waiting) > 0 {
				t.Fatalf("message %d comes before the results of %v", i, waiting)
			}
			for _, c := range llm.ToolCalls(m.Content) {
				waiting = append(waiting, c.CallID)
			}
			if m.Role == llm.RoleAssistant && len(m.Content) == 0 {
				t.Fatalf("message %d is empty", i)
			}
		default:
			t.Fatalf("message %d has the role %q", i, m.Role)
		}
	}
	if len(waiting) > 0 {
		t.Fatalf("%v have no result", waiting)
	}
}

// naiveState computes the state from nothing but the data of all events.
func naiveState(t tb, events []Event) (s State) {
	t.Helper()
	data := func(e Event, v any) {
		if err := json.Unmarshal(e.Data, v); err != nil {
			t.Fatal(err)
		}
	}
	gone := map[string]bool{}
	for _, e := range events {
		var ids struct {
			Inbox string   `json:"inbox"`
			IDs   []string `json:"ids"`
		}
		data(e, &ids)
		gone[ids.Inbox] = true
		for _, id := range ids.IDs {
			gone[id] = true
		}
	}
	for _, e := range events {
		switch e.Type {
		case TurnStart:
			s.Turn++
			s.TurnOpen, s.Step = true, 0
		case TurnEnd:
			s.TurnOpen = false
		case StepStart:
			s.Step++
			s.StepOpen = true
		case StepEnd:
			s.StepOpen = false
		case InboxQueued:
			var d InboxData
			if data(e, &d); !gone[d.ID] {
				s.Pending = append(s.Pending, Pending{ID: d.ID, Message: d.Message})
			}
		case Meta:
			var d MetaData
			data(e, &d)
			s.Title = *d.Title
		case AssistantMessage:
			s.Usage = s.Usage.Add(llm.Usage{Input: 10, Output: 1})
		}
	}
	return s
}

func TestLaw_TheStateEqualsANaiveFold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := generatedLog().Draw(t, "log")
		got, want := refold(t, 0, events).state, naiveState(t, events)
		if len(got.Pending) == 0 {
			got.Pending = nil
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("the state is\n%+v, want\n%+v", got, want)
		}
	})
}

// mended completes a cut log as a restore does.
func mended(t tb, events []Event, goesOn bool) (all []Event, added []Draft) {
	t.Helper()
	f := refold(t, 0, events)
	if !f.state.TurnOpen || goesOn && !f.state.StepOpen {
		return events, nil
	}
	added, err := closers(events[f.turnAt:], f.header, goesOn)
	if err != nil {
		t.Fatal(err)
	}
	all = slices.Clone(events)
	for _, d := range added {
		e, err := d.Event(f.next, events[len(events)-1].Time)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.apply(&e, nil); err != nil {
			t.Fatalf("mending wrote %s: %v", d.Type, err)
		}
		all = append(all, e)
	}
	return all, added
}

func TestLaw_MendingGivesALogThatCanGoOn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := generatedLog().Draw(t, "log")
		goesOn := rapid.Bool().Draw(t, "continue the turn")
		before := refold(t, 0, events)
		all, _ := mended(t, events, goesOn)
		again, _ := mended(t, events, goesOn)
		if !reflect.DeepEqual(all, again) {
			t.Fatal("two repairs of one log differ")
		}
		f := refold(t, 0, all)
		if f.state.StepOpen || f.state.TurnOpen != (before.state.TurnOpen && goesOn) {
			t.Fatalf("after the repair turn and step are open: %v, %v", f.state.TurnOpen, f.state.StepOpen)
		}
		checkPairs(t, messages(f))
		if _, added := mended(t, all, goesOn); added != nil {
			t.Fatalf("a second repair added %v", added)
		}
		if !reflect.DeepEqual(f.state.Pending, before.state.Pending) {
			t.Fatal("the repair changed the pending input")
		}
		if goesOn && f.state.TurnOpen {
			take(t, f, stepStart(f.state.Turn, f.state.Step+1))
		} else {
			take(t, f, turnStart(f.state.Turn+1))
		}
	})
}

func TestMendingAnswersCallsByWhatRunningThemAgainWouldDo(t *testing.T) {
	for effect, want := range map[Effect]string{
		"": notStarted, EffectRead: interruptedRun, EffectIdempotent: outcomeUnknown, EffectWrite: outcomeUnknown, EffectUnknown: outcomeUnknown,
	} {
		f := &fold{}
		drafts := []Draft{turnStart(1), stepStart(1, 1), answer(1, 1, "", "a", "b")}
		drafts = append(drafts, toolCall(1, 1, "a"), result(1, 1, "a", "done"))
		if effect != "" {
			drafts = append(drafts, Draft{Type: ToolCall, Data: ToolCallData{Turn: 1, Step: 1, CallID: "b", Effect: effect}})
		}
		var events []Event
		for _, d := range drafts {
			e, err := d.Event(f.next, 1)
			if err != nil {
				t.Fatal(err)
			}
			take(t, f, d)
			events = append(events, e)
		}
		_, added := mended(t, events, false)
		d, ok := added[0].Data.(ToolResultData)
		if !ok || d.CallID != "b" || !d.IsError || d.Error.Code != want {
			t.Errorf("a call with the effect %q gets %+v, want the code %s", effect, added[0].Data, want)
		}
		if started := effect != ""; started != reflect.DeepEqual(added[0].Cites, []Range{{5, 5}}) {
			t.Errorf("the result of a call with the effect %q cites %v", effect, added[0].Cites)
		}
	}
}

func TestMendingKeepsWhatStreamed(t *testing.T) {
	chunk := func(index int, kind llm.BlockType, text string) Draft {
		return Draft{Type: AssistantChunk, Data: ChunkData{Turn: 1, Step: 1, Deltas: []ChunkText{{Index: index, Kind: kind, Text: text}}}}
	}
	start := []Draft{turnStart(1), user("hi"), stepStart(1, 1), {Type: RequestHeader, Data: llm.Header{Provider: "p", Model: "m"}}}
	for _, test := range []struct {
		name   string
		drafts []Draft
		want   string // what streamed, "" for no message
		cites  []Range
	}{
		{"text in pieces", []Draft{chunk(1, llm.BlockText, "half a "), chunk(0, llm.BlockReasoning, "hm"), chunk(1, llm.BlockText, "sentence")},
			"text:half a sentence reasoning:hm", []Range{{4, 4}, {5, 5}, {6, 6}}},
		{"only blanks", []Draft{chunk(0, llm.BlockText, " \n")}, "", nil},
		{"nothing", nil, "", nil},
		{"of two attempts the last", []Draft{chunk(0, llm.BlockText, "first"), {Type: Retry, Data: RetryData{Turn: 1, Step: 1}}, chunk(0, llm.BlockText, "second")},
			"text:second", []Range{{6, 6}}},
		{"a whole message is not kept twice", []Draft{chunk(0, llm.BlockText, "all"), answer(1, 1, "all")}, "", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := &fold{}
			var events []Event
			for _, d := range append(slices.Clone(start), test.drafts...) {
				e, err := d.Event(f.next, 1)
				if err != nil {
					t.Fatal(err)
				}
				if err := f.apply(&e, nil); err != nil {
					t.Fatal(err)
				}
				events = append(events, e)
			}
			_, added := mended(t, events, false)
			var got []string
			var cites []Range
			for _, d := range added {
				if m, ok := d.Data.(*AssistantData); ok {
					cites = d.Cites
					if !m.Interrupted || m.Provider != "p" || m.Model != "m" {
						t.Errorf("the message is %+v", m)
					}
					for _, b := range m.Message.Content {
						got = append(got, string(b.Type)+":"+b.Text)
					}
				}
			}
			if s := strings.Join(got, " "); s != test.want || !reflect.DeepEqual(cites, test.cites) {
				t.Errorf("what is kept is %q citing %v, want %q citing %v", s, cites, test.want, test.cites)
			}
		})
	}
}
