package protocol

import "encoding/json"

// Version is the version of the extensions, told as agentCapabilities._meta.dsh.version. Within a version methods and members are only added.
const Version = 1

// Methods of the extensions that a client calls. What each takes and gives back is the type of that name with Params and Result behind it.
const (
	MethodEvents         = "_dsh/events"
	MethodWatch          = "_dsh/watch"
	MethodUnwatch        = "_dsh/unwatch"
	MethodProjection     = "_dsh/projection"
	MethodSteer          = "_dsh/steer"
	MethodEnqueue        = "_dsh/enqueue"
	MethodInbox          = "_dsh/inbox"
	MethodCommands       = "_dsh/commands"
	MethodComplete       = "_dsh/complete_command"
	MethodRunCommand     = "_dsh/run_command"
	MethodShell          = "_dsh/shell"
	MethodFiles          = "_dsh/files"
	MethodAnswer         = "_dsh/answer"
	MethodTrajectory     = "_dsh/trajectory"
	MethodRequestBytes   = "_dsh/request"
	MethodSessionsSearch = "_dsh/sessions/search"
	MethodRename         = "_dsh/sessions/rename"
	MethodArchive        = "_dsh/sessions/archive"
	MethodDelete         = "_dsh/sessions/delete"
	MethodExport         = "_dsh/sessions/export"
	MethodFork           = "_dsh/sessions/fork"
	MethodRewind         = "_dsh/sessions/rewind"
	MethodTree           = "_dsh/sessions/tree"
	MethodModels         = "_dsh/models"
	MethodConfig         = "_dsh/config"
	MethodPlugins        = "_dsh/plugins"
	MethodDoctor         = "_dsh/doctor"
	MethodStats          = "_dsh/stats"
)

// Notifications of the extensions that the agent sends to a client that watches a session.
const (
	NoteEvent     = "_dsh/event"     // [EventNote]
	NoteDelta     = "_dsh/delta"     // [DeltaNote]
	NoteProgress  = "_dsh/progress"  // [ProgressNote]
	NoteStatus    = "_dsh/status"    // [StatusNote]
	NoteProjected = "_dsh/projected" // [ProjectedNote]
	NoteAsked     = "_dsh/asked"     // [Question]
	NoteAnswered  = "_dsh/answered"  // [AnsweredNote]
	NoteEnded     = "_dsh/ended"     // [EndedNote]
)

// Offer is agentCapabilities._meta.dsh: what of the extensions there is.
type Offer struct {
	Version int      `json:"version"`
	Methods []string `json:"methods"`
}

// Ask is clientCapabilities._meta.dsh: what a client wants of the extensions.
type Ask struct {
	// Questions has the client asked by _dsh/asked for the sessions that it watches, not by session/request_permission.
	Questions bool `json:"questions,omitempty"`
	// Quiet leaves out session/update: the client watches.
	Quiet bool `json:"quiet,omitempty"`
	// Name tells other clients who answered, such as "terminal".
	Name string `json:"name,omitempty"`
}

// EventsParams ask for a page of the log.
type EventsParams struct {
	SessionID string `json:"sessionId"`
	From      int64  `json:"from" doc:"the first event that is wanted; below 0 it counts from the end"`
	Limit     int    `json:"limit,omitempty" doc:"at most so many events, 1000 when absent or more"`
	Raw       bool   `json:"raw,omitempty" doc:"give the lines of the log as strings, byte for byte"`
}

// EventsResult is a page of the log.
type EventsResult struct {
	Events []Event  `json:"events,omitempty"`
	Lines  []string `json:"lines,omitempty"`
	Next   int64    `json:"next" doc:"where the next page begins"`
	// DurableSeq is the number of the first event that is not there yet.
	DurableSeq int64 `json:"durableSeq"`
}

// Event is an event of the log, with how surfaces show it.
type Event struct {
	// Line is the event as it stands in the log.
	Line json.RawMessage `json:"line"`
	// View says how a call is shown; it comes with tool/call and tool/rewritten. It is a tool.Presentation.
	View json.RawMessage `json:"view,omitempty"`
}

// WatchParams ask for the events of a session, live.
type WatchParams struct {
	SessionID string `json:"sessionId"`
	From      int64  `json:"from" doc:"the first event that is wanted; below 0 it counts from the end"`
	// NoDeltas leaves out live text and live output.
	NoDeltas bool `json:"noDeltas,omitempty"`
}

// WatchResult names a watch. Its notifications come after it.
type WatchResult struct {
	Watch      string `json:"watch"`
	From       int64  `json:"from" doc:"the first event that will come"`
	DurableSeq int64  `json:"durableSeq"`
	Status     string `json:"status" doc:"idle or running"`
}

// UnwatchParams end a watch.
type UnwatchParams struct {
	Watch string `json:"watch"`
}

// EventNote is a durable event of a watched session: in order, without gap or duplicate.
type EventNote struct {
	Watch string `json:"watch"`
	Event
}

// DeltaNote is a live piece of an answer. It may be missing or joined with others when a client is slow: Offset tells; the durable
// assistant/message holds all. A higher attempt replaces what was streamed in the step before.
type DeltaNote struct {
	Watch   string `json:"watch"`
	Turn    int    `json:"turn"`
	Step    int    `json:"step"`
	Attempt int    `json:"attempt"`
	Index   int    `json:"index" doc:"of the block"`
	Kind    string `json:"kind" doc:"text, reasoning or tool-call"`
	Offset  int    `json:"offset" doc:"where text begins in the block, in bytes"`
	Text    string `json:"text"`
	Name    string `json:"name,omitempty" doc:"of a tool call"`
}

// ProgressNote is live output of a running call. It may be missing when a client is slow; Offset tells.
type ProgressNote struct {
	Watch  string `json:"watch"`
	CallID string `json:"callId"`
	Offset int64  `json:"offset"`
	Text   string `json:"text"`
}

// StatusNote tells that an agent began or ceased to run.
type StatusNote struct {
	Watch  string `json:"watch"`
	Status string `json:"status" doc:"idle or running"`
}

// EndedNote tells that a watch is over. Nothing was lost: a new watch goes on from Next.
type EndedNote struct {
	Watch  string `json:"watch"`
	Next   int64  `json:"next"`
	Reason string `json:"reason" doc:"closed: the session was closed; slow: the client did not read; failed: see message"`
	// Message is one line for a person.
	Message string `json:"message,omitempty"`
}

// ProjectionParams ask for the state of a projection; without a name for all.
type ProjectionParams struct {
	SessionID string `json:"sessionId"`
	Name      string `json:"name,omitempty"`
}

// ProjectionResult is the state of projections.
type ProjectionResult struct {
	Projections []Projected `json:"projections"`
}

// Projected is the value of one projection.
type Projected struct {
	Name  string          `json:"name"`
	Seq   int64           `json:"seq" doc:"the value holds the events before this one"`
	Value json.RawMessage `json:"value"`
	Panel *Panel          `json:"panel,omitempty"`
}

// ProjectedNote tells a new value of a projection to the watchers of its session. The higher seq counts.
type ProjectedNote struct {
	Watch string `json:"watch"`
	Projected
}

// Panel is what a projection shows in few lines. It is data, so every surface can draw it.
type Panel struct {
	Title string `json:"title"`
	// Status is a few words for a status line; "" is nothing.
	Status string      `json:"status,omitempty"`
	Lines  []PanelLine `json:"lines,omitempty"`
}

// PanelLine is one line of a panel.
type PanelLine struct {
	Mark  Mark   `json:"mark,omitempty"`
	Depth int    `json:"depth,omitempty"`
	Text  string `json:"text"`
	Note  string `json:"note,omitempty" doc:"stands at the right, or behind the text"`
}

// Mark says what a line of a panel is about.
type Mark string

const (
	MarkNone    Mark = ""
	MarkWaiting Mark = "waiting"
	MarkActive  Mark = "active"
	MarkDone    Mark = "done"
	MarkFailed  Mark = "failed"
	MarkWarning Mark = "warning"
)

// DeliverParams deliver input: _dsh/enqueue for the next turn, _dsh/steer for the running one. The answer comes when it is durable.
type DeliverParams struct {
	SessionID string         `json:"sessionId"`
	Prompt    []ContentBlock `json:"prompt"`
}

// DeliverResult names a delivery.
type DeliverResult struct {
	ID string `json:"id"`
}

// InboxParams list the input that waits, after taking back the deliveries that Remove names.
type InboxParams struct {
	SessionID string   `json:"sessionId"`
	Remove    []string `json:"remove,omitempty"`
}

// InboxResult is the input that waits.
type InboxResult struct {
	Pending []Pending `json:"pending"`
	Removed []string  `json:"removed,omitempty" doc:"what was still waiting and was taken back"`
}

// Pending is input that waits.
type Pending struct {
	ID       string `json:"id"`
	Steering bool   `json:"steering,omitempty"`
	Quiet    bool   `json:"quiet,omitempty" doc:"it wakes nobody"`
	Text     string `json:"text"`
}

// SessionParams name a session.
type SessionParams struct {
	SessionID string `json:"sessionId"`
}

// CommandsResult lists slash commands.
type CommandsResult struct {
	Commands []Command `json:"commands"`
}

// Command is a slash command.
type Command struct {
	Name      string `json:"name"`
	Doc       string `json:"doc"`
	Arguments string `json:"arguments,omitempty"`
	Completes bool   `json:"completes,omitempty" doc:"its arguments can be completed"`
}

// CompleteParams ask what the arguments of a command may be.
type CompleteParams struct {
	SessionID string `json:"sessionId"`
	Name      string `json:"name"`
	Prefix    string `json:"prefix"`
}

// CompleteResult lists arguments, best first.
type CompleteResult struct {
	Values []string `json:"values"`
}

// RunCommandParams run a slash command.
type RunCommandParams struct {
	SessionID string `json:"sessionId"`
	Name      string `json:"name"`
	Arguments string `json:"arguments,omitempty"`
}

// RunCommandResult is what a command said.
type RunCommandResult struct {
	Text string `json:"text,omitempty" doc:"Markdown for the person"`
	// Prompted says that the command gave the agent a prompt.
	Prompted bool `json:"prompted,omitempty"`
}

// ShellParams run a command line that the person typed, in the folder of the session. Its output is told to the model with the next prompt.
type ShellParams struct {
	SessionID string `json:"sessionId"`
	Command   string `json:"command"`
}

// ShellResult is how the command ended.
type ShellResult struct {
	Output string `json:"output"`
	Code   int    `json:"code"`
	Signal string `json:"signal,omitempty"`
	Cut    bool   `json:"cut,omitempty" doc:"the beginning of the output is missing"`
}

// FilesParams look for files of the session's folder whose path fits the query.
type FilesParams struct {
	SessionID string `json:"sessionId"`
	Query     string `json:"query"`
	Limit     int    `json:"limit,omitempty"`
}

// FilesResult lists paths relative to the session's folder, best first; folders end with a slash.
type FilesResult struct {
	Paths []string `json:"paths"`
}

// Question is an approval that somebody has to give. It comes to each client that watches the session, also to one that
// begins to while the question stands.
type Question struct {
	SessionID string          `json:"sessionId"`
	ID        string          `json:"id"`
	CallID    string          `json:"callId"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	View      json.RawMessage `json:"view,omitempty"`
	Accesses  []Touch         `json:"accesses,omitempty"`
	Reason    string          `json:"reason"`
	By        string          `json:"by" doc:"the rule or mode that asks"`
	Rules     []string        `json:"rules,omitempty" doc:"what may be remembered, narrowest first"`
	// Refused is what the sandbox kept the call from, when it has run already; allowing it runs it again with that.
	Refused []Refused `json:"refused,omitempty"`
}

// Touch is one thing that a call touches.
type Touch struct {
	Kind   string `json:"kind" doc:"read, write, execute or network"`
	Target string `json:"target"`
}

// Refused is one thing that the sandbox kept a call from.
type Refused struct {
	Kind   string `json:"kind"`
	Target string `json:"target"`
	Rule   string `json:"rule,omitempty"`
}

// AnswerParams answer a question.
type AnswerParams struct {
	SessionID string `json:"sessionId"`
	ID        string `json:"id"`
	Allow     bool   `json:"allow"`
	Reason    string `json:"reason,omitempty" doc:"reaches the model when it is denied"`
	Remember  string `json:"remember,omitempty" enum:",session,user"`
	Rule      string `json:"rule,omitempty" doc:"one of the question's"`
	// Arguments are used instead of the model's.
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

// AnswerResult says whether the answer was the first.
type AnswerResult struct {
	Accepted bool   `json:"accepted"`
	By       string `json:"by,omitempty" doc:"who was first, when it was somebody else"`
}

// AnsweredNote tells that a question stands no more.
type AnsweredNote struct {
	SessionID string `json:"sessionId"`
	ID        string `json:"id"`
	Outcome   string `json:"outcome" doc:"allowed, rejected, withdrawn or unavailable"`
	By        string `json:"by,omitempty"`
}

// TrajectoryResult is the trajectory of a session, as package session/trajectory has it.
type TrajectoryResult struct {
	Trajectory json.RawMessage `json:"trajectory"`
}

// RequestBytesParams ask for the body of a request that was sent to the model.
type RequestBytesParams struct {
	SessionID string `json:"sessionId"`
	Turn      int    `json:"turn"`
	Step      int    `json:"step"`
	Attempt   int    `json:"attempt,omitempty" doc:"from 1; the last when absent"`
}

// RequestBytesResult is the body of a request.
type RequestBytesResult struct {
	Body  string `json:"body"`
	Exact bool   `json:"exact" doc:"these are the bytes that were sent; otherwise the provider is not configured here and this is the request in the harness's own form"`
}

// SearchParams look for sessions.
type SearchParams struct {
	Query    string `json:"query,omitempty" doc:"words of the title, the first prompt or the id"`
	Cwd      string `json:"cwd,omitempty"`
	Archived bool   `json:"archived,omitempty" doc:"also the archived ones"`
	Limit    int    `json:"limit,omitempty"`
}

// SearchResult lists sessions, the last changed first.
type SearchResult struct {
	Sessions []SessionEntry `json:"sessions"`
}

// SessionEntry is a session in a list.
type SessionEntry struct {
	SessionID string   `json:"sessionId"`
	Cwd       string   `json:"cwd"`
	Title     string   `json:"title,omitempty"`
	Prompt    string   `json:"prompt,omitempty" doc:"how the first prompt begins"`
	UpdatedAt string   `json:"updatedAt" doc:"RFC 3339"`
	Bytes     int64    `json:"bytes"`
	Archived  bool     `json:"archived,omitempty"`
	Labels    []string `json:"labels,omitempty"`
	Parent    string   `json:"parent,omitempty"`
	Status    string   `json:"status" doc:"stored, idle, running, waiting (for an answer), elsewhere (another process holds it)"`
	// Problem says why it cannot be opened.
	Problem string `json:"problem,omitempty"`
}

// RenameParams give a session a title.
type RenameParams struct {
	SessionID string `json:"sessionId"`
	Title     string `json:"title"`
}

// ArchiveParams put a session out of the lists, or back.
type ArchiveParams struct {
	SessionID string `json:"sessionId"`
	Archived  bool   `json:"archived"`
}

// ExportResult is a whole session.
type ExportResult struct {
	Name string `json:"name" doc:"of a file"`
	Text string `json:"text"`
}

// ExportParams say how to export a session.
type ExportParams struct {
	SessionID string `json:"sessionId"`
	Format    string `json:"format,omitempty" enum:"markdown,jsonl"`
}

// ForkParams copy a session up to an event into a new one.
type ForkParams struct {
	SessionID string `json:"sessionId"`
	At        *int64 `json:"at,omitempty" doc:"the last event that is copied; all when absent; not within a turn"`
}

// ForkResult names the copy.
type ForkResult struct {
	SessionID string `json:"sessionId"`
}

// RewindParams take the conversation back to before a prompt. The log keeps everything; files are not changed.
type RewindParams struct {
	SessionID string `json:"sessionId"`
	To        int64  `json:"to" doc:"the last event that the model still sees, -1 for none"`
}

// TreeResult is a session's family.
type TreeResult struct {
	Sessions []SessionEntry `json:"sessions" doc:"ancestors first, then descendants; parent tells how they hang together"`
}

// ModelsResult lists models.
type ModelsResult struct {
	Models []Model `json:"models"`
}

// Model is what is known about a model.
type Model struct {
	Ref     string   `json:"ref" doc:"provider/model"`
	Name    string   `json:"name,omitempty"`
	Window  int64    `json:"window,omitempty" doc:"tokens"`
	Efforts []string `json:"efforts,omitempty"`
	Default bool     `json:"default,omitempty"`
	// Problem says what is missing for its use, such as a key.
	Problem string `json:"problem,omitempty"`
}

// ConfigResult is the composition: rows, with the layer that each comes from.
type ConfigResult struct {
	Text string `json:"text" doc:"as dsh config show prints it"`
}

// PluginsResult lists what is mounted.
type PluginsResult struct {
	Plugins []Plugin `json:"plugins"`
}

// Plugin is a row that is mounted.
type Plugin struct {
	ID     string `json:"id"`
	Plugin string `json:"plugin"`
	State  string `json:"state"`
	Error  string `json:"error,omitempty"`
}

// DoctorResult tells what works here and what does not.
type DoctorResult struct {
	Findings []Finding `json:"findings"`
}

// Finding is one check.
type Finding struct {
	Check  string `json:"check"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`
	Advice string `json:"advice,omitempty"`
}

// StatsResult tells what the server does.
type StatsResult struct {
	PID       int    `json:"pid"`
	Version   string `json:"version"`
	Since     string `json:"since" doc:"RFC 3339"`
	Clients   int    `json:"clients"`
	Live      int    `json:"live" doc:"sessions in memory"`
	Running   int    `json:"running"`
	Parked    int    `json:"parked" doc:"sessions that are known and go on when they are needed"`
	MemoryRSS int64  `json:"memoryRss,omitempty" doc:"bytes; absent where it is not known"`
}
