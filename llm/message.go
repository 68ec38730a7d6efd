package llm

import "encoding/json"

// Role says whose words a message holds.
type Role string

const (
	RoleUser      Role = "user"      // a person, or context that a plugin contributed
	RoleAssistant Role = "assistant" // the model
	RoleTool      Role = "tool"      // the result of one tool call
)

// Message is one entry of a conversation. It is immutable once it is part of a
// log, a history or a request; share it, never change it.
type Message struct {
	// ID is unique in its session. The assembler and the log mint it.
	ID      string  `json:"id,omitempty"`
	Role    Role    `json:"role"`
	Content []Block `json:"content"`
	// Source tells where a user message came from; the zero value is a person.
	Source Source `json:"source,omitzero"`

	// CallID names the call that a tool message answers.
	CallID string `json:"callId,omitempty"`
	// IsError marks a tool message that reports a failure.
	IsError bool `json:"isError,omitempty"`

	// Provider and Model tell who wrote an assistant message. Opaque state of
	// its blocks is sent back only to the same provider.
	Provider string `json:"provider,omitempty"`
	Model    string `json:"model,omitempty"`
	// Interrupted marks an assistant message that was cut off.
	Interrupted bool `json:"interrupted,omitempty"`
}

// Source tells where a user message came from.
type Source struct {
	// Kind is "user" (or empty) for a person, "plugin", "hook", "agent", …
	Kind string `json:"kind,omitempty"`
	// Name is the plugin, hook or agent that spoke.
	Name string `json:"name,omitempty"`
	// Form refines what a plugin contributed: "context", "notice", "reminder", …
	Form string `json:"form,omitempty"`
}

// BlockType tells what a block holds.
type BlockType string

const (
	BlockText      BlockType = "text"
	BlockReasoning BlockType = "reasoning"
	BlockToolCall  BlockType = "tool-call"
	BlockImage     BlockType = "image"
	// BlockOpaque is a block of a provider that the harness does not
	// understand and sends back as it came.
	BlockOpaque BlockType = "opaque"
)

// Block is one part of a message. Type says which of the fields count.
type Block struct {
	Type BlockType `json:"type"`

	// Text of a text or reasoning block; it may be empty.
	Text string `json:"text,omitempty"`

	// CallID of a tool call is the harness's own id, c<turn>_<step>_<index>.
	CallID string `json:"callId,omitempty"`
	// ProviderID is the id that the provider gave the call; it may be empty
	// or repeat an earlier one.
	ProviderID string `json:"providerId,omitempty"`
	// Name of the tool that is called.
	Name string `json:"name,omitempty"`
	// Arguments is the model's string, unchanged; it need not be valid JSON.
	Arguments string `json:"arguments,omitempty"`

	// MediaType and Attachment describe an image: its type and the name of its
	// content-addressed file in the session's attachments folder.
	MediaType  string `json:"mediaType,omitempty"`
	Attachment string `json:"attachment,omitempty"`

	// Opaque is state that only the provider understands (signatures,
	// encrypted reasoning, a foreign block). It goes back byte for byte.
	Opaque json.RawMessage `json:"opaque,omitempty"`
}

// Text returns a text block.
func Text(s string) Block { return Block{Type: BlockText, Text: s} }

// UserText returns a user message with one text block.
func UserText(s string) Message {
	return Message{Role: RoleUser, Content: []Block{Text(s)}}
}

// PlainText joins the text blocks of content, without reasoning.
func PlainText(content []Block) string {
	var out []byte
	for _, b := range content {
		if b.Type == BlockText {
			out = append(out, b.Text...)
		}
	}
	return string(out)
}

// ToolCalls returns the tool-call blocks of content, in order.
func ToolCalls(content []Block) []Block {
	var calls []Block
	for _, b := range content {
		if b.Type == BlockToolCall {
			calls = append(calls, b)
		}
	}
	return calls
}

// Usage counts the tokens of one request. The input counters are disjoint: what
// was billed as input is their sum. Reasoning is part of Output. A counter
// that the provider did not report is 0.
type Usage struct {
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	CacheRead  int64 `json:"cacheRead,omitempty"`
	CacheWrite int64 `json:"cacheWrite,omitempty"`
	Reasoning  int64 `json:"reasoning,omitempty"`
}

// Total is the number of tokens that the request occupied in the window.
func (u Usage) Total() int64 { return u.Input + u.CacheRead + u.CacheWrite + u.Output }

// Add returns the sum of u and v, saturating instead of overflowing.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		Input:      addSat(u.Input, v.Input),
		Output:     addSat(u.Output, v.Output),
		CacheRead:  addSat(u.CacheRead, v.CacheRead),
		CacheWrite: addSat(u.CacheWrite, v.CacheWrite),
		Reasoning:  addSat(u.Reasoning, v.Reasoning),
	}
}

func addSat(a, b int64) int64 {
	const most = 1<<63 - 1
	if a > most-b {
		return most
	}
	return a + b
}

// Finish tells why an answer ended.
type Finish string

const (
	FinishStop          Finish = "stop"
	FinishToolCalls     Finish = "tool-calls"
	FinishMaxTokens     Finish = "max-tokens"     // the output ceiling; a call may be cut
	FinishContentFilter Finish = "content-filter" // the provider refused or cut the answer
)

// Truncated reports that the answer ended before the model was done. None of its
// tool calls may run: the last one may be incomplete, and what the model would
// have added is unknown. Every other finish lets complete calls run, whatever the
// provider called it.
func (f Finish) Truncated() bool { return f == FinishMaxTokens || f == FinishContentFilter }
