package session

import (
	"encoding/json"

	"github.com/dsh-harness/dsh/llm"
)

// Event is one record of a log. It is immutable.
type Event struct {
	Seq  int64  // from 0, contiguous
	Time int64  // Unix milliseconds; order is by Seq, never by Time
	Type string // e.g. "tool/call"
	// Data is the event's JSON, encoded once when it was appended.
	Data json.RawMessage
	// Ignorable events may be skipped by a reader that does not know the type.
	Ignorable bool
	// Surface says what the event does to the history; nil: nothing.
	Surface *SurfaceOp
	// Cites are the events that this one was made from, as inclusive ranges.
	Cites []Range

	line []byte // as it stands in the log, nil when it never did
}

// Range is an inclusive run of sequence numbers, written [from,to].
type Range [2]int64

// SurfaceOp says what an event does to the surface, the ordered list of events
// that the model sees.
type SurfaceOp struct {
	Op Op `json:"op"`
	// From and To are the first and last event of the run that a replace
	// shadows. To of a truncate is the last event that stays, -1 when none does.
	From int64 `json:"from,omitempty"`
	To   int64 `json:"to,omitempty"`
}

// Op is an operation on the surface.
type Op string

const (
	OpAppend   Op = "append"
	OpReplace  Op = "replace"
	OpTruncate Op = "truncate"
)

// Draft is an event that is about to be appended.
type Draft struct {
	Type string
	// Data is encoded with encoding/json during the call and must be a JSON object;
	// nil means {}.
	Data any
	// Surface may be nil for a core type that is always on the surface.
	Surface *SurfaceOp
	Cites   []Range
}

// The core event types. Whoever appends one uses the data type named behind it.
const (
	TurnStart        = "turn/start"        // [TurnStartData]
	TurnEnd          = "turn/end"          // [TurnEndData]
	StepStart        = "step/start"        // [StepData]
	StepEnd          = "step/end"          // [StepData]
	UserMessage      = "user/message"      // [InputData], on the surface
	SteeringMessage  = "steering/message"  // [InputData], on the surface
	RequestHeader    = "request/header"    // [llm.Header]
	RequestContext   = "request/context"   // [RequestContextData]
	AssistantChunk   = "assistant/chunk"   // [ChunkData]
	AssistantMessage = "assistant/message" // [AssistantData], on the surface
	ToolCall         = "tool/call"         // [ToolCallData]
	ToolRewritten    = "tool/rewritten"    // [ToolRewrittenData]
	ToolResult       = "tool/result"       // [ToolResultData], on the surface
	InboxQueued      = "inbox/queued"      // [InboxData]
	InboxSteered     = "inbox/steered"     // [InboxData]
	InboxCleared     = "inbox/cleared"     // [InboxClearedData]
	Seeded           = "session/seeded"    // no data
	Lost             = "session/lost"      // [LostData], ignorable
	Meta             = "session/meta"      // [MetaData], ignorable
	Rewound          = "session/rewound"   // [RewoundData], truncates the surface
	Retry            = "llm/retry"         // [RetryData]
)

// Reason tells why a turn ended.
type Reason string

const (
	Completed   Reason = "completed"
	MaxTokens   Reason = "max-tokens"
	Failed      Reason = "error"
	Aborted     Reason = "aborted"
	Disposed    Reason = "disposed"
	Blocked     Reason = "blocked"
	Budget      Reason = "budget"
	Interrupted Reason = "interrupted" // written only by crash repair
)

// TurnStartData is the data of [TurnStart]. Turns count from 1.
type TurnStartData struct {
	Turn int `json:"turn"`
}

// TurnEndData is the data of [TurnEnd].
type TurnEndData struct {
	Turn   int    `json:"turn"`
	Reason Reason `json:"reason"`
	// Cause of an aborted turn: "user", "parent", "hook", "policy".
	Cause  string     `json:"cause,omitempty"`
	Error  *ErrorData `json:"error,omitempty"`
	Budget string     `json:"budget,omitempty"` // the limit that was reached, e.g. "steps"
}

// ErrorData is an error as the log and programs see it.
type ErrorData struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Status  int    `json:"status,omitempty"`
}

// StepData is the data of [StepStart] and [StepEnd]. Steps count from 1 in each turn.
type StepData struct {
	Turn int `json:"turn"`
	Step int `json:"step"`
}

// InputData is the data of [UserMessage] and [SteeringMessage].
type InputData struct {
	ID      string      `json:"id"`
	Source  llm.Source  `json:"source"`
	Content []llm.Block `json:"content"`
	// Inbox is the id of the delivery that this message consumes.
	Inbox string `json:"inbox,omitempty"`
}

// RequestContextData is the data of [RequestContext].
type RequestContextData struct {
	Provider string `json:"provider"`
	Model    string `json:"model"`
	Window   int64  `json:"window,omitempty"`
}

// ChunkData is the data of [AssistantChunk]: streamed text, coalesced.
type ChunkData struct {
	Turn   int         `json:"turn"`
	Step   int         `json:"step"`
	Deltas []ChunkText `json:"deltas"`
}

// ChunkText is text that was streamed into one block.
type ChunkText struct {
	Index int           `json:"index"`
	Kind  llm.BlockType `json:"kind"`
	Text  string        `json:"text"`
}

// AssistantData is the data of [AssistantMessage].
type AssistantData struct {
	Turn        int              `json:"turn"`
	Step        int              `json:"step"`
	Message     AssistantContent `json:"message"`
	Provider    string           `json:"provider"`
	Model       string           `json:"model"`
	Usage       *llm.Usage       `json:"usage,omitempty"` // nil when the provider reported none
	Finish      llm.Finish       `json:"finish,omitempty"`
	Interrupted bool             `json:"interrupted,omitempty"`
}

// AssistantContent is the message in an [AssistantData].
type AssistantContent struct {
	ID      string      `json:"id"`
	Content []llm.Block `json:"content"`
}

// Effect says what happens when a call is run twice.
type Effect string

const (
	EffectRead       Effect = "read"       // nothing changes
	EffectIdempotent Effect = "idempotent" // the second run changes nothing more
	EffectWrite      Effect = "write"
	EffectUnknown    Effect = "unknown"
)

// ToolCallData is the data of [ToolCall], durable before the body runs.
type ToolCallData struct {
	Turn       int    `json:"turn"`
	Step       int    `json:"step"`
	CallID     string `json:"callId"`
	ProviderID string `json:"providerId,omitempty"`
	Name       string `json:"name"`
	Arguments  string `json:"arguments"` // the model's string
	Effect     Effect `json:"effect"`
}

// ToolRewrittenData is the data of [ToolRewritten].
type ToolRewrittenData struct {
	CallID    string `json:"callId"`
	Arguments string `json:"arguments"`
	By        string `json:"by"`
}

// ToolResultData is the data of [ToolResult].
type ToolResultData struct {
	Turn    int            `json:"turn"`
	Step    int            `json:"step"`
	CallID  string         `json:"callId"`
	Content []llm.Block    `json:"content"`
	IsError bool           `json:"isError,omitempty"`
	Error   *ToolErrorData `json:"error,omitempty"`
	// Meta is for surfaces: what a tool tells beyond what the model sees.
	Meta json.RawMessage `json:"meta,omitempty"`
}

// ToolErrorData names the kind of a failed call.
type ToolErrorData struct {
	Name string `json:"name"`
	Code string `json:"code"`
}

// InboxData is the data of [InboxQueued] and [InboxSteered].
type InboxData struct {
	ID      string      `json:"id"`
	Message llm.Message `json:"message"`
	// Quiet input wakes nobody: it joins whatever runs next.
	Quiet bool `json:"quiet,omitempty"`
}

// InboxClearedData is the data of [InboxCleared].
type InboxClearedData struct {
	IDs []string `json:"ids"`
}

// LostData is the data of [Lost].
type LostData struct {
	// Why it was lost, and where in the original it stood.
	Why string `json:"why"`
}

// MetaData is the data of [Meta]. Nil members are unchanged.
type MetaData struct {
	Title    *string   `json:"title,omitempty"`
	Archived *bool     `json:"archived,omitempty"`
	Labels   *[]string `json:"labels,omitempty"`
}

// RewoundData is the data of [Rewound]: the last event that stays on the
// surface, -1 when none does.
type RewoundData struct {
	To int64 `json:"to"`
}

// RetryData is the data of [Retry], logged before the wait.
type RetryData struct {
	Turn    int       `json:"turn"`
	Step    int       `json:"step"`
	Attempt int       `json:"attempt"` // the attempt that failed, from 1
	DelayMS int64     `json:"delayMs"`
	Failure ErrorData `json:"failure"`
}
