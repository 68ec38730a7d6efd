package testllm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Chat is the body of a request.
type Chat struct {
	Model    string            `json:"model"`
	Stream   bool              `json:"stream"`
	Messages []Message         `json:"messages"`
	Tools    []json.RawMessage `json:"tools"`
	// Raw holds the messages as they were sent.
	Raw []json.RawMessage `json:"-"`
}

// Message is one message of a request.
type Message struct {
	Role       string     `json:"role"`
	Content    *string    `json:"content"`
	Reasoning  *string    `json:"reasoning_content"`
	ToolCalls  []ToolCall `json:"tool_calls"`
	ToolCallID string     `json:"tool_call_id"`
}

// Text returns the content, "" when there is none.
func (m Message) Text() string {
	if m.Content == nil {
		return ""
	}
	return *m.Content
}

// ToolCall is a past call in a request.
type ToolCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string  `json:"name"`
		Arguments *string `json:"arguments"`
	} `json:"function"`
}

// Rules are what some providers want and others do not.
type Rules struct {
	// Alternate: no two neighbouring user messages.
	Alternate bool
	// Reasoning: an assistant message with tool calls has reasoning_content.
	Reasoning bool
	// Unchecked requests are neither read nor kept, for benchmarks.
	Unchecked bool
}

// check reads a request and returns the first rule that it breaks.
func check(body []byte, rules Rules) (Chat, error) {
	var c Chat
	var raw struct {
		Messages []json.RawMessage `json:"messages"`
	}
	if err := json.Unmarshal(body, &c); err != nil {
		return c, fmt.Errorf("the body: %w", err)
	}
	if err := json.Unmarshal(body, &raw); err != nil {
		return c, fmt.Errorf("the messages: %w", err)
	}
	c.Raw = raw.Messages
	switch {
	case c.Model == "":
		return c, errors.New("there is no model")
	case !c.Stream:
		return c, errors.New("this server only streams")
	case len(c.Messages) == 0:
		return c, errors.New("there are no messages")
	}
	if err := checkTools(c.Tools); err != nil {
		return c, err
	}
	ids := map[string]bool{}        // of all calls so far
	var waiting map[string]struct{} // calls without an answer
	before := ""
	for i, m := range c.Messages {
		if err := checkMessage(i, m, before, rules); err != nil {
			return c, fmt.Errorf("messages[%d]: %w", i, err)
		}
		if m.Role == "tool" {
			if _, ok := waiting[m.ToolCallID]; !ok {
				return c, fmt.Errorf("messages[%d]: answers %q, which is no open call", i, m.ToolCallID)
			}
			delete(waiting, m.ToolCallID)
		} else if len(waiting) > 0 {
			return c, fmt.Errorf("messages[%d]: the calls before it have %d results too few", i, len(waiting))
		}
		if m.Role == "assistant" {
			waiting = map[string]struct{}{}
			for _, call := range m.ToolCalls {
				if err := checkCall(call, ids); err != nil {
					return c, fmt.Errorf("messages[%d]: %w", i, err)
				}
				waiting[call.ID] = struct{}{}
			}
		}
		before = m.Role
	}
	if len(waiting) > 0 {
		return c, fmt.Errorf("%d calls at the end have no result", len(waiting))
	}
	if before != "user" && before != "tool" {
		return c, fmt.Errorf("the last message is of the %s", before)
	}
	return c, nil
}

func checkTools(tools []json.RawMessage) error {
	names := map[string]bool{}
	for i, raw := range tools {
		var t struct {
			Type     string `json:"type"`
			Function struct {
				Name       string         `json:"name"`
				Parameters map[string]any `json:"parameters"`
			} `json:"function"`
		}
		if err := json.Unmarshal(raw, &t); err != nil {
			return fmt.Errorf("tools[%d]: %w", i, err)
		}
		if t.Type != "function" || !goodName(t.Function.Name) || names[t.Function.Name] || t.Function.Parameters["type"] != "object" {
			return fmt.Errorf("tools[%d]: %.100s is no tool of its own", i, raw)
		}
		names[t.Function.Name] = true
	}
	return nil
}

func checkMessage(i int, m Message, before string, rules Rules) error {
	if m.Content == nil {
		return errors.New("content is no string")
	}
	switch m.Role {
	case "system":
		if i > 0 {
			return errors.New("a system message after the first")
		}
	case "user":
		if *m.Content == "" {
			return errors.New("a user message is empty")
		}
		if rules.Alternate && before == "user" {
			return errors.New("two neighbouring user messages")
		}
	case "assistant":
		if *m.Content == "" && len(m.ToolCalls) == 0 {
			return errors.New("an assistant message has neither content nor calls")
		}
		if rules.Reasoning && len(m.ToolCalls) > 0 && m.Reasoning == nil {
			return errors.New("the reasoning_content of a message with calls must be passed back")
		}
	case "tool":
		if *m.Content == "" {
			return errors.New("a tool message is empty")
		}
	default:
		return fmt.Errorf("unknown role %q", m.Role)
	}
	return nil
}

func checkCall(c ToolCall, ids map[string]bool) error {
	switch {
	case c.ID == "" || ids[c.ID]:
		return fmt.Errorf("the call id %q is not unique", c.ID)
	case c.Type != "function" || !goodName(c.Function.Name):
		return fmt.Errorf("call %s: %q is no name of a function", c.ID, c.Function.Name)
	case c.Function.Arguments == nil:
		return fmt.Errorf("call %s: the arguments are no string", c.ID)
	}
	var object map[string]any
	if err := json.Unmarshal([]byte(*c.Function.Arguments), &object); err != nil || object == nil {
		return fmt.Errorf("call %s: the arguments %.60q are no object", c.ID, *c.Function.Arguments)
	}
	ids[c.ID] = true
	return nil
}

func goodName(s string) bool {
	for _, c := range s {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

// CheckPrefix returns nil when each request begins with the one before it: all
// that precedes the messages is equal byte for byte, and so are the messages, but
// for the last one where another user message has joined it.
func CheckPrefix(requests []Request) error {
	for i := 1; i < len(requests); i++ {
		a, b := requests[i-1], requests[i]
		if !bytes.Equal(head(a.Body), head(b.Body)) {
			return fmt.Errorf("request %d has another head than the one before it", i+1)
		}
		for j, m := range a.Chat.Raw {
			last := j == len(a.Chat.Raw)-1 && a.Chat.Messages[j].Role == "user"
			if last {
				m = bytes.TrimSuffix(m, []byte(`"}`))
			}
			if j >= len(b.Chat.Raw) || !bytes.HasPrefix(b.Chat.Raw[j], m) || !last && len(m) != len(b.Chat.Raw[j]) {
				return fmt.Errorf("request %d: messages[%d] was changed", i+1, j)
			}
		}
	}
	return nil
}

func head(body []byte) []byte {
	before, _, _ := bytes.Cut(body, []byte(`"messages":[`))
	return before
}
