package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"

	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/llm/internal/jsonwire"
	"github.com/dsh-harness/dsh/llm/internal/wirehttp"
)

// A request is laid out so that what changes least comes first: model and
// parameters, tools, system text, then the messages. Each message is encoded
// once in the life of a history; a step adds the bytes of what is new.

const effortOff = "off"

// encode returns the body of req.
func (a *adapter) encode(req *llm.Request) (wirehttp.Body, error) {
	key := memoKey{a.config.Name, a.config.Dialect, a.config.AlternateRoles}
	t := req.History.Memo(key, func() any { return &transcript{memoKey: key} }).(*transcript)
	t.mu.Lock()
	defer t.mu.Unlock()
	head, err := t.headOf(req.Header, a)
	if err != nil {
		return nil, err
	}
	messages, tail := t.upTo(req.History)
	if req.Header.System == "" {
		messages = bytes.TrimPrefix(messages, []byte(","))
	}
	return wirehttp.Body{head, messages, tail}, nil
}

// Encode implements [llm.Encoder].
func (a *adapter) Encode(req *llm.Request) ([]byte, error) {
	body, err := a.encode(req)
	if err != nil {
		return nil, err
	}
	return bytes.Join(body, nil), nil
}

// memoKey names what the encoding of a message depends on.
type memoKey struct {
	provider string
	dialect  Dialect
	merge    bool
}

// transcript is the encoded messages of one line of histories. Its buffers are only
// appended to, so requests under way share them.
type transcript struct {
	memoKey

	mu     sync.Mutex
	head   []byte      // of the last request
	header *llm.Header // that head was made of
	author *adapter    // that made it
	// messages holds each message behind a comma. A user message at the end is
	// open: it lacks its closing `"}`, because another may join it.
	messages []byte
	ends     []end
	open     bool
	used     map[string]bool // tool-call ids on the wire
	calls    []pairedCall    // of the last assistant message
}

// end says how a history that ends with this message is encoded.
type end struct {
	offset int
	open   bool
}

type pairedCall struct{ ours, wire string }

var (
	endOpen   = []byte(`"}]}`)
	endClosed = []byte(`]}`)
)

// usualMessage is about the size of a message, in bytes.
const usualMessage = 160

// upTo encodes what is new in h and returns its messages, and what closes them.
func (t *transcript) upTo(h llm.History) (messages, tail []byte) {
	if n := h.Len() - len(t.ends); n > 100 { // a session was resumed
		t.messages = slices.Grow(t.messages, n*usualMessage)
		t.ends = slices.Grow(t.ends, n)
		if t.used == nil {
			t.used = make(map[string]bool, n/2)
		}
	}
	for i := len(t.ends); i < h.Len(); i++ {
		t.add(h.At(i))
		t.ends = append(t.ends, end{len(t.messages), t.open})
	}
	if h.Len() == 0 {
		return nil, endClosed
	}
	last := t.ends[h.Len()-1]
	messages, tail = t.messages[:last.offset:last.offset], endClosed
	if last.open {
		tail = endOpen
	}
	return messages, tail
}

func (t *transcript) add(m *llm.Message) {
	switch m.Role {
	case llm.RoleUser:
		t.addUser(m)
	case llm.RoleAssistant:
		t.addAssistant(m)
	case llm.RoleTool:
		t.addResult(m)
	}
}

// begin appends the beginning of a message, up to its content.
func (t *transcript) begin(role string) {
	if t.open {
		t.raw(`"}`)
		t.open = false
	}
	t.raw(`,{"role":"` + role + `"`)
}

func (t *transcript) raw(s string)    { t.messages = append(t.messages, s...) }
func (t *transcript) string(s string) { t.messages = jsonwire.AppendString(t.messages, s) }
func (t *transcript) text(s string)   { t.messages = jsonwire.AppendText(t.messages, s) }

// addUser appends a user message. One without text is left out.
func (t *transcript) addUser(m *llm.Message) {
	text := visible(m.Content, "\n\n")
	if text == "" {
		return
	}
	if t.open && t.merge {
		t.text("\n\n")
	} else {
		t.begin("user")
		t.raw(`,"content":"`)
		t.open = true
	}
	t.text(text)
}

// interruptedMark tells the model that it did not finish what it said.
const interruptedMark = "\n\n[interrupted]"

// addAssistant appends an assistant message. One that has neither text nor calls is
// left out: servers refuse it, and with it every later request.
func (t *transcript) addAssistant(m *llm.Message) {
	text := visible(m.Content, "")
	hasCalls := slices.ContainsFunc(m.Content, func(b llm.Block) bool { return b.Type == llm.BlockToolCall })
	if text == "" && !hasCalls {
		return
	}
	if m.Interrupted && text != "" {
		text += interruptedMark
	}
	t.begin("assistant")
	t.raw(`,"content":`)
	t.string(text)
	if t.dialect == DeepSeek {
		// With calls DeepSeek wants the member in any case, also when there was no
		// thought or when another provider had it.
		if thought, ok := reasoning(m, t.provider); ok || hasCalls {
			t.raw(`,"reasoning_content":`)
			t.string(thought)
		}
	}
	t.calls = t.calls[:0]
	for _, c := range m.Content {
		if c.Type != llm.BlockToolCall {
			continue
		}
		if len(t.calls) == 0 {
			t.raw(`,"tool_calls":[{"id":`)
		} else {
			t.raw(`,{"id":`)
		}
		t.string(t.pair(c))
		t.raw(`,"type":"function","function":{"name":`)
		t.string(functionName(c.Name))
		t.raw(`,"arguments":`)
		t.string(arguments(c.Arguments))
		t.raw(`}}`)
	}
	if hasCalls {
		t.raw(`]`)
	}
	t.raw(`}`)
}

// reasoning returns what m's author thought, when provider was the author.
func reasoning(m *llm.Message, provider string) (thought string, ok bool) {
	if m.Provider != provider {
		return "", false
	}
	for _, b := range m.Content {
		if b.Type == llm.BlockReasoning {
			thought, ok = thought+b.Text, true
		}
	}
	return thought, ok
}

// mostID is the longest id that is sent back; strict servers refuse longer ones.
const mostID = 64

// pair chooses the id of a call on the wire: the provider's own, unless it is absent or
// was used before; then ours, which is unique in the session.
func (t *transcript) pair(c llm.Block) string {
	id := c.ProviderID
	if id == "" || len(id) > mostID || t.used[id] {
		id = c.CallID
	}
	for id == "" || t.used[id] { // a provider took the very form of our ids, or nobody gave one
		id += "call_" + strconv.Itoa(len(t.used))
	}
	if t.used == nil {
		t.used = map[string]bool{}
	}
	t.used[id] = true
	t.calls = append(t.calls, pairedCall{c.CallID, id})
	return id
}

func (t *transcript) addResult(m *llm.Message) {
	id := m.CallID
	for _, c := range t.calls {
		if c.ours == m.CallID {
			id = c.wire
			break
		}
	}
	text := visible(m.Content, "\n")
	if text == "" {
		text = "(no output)"
	}
	t.begin("tool")
	t.raw(`,"tool_call_id":`)
	t.string(id)
	t.raw(`,"content":`)
	t.string(text)
	t.raw(`}`)
}

// visible returns the text of content, with a placeholder for each image, as this
// wire sends text only.
func visible(content []llm.Block, separator string) string {
	if len(content) == 1 && content[0].Type == llm.BlockText {
		return content[0].Text
	}
	var out []byte
	for _, b := range content {
		var text string
		switch b.Type {
		case llm.BlockText:
			text = b.Text
		case llm.BlockImage:
			text = "[an image of type " + b.MediaType + " is not shown: this model gets text only]"
		case llm.BlockReasoning, llm.BlockToolCall, llm.BlockOpaque:
		}
		if text == "" {
			continue
		}
		if len(out) > 0 {
			out = append(out, separator...)
		}
		out = append(out, text...)
	}
	return string(out)
}

// functionName returns the name of a called tool as servers accept it: a model may
// call what does not exist by a name that cannot.
func functionName(name string) string {
	if name == "" {
		return "unknown"
	}
	out := []byte(name[:min(len(name), mostID)])
	for i, c := range out {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			out[i] = '_'
		}
	}
	return string(out)
}

// arguments returns the arguments of a past call as servers accept them, which is the
// JSON of an object. Nothing becomes {}; a string that holds an object is unwrapped;
// anything else goes back inside of one, so that the model sees what it wrote:
// {"_invalid":"…"}.
func arguments(s string) string {
	if s == "" {
		return "{}"
	}
	if isObject(s) {
		return s
	}
	var inner string
	if s[0] == '"' && json.Unmarshal([]byte(s), &inner) == nil && isObject(inner) {
		return inner
	}
	return string(append(jsonwire.AppendString([]byte(`{"_invalid":`), s), '}'))
}

func isObject(s string) bool {
	var scan jsonwire.Scanner
	scan.Reset([]byte(s))
	if scan.Peek() != '{' {
		return false
	}
	scan.Skip()
	return scan.End() == nil
}

// headOf returns everything of the body that precedes the messages. Headers are
// immutable, and mostly the same one comes again.
func (t *transcript) headOf(h *llm.Header, a *adapter) ([]byte, error) {
	if h == t.header && a == t.author {
		return t.head, nil
	}
	head, err := a.head(h)
	if err != nil {
		return nil, err
	}
	t.head, t.header, t.author = head, h, a
	return head, nil
}

func (a *adapter) head(h *llm.Header) ([]byte, error) {
	facts := a.model(h.Model)
	effort, maxTokens := h.Params.Effort, h.Params.MaxTokens
	if effort == "" {
		effort = facts.DefaultEffort
	}
	if maxTokens == 0 && a.config.Dialect == DeepSeek {
		maxTokens = facts.MaxOutput // DeepSeek's own default cuts long files
	}
	if err := facts.CheckEffort(effort); err != nil {
		return nil, err
	}
	out := []byte(`{"model":`)
	out = jsonwire.AppendString(out, h.Model)
	out = append(out, `,"stream":true,"stream_options":{"include_usage":true}`...)
	if maxTokens > 0 {
		out = append(out, `,"`+a.config.MaxTokensField+`":`...)
		out = strconv.AppendInt(out, maxTokens, 10)
	}
	switch {
	case effort == "":
	case effort == effortOff && a.config.Dialect == DeepSeek:
		out = append(out, `,"thinking":{"type":"disabled"}`...)
	default:
		out = append(out, `,"reasoning_effort":`...)
		out = jsonwire.AppendString(out, effort)
	}
	if v := h.Params.Temperature; v != nil {
		if math.IsNaN(*v) || math.IsInf(*v, 0) {
			return nil, &llm.Error{Code: llm.CodeInvalidRequest, Message: fmt.Sprintf("temperature %v is no number", *v)}
		}
		out = append(out, `,"temperature":`...)
		out = strconv.AppendFloat(out, *v, 'f', -1, 64)
	}
	for i, stop := range h.Params.Stop {
		out = append(out, [2]string{`,"stop":[`, `,`}[min(i, 1)]...)
		if out = jsonwire.AppendString(out, stop); i == len(h.Params.Stop)-1 {
			out = append(out, ']')
		}
	}
	out, err := appendTools(out, h.Tools)
	if err != nil {
		return nil, err
	}
	out = append(out, `,"messages":[`...)
	if h.System != "" {
		out = append(out, `{"role":"system","content":`...)
		out = append(jsonwire.AppendString(out, h.System), '}')
	}
	return out, nil
}

func appendTools(out []byte, tools []llm.ToolSchema) ([]byte, error) {
	for i, t := range tools {
		out = append(out, [2]string{`,"tools":[`, `,`}[min(i, 1)]...)
		out = append(out, `{"type":"function","function":{"name":`...)
		out = jsonwire.AppendString(out, t.Name)
		out = append(out, `,"description":`...)
		out = jsonwire.AppendString(out, t.Description)
		out = append(out, `,"parameters":`...)
		parameters := t.Parameters
		if len(parameters) == 0 {
			parameters = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		compact := bytes.NewBuffer(out)
		if err := json.Compact(compact, parameters); err != nil {
			return nil, &llm.Error{Code: llm.CodeInvalidRequest, Message: fmt.Sprintf("the schema of the tool %s is no JSON: %v", t.Name, err), Err: err}
		}
		out = append(compact.Bytes(), `}}`...)
	}
	if len(tools) > 0 {
		out = append(out, ']')
	}
	return out, nil
}
