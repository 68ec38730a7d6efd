package session

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
)

// EventType describes a type of event that a plugin writes. Such events are
// always ignorable, so that a session outlives the plugin.
type EventType struct {
	Doc string // one sentence: what it records
	// Data is the type of the data, for the reference: reflect.TypeFor[MyData]().
	Data reflect.Type
	// Surface says that events of the type may append to the surface, replace a run
	// of it, or truncate it. What the model sees of such an event is the member
	// "message" of its data, an [llm.Message] of the role user, or of the role assistant without
	// tool calls. An event without that member takes its place and shows nothing.
	Surface bool
}

// Types is the set of event types of plugins, by name: two words with a slash
// between them, the first of which is the plugin's. [Session.Append] refuses a type
// that is neither here nor of the core.
var Types = plugin.NewSet[EventType]("session/event-types")

// CoreType describes an event type of the core.
type CoreType struct {
	Name string
	EventType
	Ignorable bool
}

// CoreTypes returns the event types of the core in the order of the reference.
func CoreTypes() []CoreType {
	surface := func(name, doc string, data reflect.Type) CoreType {
		return CoreType{Name: name, EventType: EventType{Doc: doc, Data: data, Surface: true}}
	}
	plain := func(name, doc string, data reflect.Type) CoreType {
		return CoreType{Name: name, EventType: EventType{Doc: doc, Data: data}}
	}
	types := []CoreType{
		plain(TurnStart, "a turn begins; turns count from 1", reflect.TypeFor[TurnStartData]()),
		plain(TurnEnd, "the turn is over, and why", reflect.TypeFor[TurnEndData]()),
		plain(StepStart, "a step begins; steps count from 1 in each turn", reflect.TypeFor[StepData]()),
		plain(StepEnd, "the step is over, and each of its calls has its result", reflect.TypeFor[StepData]()),
		surface(UserMessage, "a person's prompt, or context from a plugin", reflect.TypeFor[InputData]()),
		surface(SteeringMessage, "input that joined a running turn", reflect.TypeFor[InputData]()),
		plain(RequestHeader, "everything of the requests from here on but their messages", reflect.TypeFor[llm.Header]()),
		plain(RequestContext, "the model of the requests from here on, and its window", reflect.TypeFor[RequestContextData]()),
		plain(AssistantChunk, "text as it streamed, coalesced; the message that follows holds it too", reflect.TypeFor[ChunkData]()),
		surface(AssistantMessage, "the model's whole answer of the step", reflect.TypeFor[AssistantData]()),
		plain(ToolCall, "a call is about to be decided on and run", reflect.TypeFor[ToolCallData]()),
		plain(ToolRewritten, "the arguments that a call runs with instead of the model's", reflect.TypeFor[ToolRewrittenData]()),
		surface(ToolResult, "the one result of a call, in model order", reflect.TypeFor[ToolResultData]()),
		plain(InboxQueued, "a prompt waits for the next turn", reflect.TypeFor[InboxData]()),
		plain(InboxSteered, "a message waits for the next step", reflect.TypeFor[InboxData]()),
		plain(InboxCleared, "messages that waited will not run", reflect.TypeFor[InboxClearedData]()),
		plain(Seeded, "what was copied from another session ends here", reflect.TypeFor[struct{}]()),
		plain(Lost, "an event that was lost to damage, in a repaired copy", reflect.TypeFor[LostData]()),
		plain(Meta, "changes title, archive mark or labels; what is absent stays", reflect.TypeFor[MetaData]()),
		surface(Rewound, "the surface was cut back behind an event", reflect.TypeFor[RewoundData]()),
		plain(Retry, "a request failed and will be sent again", reflect.TypeFor[RetryData]()),
	}
	for i := range types {
		types[i].Ignorable = ignorable(types[i].Name)
	}
	return types
}

// isCore reports whether name is an event type of the core.
func isCore(name string) bool {
	switch name {
	case TurnStart, TurnEnd, StepStart, StepEnd, UserMessage, SteeringMessage, RequestHeader, RequestContext,
		AssistantChunk, AssistantMessage, ToolCall, ToolRewritten, ToolResult,
		InboxQueued, InboxSteered, InboxCleared, Seeded, Lost, Meta, Rewound, Retry:
		return true
	}
	return false
}

// ignorable reports whether a reader that does not know the type may skip its events.
func ignorable(name string) bool { return name == Meta || name == Lost || !isCore(name) }

// WriteReference writes the reference page of the event types to w, in Markdown.
// Plugins' types come behind those of the core, in the order given.
func WriteReference(w io.Writer, plugins []CoreType) error {
	var b strings.Builder
	b.WriteString("# Session events\n\n" +
		"Generated from the code; do not edit. A log holds one event a line, as JSON with the members `seq`, `time` " +
		"(Unix milliseconds), `type`, `data`, and where they apply `ignorable`, `surface`, `cites`; then `crc`.\n\n" +
		"An event marked *surface* changes what the model sees, one marked *ignorable* may be skipped by a reader that does not know it.\n")
	for _, t := range append(CoreTypes(), plugins...) {
		var marks []string
		if t.Surface {
			marks = append(marks, "*surface*")
		}
		if t.Ignorable {
			marks = append(marks, "*ignorable*")
		}
		fmt.Fprintf(&b, "\n## `%s`\n\n%s.", t.Name, strings.ToUpper(t.Doc[:1])+t.Doc[1:])
		if len(marks) > 0 {
			fmt.Fprintf(&b, " %s.", strings.Join(marks, ", "))
		}
		b.WriteString("\n")
		if rows := members(t.Data, "", nil); len(rows) > 0 {
			b.WriteString("\n| member | type |\n| --- | --- |\n" + strings.Join(rows, ""))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// members describes the JSON members of a struct type, and of those inside it.
func members(t reflect.Type, prefix string, rows []string) []string {
	if t == nil || t.Kind() != reflect.Struct {
		return rows
	}
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		mark := ""
		if strings.Contains(options, "omit") {
			mark = "?"
		}
		of := f.Type
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		rows = append(rows, fmt.Sprintf("| `%s%s%s` | %s |\n", prefix, name, mark, jsonType(of)))
		if of.Kind() == reflect.Slice && of.Elem().Kind() == reflect.Struct {
			rows = members(of.Elem(), prefix+name+"[].", rows)
		}
		rows = members(of, prefix+name+".", rows)
	}
	return rows
}

// jsonType names the JSON type of a Go type.
func jsonType(t reflect.Type) string {
	if t == reflect.TypeFor[json.RawMessage]() {
		return "any"
	}
	switch t.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Float32, reflect.Float64:
		return "number"
	case reflect.Slice, reflect.Array:
		return "array of " + jsonType(t.Elem())
	case reflect.Struct, reflect.Map:
		return "object"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "integer"
	default:
		return "any"
	}
}
