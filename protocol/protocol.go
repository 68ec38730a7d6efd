// Package protocol is the vocabulary of the client protocol: the messages of the stable Agent Client Protocol,
// version 1 (agentclientprotocol.com), and our extensions, whose methods begin with _dsh/. It holds types and their JSON, and
// knows neither connections nor sessions. All its values may be used from any goroutine; nobody changes one after
// it was sent.
package protocol

import "encoding/json"

// ACPVersion is the version of the Agent Client Protocol that is spoken.
const ACPVersion = 1

// Methods that a client calls.
const (
	MethodInitialize      = "initialize"
	MethodAuthenticate    = "authenticate"
	MethodSessionNew      = "session/new"
	MethodSessionLoad     = "session/load"
	MethodSessionResume   = "session/resume"
	MethodSessionList     = "session/list"
	MethodSessionDelete   = "session/delete"
	MethodSessionClose    = "session/close"
	MethodSessionPrompt   = "session/prompt"
	MethodSessionSetMode  = "session/set_mode"
	MethodSetConfigOption = "session/set_config_option"
	// NoteCancel and NoteCancelRequest are notifications; the second goes both ways.
	NoteCancel        = "session/cancel"
	NoteCancelRequest = "$/cancel_request"
)

// Methods that the agent calls at a client.
const (
	NoteUpdate              = "session/update" // a notification
	MethodRequestPermission = "session/request_permission"
	MethodReadTextFile      = "fs/read_text_file"
	MethodWriteTextFile     = "fs/write_text_file"
	MethodTerminalCreate    = "terminal/create"
	MethodTerminalOutput    = "terminal/output"
	MethodTerminalWait      = "terminal/wait_for_exit"
	MethodTerminalKill      = "terminal/kill"
	MethodTerminalRelease   = "terminal/release"
	MethodElicitation       = "elicitation/create"
)

// Codes of errors beside those of JSON-RPC.
const (
	CodeAuthRequired = -32000
	CodeNotFound     = -32002
)

// Problem is the data of an error: what a program needs to act on it. Its Code is stable.
type Problem struct {
	Code string `json:"code" doc:"such as locked, not-found, damaged, unknown-model, missing-key, busy, invalid"`
	// Locked says who holds a session.
	Locked *Owner `json:"locked,omitempty"`
	// Known are names that would have been right, nearest first.
	Known []string `json:"known,omitempty"`
}

// Owner is a process that holds a session.
type Owner struct {
	PID     int    `json:"pid,omitempty"`
	Host    string `json:"host,omitempty"`
	Address string `json:"address,omitempty" doc:"where it can be attached to"`
}

// Meta is the member _meta of a message.
type Meta map[string]json.RawMessage

// InitializeParams are what a client says of itself.
type InitializeParams struct {
	ProtocolVersion    int                `json:"protocolVersion"`
	ClientCapabilities ClientCapabilities `json:"clientCapabilities,omitzero"`
	ClientInfo         *Implementation    `json:"clientInfo,omitempty"`
}

// Implementation names a program.
type Implementation struct {
	Name    string `json:"name"`
	Title   string `json:"title,omitempty"`
	Version string `json:"version"`
}

// ClientCapabilities are what a client offers. What it does not offer is not called.
type ClientCapabilities struct {
	FS          FSCapabilities       `json:"fs,omitzero"`
	Terminal    bool                 `json:"terminal,omitempty"`
	Session     *ClientSession       `json:"session,omitempty"`
	Auth        *AuthCapabilities    `json:"auth,omitempty"`
	Elicitation *ElicitationOffering `json:"elicitation,omitempty"`
	Meta        Meta                 `json:"_meta,omitempty"`
}

// FSCapabilities are the client's files.
type FSCapabilities struct {
	ReadTextFile  bool `json:"readTextFile,omitempty"`
	WriteTextFile bool `json:"writeTextFile,omitempty"`
}

// ClientSession says which updates of a session a client understands beside those that all do.
type ClientSession struct {
	Compaction    *struct{}           `json:"compaction,omitempty"`
	ConfigOptions *ConfigOptionsOffer `json:"configOptions,omitempty"`
	Notices       *struct{}           `json:"notices,omitempty"`
}

// ConfigOptionsOffer says which options a client can show beside selections.
type ConfigOptionsOffer struct {
	Boolean *struct{} `json:"boolean,omitempty"`
}

// AuthCapabilities say how a client can authenticate.
type AuthCapabilities struct {
	Terminal bool `json:"terminal,omitempty"`
}

// ElicitationOffering says which questions a client can ask its person.
type ElicitationOffering struct {
	Form *struct{} `json:"form,omitempty"`
	URL  *struct{} `json:"url,omitempty"`
}

// InitializeResult is what the agent says of itself.
type InitializeResult struct {
	ProtocolVersion   int               `json:"protocolVersion"`
	AgentCapabilities AgentCapabilities `json:"agentCapabilities"`
	AuthMethods       []AuthMethod      `json:"authMethods"`
	AgentInfo         *Implementation   `json:"agentInfo,omitempty"`
}

// AgentCapabilities are what the agent offers.
type AgentCapabilities struct {
	LoadSession         bool                `json:"loadSession,omitempty"`
	PromptCapabilities  PromptCapabilities  `json:"promptCapabilities"`
	MCPCapabilities     MCPCapabilities     `json:"mcpCapabilities"`
	SessionCapabilities SessionCapabilities `json:"sessionCapabilities"`
	Meta                Meta                `json:"_meta,omitempty"`
}

// PromptCapabilities say what a prompt may hold beside text and links.
type PromptCapabilities struct {
	Image           bool `json:"image,omitempty"`
	Audio           bool `json:"audio,omitempty"`
	EmbeddedContext bool `json:"embeddedContext,omitempty"`
}

// MCPCapabilities say which transports of MCP servers there are beside stdio.
type MCPCapabilities struct {
	HTTP bool `json:"http,omitempty"`
	SSE  bool `json:"sse,omitempty"`
}

// SessionCapabilities say which methods there are for sessions; nil is none.
type SessionCapabilities struct {
	List                  *struct{} `json:"list,omitempty"`
	Delete                *struct{} `json:"delete,omitempty"`
	AdditionalDirectories *struct{} `json:"additionalDirectories,omitempty"`
	Resume                *struct{} `json:"resume,omitempty"`
	Close                 *struct{} `json:"close,omitempty"`
}

// AuthMethod is a way to authenticate.
type AuthMethod struct {
	Type        string            `json:"type,omitempty"` // "terminal", or "" for the agent's own
	ID          string            `json:"id"`
	Name        string            `json:"name"`
	Description string            `json:"description,omitempty"`
	Args        []string          `json:"args,omitempty"`
	Env         map[string]string `json:"env,omitempty"`
}

// AuthenticateParams choose a way to authenticate.
type AuthenticateParams struct {
	MethodID string `json:"methodId"`
}

// OpenParams are those of session/new, session/load and session/resume.
type OpenParams struct {
	SessionID             string      `json:"sessionId,omitempty"` // not for session/new
	Cwd                   string      `json:"cwd"`
	AdditionalDirectories []string    `json:"additionalDirectories,omitempty"`
	MCPServers            []MCPServer `json:"mcpServers"`
	Meta                  Meta        `json:"_meta,omitempty"`
}

// MCPServer is a server that the client wants the session to have.
type MCPServer struct {
	Type    string        `json:"type,omitempty"` // "http", "sse", or "" for stdio
	Name    string        `json:"name"`
	Command string        `json:"command,omitempty"`
	Args    []string      `json:"args,omitempty"`
	Env     []EnvVariable `json:"env,omitempty"`
	URL     string        `json:"url,omitempty"`
	Headers []EnvVariable `json:"headers,omitempty"`
}

// EnvVariable is a name and a value.
type EnvVariable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// OpenResult is that of session/new, session/load and session/resume.
type OpenResult struct {
	SessionID     string         `json:"sessionId,omitempty"` // of session/new
	Modes         *ModeState     `json:"modes,omitempty"`
	ConfigOptions []ConfigOption `json:"configOptions,omitempty"`
	Meta          Meta           `json:"_meta,omitempty"`
}

// ModeState is the mode of a session and those there are.
type ModeState struct {
	CurrentModeID  string `json:"currentModeId"`
	AvailableModes []Mode `json:"availableModes"`
}

// Mode is a mode of a session.
type Mode struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
}

// Categories of options.
const (
	CategoryMode         = "mode"
	CategoryModel        = "model"
	CategoryThoughtLevel = "thought_level"
)

// ConfigOption is something that a person may choose for a session.
type ConfigOption struct {
	Type         string        `json:"type"` // "select" or "boolean"
	ID           string        `json:"id"`
	Name         string        `json:"name"`
	Description  string        `json:"description,omitempty"`
	Category     string        `json:"category,omitempty"`
	CurrentValue any           `json:"currentValue"` // a string, or a bool
	Options      []ConfigValue `json:"options,omitempty"`
}

// ConfigValue is a value of an option.
type ConfigValue struct {
	Value       string `json:"value"`
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
}

// ListParams ask for sessions.
type ListParams struct {
	Cwd    *string `json:"cwd,omitempty"`
	Cursor *string `json:"cursor,omitempty"`
}

// ListResult is a page of sessions.
type ListResult struct {
	Sessions   []SessionInfo `json:"sessions"`
	NextCursor string        `json:"nextCursor,omitempty"`
}

// SessionInfo is a session in a list.
type SessionInfo struct {
	SessionID             string   `json:"sessionId"`
	Cwd                   string   `json:"cwd"`
	AdditionalDirectories []string `json:"additionalDirectories,omitempty"`
	Title                 string   `json:"title,omitempty"`
	UpdatedAt             string   `json:"updatedAt,omitempty"`
	Meta                  Meta     `json:"_meta,omitempty"`
}

// SetModeParams choose a mode.
type SetModeParams struct {
	SessionID string `json:"sessionId"`
	ModeID    string `json:"modeId"`
}

// SetConfigOptionParams choose a value of an option.
type SetConfigOptionParams struct {
	SessionID string          `json:"sessionId"`
	ConfigID  string          `json:"configId"`
	Type      string          `json:"type,omitempty"` // "boolean", or "" for a selection
	Value     json.RawMessage `json:"value"`
}

// SetConfigOptionResult is all options after the change.
type SetConfigOptionResult struct {
	ConfigOptions []ConfigOption `json:"configOptions"`
}

// PromptParams give a prompt.
type PromptParams struct {
	SessionID string         `json:"sessionId"`
	Prompt    []ContentBlock `json:"prompt"`
	Meta      Meta           `json:"_meta,omitempty"`
}

// PromptResult ends the turn of a prompt.
type PromptResult struct {
	StopReason StopReason `json:"stopReason"`
	Meta       Meta       `json:"_meta,omitempty"`
}

// StopReason tells why a turn ended.
type StopReason string

const (
	StopEndTurn         StopReason = "end_turn"
	StopMaxTokens       StopReason = "max_tokens"
	StopMaxTurnRequests StopReason = "max_turn_requests"
	StopRefusal         StopReason = "refusal"
	StopCancelled       StopReason = "cancelled"
)

// ReadTextFileParams read a file at the client.
type ReadTextFileParams struct {
	SessionID string `json:"sessionId"`
	Path      string `json:"path"`
	Line      *int   `json:"line,omitempty"`
	Limit     *int   `json:"limit,omitempty"`
}

// ReadTextFileResult is what the file holds, unsaved changes included.
type ReadTextFileResult struct {
	Content string `json:"content"`
}

// WriteTextFileParams write a file at the client.
type WriteTextFileParams struct {
	SessionID string `json:"sessionId"`
	Path      string `json:"path"`
	Content   string `json:"content"`
}

// TerminalCreateParams start a command in a terminal of the client.
type TerminalCreateParams struct {
	SessionID       string        `json:"sessionId"`
	Command         string        `json:"command"`
	Args            []string      `json:"args,omitempty"`
	Env             []EnvVariable `json:"env,omitempty"`
	Cwd             string        `json:"cwd,omitempty"`
	OutputByteLimit *int64        `json:"outputByteLimit,omitempty"`
}

// TerminalCreateResult names a terminal.
type TerminalCreateResult struct {
	TerminalID string `json:"terminalId"`
}

// TerminalParams name a terminal of the client.
type TerminalParams struct {
	SessionID  string `json:"sessionId"`
	TerminalID string `json:"terminalId"`
}

// TerminalOutputResult is what a terminal shows.
type TerminalOutputResult struct {
	Output     string        `json:"output"`
	Truncated  bool          `json:"truncated"`
	ExitStatus *TerminalExit `json:"exitStatus,omitempty"`
}

// TerminalExit is how the command of a terminal ended.
type TerminalExit struct {
	ExitCode *int    `json:"exitCode,omitempty"`
	Signal   *string `json:"signal,omitempty"`
}

// RequestPermissionParams ask a person about a call.
type RequestPermissionParams struct {
	SessionID string             `json:"sessionId"`
	ToolCall  ToolCall           `json:"toolCall"`
	Options   []PermissionOption `json:"options"`
}

// PermissionOption is an answer that can be chosen.
type PermissionOption struct {
	OptionID string `json:"optionId"`
	Name     string `json:"name"`
	Kind     string `json:"kind"` // allow_once, allow_always, reject_once or reject_always
}

// RequestPermissionResult is what was chosen.
type RequestPermissionResult struct {
	Outcome PermissionOutcome `json:"outcome"`
}

// PermissionOutcome is "selected" with an option, or "cancelled".
type PermissionOutcome struct {
	Outcome  string `json:"outcome"`
	OptionID string `json:"optionId,omitempty"`
}
