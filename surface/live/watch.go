package live

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/dsh-harness/dsh/agent"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/protocol"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/tool"
)

// pageSize is how many events a watch reads at a time.
const pageSize = 128

// WatchOptions say what a watch tells.
type WatchOptions struct {
	From   int64  // the first event that is wanted; below 0 it counts from the end
	Deltas bool   // live text and live output
	Name   string // of the client, for the others
}

// Item is what a watch tells. Exactly one member is set.
type Item struct {
	Event *session.Event // the next event: in order, without gap or duplicate
	// View says how the call of a tool/call or tool/rewritten is shown; it comes with Event.
	View *tool.Presentation

	Delta     *protocol.DeltaNote    // all live text since the last one. Watch is left to the client's connection, here and below.
	Progress  *protocol.ProgressNote // all live output since the last one
	Status    string                 // the agent began or ceased to run: "running" or "idle"
	Projected *Projected
	Asked     *Question
	Answered  *protocol.AnsweredNote
	Chosen    bool // somebody chose another model or effort
}

// Projected is a new value of a projection.
type Projected struct {
	protocol.Projected
	Update protocol.Update // what editors are told; its Kind is "" for nothing
}

// Watch tells one client what happens in a session. [Watch.Next] is called by one goroutine.
type Watch struct {
	o    WatchOptions
	f    *feed
	next int64 // the event that comes next

	page    []session.Event
	turn    int // how often the status was told
	step    int // which liveStep is told
	offsets []int
	calls   map[string]int64
	folds   map[string]int
	asked   map[string]bool
	answers int
	choices int
	names   map[string]string // of the tools of the calls that were told
}

// Watch begins to tell what happens from an event on. Questions that stand are told first of all that is not in the log.
// When From lies behind the end, it begins at the end.
func (s *Session) Watch(ctx context.Context, o WatchOptions) (*Watch, error) {
	f, err := s.awake(ctx)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	w := &Watch{
		o: o, f: f, next: o.From, answers: f.answers + len(f.answered), turn: -1, choices: f.choices,
		calls: map[string]int64{}, folds: map[string]int{}, asked: map[string]bool{}, names: map[string]string{},
	}
	durable := f.durable
	f.mu.Unlock()
	if w.next < 0 {
		w.next = max(0, durable+w.next)
	}
	w.next = min(w.next, durable)
	// The watch need not wait for what is folded from the whole log: it is told when it is there.
	err = f.entry.hub.scope.Go("fold session "+f.entry.id, func(life context.Context) error {
		ctx, cancel := context.WithCancel(life)
		defer cancel()
		defer context.AfterFunc(f.agent.Scope().Context(), cancel)()
		if err := f.project(ctx); err != nil && ctx.Err() == nil {
			f.entry.hub.o.Logger.Warn("fold a session", "session", f.entry.id, "err", err)
		}
		return nil
	})
	return w, err
}

// From is the next event that the watch tells, and Durable the first that is not there yet.
func (w *Watch) From() int64 { return w.next }

// Durable is the first event of the session that is not there yet.
func (w *Watch) Durable() int64 {
	w.f.mu.Lock()
	defer w.f.mu.Unlock()
	return w.f.durable
}

// Next waits for what comes next. It fails with [ErrClosed] when the session has ended and all was told, and with the
// cause of ctx; then it may be called again.
func (w *Watch) Next(ctx context.Context) (Item, error) {
	for {
		if len(w.page) > 0 {
			return w.event(), nil
		}
		w.f.mu.Lock()
		durable, ended, failed := w.f.durable, w.f.ended, w.f.failed
		if w.next >= durable {
			item, ok, err := w.takeLocked()
			if ok || err != nil {
				w.f.mu.Unlock()
				return item, err
			}
			if ended {
				w.f.mu.Unlock()
				if failed != nil {
					return Item{}, fmt.Errorf("watch session %s: %w: %w", w.f.entry.id, ErrClosed, failed)
				}
				return Item{}, fmt.Errorf("watch session %s: %w", w.f.entry.id, ErrClosed)
			}
			wait := w.f.waitLocked()
			w.f.mu.Unlock()
			select {
			case <-wait:
			case <-ctx.Done():
				return Item{}, context.Cause(ctx)
			}
			continue
		}
		w.f.mu.Unlock()
		if err := w.read(ctx, durable); err != nil {
			return Item{}, fmt.Errorf("watch session %s: %w", w.f.entry.id, err)
		}
	}
}

// read takes the next page of events.
func (w *Watch) read(ctx context.Context, durable int64) error {
	w.page = w.page[:0]
	for e, err := range w.f.agent.Session().Events(ctx, w.next) {
		if err != nil {
			return err
		}
		if e.Seq >= durable || len(w.page) == pageSize {
			break
		}
		w.page = append(w.page, e)
	}
	if len(w.page) == 0 {
		return fmt.Errorf("event %d is missing", w.next)
	}
	return nil
}

// event tells the first event of the page.
func (w *Watch) event() Item {
	e := w.page[0]
	w.page = w.page[1:]
	w.next = e.Seq + 1
	item := Item{Event: &e}
	switch e.Type {
	case session.ToolCall:
		var d session.ToolCallData
		if json.Unmarshal(e.Data, &d) == nil {
			w.names[d.CallID] = d.Name
			item.View = present(w.f, d.Name, d.Arguments)
		}
	case session.ToolRewritten:
		var d session.ToolRewrittenData
		if json.Unmarshal(e.Data, &d) == nil {
			item.View = present(w.f, w.names[d.CallID], d.Arguments)
		}
	case session.TurnEnd:
		clear(w.names)
		maps.DeleteFunc(w.calls, func(id string, _ int64) bool { return !w.f.runs(id) })
	}
	return item
}

// present says how a call is shown.
func present(f *feed, name, arguments string) *tool.Presentation {
	return f.entry.hub.present(f.scope(), name, arguments)
}

// present says how a call is shown, with the tools that s sees.
func (h *Hub) present(s *plugin.Scope, name, arguments string) *tool.Presentation {
	p := tool.Presentation{Kind: tool.KindOther, Title: tool.PlainTitle(name, json.RawMessage(arguments))}
	if tools, ok := tool.Service.Current(h.scope); ok {
		if d, ok := tools.Lookup(s, name); ok {
			p = d.Present(json.RawMessage(arguments))
		}
	}
	return &p
}

// takeLocked returns what is not in the log and was not told yet; the feed's lock is held, and all events were told.
func (w *Watch) takeLocked() (Item, bool, error) {
	f := w.f
	for _, q := range f.questions {
		if !w.asked[q.ID] && w.next >= q.at {
			w.asked[q.ID] = true
			return Item{Asked: &q.Question}, true, nil
		}
	}
	for w.answers < f.answers+len(f.answered) {
		w.answers = max(w.answers, f.answers)
		a := f.answered[w.answers-f.answers]
		if w.next < a.at {
			break
		}
		w.answers++
		if w.asked[a.note.ID] {
			delete(w.asked, a.note.ID)
			note := a.note
			return Item{Answered: &note}, true, nil
		}
	}
	if w.o.Deltas {
		if d := w.deltaLocked(); d != nil {
			return Item{Delta: d}, true, nil
		}
		if p := w.progressLocked(); p != nil {
			return Item{Progress: p}, true, nil
		}
	}
	if w.turn != f.statuses && w.next >= f.statusAt {
		w.turn = f.statuses
		return Item{Status: statusName(f.status)}, true, nil
	}
	if w.choices != f.choices {
		w.choices = f.choices
		return Item{Chosen: true}, true, nil
	}
	for name, p := range f.folds {
		if w.folds[name] == p.changes {
			continue
		}
		w.folds[name] = p.changes
		one, err := p.projected(name)
		if err != nil {
			return Item{}, false, fmt.Errorf("encode the projection %s: %w", name, err)
		}
		out := &Projected{Projected: one}
		if p.Update != nil {
			out.Update = p.Update(p.value)
		}
		return Item{Projected: out}, true, nil
	}
	return Item{}, false, nil
}

func (w *Watch) deltaLocked() *protocol.DeltaNote {
	l := w.f.live
	if l == nil || w.next < l.at {
		return nil
	}
	if w.step != l.number {
		w.step, w.offsets = l.number, w.offsets[:0]
	}
	for i, b := range l.blocks {
		if i == len(w.offsets) {
			w.offsets = append(w.offsets, 0)
		}
		if from := w.offsets[i]; from < len(b.text) {
			w.offsets[i] = len(b.text)
			return &protocol.DeltaNote{
				Turn: l.turn, Step: l.step, Attempt: l.attempt, Index: i, Kind: string(b.kind), Offset: from, Text: string(b.text[from:]), Name: b.name,
			}
		}
	}
	return nil
}

func (w *Watch) progressLocked() *protocol.ProgressNote {
	for _, c := range w.f.calls {
		told, end := max(w.calls[c.id], c.base), c.base+int64(len(c.text))
		if w.next >= c.at && told < end {
			w.calls[c.id] = end
			return &protocol.ProgressNote{CallID: c.id, Offset: told, Text: string(c.text[told-c.base:])}
		}
	}
	return nil
}

func statusName(s agent.Status) string {
	if s == agent.Running {
		return "running"
	}
	return "idle"
}
