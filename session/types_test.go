package session

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestTheReferenceHasEveryTypeOfTheCore(t *testing.T) {
	names := map[string]bool{}
	for _, c := range CoreTypes() {
		if names[c.Name] {
			t.Errorf("%s is there twice", c.Name)
		}
		names[c.Name] = true
		if !isCore(c.Name) {
			t.Errorf("%s is described and not known", c.Name)
		}
		if c.Doc == "" || c.Data == nil || c.Surface != mayBeOnSurface(c.Name) || c.Ignorable != ignorable(c.Name) {
			t.Errorf("the description of %s is %+v", c.Name, c)
		}
	}
	for _, name := range []string{
		TurnStart, TurnEnd, StepStart, StepEnd, UserMessage, SteeringMessage, RequestHeader, RequestContext, AssistantChunk, AssistantMessage,
		ToolCall, ToolRewritten, ToolResult, InboxQueued, InboxSteered, InboxCleared, Seeded, Lost, Meta, Rewound, Retry,
	} {
		if !names[name] {
			t.Errorf("%s is not described", name)
		}
	}
}

func TestTheReferenceReadsWell(t *testing.T) {
	type noteData struct {
		Note  string   `json:"note"`
		Tags  []string `json:"tags,omitempty"`
		Inner struct {
			Score float64 `json:"score"`
		} `json:"inner"`
		hidden int
	}
	var b bytes.Buffer
	plugins := []CoreType{{Name: "note/written", Ignorable: true, EventType: EventType{Doc: "a note", Surface: true, Data: reflect.TypeFor[noteData]()}}}
	if err := WriteReference(&b, plugins); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	_, note, _ := strings.Cut(page, "## `note/written`\n")
	want := "\nA note. *surface*, *ignorable*.\n\n| member | type |\n| --- | --- |\n" +
		"| `note` | string |\n| `tags?` | array of string |\n| `inner` | object |\n| `inner.score` | number |\n"
	if note != want {
		t.Errorf("the entry is\n%s\nwant\n%s", note, want)
	}
	for _, part := range []string{
		"## `turn/end`\n\nThe turn is over, and why.\n", "| `error?` | object |\n| `error.code` | string |\n", "| `message.content[].type` | string |\n",
		"## `session/meta`\n\nChanges title, archive mark or labels; what is absent stays. *ignorable*.\n", "| `labels?` | array of string |\n", "| `meta?` | any |\n",
	} {
		if !strings.Contains(page, part) {
			t.Errorf("the page lacks %q", part)
		}
	}
	_ = noteData{}.hidden // only there to be left out
}

// TestEventsAreNotChangedByTheFold: the fold reads, so one event may be folded anywhere.
func TestEventsAreNotChangedByTheFold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := generatedLog().Draw(t, "log")
		var before []string
		for _, e := range events {
			before = append(before, string(e.Line()))
		}
		refold(t, 0, events)
		for i, e := range events {
			if string(e.Line()) != before[i] {
				t.Fatalf("event %d was changed", i)
			}
		}
	})
}
