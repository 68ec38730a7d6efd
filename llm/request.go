package llm

import "encoding/json"

// Params are the parameters of a call that a person or a plugin may choose. The
// zero value of each means the provider's default.
type Params struct {
	// Effort is the reasoning effort, one of the model's [Model.Efforts].
	Effort string `json:"effort,omitempty"`
	// MaxTokens is the output ceiling of one request, in tokens.
	MaxTokens   int64    `json:"maxTokens,omitempty"`
	Temperature *float64 `json:"temperature,omitempty"`
	Stop        []string `json:"stop,omitempty"`
}

// ToolSchema is a tool as the model sees it.
type ToolSchema struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	// Parameters is the JSON Schema of the arguments, an object.
	Parameters json.RawMessage `json:"parameters"`
}

// Header is everything of a request but its messages. It is what the log's
// request/header event holds, written when it changes. Headers are immutable.
type Header struct {
	Provider string       `json:"provider"`
	Model    string       `json:"model"`
	Params   Params       `json:"params,omitzero"`
	System   string       `json:"system,omitempty"`
	Tools    []ToolSchema `json:"tools,omitempty"`
}

// Request is one call of a model.
type Request struct {
	Header  *Header
	History History
	// Session names the conversation, for providers that keep a cache by it.
	Session string
	// Purpose is empty for the conversation's own requests; otherwise it says
	// what the request is for, e.g. "compaction" or "title".
	Purpose string
}
