package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/dsh-harness/dsh/llm"
)

// Answer is one answer of a cassette: what the model thinks, says and calls, in this
// order. A cassette is a YAML list of them:
//
//   - expect: {last: failing test}
//     reasoning: The test comes first.
//     text: I look at the test.
//     calls:
//   - name: read
//     arguments: {file_path: calc_test.sh}
//   - delay: 300ms
//     error: {code: rate-limit, message: slow down, after: 2s}
//   - text: |
//     Done. The sum was off by one.
type Answer struct {
	// Expect is held against the request; one that differs gets [llm.CodeReplayMismatch].
	Expect Expect `json:"expect,omitzero" doc:"what the request must hold"`
	// Purpose puts the answer into the list for requests of this [llm.Request.Purpose].
	Purpose   string     `json:"purpose,omitempty" doc:"answers requests of this purpose; empty: the conversation's own"`
	Delay     Duration   `json:"delay,omitempty" doc:"wait before the answer"`
	Reasoning string     `json:"reasoning,omitempty" doc:"what the model thinks"`
	Text      string     `json:"text,omitempty" doc:"what it says"`
	Calls     []Call     `json:"calls,omitempty" doc:"the tools that it calls"`
	Finish    llm.Finish `json:"finish,omitempty" doc:"how the answer ends: stop, tool-calls, max-tokens or content-filter; follows from the calls"`
	Usage     *llm.Usage `json:"usage,omitempty" doc:"tokens that the provider reports"`
	Hold      bool       `json:"hold,omitempty" doc:"silence instead of an end, until the call is cancelled"`
	Error     *Failure   `json:"error,omitempty" doc:"a failure instead of an end"`
}

// Call is a tool call of an answer.
type Call struct {
	ID   string `json:"id,omitempty" doc:"the provider's id; made up when empty"`
	Name string `json:"name" doc:"the tool"`
	// Arguments is an object, or a string, which is sent as it stands, valid or not.
	Arguments json.RawMessage `json:"arguments,omitempty" doc:"an object, or a string to send as it stands"`
}

// Expect says what a request must hold. Empty members hold for any.
type Expect struct {
	Last   string   `json:"last,omitempty" doc:"text that the last message contains"`
	Role   llm.Role `json:"role,omitempty" doc:"role of the last message: user or tool"`
	System string   `json:"system,omitempty" doc:"text that the system prompt contains"`
	Tools  []string `json:"tools,omitempty" doc:"tools that are offered, among others"`
}

// Failure is how a call fails.
type Failure struct {
	Code    llm.Code `json:"code" doc:"one of the codes of llm.Error"`
	Message string   `json:"message,omitempty" doc:"its text"`
	Status  int      `json:"status,omitempty" doc:"the HTTP status"`
	After   Duration `json:"after,omitempty" doc:"how long the provider asks to wait"`
}

// Duration is written as 300ms or 2s.
type Duration time.Duration

// UnmarshalText reads a duration.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err == nil && v < 0 {
		err = fmt.Errorf("duration %q is below zero", text)
	}
	*d = Duration(v)
	return err
}

// MarshalText writes a duration.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// Parse reads a cassette. Errors name the line of the answer.
func Parse(data []byte) ([]Answer, error) {
	var items []yaml.Node
	if err := yaml.Unmarshal(data, &items); err != nil {
		return nil, fmt.Errorf("a cassette is a list of answers: %w", err)
	}
	answers := make([]Answer, len(items))
	for i := range items {
		if err := decode(&items[i], &answers[i]); err != nil {
			return nil, fmt.Errorf("line %d: answer %d: %w", items[i].Line, i+1, err)
		}
	}
	return answers, check(answers)
}

// decode goes through JSON, so that a cassette in a file and one in a row of the
// configuration have the same members.
func decode(item *yaml.Node, into *Answer) error {
	var v any
	if err := item.Decode(&v); err != nil {
		return err
	}
	encoded, err := json.Marshal(v)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(encoded))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// Load reads a cassette from a file, for example of an embedded file system.
func Load(fsys fs.FS, name string) ([]Answer, error) {
	data, err := fs.ReadFile(fsys, name)
	if err != nil {
		return nil, fmt.Errorf("read the cassette: %w", err)
	}
	answers, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return answers, nil
}

// check returns nil when every answer can be given.
func check(answers []Answer) error {
	for i, a := range answers {
		if err := a.check(); err != nil {
			return fmt.Errorf("answer %d: %w", i+1, err)
		}
	}
	return nil
}

func (a Answer) check() error {
	ends := []llm.Finish{"", llm.FinishStop, llm.FinishToolCalls, llm.FinishMaxTokens, llm.FinishContentFilter}
	if !slices.Contains(ends, a.Finish) {
		return fmt.Errorf("finish %q: want stop, tool-calls, max-tokens or content-filter", a.Finish)
	}
	if a.Error != nil && a.Error.Code == "" {
		return errors.New("error: code is missing")
	}
	for i, c := range a.Calls {
		if c.Name == "" {
			return fmt.Errorf("calls[%d]: name is missing", i)
		}
		if _, err := c.arguments(); err != nil {
			return fmt.Errorf("calls[%d]: arguments: %w", i, err)
		}
	}
	return nil
}

// arguments returns the string that the model sends.
func (c Call) arguments() (string, error) {
	raw := bytes.TrimSpace(c.Arguments)
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return "", nil
	}
	if raw[0] == '"' {
		var s string
		err := json.Unmarshal(raw, &s)
		return s, err
	}
	var compact bytes.Buffer
	err := json.Compact(&compact, raw)
	return compact.String(), err
}

// differs returns what of e a request does not hold, "" when it holds all.
func (e Expect) differs(req *llm.Request) string {
	var role llm.Role
	var text string
	if n := req.History.Len(); n > 0 {
		last := req.History.At(n - 1)
		role, text = last.Role, llm.PlainText(last.Content)
	}
	switch {
	case e.Role != "" && e.Role != role:
		return fmt.Sprintf("the last message is of the role %q, not %q", role, e.Role)
	case !strings.Contains(text, e.Last):
		return fmt.Sprintf("the last message %q does not contain %q", shortened(text), e.Last)
	case !strings.Contains(req.Header.System, e.System):
		return fmt.Sprintf("the system prompt does not contain %q", e.System)
	}
	for _, name := range e.Tools {
		if !slices.ContainsFunc(req.Header.Tools, func(t llm.ToolSchema) bool { return t.Name == name }) {
			return fmt.Sprintf("the tool %q is not offered", name)
		}
	}
	return ""
}

func shortened(s string) string {
	if r := []rune(s); len(r) > 80 {
		return string(r[:79]) + "…"
	}
	return s
}
