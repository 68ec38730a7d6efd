package session

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/dsh-harness/dsh/llm"
)

// What the results of calls say that a crash cut off.
const (
	notStarted     = "not-started"
	interruptedRun = "interrupted"
	outcomeUnknown = "outcome-unknown"
)

// closers returns what completes a turn that a crash cut off: the text that had
// streamed as an interrupted message, a result for each call without one, and the
// ends of the step and, unless it is to go on, the turn. events are those of the turn so far,
// with its start; header is the one in force. The outcome depends on nothing else.
func closers(events []Event, header *llm.Header, goesOn bool) ([]Draft, error) {
	var c cutTurn
	for _, e := range events {
		if err := c.take(e); err != nil {
			return nil, fmt.Errorf("event %d, %s: %w", e.Seq, e.Type, err)
		}
	}
	var drafts []Draft
	if c.open {
		if m, cites := c.streamed(header); m != nil {
			drafts = append(drafts, Draft{Type: AssistantMessage, Data: m, Cites: cites})
		}
		for _, call := range c.calls[c.results:] {
			drafts = append(drafts, c.result(call))
		}
		drafts = append(drafts, Draft{Type: StepEnd, Data: StepData{c.turn, c.step}})
	}
	if !goesOn {
		drafts = append(drafts, Draft{Type: TurnEnd, Data: TurnEndData{Turn: c.turn, Reason: Interrupted}})
	}
	return drafts, nil
}

// cutTurn is a turn without its end.
type cutTurn struct {
	turn, step int
	open       bool // the step
	answered   bool
	calls      []cutCall // of the step, in model order
	results    int
	chunks     []ChunkText // of the last attempt of the step
	cites      []Range     // the events that hold them
}

type cutCall struct {
	id      string
	started bool
	at      int64 // the tool/call event, when started
	effect  Effect
}

func (c *cutTurn) take(e Event) error {
	switch e.Type {
	case TurnStart:
		var d TurnStartData
		err := json.Unmarshal(e.Data, &d)
		c.turn = d.Turn
		return err
	case StepStart:
		var d StepData
		err := json.Unmarshal(e.Data, &d)
		*c = cutTurn{turn: c.turn, step: d.Step, open: true}
		return err
	case StepEnd:
		c.open = false
	case AssistantChunk:
		var d ChunkData
		err := json.Unmarshal(e.Data, &d)
		c.chunks = append(c.chunks, d.Deltas...)
		c.cites = append(c.cites, Range{e.Seq, e.Seq})
		return err
	case Retry:
		c.chunks, c.cites = nil, nil
	case AssistantMessage:
		var d AssistantData
		err := json.Unmarshal(e.Data, &d)
		c.answered = true
		for _, b := range llm.ToolCalls(d.Message.Content) {
			c.calls = append(c.calls, cutCall{id: b.CallID})
		}
		return err
	case ToolCall:
		var d ToolCallData
		err := json.Unmarshal(e.Data, &d)
		for i := range c.calls {
			if c.calls[i].id == d.CallID {
				c.calls[i].started, c.calls[i].at, c.calls[i].effect = true, e.Seq, d.Effect
			}
		}
		return err
	case ToolResult:
		if e.Surface != nil && e.Surface.Op == OpAppend {
			c.results++
		}
	}
	return nil
}

// streamed returns the answer as far as it is in the log, nil when there is
// none or the whole is there.
func (c *cutTurn) streamed(header *llm.Header) (*AssistantData, []Range) {
	if c.answered {
		return nil, nil
	}
	var content []llm.Block
	var indices []int
	for _, t := range c.chunks {
		i := slices.Index(indices, t.Index)
		if i < 0 {
			i = len(content)
			indices = append(indices, t.Index)
			content = append(content, llm.Block{Type: t.Kind})
		}
		content[i].Text += t.Text
	}
	content = slices.DeleteFunc(content, func(b llm.Block) bool { return strings.TrimSpace(b.Text) == "" })
	if len(content) == 0 {
		return nil, nil
	}
	d := &AssistantData{
		Turn: c.turn, Step: c.step, Interrupted: true,
		Message: AssistantContent{ID: fmt.Sprintf("interrupted-%d-%d", c.turn, c.step), Content: content},
	}
	if header != nil {
		d.Provider, d.Model = header.Provider, header.Model
	}
	return d, c.cites
}

// result answers a call that a crash cut off, by what running it again would do.
func (c *cutTurn) result(call cutCall) Draft {
	d := ToolResultData{Turn: c.turn, Step: c.step, CallID: call.id, IsError: true}
	var text string
	var cites []Range
	switch {
	case !call.started:
		d.Error = &ToolErrorData{Name: "ToolNotStarted", Code: notStarted}
		text = "The harness stopped before this call ran. It had no effect and may be made again."
	case call.effect == EffectRead:
		d.Error = &ToolErrorData{Name: "ToolInterrupted", Code: interruptedRun}
		text = "The harness stopped while this call ran. It only reads, so it may be made again."
	default:
		d.Error = &ToolErrorData{Name: "ToolOutcomeUnknown", Code: outcomeUnknown}
		text = "The harness stopped while this call ran, and its outcome is unknown. Verify what it did before making it again."
	}
	if call.started {
		cites = []Range{{call.at, call.at}}
	}
	d.Content = []llm.Block{llm.Text(text)}
	return Draft{Type: ToolResult, Data: d, Cites: cites}
}
