package live

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/dsh-harness/dsh"
	"github.com/dsh-harness/dsh/agent"
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/protocol"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/view"
)

// maxOutput bounds what is kept of the live output of one call, in bytes. The result has what the tool makes of it.
const maxOutput = 64 << 10

// maxAnswered bounds the questions that are settled and not yet told to every watch.
const maxAnswered = 256

// feed is what happens in a session while its agent lives. There is one copy of everything, and each [Watch] knows how much of
// it it has told.
//
// What is not in the log carries the number of the event that the log had reached: a watch tells it behind the events before that.
type feed struct {
	entry     *entry
	agent     *dsh.Agent
	ephemeral bool // nothing keeps the session

	mu      sync.Mutex
	changed chan struct{} // closed at the next change; nil while nobody waits
	durable int64         // the events before it may be told
	ended   bool          // nothing more comes
	failed  error         // why, if the log could not be read

	status   agent.Status
	statusAt int64
	statuses int // how often it changed
	choices  int // how often another model or effort was chosen

	live  *liveStep   // the answer that streams
	steps int         // how many have streamed
	calls []*liveCall // that run and have output

	folds     map[string]*folded
	folding   chan struct{} // closed when everything is folded; nil before it begins
	questions []*question
	answered  []settled
	answers   int // settled before answered

	files files
}

// liveStep is the answer that a model is just giving.
type liveStep struct {
	number              int // counts the steps and attempts of the feed
	at                  int64
	turn, step, attempt int
	blocks              []liveBlock
}

type liveBlock struct {
	kind llm.BlockType
	name string
	text []byte
}

// liveCall is the output of a call that runs.
type liveCall struct {
	id     string
	at     int64
	person bool  // it is no call of the model: turns do not end it
	base   int64 // bytes that are no longer kept
	text   []byte
}

type folded struct {
	view.Projection
	fold    view.Fold
	value   any
	seq     int64 // the value holds the events before it
	changes int
}

// settled is a question that stands no more.
type settled struct {
	note protocol.AnsweredNote
	at   int64
}

func newFeed(e *entry, a *dsh.Agent, ephemeral bool) *feed {
	return &feed{entry: e, agent: a, ephemeral: ephemeral, durable: a.Session().Durable(), status: agent.Idle}
}

// tellLocked wakes the watches.
func (f *feed) tellLocked() {
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}

// wait returns a channel that is closed at the next change.
func (f *feed) waitLocked() <-chan struct{} {
	if f.changed == nil {
		f.changed = make(chan struct{})
	}
	return f.changed
}

// follow takes the durable events until the session is closed or ctx ends. It is the goroutine that folds.
func (f *feed) follow(ctx context.Context) {
	for e, err := range f.agent.Session().Follow(ctx, f.durable) {
		if err != nil {
			f.end(err)
			return
		}
		f.take(e)
	}
	f.end(nil)
}

// take makes an event known.
func (f *feed) take(e session.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.durable = e.Seq + 1
	switch e.Type {
	case session.AssistantMessage:
		f.live = nil
	case session.ToolResult:
		var d session.ToolResultData
		if json.Unmarshal(e.Data, &d) == nil {
			f.calls = slices.DeleteFunc(f.calls, func(c *liveCall) bool { return c.id == d.CallID })
		}
	case session.TurnEnd:
		f.live, f.calls = nil, slices.DeleteFunc(f.calls, func(c *liveCall) bool { return !c.person })
	}
	for _, p := range f.folds {
		p.apply(e)
	}
	f.tellLocked()
}

func (p *folded) apply(e session.Event) {
	if e.Seq < p.seq {
		return
	}
	p.seq = e.Seq + 1
	if p.fold.Apply(e) {
		p.value = p.fold.Value()
		p.changes++
	}
}

// end says that nothing more comes.
func (f *feed) end(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return
	}
	f.ended, f.failed = true, err
	f.tellLocked()
}

func (f *feed) setStatus(s agent.Status) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.status == s {
		return
	}
	f.status, f.statusAt = s, f.agent.Session().Next()
	f.statuses++
	f.tellLocked()
}

// retell says that somebody may have chosen another model or effort.
func (f *feed) retell() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.choices++
	f.tellLocked()
}

// nudge has who waits look again.
func (f *feed) nudge() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tellLocked()
}

// chunk adds a live piece of an answer.
func (f *feed) chunk(n agent.ChunkNotice) {
	if n.Chunk.Kind != llm.ChunkDelta {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.live
	if l == nil || l.turn != n.Turn || l.step != n.Step || l.attempt != n.Attempt {
		f.steps++
		l = &liveStep{number: f.steps, at: f.agent.Session().Next(), turn: n.Turn, step: n.Step, attempt: n.Attempt}
		f.live = l
	}
	for len(l.blocks) <= n.Chunk.Index {
		l.blocks = append(l.blocks, liveBlock{})
	}
	b := &l.blocks[n.Chunk.Index]
	b.kind = n.Chunk.Block
	if n.Chunk.Name != "" {
		b.name = n.Chunk.Name
	}
	b.text = append(b.text, n.Chunk.Text...)
	f.tellLocked()
}

// output adds live output of a call.
func (f *feed) output(callID, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.calls, func(c *liveCall) bool { return c.id == callID })
	if i < 0 {
		i = len(f.calls)
		f.calls = append(f.calls, &liveCall{id: callID, at: f.agent.Session().Next()})
	}
	c := f.calls[i]
	c.text = append(c.text, text...)
	if over := len(c.text) - maxOutput; over > maxOutput { // seldom, so that it costs little for each byte
		c.base += int64(over)
		c.text = slices.Clone(c.text[over:])
	}
	f.tellLocked()
}

// beginOutput makes room for the output of something that is no call of the model, until [feed.endOutput].
func (f *feed) beginOutput(callID string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, &liveCall{id: callID, at: f.agent.Session().Next(), person: true})
}

// runs reports whether there is live output of a call.
func (f *feed) runs(callID string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.calls, func(c *liveCall) bool { return c.id == callID })
}

// endOutput forgets the output of something that is no call of the model.
func (f *feed) endOutput(callID string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = slices.DeleteFunc(f.calls, func(c *liveCall) bool { return c.id == callID })
}

// busy reports whether something would be lost or stand still if the agent ended.
func (f *feed) busy() bool {
	if f.agent.Status() == agent.Running {
		return true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.questions) > 0 || len(f.calls) > 0
}

// project folds what there is, once, and returns when that is done. A long log takes its time.
func (f *feed) project(ctx context.Context) error {
	f.mu.Lock()
	done := f.folding
	if done == nil {
		f.folding = make(chan struct{})
	}
	f.mu.Unlock()
	if done != nil {
		select {
		case <-done:
			return f.unfolded()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	err := f.foldAll(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.folding)
	if err != nil {
		f.folding = nil // the next one tries again
	}
	return err
}

// unfolded is the error of who waited for somebody else's folding, which failed.
func (f *feed) unfolded() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.folds == nil {
		return fmt.Errorf("read the log of session %s: try again", f.entry.id)
	}
	return nil
}

// foldAll reads the log.
func (f *feed) foldAll(ctx context.Context) error {
	folds := map[string]*folded{}
	for name, p := range view.Projections.Visible(f.agent.Scope()) {
		folds[name] = &folded{Projection: p, fold: p.New(f.agent.Scope())}
	}
	reached := int64(0)
	read := func(until int64) error {
		for e, err := range f.agent.Session().Events(ctx, reached) {
			if err != nil {
				return err
			}
			if e.Seq >= until {
				return nil
			}
			for _, p := range folds {
				p.apply(e)
			}
			reached = e.Seq + 1
		}
		return nil
	}
	// Most of it without the lock, then the little that has come meanwhile.
	f.mu.Lock()
	until := f.durable
	f.mu.Unlock()
	err := read(until)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		err = read(f.durable)
	}
	if err != nil {
		return err
	}
	for _, p := range folds {
		p.value, p.seq = p.fold.Value(), f.durable
		p.changes = 1
	}
	f.folds = folds
	f.tellLocked()
	return nil
}

// projected encodes a value.
func (p *folded) projected(name string) (protocol.Projected, error) {
	raw, err := json.Marshal(p.value)
	if err != nil {
		return protocol.Projected{}, err
	}
	out := protocol.Projected{Name: name, Seq: p.seq, Value: raw}
	if p.Panel != nil {
		panel := p.Panel(p.value)
		out.Panel = &panel
	}
	return out, nil
}

// projections returns the values of the projections that there are, of one when name is not "".
func (f *feed) projections(name string) ([]protocol.Projected, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []protocol.Projected
	for n := range view.Projections.Visible(f.agent.Scope()) { // in their order
		p := f.folds[n]
		if p == nil || (name != "" && n != name) {
			continue
		}
		one, err := p.projected(n)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// scope is the agent's.
func (f *feed) scope() *plugin.Scope { return f.agent.Scope() }
