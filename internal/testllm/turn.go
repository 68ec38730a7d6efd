package testllm

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// End says what a turn ends with.
type End string

const (
	Close End = "close" // an orderly end of the body
	Reset End = "reset" // the connection is aborted
	Hold  End = "hold"  // silence on an open connection
	Ping  End = "ping"  // comments without end, never data
)

// Turn is an answer, byte for byte.
type Turn struct {
	Status  int
	Header  map[string]string // @NOW+3@ becomes an HTTP date three seconds ahead, @VALUE@ the Value
	Value   string
	Packets [][]byte      // each is one write
	Pause   time.Duration // after each packet
	End     End
	// Wait holds the answer back until it is closed, when it is not nil.
	Wait <-chan struct{}
}

// Call is a tool call in an answer.
type Call struct {
	ID        string // call_1, call_2, … when empty
	Name      string
	Arguments string
}

// Answer is what a model may say.
type Answer struct {
	Reasoning string
	Text      string
	Calls     []Call
	Finish    string // stop or tool_calls when empty
	Usage     string // JSON, 10 and 5 tokens when empty, "-" for none
}

// Text returns a turn that says s.
func Text(s string) Turn { return Answer{Text: s}.Turn() }

// Calls returns a turn that calls tools.
func Calls(calls ...Call) Turn { return Answer{Calls: calls}.Turn() }

// Turn returns a well-formed stream that says a.
func (a Answer) Turn() Turn {
	var out []byte
	chunk := func(delta, finish any) {
		out = append(out, "data: "...)
		out = append(out, mustJSON(map[string]any{
			"id": "cc-1", "object": "chat.completion.chunk", "created": 1, "model": "mock",
			"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}},
		})...)
		out = append(out, "\n\n"...)
	}
	chunk(map[string]any{"role": "assistant", "content": ""}, nil)
	if a.Reasoning != "" {
		chunk(map[string]any{"reasoning_content": a.Reasoning}, nil)
	}
	if a.Text != "" {
		chunk(map[string]any{"content": a.Text}, nil)
	}
	for i, c := range a.Calls {
		if c.ID == "" {
			c.ID = "call_" + strconv.Itoa(i+1)
		}
		chunk(map[string]any{"tool_calls": []any{map[string]any{
			"index": i, "id": c.ID, "type": "function", "function": map[string]any{"name": c.Name, "arguments": c.Arguments},
		}}}, nil)
	}
	finish := a.Finish
	if finish == "" {
		finish = "stop"
		if len(a.Calls) > 0 {
			finish = "tool_calls"
		}
	}
	chunk(map[string]any{}, finish)
	usage := a.Usage
	if usage == "" {
		usage = `{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}`
	}
	if usage != "-" {
		out = append(out, `data: {"id":"cc-1","object":"chat.completion.chunk","created":1,"model":"mock","choices":[],"usage":`+usage+"}\n\n"...)
	}
	return Stream(string(out) + "data: [DONE]\n\n")
}

// Stream returns a turn that sends an event stream as it stands, in one packet.
func Stream(events string) Turn {
	return Turn{Status: http.StatusOK, Header: map[string]string{"Content-Type": "text/event-stream"}, Packets: [][]byte{[]byte(events)}}
}

// Fail returns a turn that refuses the request.
func Fail(status int, message string) Turn {
	return Turn{
		Status: status, Header: map[string]string{"Content-Type": "application/json"},
		Packets: [][]byte{mustJSON(map[string]any{"error": map[string]any{"message": message}})},
	}
}

// Case is a recorded failure: what a server sent when something went wrong.
type Case struct {
	Turns []Turn
	// RepeatLast answers every request past the last turn with the last turn.
	RepeatLast bool
}

//go:embed testdata/cases
var cases embed.FS

// LoadCase returns the case of that name, for example "o-str-01".
func LoadCase(name string) (Case, error) {
	data, err := fs.ReadFile(cases, "testdata/cases/"+name+".json")
	if err != nil {
		return Case{}, fmt.Errorf("case %s: %w", name, err)
	}
	return ParseCase(data)
}

// ReadCase reads a case from a file.
func ReadCase(path string) (Case, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Case{}, err
	}
	return ParseCase(data)
}

// ParseCase reads a wire.json.
func ParseCase(data []byte) (Case, error) {
	var wire struct {
		RepeatLast bool `json:"repeat_last"`
		Turns      []struct {
			Status  int               `json:"status"`
			Headers map[string]string `json:"headers"`
			Chunks  [][]byte          `json:"chunks_b64"`
			Pause   int               `json:"pause_ms"`
			End     End               `json:"end"`
		} `json:"turns"`
	}
	if err := json.Unmarshal(data, &wire); err != nil {
		return Case{}, err
	}
	c := Case{RepeatLast: wire.RepeatLast}
	for _, t := range wire.Turns {
		c.Turns = append(c.Turns, Turn{
			Status: t.Status, Header: t.Headers, Packets: t.Chunks, Pause: time.Duration(t.Pause) * time.Millisecond, End: t.End,
		})
	}
	return c, nil
}

// expand fills in the marks of a header's value.
func expand(value, with string) string {
	value = strings.ReplaceAll(value, "@VALUE@", with)
	return regexp.MustCompile(`@NOW\+(\d+)@`).ReplaceAllStringFunc(value, func(mark string) string {
		seconds, err := strconv.Atoi(mark[len("@NOW+") : len(mark)-1])
		if err != nil {
			return mark
		}
		return time.Now().Add(time.Duration(seconds) * time.Second).UTC().Format(http.TimeFormat)
	})
}

// mustJSON encodes what the package itself has built.
func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
