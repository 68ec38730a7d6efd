package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/dsh-harness/dsh/agent"
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/tool"
)

// ran is what the calls of one step came to, in model order.
type ran struct {
	blocks   []llm.Block
	results  []tool.Result
	conclude bool
}

// answerCalls gives each call of an answer exactly one result, in model order.
func (a *loopAgent) answerCalls(t *turn, at agent.Step, answer *agent.Answer) (ran, error) {
	out := ran{blocks: llm.ToolCalls(answer.Content)}
	if answer.Finish == llm.FinishContentFilter {
		return out, errors.Join(a.refuseAll(at, out.blocks, tool.Failure(tool.CodeNotStarted, "the provider's filter stopped the answer; the call did not run")),
			&llm.Error{Code: llm.CodeRefusal, Message: "the provider's content filter stopped the answer: put the request in other words"})
	}
	if len(out.blocks) == 0 {
		return out, nil
	}
	s := &schedule{agent: a, at: at, events: make(chan event), cut: answer.Finish == llm.FinishMaxTokens}
	for _, b := range out.blocks {
		s.calls = append(s.calls, &call{block: b})
	}
	err := s.run(t.ctx)
	var added []llm.Message
	for _, c := range s.calls {
		out.results = append(out.results, c.result)
		out.conclude = out.conclude || c.result.Conclude && !c.result.IsError
		added = append(added, c.result.Context...)
	}
	for _, m := range added {
		if err == nil {
			_, err = a.session.Append(contextDraft(m))
		}
	}
	if err == nil && t.ctx.Err() != nil {
		err = context.Cause(t.ctx)
	}
	return out, err
}

// refuseAll gives calls that never ran the same result.
func (a *loopAgent) refuseAll(at agent.Step, blocks []llm.Block, r tool.Result) error {
	for _, b := range blocks {
		if err := a.logResult(at, b.CallID, r); err != nil {
			return err
		}
	}
	return nil
}

// schedule runs the calls of one step. One goroutine, the driver's, owns it; the
// goroutines that prepare and run calls only send it events, and it waits for
// all of them before it returns.
//
//   - Calls are prepared in model order. While somebody is asked about one, those
//     behind it are prepared and may run if they do not depend on it.
//   - Calls that say so run beside others; any other runs alone, after all before
//     it and before all behind it.
//   - Results are logged in model order.
type schedule struct {
	agent   *loopAgent
	at      agent.Step
	calls   []*call
	cut     bool // the output ceiling cut the answer: nothing runs
	events  chan event
	workers sync.WaitGroup

	running   int
	alone     bool // the one that runs must be alone
	committed int  // calls whose result is logged
	err       error
}

// call is one call on its way.
type call struct {
	block    llm.Block
	state    callState
	asking   bool          // somebody is asked
	touches  []tool.Access // what the call that is asked about touches
	prepared *tool.Prepared
	parallel bool
	result   tool.Result
}

type callState int

const (
	callNew callState = iota
	callPreparing
	callReady
	callRunning
	callDone
)

// event is what a worker tells the schedule.
type event struct {
	call     *call
	asking   bool // somebody is asked; more follows
	touches  []tool.Access
	prepared *tool.Prepared // set when the preparation is over
	result   *tool.Result   // set when the body is over
}

func (s *schedule) run(ctx context.Context) error {
	if len(s.calls) == 1 && !s.cut {
		s.runOne(ctx, s.calls[0])
		return s.err
	}
	for {
		if ctx.Err() == nil && s.err == nil && !s.cut {
			s.startWhatMay(ctx)
		} else {
			s.finishWhatNeverRan()
		}
		s.commit()
		if s.idle() {
			break
		}
		s.take(<-s.events)
	}
	s.workers.Wait()
	return s.err
}

// runOne runs the only call of a step, the common case, without other goroutines.
func (s *schedule) runOne(ctx context.Context, c *call) {
	if ctx.Err() != nil {
		s.finishWhatNeverRan()
	} else if tc := s.begin(ctx, c); tc != nil {
		a := s.agent
		p := a.services.tools.Prepare(ctx, a.scope, tc, c.block.Arguments)
		if ctx.Err() != nil && p.Refused == nil {
			c.state = callReady
			s.finishWhatNeverRan()
		} else {
			// A refused call has a result too, which passes what inspects results.
			c.result, c.state = a.services.tools.Execute(ctx, a.scope, p), callDone
		}
	}
	s.commit()
}

// idle reports whether no worker is left and nothing can start any more.
func (s *schedule) idle() bool {
	for _, c := range s.calls {
		if c.state == callPreparing || c.state == callRunning {
			return false
		}
		if c.state != callDone && s.err == nil {
			return false
		}
	}
	return true
}

func (s *schedule) take(e event) {
	c := e.call
	switch {
	case e.asking:
		c.asking, c.touches = true, e.touches
	case e.prepared != nil:
		c.prepared, c.asking = e.prepared, false
		// A refused call runs nothing: its result only passes what inspects results.
		c.parallel = e.prepared.Refused != nil || e.prepared.Definition.Parallel()
		c.state = callReady
	case e.result != nil:
		c.result, c.state = *e.result, callDone
		s.running--
		s.alone = false
	}
}

// startWhatMay prepares and runs whatever may be at this point.
func (s *schedule) startWhatMay(ctx context.Context) {
	s.startBodies(ctx)
	for i, c := range s.calls {
		if c.state == callNew && s.mayPrepare(i) {
			s.prepare(ctx, c)
			if c.state != callDone {
				return // those behind wait until it is decided, or somebody is asked
			}
		}
	}
}

// mayPrepare: everything before is decided or being asked about, and what must
// be alone has had its effect.
func (s *schedule) mayPrepare(i int) bool {
	for _, before := range s.calls[:i] {
		switch before.state {
		case callNew:
			return false
		case callPreparing:
			if !before.asking {
				return false
			}
		case callReady, callRunning:
			if !before.parallel {
				return false
			}
		case callDone:
		}
	}
	return true
}

func (s *schedule) startBodies(ctx context.Context) {
	for i, c := range s.calls {
		if c.state != callReady {
			continue
		}
		if !s.mayRun(i) {
			if !c.parallel {
				return // what must be alone is not overtaken once it may run
			}
			continue
		}
		c.state = callRunning
		s.running++
		s.alone = !c.parallel
		s.workers.Go(func() {
			r := s.agent.services.tools.Execute(ctx, s.agent.scope, c.prepared)
			s.events <- event{call: c, result: &r}
		})
	}
}

func (s *schedule) mayRun(i int) bool {
	c := s.calls[i]
	if s.alone || s.running >= int(s.agent.loop.parallel.Load()) || !c.parallel && s.running > 0 {
		return false
	}
	for _, before := range s.calls[:i] {
		switch before.state {
		case callNew:
			return false
		case callPreparing: // it is being asked about
			if !c.parallel || !independent(before, c) {
				return false
			}
		case callReady, callRunning:
			if !c.parallel || !before.parallel {
				return false
			}
		case callDone:
		}
	}
	return true
}

// begin logs the call. It returns nil when the log refuses it.
func (s *schedule) begin(ctx context.Context, c *call) *tool.Call {
	a := s.agent
	definition, known := a.services.tools.Lookup(a.scope, c.block.Name)
	effect := session.EffectUnknown
	if known {
		effect, c.parallel = definition.Effect(), definition.Parallel()
	}
	_, s.err = a.session.Append(session.Draft{Type: session.ToolCall, Data: session.ToolCallData{
		Turn: s.at.Turn, Step: s.at.Step, CallID: c.block.CallID, ProviderID: c.block.ProviderID,
		Name: c.block.Name, Arguments: c.block.Arguments, Effect: effect,
	}})
	if s.err != nil {
		return nil
	}
	return &tool.Call{
		ID: c.block.CallID, ProviderID: c.block.ProviderID, Name: c.block.Name, Turn: s.at.Turn, Step: s.at.Step,
		Agent: a.id, Session: a.session, Workspace: a.workspace,
		Progress: func(text string) {
			a.tell(ctx, agent.ToolProgress.Emit(ctx, a.scope, agent.ProgressNotice{Agent: a, CallID: c.block.CallID, Text: text}))
		},
	}
}

// prepare logs the call and has it decided about.
func (s *schedule) prepare(ctx context.Context, c *call) {
	tc := s.begin(ctx, c)
	if tc == nil {
		return
	}
	var told sync.Once
	tc.Asking = func(touches []tool.Access) {
		told.Do(func() { s.events <- event{call: c, asking: true, touches: touches} })
	}
	c.state = callPreparing
	s.workers.Go(func() {
		p := s.agent.services.tools.Prepare(ctx, s.agent.scope, tc, c.block.Arguments)
		s.events <- event{call: c, prepared: p}
	})
}

// finishWhatNeverRan gives results to the calls that will not run any more.
func (s *schedule) finishWhatNeverRan() {
	r := tool.Failure(tool.CodeNotStarted, "the turn was ended before this call ran; it had no effect and may be made again")
	if s.cut {
		r = tool.Failure(tool.CodeTruncated, "the output limit cut this answer, so none of its calls ran: make the call again in smaller pieces, for example by writing a large file in several parts")
	}
	for _, c := range s.calls {
		if c.state == callNew || c.state == callReady {
			c.result, c.state = r, callDone
		}
	}
}

// commit logs the results that are next in model order.
func (s *schedule) commit() {
	for s.err == nil && s.committed < len(s.calls) && s.calls[s.committed].state == callDone {
		c := s.calls[s.committed]
		s.err = s.agent.logResult(s.at, c.block.CallID, c.result)
		s.committed++
	}
}

// logResult appends the result of a call. A result that the log refuses is
// replaced by one that says so, as every call has exactly one.
func (a *loopAgent) logResult(at agent.Step, callID string, r tool.Result) error {
	data := session.ToolResultData{
		Turn: at.Turn, Step: at.Step, CallID: callID, Content: r.Content, IsError: r.IsError, Error: r.Error,
	}
	if r.Meta != nil {
		meta, err := json.Marshal(r.Meta)
		if err != nil {
			a.services.log.Warn("encode what a tool tells surfaces", "agent", a.id, "call", callID, "err", err)
		} else {
			data.Meta = meta
		}
	}
	err := a.appendResult(data)
	var large *session.TooLargeError
	if errors.As(err, &large) {
		f := tool.Failure(tool.CodeFailed, fmt.Sprintf("the call ran, but its result of %d bytes is too large to keep", large.Size))
		data.Content, data.IsError, data.Error, data.Meta = f.Content, true, f.Error, nil
		err = a.appendResult(data)
	}
	return err
}

func (a *loopAgent) appendResult(data session.ToolResultData) error {
	_, err := a.session.Append(session.Draft{
		Type: session.ToolResult, Data: data, Surface: &session.SurfaceOp{Op: session.OpAppend},
	})
	return err
}

// independent reports whether c may run before it is known what becomes of
// asked: c only reads files, and asked writes none of them and runs no command.
func independent(asked, c *call) bool {
	if c.prepared == nil || c.prepared.Definition.Effect() != session.EffectRead || len(asked.touches) == 0 {
		return false
	}
	dir := ""
	if w := c.prepared.Call.Workspace; w != nil {
		dir = w.Dir()
	}
	reads := c.prepared.Definition.Access(c.prepared.Call)
	for _, t := range asked.touches {
		switch t.Kind {
		case tool.AccessRead:
		case tool.AccessWrite:
			if slices.ContainsFunc(reads, func(r tool.Access) bool {
				return r.Kind != tool.AccessRead || overlap(dir, r.Target, t.Target)
			}) {
				return false
			}
		case tool.AccessExecute, tool.AccessNetwork:
			return false
		}
	}
	return true
}

// overlap reports whether one path is the other or lies below it.
func overlap(dir, a, b string) bool {
	a, b = absolute(dir, a), absolute(dir, b)
	return a == b || below(a, b) || below(b, a)
}

func absolute(dir, name string) string {
	if !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	return filepath.Clean(name)
}

func below(parent, path string) bool {
	return strings.HasPrefix(path, strings.TrimSuffix(parent, string(filepath.Separator))+string(filepath.Separator))
}
