package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/protocol"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/surface/live"
	"github.com/dsh-harness/dsh/tool"
)

// maxLiveOutput bounds the live output of a call that an editor shows, in bytes, from the end.
const maxLiveOutput = 8 << 10

// updates tells a client what happens in a session that it has opened, as session/update. It is used by one goroutine at a time.
type updates struct {
	client    *client
	held      *held
	watch     *live.Watch
	replaying bool // what is told happened before the client came

	turn     int         // that runs, 0 when none does
	streamed map[int]int // bytes of the blocks of the step that were told live
	attempt  int         // which of them told it
	step     int
	calls    map[string]*call
	asking   map[string]context.CancelFunc // questions that the client is asked
}

// call is a call that runs.
type call struct {
	name   string
	view   tool.Presentation
	output string // the end of its live output
	begun  bool
}

// replay tells what was, up to now.
func (u *updates) replay(ctx context.Context) error {
	for until := u.watch.Durable(); u.watch.From() < until; {
		item, err := u.watch.Next(ctx)
		if err != nil {
			return err
		}
		if err := u.tell(ctx, item); err != nil {
			return err
		}
	}
	u.replaying = false
	return nil
}

// run tells what happens until ctx ends or the session does.
func (u *updates) run(ctx context.Context) {
	err := u.begin(ctx)
	for err == nil {
		var item live.Item
		if item, err = u.watch.Next(ctx); err == nil {
			err = u.tell(ctx, item)
		}
	}
	for _, withdraw := range u.asking {
		withdraw()
	}
	if ctx.Err() == nil && errors.Is(err, live.ErrClosed) {
		u.held.settleAll(protocol.PromptResult{}, explain(err))
		u.client.drop(u.held.session.ID())
	}
}

// begin tells what an editor shows before anything happens.
func (u *updates) begin(ctx context.Context) error {
	commands, err := u.held.session.Commands(ctx)
	if err != nil {
		return err
	}
	all := protocol.Commands{AvailableCommands: []protocol.AvailableCommand{}}
	for _, c := range commands {
		one := protocol.AvailableCommand{Name: c.Name, Description: c.Doc}
		if c.Arguments != "" {
			one.Input = &protocol.CommandInput{Hint: c.Arguments}
		}
		all.AvailableCommands = append(all.AvailableCommands, one)
	}
	return u.send(ctx, protocol.CommandsUpdate, all)
}

func (u *updates) send(ctx context.Context, kind protocol.UpdateKind, body any) error {
	if u.client.quiet() {
		return nil
	}
	return u.client.conn.Notify(ctx, protocol.NoteUpdate, protocol.UpdateParams{
		SessionID: u.held.session.ID(), Update: protocol.Update{Kind: kind, Body: body},
	})
}

func (u *updates) tell(ctx context.Context, i live.Item) error {
	switch {
	case i.Event != nil:
		return u.event(ctx, *i.Event, i.View)
	case i.Delta != nil:
		return u.delta(ctx, i.Delta)
	case i.Progress != nil:
		return u.progress(ctx, i.Progress)
	case i.Asked != nil:
		u.ask(i.Asked)
	case i.Answered != nil:
		if withdraw := u.asking[i.Answered.ID]; withdraw != nil {
			withdraw()
			delete(u.asking, i.Answered.ID)
		}
	case i.Chosen:
		return u.chosen(ctx)
	case i.Projected != nil && i.Projected.Update.Kind != "":
		return u.send(ctx, i.Projected.Update.Kind, i.Projected.Update.Body)
	}
	return nil
}

// event tells a durable event.
func (u *updates) event(ctx context.Context, e session.Event, view *tool.Presentation) error {
	switch e.Type {
	case session.TurnStart:
		var d session.TurnStartData
		err := read(e, &d)
		u.turn = d.Turn
		return err
	case session.StepStart:
		var d session.StepData
		err := read(e, &d)
		u.step, u.attempt, u.streamed = d.Step, 0, map[int]int{}
		return err
	case session.InboxQueued:
		var d session.InboxData
		err := read(e, &d)
		u.held.queued(d)
		return err
	case session.InboxCleared:
		var d session.InboxClearedData
		err := read(e, &d)
		u.held.cleared(d.IDs, u.turn)
		return err
	case session.UserMessage, session.SteeringMessage:
		return u.input(ctx, e)
	case session.AssistantMessage:
		return u.answer(ctx, e)
	case session.ToolCall:
		return u.called(ctx, e, view)
	case session.ToolRewritten:
		return u.rewritten(ctx, e, view)
	case session.ToolResult:
		return u.result(ctx, e)
	case session.TurnEnd:
		var d session.TurnEndData
		err := read(e, &d)
		u.calls, u.turn = nil, 0
		u.held.turnEnded(d)
		return err
	case session.Retry:
		var d session.RetryData
		if err := read(e, &d); err != nil {
			return err
		}
		return u.notice(ctx, "warning", "The model did not answer, and is asked again", d.Failure.Message)
	case session.Meta:
		var d session.MetaData
		if err := read(e, &d); err != nil || d.Title == nil {
			return err
		}
		at := stamp(e)
		return u.send(ctx, protocol.SessionInfoUpdate, protocol.Info{Title: d.Title, UpdatedAt: &at})
	case policy.ModeSwitched:
		var d policy.ModeData
		if err := read(e, &d); err != nil {
			return err
		}
		if err := u.send(ctx, protocol.CurrentModeUpdate, protocol.CurrentMode{CurrentModeID: string(d.Mode)}); err != nil || u.replaying {
			return err
		}
		return u.chosen(ctx)
	}
	return nil
}

func read(e session.Event, v any) error {
	if err := json.Unmarshal(e.Data, v); err != nil {
		return fmt.Errorf("event %d, %s, is not understood: %w", e.Seq, e.Type, err)
	}
	return nil
}

// notice tells the person something, if the client shows notices.
func (u *updates) notice(ctx context.Context, severity, title, text string) error {
	u.client.mu.Lock()
	wanted := u.client.capabilities.Session != nil && u.client.capabilities.Session.Notices != nil
	u.client.mu.Unlock()
	if !wanted || u.replaying {
		return nil
	}
	return u.send(ctx, protocol.NoticeUpdate, protocol.Notice{Severity: severity, Title: title, Description: text})
}

func (u *updates) chosen(ctx context.Context) error {
	all, err := u.client.options(ctx, u.held.session)
	if err != nil {
		return nil // a model that is gone: what can be chosen is not known
	}
	return u.send(ctx, protocol.ConfigOptionUpdate, protocol.ConfigOptions{ConfigOptions: all})
}

// input tells what somebody else said, or what was said before the client came.
func (u *updates) input(ctx context.Context, e session.Event) error {
	var d session.InputData
	if err := read(e, &d); err != nil {
		return err
	}
	if u.held.own(d, u.turn) && !u.replaying {
		return nil
	}
	if d.Source.Kind != "" && d.Source.Kind != "user" {
		return nil // context for the model
	}
	for _, b := range d.Content {
		if b.Type == llm.BlockText && b.Text != "" {
			if err := u.send(ctx, protocol.UserMessageChunk, protocol.Chunk{Content: protocol.Text(b.Text), MessageID: d.ID}); err != nil {
				return err
			}
		}
	}
	return nil
}

// delta tells live text.
func (u *updates) delta(ctx context.Context, d *protocol.DeltaNote) error {
	kind := chunkKind(llm.BlockType(d.Kind))
	if kind == "" {
		return nil
	}
	if d.Attempt != u.attempt {
		// What an attempt before this one said cannot be taken back; its message ends, and another one begins.
		u.attempt, u.streamed = d.Attempt, map[int]int{}
	}
	if u.streamed == nil {
		u.streamed = map[int]int{}
	}
	u.streamed[d.Index] = d.Offset + len(d.Text)
	return u.send(ctx, kind, protocol.Chunk{Content: protocol.Text(d.Text), MessageID: messageID(d.Turn, d.Step, d.Attempt)})
}

func chunkKind(t llm.BlockType) protocol.UpdateKind {
	switch t {
	case llm.BlockText:
		return protocol.AgentMessageChunk
	case llm.BlockReasoning:
		return protocol.AgentThoughtChunk
	case llm.BlockToolCall, llm.BlockImage, llm.BlockOpaque:
	}
	return ""
}

// messageID names a message while it has no name in the log.
func messageID(turn, step, attempt int) string {
	return fmt.Sprintf("%d.%d.%d", turn, step, max(attempt, 1))
}

// answer tells what of a message was not told live.
func (u *updates) answer(ctx context.Context, e session.Event) error {
	var d session.AssistantData
	if err := read(e, &d); err != nil {
		return err
	}
	id := messageID(d.Turn, d.Step, u.attempt)
	for i, b := range d.Message.Content {
		kind := chunkKind(b.Type)
		told := u.streamed[i]
		if kind == "" || told >= len(b.Text) {
			continue
		}
		if err := u.send(ctx, kind, protocol.Chunk{Content: protocol.Text(b.Text[told:]), MessageID: id}); err != nil {
			return err
		}
	}
	u.streamed = nil
	return nil
}

// called tells a call.
func (u *updates) called(ctx context.Context, e session.Event, view *tool.Presentation) error {
	var d session.ToolCallData
	if err := read(e, &d); err != nil {
		return err
	}
	if u.calls == nil {
		u.calls = map[string]*call{}
	}
	c := &call{name: d.Name}
	if view != nil {
		c.view = *view
	}
	u.calls[d.CallID] = c
	t := u.shown(c)
	t.ToolCallID, t.Status, t.RawInput = d.CallID, protocol.ToolPending, rawInput(d.Arguments)
	return u.send(ctx, protocol.ToolCallNew, t)
}

// rewritten tells that a call is another one than the model wrote.
func (u *updates) rewritten(ctx context.Context, e session.Event, view *tool.Presentation) error {
	var d session.ToolRewrittenData
	if err := read(e, &d); err != nil {
		return err
	}
	c := u.calls[d.CallID]
	if c == nil {
		return nil
	}
	if view != nil {
		c.view = *view
	}
	t := u.shown(c)
	t.ToolCallID, t.RawInput = d.CallID, rawInput(d.Arguments)
	return u.send(ctx, protocol.ToolCallUpdate, t)
}

// rawInput is the arguments, if they are JSON.
func rawInput(arguments string) json.RawMessage {
	if !json.Valid([]byte(arguments)) {
		raw, err := json.Marshal(arguments)
		if err != nil {
			return nil
		}
		return raw
	}
	return json.RawMessage(arguments)
}

// shown is how a call looks.
func (u *updates) shown(c *call) protocol.ToolCall {
	t := protocol.ToolCall{Title: c.view.Title, Name: c.name, Kind: string(c.view.Kind), Content: u.diffs(c.view.Diffs)}
	for _, l := range c.view.Locations {
		one := protocol.ToolCallLocation{Path: u.path(l.Path)}
		if l.Line > 0 {
			one.Line = &l.Line
		}
		t.Locations = append(t.Locations, one)
	}
	return t
}

func (u *updates) diffs(all []tool.Diff) []protocol.ToolContent {
	var content []protocol.ToolContent
	for _, d := range all {
		content = append(content, protocol.ToolContent{Type: "diff", Path: u.path(d.Path), OldText: d.Old, NewText: &d.New})
	}
	return content
}

// path makes the path of a file absolute, as the protocol wants it.
func (u *updates) path(name string) string {
	if filepath.IsAbs(name) || strings.HasPrefix(name, "~") {
		return name
	}
	return filepath.Join(u.held.dir, name)
}

func text(s string) protocol.ToolContent {
	b := protocol.Text(s)
	return protocol.ToolContent{Type: "content", Content: &b}
}

// progress tells the end of the live output of a call.
func (u *updates) progress(ctx context.Context, p *protocol.ProgressNote) error {
	c := u.calls[p.CallID]
	if c == nil {
		return nil
	}
	c.output += p.Text
	if over := len(c.output) - maxLiveOutput; over > 0 {
		c.output = strings.ToValidUTF8(c.output[over:], "")
	}
	t := protocol.ToolCall{ToolCallID: p.CallID, Content: append(u.diffs(c.view.Diffs), text(fence(c.output)))}
	if !c.begun {
		c.begun, t.Status = true, protocol.ToolInProgress
	}
	return u.send(ctx, protocol.ToolCallUpdate, t)
}

// fence keeps the output of a program from being read as Markdown.
func fence(s string) string {
	f := "```"
	for strings.Contains(s, f) {
		f += "`"
	}
	return f + "\n" + strings.TrimRight(s, "\n") + "\n" + f
}

// result tells how a call ended.
func (u *updates) result(ctx context.Context, e session.Event) error {
	var d session.ToolResultData
	if err := read(e, &d); err != nil {
		return err
	}
	c := u.calls[d.CallID]
	if c == nil {
		c = &call{}
	}
	delete(u.calls, d.CallID)
	t := protocol.ToolCall{ToolCallID: d.CallID, Status: protocol.ToolCompleted, RawOutput: d.Meta}
	if d.IsError {
		t.Status = protocol.ToolFailed
	}
	change, changed := tool.ChangeOf(d.Meta)
	switch {
	case changed && change.Diff != "" && !d.IsError:
		t.Content = u.diffs(change.Diffs())
	case changed && !d.IsError:
		t.Content = u.diffs(c.view.Diffs)
	default:
		said := llm.PlainText(d.Content)
		if c.view.Terminal {
			said = fence(said)
		}
		t.Content = []protocol.ToolContent{text(said)}
	}
	return u.send(ctx, protocol.ToolCallUpdate, t)
}

// Kinds of options of session/request_permission.
const (
	allowOnce    = "allow_once"
	allowAlways  = "allow_always"
	rejectOnce   = "reject_once"
	rejectAlways = "reject_always"
)

// maxRules is how many of the rules that would do are offered, narrowest first.
const maxRules = 3

// choice is an option, and the answer that it stands for.
type choice struct {
	protocol.PermissionOption
	answer protocol.AnswerParams
}

// choices lists how a question may be answered.
func choices(q *live.Question) []choice {
	all := []choice{{protocol.PermissionOption{OptionID: "allow", Name: "Allow once", Kind: allowOnce}, protocol.AnswerParams{Allow: true}}}
	add := func(id, name, kind string, a protocol.AnswerParams) {
		all = append(all, choice{protocol.PermissionOption{OptionID: id, Name: name, Kind: kind}, a})
	}
	rules := q.Rules[:min(len(q.Rules), maxRules)]
	for i, rule := range rules {
		if i == 0 {
			add("allow-session", fmt.Sprintf("Allow %s in this session", rule), allowAlways,
				protocol.AnswerParams{Allow: true, Remember: string(policy.ForSession), Rule: rule})
		}
		add(fmt.Sprintf("allow-always-%d", i+1), fmt.Sprintf("Always allow %s in this folder", rule), allowAlways,
			protocol.AnswerParams{Allow: true, Remember: string(policy.ForUser), Rule: rule})
	}
	add("reject", "Reject", rejectOnce, protocol.AnswerParams{})
	if len(rules) > 0 {
		add("reject-always", fmt.Sprintf("Always reject %s in this folder", rules[0]), rejectAlways,
			protocol.AnswerParams{Remember: string(policy.ForUser), Rule: rules[0]})
	}
	return all
}

// ask puts a question to the client, without waiting for its answer. The call is known to it: it stands before the question in the log.
func (u *updates) ask(q *live.Question) {
	u.client.mu.Lock()
	elsewhere := u.client.ask.Questions
	u.client.mu.Unlock()
	if elsewhere {
		return // it is asked by its watch
	}
	if u.asking == nil {
		u.asking = map[string]context.CancelFunc{}
	}
	all := choices(q)
	p := protocol.RequestPermissionParams{SessionID: q.SessionID}
	c := u.calls[q.CallID]
	if c == nil {
		c = &call{name: q.Tool, view: tool.Presentation{Kind: tool.KindOther, Title: tool.PlainTitle(q.Tool, q.Arguments)}}
	}
	p.ToolCall = u.shown(c)
	p.ToolCall.ToolCallID, p.ToolCall.Status, p.ToolCall.RawInput = q.CallID, protocol.ToolPending, q.Arguments
	p.ToolCall.Content = append(p.ToolCall.Content, text(why(q)))
	for _, o := range all {
		p.Options = append(p.Options, o.PermissionOption)
	}
	ctx, withdraw := context.WithCancel(u.client.life)
	u.asking[q.ID] = withdraw
	s, client := u.held.session, u.client
	client.start(func() {
		defer withdraw()
		var r protocol.RequestPermissionResult
		err := client.conn.Call(ctx, protocol.MethodRequestPermission, p, &r)
		if ctx.Err() != nil {
			return // answered elsewhere, withdrawn, or the client is gone
		}
		answer := protocol.AnswerParams{Reason: "the user cancelled the question"}
		switch {
		case err != nil:
			answer.Reason = "the client could not ask the user: " + err.Error()
		case r.Outcome.Outcome == "selected":
			i := slices.IndexFunc(all, func(o choice) bool { return o.OptionID == r.Outcome.OptionID })
			if i < 0 {
				answer.Reason = fmt.Sprintf("the client chose %q, which was not offered", r.Outcome.OptionID)
				break
			}
			answer = all[i].answer
		}
		answer.ID = q.ID
		if _, err := s.Answer(client.who(), answer); err != nil {
			client.o.Logger.Warn("an editor's answer", "session", s.ID(), "err", err)
		}
	})
}

// why says what a question is about beside the call itself.
func why(q *live.Question) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s)", q.Reason, q.By)
	for _, r := range q.Refused {
		fmt.Fprintf(&b, "\nThe sandbox refused: %s %s", r.Kind, r.Target)
	}
	if w := q.Request.Wider; w != nil {
		for _, path := range w.Write {
			fmt.Fprintf(&b, "\nIt could then write %s", path)
		}
		for _, host := range w.Hosts {
			fmt.Fprintf(&b, "\nIt could then reach %s", host)
		}
	}
	return b.String()
}
