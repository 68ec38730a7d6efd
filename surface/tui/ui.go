package tui

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	uv "github.com/charmbracelet/ultraviolet"
	"github.com/charmbracelet/x/term"

	"github.com/dsh-harness/dsh/internal/cells"
	"github.com/dsh-harness/dsh/internal/screen"
	"github.com/dsh-harness/dsh/internal/spelling"
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/protocol"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/surface/client"
	"github.com/dsh-harness/dsh/tool"
)

// ui is what the interface knows. It belongs to the goroutine of the loop.
type ui struct {
	o      Options
	ctx    context.Context
	c      *client.Client
	s      *screen.Screen
	cooked *term.State // the terminal's modes as they were found

	tasks       sync.WaitGroup
	results     chan func()
	came        chan struct{} // holds a token when there are notes
	notesMu     sync.Mutex
	notes       []note
	keys        chan uv.Event
	hungUp      chan struct{} // closed when the terminal is gone
	stopReading func()
	left        bool  // the person leaves
	failed      error // the interface cannot go on

	session, watch string
	title          string
	mode           string
	modes          []string
	model, effort  string
	commands       []protocol.Command
	panels         []protocol.Projected

	running bool
	since   time.Time // the turn began

	finished    []cells.Line // to be printed with the next frame
	spaced      bool         // the last line that was printed is blank
	kind        string       // of the group that was printed last
	answer      markdown
	told        map[int]int // bytes of the blocks of this step that were shown
	attempt     int
	thought     strings.Builder
	thinking    time.Time // when the thought began; zero when there is none
	lastThought string

	calls  map[string]*call
	order  []string // of the calls that run
	over   []*call  // that have ended, the last one last
	whole  bool     // all of them is printed
	shells int

	pending    []protocol.Pending
	deliveries map[string]string // messages, by the id of their delivery
	turns      []turn
	questions  []*protocol.Question
	denying    bool // a reason for the denial is being typed

	bound   map[string]action
	prompt  editor
	history []string
	past    int // where in the history the prompt is
	draft   string
	popup   *popup
	asked   int // how often completions were asked for
	message string
	quit    time.Time // when ctrl+c was pressed
	escape  time.Time
	focused bool
}

// turn is where a turn began, and with what.
type turn struct {
	before int64 // the last event before it
	prompt string
}

// call is a call that runs, or ran.
type call struct {
	id, name  string
	arguments string
	view      tool.Presentation
	began     time.Time
	output    string // the end of what it has put out
	result    string
	failed    bool
	change    tool.Change
	changed   bool
}

// reset begins with another session.
func (u *ui) reset(id string) {
	u.session, u.title, u.running = id, "", false
	u.answer, u.told, u.attempt = markdown{blank: true}, map[int]int{}, 0
	u.thought.Reset()
	u.thinking = time.Time{}
	u.calls, u.order, u.over = map[string]*call{}, nil, nil
	u.pending, u.deliveries, u.turns, u.questions = nil, map[string]string{}, nil, nil
}

func (u *ui) print(lines ...cells.Line) {
	u.finished = append(u.finished, lines...)
	if n := len(lines); n > 0 {
		u.spaced = lines[n-1].Width() == 0
	}
}

// group begins a group of lines: a blank one stands between it and a group of another kind.
func (u *ui) group(kind string) {
	if u.kind != kind && !u.spaced {
		u.print(nil)
	}
	u.kind = kind
}

func (u *ui) width() int { return u.s.Width() }

// word is a mark, or what it means for who cannot see it.
func (u *ui) word(mark, word string) string {
	if u.o.Reader {
		return word
	}
	return mark
}

// notice takes a notification.
func (u *ui) notice(n note) {
	switch n.method {
	case protocol.NoteEvent:
		var p struct {
			Watch string            `json:"watch"`
			Line  json.RawMessage   `json:"line"`
			View  tool.Presentation `json:"view"`
		}
		if u.read(n, &p) && p.Watch == u.watch {
			e, err := session.ParseEnvelope(p.Line)
			if err != nil {
				u.problem(err)
				return
			}
			u.event(e, p.View)
		}
	case protocol.NoteDelta:
		var p protocol.DeltaNote
		if u.read(n, &p) && p.Watch == u.watch {
			u.delta(p)
		}
	case protocol.NoteProgress:
		var p protocol.ProgressNote
		if u.read(n, &p) && p.Watch == u.watch {
			u.progress(p)
		}
	case protocol.NoteStatus:
		var p protocol.StatusNote
		if u.read(n, &p) && p.Watch == u.watch {
			u.running = p.Status == "running"
			if u.running && u.since.IsZero() {
				u.since = time.Now()
			}
		}
	case protocol.NoteProjected:
		var p protocol.ProjectedNote
		if u.read(n, &p) && p.Watch == u.watch {
			i := slices.IndexFunc(u.panels, func(o protocol.Projected) bool { return o.Name == p.Name })
			if i < 0 {
				u.panels = append(u.panels, p.Projected)
			} else {
				u.panels[i] = p.Projected
			}
		}
	case protocol.NoteAsked:
		var q protocol.Question
		if u.read(n, &q) && q.SessionID == u.session {
			u.ask(&q)
		}
	case protocol.NoteAnswered:
		var a protocol.AnsweredNote
		if u.read(n, &a) && a.SessionID == u.session {
			u.settled(a)
		}
	case protocol.NoteEnded:
		var p protocol.EndedNote
		if u.read(n, &p) && p.Watch == u.watch {
			u.watch = ""
			// The agent was restarted, as a rule: what happened is in the log.
			ask(u, protocol.MethodWatch, protocol.WatchParams{SessionID: u.session, From: p.Next}, func(r protocol.WatchResult) { u.watch = r.Watch })
		}
	}
}

func (u *ui) read(n note, v any) bool {
	if err := json.Unmarshal(n.params, v); err != nil {
		u.problem(fmt.Errorf("%s is not understood: %w", n.method, err))
		return false
	}
	return true
}

// decode reads the data of an event; what cannot be read is shown.
func decode[T any](u *ui, e session.Event) (d T, ok bool) {
	if err := json.Unmarshal(e.Data, &d); err != nil {
		u.problem(fmt.Errorf("event %d, %s: %w", e.Seq, e.Type, err))
		return d, false
	}
	return d, true
}

// event takes a durable event.
func (u *ui) event(e session.Event, view tool.Presentation) {
	switch e.Type {
	case session.TurnStart:
		u.since = time.UnixMilli(e.Time)
		u.turns = append(u.turns, turn{before: e.Seq - 1})
	case session.StepStart:
		u.told, u.attempt = map[int]int{}, 0
	case session.InboxQueued, session.InboxSteered:
		if d, ok := decode[session.InboxData](u, e); ok && !d.Quiet && (d.Message.Source.Kind == "" || d.Message.Source.Kind == "user") {
			u.deliveries[d.ID] = d.Message.ID
			u.pending = append(u.pending, protocol.Pending{ID: d.Message.ID, Steering: e.Type == session.InboxSteered, Text: llm.PlainText(d.Message.Content)})
		}
	case session.InboxCleared:
		if d, ok := decode[session.InboxClearedData](u, e); ok {
			for _, id := range d.IDs {
				u.unqueue(u.deliveries[id])
			}
		}
	case session.UserMessage, session.SteeringMessage:
		if d, ok := decode[session.InputData](u, e); ok {
			u.input(d)
		}
	case session.AssistantMessage:
		if d, ok := decode[session.AssistantData](u, e); ok {
			u.spoken(d)
		}
	case session.ToolCall:
		if d, ok := decode[session.ToolCallData](u, e); ok {
			u.calls[d.CallID] = &call{id: d.CallID, name: d.Name, arguments: d.Arguments, view: view, began: time.UnixMilli(e.Time)}
			u.order = append(u.order, d.CallID)
			if u.o.Reader {
				u.print(cells.Plain("running: " + view.Title))
			}
		}
	case session.ToolRewritten:
		if d, ok := decode[session.ToolRewrittenData](u, e); ok && u.calls[d.CallID] != nil {
			u.calls[d.CallID].arguments, u.calls[d.CallID].view = d.Arguments, view
		}
	case session.ToolResult:
		if d, ok := decode[session.ToolResultData](u, e); ok {
			u.result(d, time.UnixMilli(e.Time))
		}
	case session.Retry:
		if d, ok := decode[session.RetryData](u, e); ok {
			u.print(cells.Styled(u.word("! ", "warning: ")+"the model did not answer, and is asked again: "+d.Failure.Message, cells.Style{Fg: cells.Yellow}))
		}
	case session.TurnEnd:
		if d, ok := decode[session.TurnEndData](u, e); ok {
			u.turnEnded(d, time.UnixMilli(e.Time))
		}
	case session.Rewound:
		u.print(nil, cells.Styled("(the conversation was taken back; what follows is what the model goes on with)", cells.Style{Dim: true}))
	case session.Meta:
		if d, ok := decode[session.MetaData](u, e); ok && d.Title != nil {
			u.title = *d.Title
		}
	case policy.ModeSwitched:
		if d, ok := decode[policy.ModeData](u, e); ok {
			u.mode = string(d.Mode)
		}
	}
}

func (u *ui) unqueue(id string) {
	u.pending = slices.DeleteFunc(u.pending, func(p protocol.Pending) bool { return p.ID == id })
}

// input prints what somebody said.
func (u *ui) input(d session.InputData) {
	u.unqueue(d.ID)
	if d.Source.Kind != "" && d.Source.Kind != "user" || d.Source.Form == "shell" {
		return
	}
	text := llm.PlainText(d.Content)
	if n := len(u.turns); n > 0 && u.turns[n-1].prompt == "" {
		u.turns[n-1].prompt = text
	}
	u.group("user")
	for i, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		mark := "  "
		if i == 0 {
			mark = u.word("> ", "you: ")
		}
		u.print(cells.Wrap(append(cells.Styled(mark, cells.Style{Fg: cells.Cyan, Bold: true}), cells.Plain(line)...), u.width(), 2)...)
	}
	u.answer.blank = true
}

// delta takes live text.
func (u *ui) delta(d protocol.DeltaNote) {
	if d.Attempt != u.attempt {
		if u.attempt > 0 && len(u.told) > 0 {
			u.saidAll()
			u.print(cells.Styled("(what follows is said anew)", cells.Style{Dim: true}))
		}
		u.attempt, u.told = d.Attempt, map[int]int{}
		u.thought.Reset()
	}
	if d.Offset != u.told[d.Index] {
		return // the rest comes with the message
	}
	u.told[d.Index] += len(d.Text)
	switch llm.BlockType(d.Kind) {
	case llm.BlockReasoning:
		if u.thinking.IsZero() {
			u.thinking = time.Now()
		}
		u.thought.WriteString(d.Text)
	case llm.BlockText:
		u.foldThought()
		u.say(d.Text)
	case llm.BlockToolCall, llm.BlockImage, llm.BlockOpaque:
	}
}

// say shows more of an answer.
func (u *ui) say(text string) {
	if lines := u.answer.write(text, u.width()); len(lines) > 0 {
		u.group("answer")
		u.print(lines...)
	}
}

// saidAll prints what is left of an answer.
func (u *ui) saidAll() {
	if lines := u.answer.end(u.width()); len(lines) > 0 {
		u.group("answer")
		u.print(lines...)
	}
	u.answer.blank = true
}

// foldThought folds the thought that has ended into a line.
func (u *ui) foldThought() {
	if u.thought.Len() == 0 {
		return
	}
	line := "thought"
	if !u.thinking.IsZero() {
		line += " for " + elapsed(time.Since(u.thinking))
	}
	u.lastThought = u.thought.String()
	u.thought.Reset()
	if u.whole {
		u.group("thought")
		u.block(u.lastThought, cells.Style{Dim: true, Italic: true})
		return
	}
	u.thinking = time.Time{}
	u.group("thought")
	u.print(cells.Styled(line+" (ctrl+t shows it)", cells.Style{Dim: true, Italic: true}))
}

// spoken takes a whole answer: it shows what was not shown live.
func (u *ui) spoken(d session.AssistantData) {
	for i, b := range d.Message.Content {
		rest := b.Text[min(u.told[i], len(b.Text)):]
		if rest == "" {
			continue
		}
		switch b.Type {
		case llm.BlockReasoning:
			u.thought.WriteString(rest)
		case llm.BlockText:
			u.foldThought()
			u.say(rest)
		case llm.BlockToolCall, llm.BlockImage, llm.BlockOpaque:
		}
	}
	u.foldThought()
	u.saidAll()
	u.told = map[int]int{}
}

// progress takes live output.
func (u *ui) progress(p protocol.ProgressNote) {
	c := u.calls[p.CallID]
	if c == nil {
		if !strings.HasPrefix(p.CallID, "shell-") {
			return
		}
		c = &call{id: p.CallID, name: "shell", view: tool.Presentation{Kind: tool.KindExecute, Title: "shell", Terminal: true}, began: time.Now()}
		u.calls[p.CallID] = c
		u.order = append(u.order, p.CallID)
	}
	c.output += p.Text
	if over := len(c.output) - 4096; over > 0 {
		c.output = strings.ToValidUTF8(c.output[over:], "")
	}
}

const (
	// shownOutput is how many lines of output stand below a call that has ended, and shownDiff of a change.
	shownOutput = 4
	shownDiff   = 24
)

// result takes the end of a call, and prints it as one line with the little that says what came of it.
func (u *ui) result(d session.ToolResultData, at time.Time) {
	c := u.calls[d.CallID]
	if c == nil {
		c = &call{id: d.CallID, name: d.CallID, view: tool.Presentation{Title: d.CallID}, began: at}
	}
	delete(u.calls, d.CallID)
	u.order = slices.DeleteFunc(u.order, func(id string) bool { return id == d.CallID })
	c.result, c.failed = llm.PlainText(d.Content), d.IsError
	c.change, c.changed = tool.ChangeOf(d.Meta)
	if u.over = append(u.over, c); len(u.over) > keptCalls {
		u.over = slices.Clone(u.over[len(u.over)-keptCalls/2:])
	}
	u.group("call")
	if u.whole {
		u.opened(c)
	} else {
		u.print(u.ended(c, at)...)
	}
	u.answer.blank = true
}

func (u *ui) ended(c *call, at time.Time) []cells.Line {
	mark, style := u.word("+ ", "done: "), cells.Style{Fg: cells.Green}
	if c.failed {
		mark, style = u.word("x ", "failed: "), cells.Style{Fg: cells.Red}
	}
	line := append(cells.Styled(mark, style), cells.Plain(c.view.Title)...)
	if c.changed {
		line = line.Add(fmt.Sprintf("  +%d -%d", c.change.Added, c.change.Removed), cells.Style{Dim: true})
	}
	if took := at.Sub(c.began); took >= time.Second {
		line = line.Add("  "+elapsed(took), cells.Style{Dim: true})
	}
	all := []cells.Line{line.Fit(u.width())}
	switch {
	case c.changed && !c.failed:
		all = append(all, u.diff(c, shownDiff)...)
	case c.view.Terminal || c.failed:
		lines := strings.Split(strings.TrimRight(c.result, "\n"), "\n")
		if hidden := len(lines) - shownOutput; hidden > 0 {
			all = append(all, cells.Styled(fmt.Sprintf("    (%s more: ctrl+o)", plural(hidden, "line")), cells.Style{Dim: true}))
			lines = lines[hidden:]
		}
		for _, l := range lines {
			all = append(all, cells.Styled("    "+l, cells.Style{Dim: true}).Fit(u.width()))
		}
	}
	return all
}

// diff shows a change.
func (u *ui) diff(c *call, most int) []cells.Line {
	text := c.change.Diff
	if text == "" {
		for _, d := range c.view.Diffs {
			for line := range strings.Lines(d.New) {
				text += "+" + strings.TrimSuffix(line, "\n") + "\n"
			}
		}
	}
	var all []cells.Line
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "--- ") || strings.HasPrefix(line, "+++ ") {
			continue
		}
		style := cells.Style{Dim: true}
		switch {
		case strings.HasPrefix(line, "+"):
			style = cells.Style{Fg: cells.Green}
		case strings.HasPrefix(line, "-"):
			style = cells.Style{Fg: cells.Red}
		case strings.HasPrefix(line, "@@"):
			style = cells.Style{Fg: cells.Cyan, Dim: true}
		}
		if len(all) == most {
			return append(all, cells.Styled("    (more: ctrl+o)", cells.Style{Dim: true}))
		}
		all = append(all, cells.Styled("    "+line, style).Fit(u.width()))
	}
	return all
}

// keptCalls is how many calls can still be opened.
const keptCalls = 200

// details prints all of the call that ended last.
func (u *ui) details() {
	if len(u.over) == 0 {
		u.message = "no call has ended yet"
		return
	}
	u.opened(u.over[len(u.over)-1])
}

// opened prints all of a call: what it was given, and what it gave.
func (u *ui) opened(c *call) {
	u.print(nil, append(cells.Styled(c.name+" ", cells.Style{Bold: true}), cells.Plain(c.view.Title)...))
	var pretty strings.Builder
	var arguments any
	if json.Unmarshal([]byte(c.arguments), &arguments) == nil {
		e := json.NewEncoder(&pretty)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		if e.Encode(arguments) == nil {
			u.block(pretty.String(), cells.Style{Fg: cells.Cyan})
		}
	}
	if c.changed {
		u.print(u.diff(c, 1<<20)...)
	}
	u.block(c.result, cells.Style{})
	u.print(nil)
}

// block prints lines, indented.
func (u *ui) block(text string, style cells.Style) {
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		u.print(cells.Wrap(cells.Styled("    "+line, style), u.width(), 4)...)
	}
}

// turnEnded takes the end of a turn.
func (u *ui) turnEnded(d session.TurnEndData, at time.Time) {
	u.foldThought()
	u.saidAll()
	u.calls, u.order = map[string]*call{}, nil
	switch d.Reason {
	case session.Completed:
	case session.Aborted, session.Interrupted:
		u.print(cells.Styled("(interrupted)", cells.Style{Fg: cells.Yellow}))
	case session.Budget:
		u.print(cells.Styled("(ended: the limit of "+d.Budget+" was reached)", cells.Style{Fg: cells.Yellow}))
	case session.MaxTokens:
		u.print(cells.Styled("(ended: the answer reached the model's limit)", cells.Style{Fg: cells.Yellow}))
	case session.Failed, session.Blocked, session.Disposed:
		text := "the turn ended: " + string(d.Reason)
		if d.Error != nil {
			text = d.Error.Message
		}
		u.print(cells.Wrap(cells.Styled(u.word("x ", "failed: ")+text, cells.Style{Fg: cells.Red}), u.width(), 2)...)
	}
	if took := at.Sub(u.since); took >= 10*time.Second && !u.since.IsZero() && d.Reason == session.Completed {
		u.print(cells.Styled("(done in "+elapsed(took)+")", cells.Style{Dim: true}))
		u.attention("dsh is done")
	}
	u.since = time.Time{}
}

// attention asks for the person's attention, if they look elsewhere.
func (u *ui) attention(text string) {
	if u.focused {
		return
	}
	// A notification where the terminal knows them, and a bell where it does not; see iTerm2's proprietary escape codes.
	if err := u.s.Write("\x1b]9;" + cells.Plain(text).Text() + "\x1b\\\a"); err != nil {
		u.failed = err
	}
}

// ask puts a question: all of the call is printed, so that none of it can be out of sight, and the answers stand above the prompt.
func (u *ui) ask(q *protocol.Question) {
	if slices.ContainsFunc(u.questions, func(o *protocol.Question) bool { return o.ID == q.ID }) {
		return
	}
	u.questions = append(u.questions, q)
	verb := " wants to run"
	if len(q.Refused) > 0 {
		verb = " was kept from something, and wants to run once more"
	}
	mark := func(s string) string { return s }
	u.kind = ""
	u.group("question")
	u.print(cells.Styled(u.word("? ", "question: ")+spelling.Text(q.Tool, mark)+verb, cells.Style{Fg: cells.Yellow, Bold: true}))
	part := func(name, text string) {
		u.print(cells.Styled("  "+name+":", cells.Style{Dim: true}))
		for _, row := range spelling.Rows(text, max(u.width()-8, 12), mark) {
			u.print(cells.Plain("  " + strings.NewReplacer("│", "|", "┆", ":").Replace(row)))
		}
	}
	var arguments map[string]json.RawMessage
	told := map[string]bool{}
	if json.Unmarshal(q.Arguments, &arguments) == nil {
		for _, name := range slices.Sorted(keysOf(arguments)) {
			var text string
			if json.Unmarshal(arguments[name], &text) != nil {
				text = string(arguments[name])
			}
			part(name, text)
			told[text] = true
		}
	}
	for _, a := range q.Accesses {
		if !told[a.Target] {
			part(a.Kind, a.Target)
		}
	}
	for _, r := range q.Refused {
		part("was refused", r.Kind+" "+r.Target)
	}
	part("because", q.Reason)
	u.attention("dsh asks")
}

func keysOf[V any](m map[string]V) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// settled takes the end of a question.
func (u *ui) settled(a protocol.AnsweredNote) {
	i := slices.IndexFunc(u.questions, func(q *protocol.Question) bool { return q.ID == a.ID })
	if i < 0 {
		return
	}
	if c := u.calls[u.questions[i].CallID]; c != nil {
		c.began = time.Now() // the time that counts is not the person's
	}
	u.questions = slices.Delete(u.questions, i, i+1)
	u.denying = false
	text := a.Outcome
	if a.By != "" && a.By != "terminal" {
		text += " by " + a.By
	}
	u.print(cells.Styled("  "+text, cells.Style{Dim: true}))
}

// answerQuestion answers the question that stands.
func (u *ui) answerQuestion(p protocol.AnswerParams) {
	p.SessionID, p.ID = u.session, u.questions[0].ID
	ask(u, protocol.MethodAnswer, p, func(r protocol.AnswerResult) {
		if !r.Accepted {
			u.message = "somebody else was first"
		}
	})
}
