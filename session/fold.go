package session

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/dsh-harness/dsh/llm"
)

// State is what a log says about its session. It is a value; nobody may change
// what its slices hold.
type State struct {
	Turn     int  // the last turn, 0 when there was none
	TurnOpen bool // it has not ended
	Step     int  // the last step of that turn
	StepOpen bool
	// Pending is the input that waits, in the order of delivery.
	Pending  []Pending
	Title    string
	Archived bool
	Labels   []string
	// Usage is the sum over the answers of the session, those before a fork not included.
	Usage llm.Usage
}

// Pending is a delivery that was neither consumed nor cleared.
type Pending struct {
	ID       string // of the delivery
	Steering bool
	Quiet    bool // it wakes nobody
	Message  llm.Message
}

// fold is what a log means so far, and with it what may come next. Copying one
// before a change and putting the copy back undoes the change.
type fold struct {
	next    int64 // the sequence number of the next event
	seed    int64 // how many events were copied by a fork
	size    int64 // bytes of the lines so far
	state   State
	surface surface
	metaAt  int64 // where, in bytes, the last session/meta is

	header *llm.Header // of the last request/header, nil when there is none

	scanner scanner // for the data of the event at hand

	turnAt   int64 // the event that began the open turn
	answered bool  // the open step has its assistant/message
	calls    []call
	results  int // how many calls have a result
}

// call is a tool call of the open step.
type call struct {
	id      string
	started bool // there is a tool/call
}

var errData = errors.New("its data does not have the form of its type")

// apply takes e, which must be next, or returns what is wrong with it and changes
// nothing. It keeps none of the event's bytes. declared tells what a plugin's type
// may do; with nil, as for a log that is read, what the event says counts.
func (f *fold) apply(e *Event, declared func(name string) (EventType, bool)) error {
	if e.Seq != f.next {
		return fmt.Errorf("it is event %d where event %d comes next", e.Seq, f.next)
	}
	for _, r := range e.Cites {
		if r[0] < 0 || r[0] > r[1] || r[1] >= e.Seq {
			return fmt.Errorf("it cites the events %d to %d, which is no run of earlier ones", r[0], r[1])
		}
	}
	if err := f.take(e, declared); err != nil {
		return err
	}
	f.next++
	f.size += int64(len(e.line)) + 1
	return nil
}

func (f *fold) take(e *Event, declared func(name string) (EventType, bool)) error {
	if e.Surface != nil && !mayBeOnSurface(e.Type) {
		return errors.New("its type is never on the surface")
	}
	switch e.Type {
	case TurnStart:
		return f.turnStart(e)
	case TurnEnd:
		return f.turnEnd(e)
	case StepStart:
		return f.stepStart(e)
	case StepEnd:
		return f.stepEnd(e)
	case UserMessage, SteeringMessage:
		return f.input(e)
	case RequestHeader:
		return f.requestHeader(e)
	case RequestContext:
		return cmp.Or(f.inTurn(), f.valid(e.Data))
	case AssistantChunk, Retry:
		return f.inStep(e)
	case AssistantMessage:
		return f.assistant(e)
	case ToolCall:
		return f.toolCall(e)
	case ToolRewritten:
		return f.toolRewritten(e)
	case ToolResult:
		return f.toolResult(e)
	case InboxQueued, InboxSteered:
		return f.delivery(e)
	case InboxCleared:
		return f.cleared(e)
	case Seeded:
		return f.seeded(e)
	case Lost:
		return f.valid(e.Data)
	case Meta:
		return f.meta(e)
	case Rewound:
		return f.rewound(e)
	default:
		return f.plugin(e, declared)
	}
}

// mayBeOnSurface reports whether events of a type can have a surface operation:
// some of the core and all of plugins.
func mayBeOnSurface(name string) bool {
	switch name {
	case UserMessage, SteeringMessage, AssistantMessage, ToolResult, Rewound:
		return true
	}
	return !isCore(name)
}

// scan returns the scanner, at the start of data.
func (f *fold) scan(data []byte) *scanner {
	buf := f.scanner.buf
	if cap(buf) > encoderKeeps {
		buf = nil
	}
	f.scanner = scanner{src: data, buf: buf, names: f.scanner.names}
	return &f.scanner
}

// valid returns an error unless data is JSON. It is for data that is not decoded.
func (f *fold) valid(data []byte) error {
	s := f.scan(data)
	s.skip()
	if !s.end() {
		return errData
	}
	return nil
}

func (f *fold) turnStart(e *Event) error {
	p, ok := decodePlace(f.scan(e.Data))
	switch {
	case !ok:
		return errData
	case f.state.TurnOpen:
		return fmt.Errorf("turn %d is still open", f.state.Turn)
	case p.turn != int64(f.state.Turn)+1:
		return fmt.Errorf("it begins turn %d where turn %d comes next", p.turn, f.state.Turn+1)
	}
	f.state.Turn, f.state.TurnOpen, f.state.Step = int(p.turn), true, 0
	f.turnAt = e.Seq
	return nil
}

func (f *fold) turnEnd(e *Event) error {
	p, ok := decodePlace(f.scan(e.Data))
	switch {
	case !ok:
		return errData
	case !f.state.TurnOpen || p.turn != int64(f.state.Turn):
		return fmt.Errorf("turn %d is not open", p.turn)
	case f.state.StepOpen:
		return fmt.Errorf("step %d of the turn is still open", f.state.Step)
	}
	f.state.TurnOpen = false
	return nil
}

func (f *fold) inTurn() error {
	if !f.state.TurnOpen {
		return errors.New("no turn is open")
	}
	return nil
}

func (f *fold) stepStart(e *Event) error {
	p, ok := decodePlace(f.scan(e.Data))
	switch {
	case !ok:
		return errData
	case !f.state.TurnOpen || p.turn != int64(f.state.Turn):
		return fmt.Errorf("turn %d is not open", p.turn)
	case f.state.StepOpen:
		return fmt.Errorf("step %d is still open", f.state.Step)
	case p.step != int64(f.state.Step)+1:
		return fmt.Errorf("it begins step %d where step %d comes next", p.step, f.state.Step+1)
	}
	f.state.Step, f.state.StepOpen = int(p.step), true
	f.answered, f.calls, f.results = false, nil, 0
	return nil
}

func (f *fold) stepEnd(e *Event) error {
	if err := f.inStep(e); err != nil {
		return err
	}
	if f.results < len(f.calls) {
		return fmt.Errorf("call %s has no result", f.calls[f.results].id)
	}
	f.state.StepOpen, f.calls, f.results = false, nil, 0
	return nil
}

// inStep checks that e names the open step.
func (f *fold) inStep(e *Event) error {
	p, ok := decodePlace(f.scan(e.Data))
	if !ok {
		return errData
	}
	return f.isOpen(p)
}

func (f *fold) isOpen(p place) error {
	if !f.state.StepOpen || p.turn != int64(f.state.Turn) || p.step != int64(f.state.Step) {
		return fmt.Errorf("step %d of turn %d is not open", p.step, p.turn)
	}
	return nil
}

func (f *fold) input(e *Event) error {
	d, ok := decodeInput(f.scan(e.Data))
	if !ok {
		return errData
	}
	at := -1
	if d.inbox != "" {
		if at = f.pendingAt(d.inbox); at < 0 {
			return fmt.Errorf("delivery %s does not wait: it was consumed or cleared before, or never made", d.inbox)
		}
	}
	if err := f.show(e, &d.message); err != nil {
		return err
	}
	if at >= 0 {
		f.state.Pending = slices.Concat(f.state.Pending[:at], f.state.Pending[at+1:])
	}
	return nil
}

// show puts a message on the surface, at its end or in the place of others.
func (f *fold) show(e *Event, m *llm.Message) error {
	if e.Surface == nil || e.Surface.Op == OpTruncate {
		return errors.New("it needs a surface operation that appends or replaces")
	}
	return f.surface.apply(e.Surface, e.Seq, m)
}

func (f *fold) requestHeader(e *Event) error {
	if err := f.inTurn(); err != nil {
		return err
	}
	h := new(llm.Header)
	if json.Unmarshal(e.Data, h) != nil || h.Model == "" {
		return errData
	}
	f.header = h
	return nil
}

func (f *fold) assistant(e *Event) error {
	d, ok := decodeAssistant(f.scan(e.Data))
	if !ok {
		return errData
	}
	if err := f.isOpen(d.place); err != nil {
		return err
	}
	if f.answered {
		return errors.New("the step has its message already")
	}
	if e.Surface == nil || e.Surface.Op != OpAppend {
		return errors.New("it must append to the surface")
	}
	var calls []call
	for i := range d.message.Content {
		b := &d.message.Content[i]
		if b.Type != llm.BlockToolCall {
			continue
		}
		if b.CallID == "" || slices.ContainsFunc(calls, func(c call) bool { return c.id == b.CallID }) {
			return fmt.Errorf("the id %q of a call is empty or there twice", b.CallID)
		}
		calls = append(calls, call{id: b.CallID})
	}
	m := &d.message
	if len(m.Content) == 0 {
		m = nil // a provider would refuse it
	}
	if err := f.show(e, m); err != nil {
		return err
	}
	f.answered, f.calls, f.results = true, calls, 0
	f.state.Usage = f.state.Usage.Add(d.usage)
	return nil
}

// open returns the call of that id that has no result yet, or nil.
func (f *fold) open(id string) *call {
	for i := f.results; i < len(f.calls); i++ {
		if f.calls[i].id == id {
			return &f.calls[i]
		}
	}
	return nil
}

func (f *fold) toolCall(e *Event) error {
	d, ok := decodeCall(f.scan(e.Data))
	if !ok {
		return errData
	}
	if err := f.isOpen(d.place); err != nil {
		return err
	}
	c := f.open(d.callID)
	if c == nil || c.started {
		return fmt.Errorf("call %s is not one of the step's that waits to start", d.callID)
	}
	c.started = true
	return nil
}

func (f *fold) toolRewritten(e *Event) error {
	d, ok := decodeCall(f.scan(e.Data))
	if !ok {
		return errData
	}
	if c := f.open(d.callID); c == nil || !c.started {
		return fmt.Errorf("call %s is not under way", d.callID)
	}
	return nil
}

func (f *fold) toolResult(e *Event) error {
	d, ok := decodeResult(f.scan(e.Data))
	if !ok {
		return errData
	}
	if e.Surface != nil && e.Surface.Op == OpReplace {
		if err := f.inTurn(); err != nil {
			return err
		}
		return f.surface.replaceResult(e.Surface, e.Seq, &d.message)
	}
	if err := f.isOpen(d.place); err != nil {
		return err
	}
	switch {
	case f.open(d.message.CallID) == nil:
		return fmt.Errorf("call %s is not one of the step's that waits for its result", d.message.CallID)
	case f.calls[f.results].id != d.message.CallID:
		return fmt.Errorf("it is the result of call %s where that of call %s comes next", d.message.CallID, f.calls[f.results].id)
	case !f.calls[f.results].started && !d.message.IsError:
		return fmt.Errorf("call %s never started, so its result must be an error", d.message.CallID)
	}
	if err := f.show(e, &d.message); err != nil {
		return err
	}
	f.results++
	return nil
}

func (f *fold) pendingAt(id string) int {
	return slices.IndexFunc(f.state.Pending, func(p Pending) bool { return p.ID == id })
}

func (f *fold) delivery(e *Event) error {
	d, ok := decodeMessage(f.scan(e.Data))
	switch {
	case !ok || d.id == "" || d.message == nil:
		return errData
	case f.pendingAt(d.id) >= 0:
		return fmt.Errorf("delivery %s waits already", d.id)
	}
	p := Pending{ID: d.id, Steering: e.Type == InboxSteered, Quiet: d.quiet, Message: *d.message}
	f.state.Pending = append(slices.Clip(f.state.Pending), p)
	return nil
}

func (f *fold) cleared(e *Event) error {
	var d InboxClearedData
	if json.Unmarshal(e.Data, &d) != nil {
		return errData
	}
	f.state.Pending = slices.DeleteFunc(slices.Clone(f.state.Pending), func(p Pending) bool { return slices.Contains(d.IDs, p.ID) })
	return nil
}

func (f *fold) seeded(e *Event) error {
	switch {
	case f.state.TurnOpen:
		return fmt.Errorf("turn %d is still open", f.state.Turn)
	case e.Seq > f.seed:
		return fmt.Errorf("only the first %d events were copied", f.seed)
	}
	if err := f.valid(e.Data); err != nil {
		return err
	}
	f.state.Pending, f.state.Archived, f.state.Usage = nil, false, llm.Usage{}
	return nil
}

func (f *fold) meta(e *Event) error {
	var d MetaData
	if json.Unmarshal(e.Data, &d) != nil {
		return errData
	}
	d.apply(&f.state.Title, &f.state.Archived, &f.state.Labels)
	f.metaAt = f.size
	return nil
}

// Update makes info say what d says.
func (d MetaData) Update(info *Info) { d.apply(&info.Title, &info.Archived, &info.Labels) }

func (d MetaData) apply(title *string, archived *bool, labels *[]string) {
	if d.Title != nil {
		*title = *d.Title
	}
	if d.Archived != nil {
		*archived = *d.Archived
	}
	if d.Labels != nil {
		*labels = *d.Labels
	}
}

func (f *fold) rewound(e *Event) error {
	switch {
	case f.state.TurnOpen:
		return fmt.Errorf("turn %d is still open", f.state.Turn)
	case e.Surface == nil || e.Surface.Op != OpTruncate:
		return errors.New("it must truncate the surface")
	}
	return f.surface.apply(e.Surface, e.Seq, nil)
}

func (f *fold) plugin(e *Event, declared func(name string) (EventType, bool)) error {
	if declared != nil {
		t, ok := declared(e.Type)
		switch {
		case !ok:
			return errors.New("nobody declares its type: add it to session.Types")
		case e.Surface != nil && !t.Surface:
			return errors.New("its type is not declared to change the surface")
		}
	}
	if !e.Ignorable {
		return &UnknownTypeError{Type: e.Type, Seq: e.Seq}
	}
	if e.Surface == nil {
		return f.valid(e.Data)
	}
	d, ok := decodeMessage(f.scan(e.Data))
	if !ok {
		return errData
	}
	if m := d.message; m != nil && (m.Role != llm.RoleUser && m.Role != llm.RoleAssistant || len(llm.ToolCalls(m.Content)) > 0) {
		return errors.New("what it shows must be a message of the user, or of the assistant without tool calls")
	}
	return f.surface.apply(e.Surface, e.Seq, d.message)
}
