package protocol

import (
	"encoding/json"
	"fmt"
)

// UpdateParams are those of session/update.
type UpdateParams struct {
	SessionID string `json:"sessionId"`
	Update    Update `json:"update"`
}

// UpdateKind says what an [Update] brings.
type UpdateKind string

const (
	UserMessageChunk   UpdateKind = "user_message_chunk"
	AgentMessageChunk  UpdateKind = "agent_message_chunk"
	AgentThoughtChunk  UpdateKind = "agent_thought_chunk"
	ToolCallNew        UpdateKind = "tool_call"
	ToolCallUpdate     UpdateKind = "tool_call_update"
	PlanUpdate         UpdateKind = "plan"
	CommandsUpdate     UpdateKind = "available_commands_update"
	CurrentModeUpdate  UpdateKind = "current_mode_update"
	ConfigOptionUpdate UpdateKind = "config_option_update"
	SessionInfoUpdate  UpdateKind = "session_info_update"
	UsageUpdate        UpdateKind = "usage_update"
	NoticeUpdate       UpdateKind = "notice"
	CompactionUpdate   UpdateKind = "compaction_update"
	CompactionChunk    UpdateKind = "compaction_summary_chunk"
)

// Update is what changed in a session. Body is the type named behind the kind.
type Update struct {
	Kind UpdateKind
	// Body is a [Chunk] for the three chunks of messages, a [ToolCall], [Plan], [Commands], [CurrentMode], [ConfigOptions], [Info], [Usage],
	// [Notice], [Compaction] or [CompactionText]; a [json.RawMessage] for a kind that is not known here.
	Body any
}

// Chunk is a piece of a message.
type Chunk struct {
	Content   ContentBlock `json:"content"`
	MessageID string       `json:"messageId,omitempty"`
}

// ToolCall is a call of a tool, or what changed of one: members that are absent stay as they were.
type ToolCall struct {
	ToolCallID string             `json:"toolCallId"`
	Title      string             `json:"title,omitempty"` // never empty in a tool_call
	Name       string             `json:"name,omitempty"`
	Kind       string             `json:"kind,omitempty"`
	Status     ToolStatus         `json:"status,omitempty"`
	Content    []ToolContent      `json:"content,omitempty"`
	Locations  []ToolCallLocation `json:"locations,omitempty"`
	RawInput   json.RawMessage    `json:"rawInput,omitempty"`
	RawOutput  json.RawMessage    `json:"rawOutput,omitempty"`
	Meta       Meta               `json:"_meta,omitempty"`
}

// ToolStatus is how far a call is.
type ToolStatus string

const (
	ToolPending    ToolStatus = "pending"
	ToolInProgress ToolStatus = "in_progress"
	ToolCompleted  ToolStatus = "completed"
	ToolFailed     ToolStatus = "failed"
)

// ToolContent is what a call shows: Type is content, diff or terminal.
type ToolContent struct {
	Type       string        `json:"type"`
	Content    *ContentBlock `json:"content,omitempty"`
	Path       string        `json:"path,omitempty"`
	OldText    *string       `json:"oldText,omitempty"`
	NewText    *string       `json:"newText,omitempty"`
	TerminalID string        `json:"terminalId,omitempty"`
}

// ToolCallLocation is a place in a file, absolute.
type ToolCallLocation struct {
	Path string `json:"path"`
	Line *int   `json:"line,omitempty"`
}

// Plan is what the agent means to do.
type Plan struct {
	Entries []PlanEntry `json:"entries"`
}

// PlanEntry is one part of a plan.
type PlanEntry struct {
	Content  string `json:"content"`
	Priority string `json:"priority"` // high, medium or low
	Status   string `json:"status"`   // pending, in_progress or completed
}

// Commands are the slash commands that there are.
type Commands struct {
	AvailableCommands []AvailableCommand `json:"availableCommands"`
}

// AvailableCommand is a slash command.
type AvailableCommand struct {
	Name        string        `json:"name"`
	Description string        `json:"description"`
	Input       *CommandInput `json:"input,omitempty"`
}

// CommandInput hints at what follows a command's name.
type CommandInput struct {
	Hint string `json:"hint"`
}

// CurrentMode is the mode of a session.
type CurrentMode struct {
	CurrentModeID string `json:"currentModeId"`
}

// ConfigOptions are the options of a session.
type ConfigOptions struct {
	ConfigOptions []ConfigOption `json:"configOptions"`
}

// Info is what lists show of a session.
type Info struct {
	Title     *string `json:"title,omitempty"`
	UpdatedAt *string `json:"updatedAt,omitempty"`
}

// Usage is how full the context is, and what the session has cost.
type Usage struct {
	Used int64 `json:"used"` // tokens
	Size int64 `json:"size"` // tokens
	Cost *Cost `json:"cost,omitempty"`
}

// Cost is money.
type Cost struct {
	Amount   float64 `json:"amount"`
	Currency string  `json:"currency"` // ISO 4217
}

// Notice tells the person something that is no part of the conversation.
type Notice struct {
	Severity    string `json:"severity"` // info, warning or error
	Title       string `json:"title"`
	Description string `json:"description,omitempty"`
}

// Compaction tells that the conversation is being shortened.
type Compaction struct {
	CompactionID string         `json:"compactionId"`
	Status       string         `json:"status"`
	Summary      []ContentBlock `json:"summary,omitempty"`
	Error        string         `json:"error,omitempty"`
}

// CompactionText is a piece of the summary of a compaction.
type CompactionText struct {
	CompactionID string       `json:"compactionId"`
	Content      ContentBlock `json:"content"`
}

// body returns a pointer to the body that a kind has, nil for an unknown one.
func (k UpdateKind) body() any {
	switch k {
	case UserMessageChunk, AgentMessageChunk, AgentThoughtChunk:
		return new(Chunk)
	case ToolCallNew, ToolCallUpdate:
		return new(ToolCall)
	case PlanUpdate:
		return new(Plan)
	case CommandsUpdate:
		return new(Commands)
	case CurrentModeUpdate:
		return new(CurrentMode)
	case ConfigOptionUpdate:
		return new(ConfigOptions)
	case SessionInfoUpdate:
		return new(Info)
	case UsageUpdate:
		return new(Usage)
	case NoticeUpdate:
		return new(Notice)
	case CompactionUpdate:
		return new(Compaction)
	case CompactionChunk:
		return new(CompactionText)
	}
	return nil
}

// MarshalJSON writes the body with its kind in front.
func (u Update) MarshalJSON() ([]byte, error) {
	body, err := json.Marshal(u.Body)
	if err != nil {
		return nil, err
	}
	kind, err := json.Marshal(u.Kind)
	if err != nil {
		return nil, err
	}
	if len(body) < 2 || body[0] != '{' {
		return nil, fmt.Errorf("an update %s has no object for a body", u.Kind)
	}
	out := append([]byte(`{"sessionUpdate":`), kind...)
	if len(body) > 2 {
		out = append(out, ',')
	}
	return append(out, body[1:]...), nil
}

// UnmarshalJSON reads an update; the body is a value of its type, not a pointer.
func (u *Update) UnmarshalJSON(data []byte) error {
	var tag struct {
		Kind UpdateKind `json:"sessionUpdate"`
	}
	if err := json.Unmarshal(data, &tag); err != nil {
		return err
	}
	u.Kind = tag.Kind
	body := tag.Kind.body()
	if body == nil {
		u.Body = json.RawMessage(append([]byte(nil), data...))
		return nil
	}
	if err := json.Unmarshal(data, body); err != nil {
		return err
	}
	switch b := body.(type) {
	case *Chunk:
		u.Body = *b
	case *ToolCall:
		u.Body = *b
	case *Plan:
		u.Body = *b
	case *Commands:
		u.Body = *b
	case *CurrentMode:
		u.Body = *b
	case *ConfigOptions:
		u.Body = *b
	case *Info:
		u.Body = *b
	case *Usage:
		u.Body = *b
	case *Notice:
		u.Body = *b
	case *Compaction:
		u.Body = *b
	case *CompactionText:
		u.Body = *b
	}
	return nil
}
