package loop

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/dsh-harness/dsh/agent"
	"github.com/dsh-harness/dsh/internal/uuid7"
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/session"
)

// flushTimeout bounds the wait for the disk at the end of a turn.
const flushTimeout = 30 * time.Second

// turn is one run of the agent, from what was waiting to its end. Its context is
// its own, so whatever cancels it can never reach another turn.
type turn struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	stop   context.CancelFunc // of the time limit

	number int
	step   int  // the open or last one
	open   bool // a step is open
	goesOn bool // it was open in the log already

	// input was taken from the inbox and is not in the conversation yet.
	input []session.Pending

	maxTokens bool   // some step hit the output ceiling
	blocked   string // why the input was rejected
	budget    string // the limit that was reached
	halted    bool   // blocked or budget
}

// newTurn takes what is queued. It is called with the agent's mutex held.
func newTurn(ctx context.Context, a *loopAgent) *turn {
	t := &turn{stop: func() {}}
	if a.unfinished {
		state := a.session.State()
		t.goesOn, t.number, t.step = true, state.Turn, state.Step
		a.unfinished = false
	} else {
		a.turns++
		t.number = a.turns
		t.input = a.inbox.drainQueued()
	}
	if limit := a.options.Limits.Time; limit > 0 {
		ctx, t.stop = context.WithTimeoutCause(ctx, limit, agent.CauseTimeout)
	}
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	return t
}

// run takes a turn to its end. Whatever fails ends this turn, never the driver.
func (a *loopAgent) run(ctx context.Context, t *turn) {
	err := a.contain(func() error { return a.steps(t) })
	end, err := a.close(t, err)
	if err != nil {
		a.tell(ctx, agent.Erred.Emit(ctx, a.scope, agent.ErrorNotice{Agent: a, Turn: t.number, Step: t.step, Err: err}))
	}
	t.cancel(nil)
	t.stop()
	// The end is worth a wait although the agent may be stopping.
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	if err := a.session.Flush(bounded); err != nil {
		a.services.log.Error("make the end of a turn durable", "agent", a.id, "turn", t.number, "reason", end, "err", err)
		a.tell(ctx, agent.Erred.Emit(bounded, a.scope, agent.ErrorNotice{Agent: a, Turn: t.number, Step: t.step, Err: err}))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.inbox.requeue()
}

// contain turns a panic of the loop itself into an error whose stack is logged.
func (a *loopAgent) contain(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			p := &plugin.PanicError{Value: r, Stack: debug.Stack()}
			a.services.log.Error("panic in the loop", "agent", a.id, "err", p, "stack", string(p.Stack))
			err = p
		}
	}()
	return f()
}

// steps runs the turn's steps until one says that it is enough.
func (a *loopAgent) steps(t *turn) error {
	if !t.goesOn {
		if _, err := a.session.Append(session.Draft{Type: session.TurnStart, Data: session.TurnStartData{Turn: t.number}}); err != nil {
			return err
		}
	}
	for {
		if t.ctx.Err() != nil {
			return context.Cause(t.ctx)
		}
		more, err := a.step(t)
		if err != nil || !more {
			return err
		}
	}
}

// close logs the end of the turn. From then on no cancel reaches it: deciding the
// reason and logging it are one step.
func (a *loopAgent) close(t *turn, err error) (session.Reason, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.turn = nil
	end := t.end(err)
	var drafts []session.Draft
	if t.open {
		drafts = append(drafts, session.Draft{Type: session.StepEnd, Data: session.StepData{Turn: t.number, Step: t.step}})
	}
	drafts = append(drafts, session.Draft{Type: session.TurnEnd, Data: end})
	if end.Reason != session.Disposed {
		// What the turn took and never used is gone with it; with a disposed agent it
		// stays pending, and a resumed one takes it up.
		a.clearLocked(t.input)
	}
	if _, failed := a.session.Append(drafts...); failed != nil {
		return end.Reason, errors.Join(err, fmt.Errorf("close turn %d: %w", t.number, failed))
	}
	if end.Reason != session.Failed {
		err = nil
	}
	return end.Reason, err
}

// end decides why the turn ended. Stronger reasons come first.
func (t *turn) end(err error) session.TurnEndData {
	end := session.TurnEndData{Turn: t.number, Reason: session.Completed}
	if t.ctx.Err() != nil {
		var cause agent.Cause
		switch {
		case !errors.As(context.Cause(t.ctx), &cause), cause == agent.CauseDisposed:
			end.Reason = session.Disposed
		case cause == agent.CauseTimeout:
			end.Reason, end.Budget = session.Budget, "time"
		default:
			end.Reason, end.Cause = session.Aborted, string(cause)
		}
		return end
	}
	switch {
	case err != nil:
		end.Reason, end.Error = session.Failed, errorData(err)
	case t.maxTokens: // whatever later steps did
		end.Reason = session.MaxTokens
	case t.budget != "":
		end.Reason, end.Budget = session.Budget, t.budget
	case t.halted:
		end.Reason, end.Error = session.Blocked, &session.ErrorData{Code: "blocked", Message: t.blocked}
	}
	return end
}

// errorData is an error as the log keeps it.
func errorData(err error) *session.ErrorData {
	data := &session.ErrorData{Code: "plugin", Message: err.Error()}
	var failed *llm.Error
	var panicked *plugin.PanicError
	var storage *session.StorageError
	switch {
	case errors.As(err, &storage):
		data.Code = "storage"
	case errors.As(err, &failed):
		data.Code, data.Status = string(failed.Code), failed.Status
		data.Message = failed.Error()
	case errors.As(err, &panicked):
		data.Code = "panic"
	}
	return data
}

// step runs one step and reports whether the turn goes on.
func (a *loopAgent) step(t *turn) (more bool, err error) {
	t.goesOn = false
	entered, err := a.enter(t, t.step+1)
	if err != nil || !entered {
		return false, err
	}
	at := agent.Step{Agent: a, Turn: t.number, Step: t.step}
	answer, err := a.ask(t, at)
	if err != nil {
		return false, err
	}
	calls, err := a.answerCalls(t, at, answer)
	if err != nil {
		return false, err
	}
	waiting, err := a.takeSteering(t, at)
	if err != nil || t.halted {
		return false, err
	}
	if t.ctx.Err() != nil {
		return false, context.Cause(t.ctx)
	}
	more, err = a.continues(t, at, answer, calls, waiting)
	if err != nil {
		return false, err
	}
	_, err = a.session.Append(session.Draft{Type: session.StepEnd, Data: session.StepData{Turn: t.number, Step: t.step}})
	t.open = err != nil
	return more, err
}

// enter admits what waits and opens the step. It reports false when there is
// nothing to do or the input was rejected.
func (a *loopAgent) enter(t *turn, number int) (bool, error) {
	a.mu.Lock()
	t.input = append(t.input, a.inbox.drainSteering()...)
	a.mu.Unlock()
	at := agent.Step{Agent: a, Turn: t.number, Step: number}
	messages, err := a.admit(t, at)
	if err != nil || t.halted {
		return false, err
	}
	if number == 1 && len(messages) == 0 {
		return false, a.commit(t, func() {})
	}
	var drafts []session.Draft
	for _, m := range messages {
		if !m.Steering {
			drafts = append(drafts, inputDraft(m))
		}
	}
	drafts = append(drafts, session.Draft{Type: session.StepStart, Data: session.StepData{Turn: t.number, Step: number}})
	for _, m := range messages {
		if m.Steering {
			drafts = append(drafts, inputDraft(m))
		}
	}
	return true, a.commit(t, func() { t.step, t.open = number, true }, drafts...)
}

// admit passes the input that the turn took through agent/pre-step.
func (a *loopAgent) admit(t *turn, at agent.Step) ([]session.Pending, error) {
	input := &agent.StepInput{Step: at, Messages: t.input}
	admission, err := agent.PreStep.Run(t.ctx, a.scope, input, func(_ context.Context, in *agent.StepInput) (agent.Admission, error) {
		return agent.Admission{Messages: in.Messages}, nil
	})
	if err != nil {
		return nil, err
	}
	if t.ctx.Err() != nil {
		return nil, context.Cause(t.ctx)
	}
	if admission.Reject {
		t.halted, t.blocked = true, admission.Reason
		return nil, nil
	}
	return admission.Messages, nil
}

// commit logs what consumes the turn's input. What the drafts do not cite was
// dropped by who admitted it, and is cleared.
func (a *loopAgent) commit(t *turn, done func(), drafts ...session.Draft) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if t.ctx.Err() != nil {
		return context.Cause(t.ctx)
	}
	if len(drafts) > 0 {
		if _, err := a.session.Append(drafts...); err != nil {
			return err
		}
	}
	done()
	used := map[string]bool{}
	for _, d := range drafts {
		if in, ok := d.Data.(session.InputData); ok {
			used[in.Inbox] = true
		}
	}
	var dropped []session.Pending
	for _, p := range t.input {
		if !used[p.ID] {
			dropped = append(dropped, p)
		}
	}
	t.input = nil
	a.clearLocked(dropped)
	return nil
}

// inputDraft is the message that consumes a delivery, or one that a listener added.
func inputDraft(p session.Pending) session.Draft {
	kind := session.UserMessage
	if p.Steering {
		kind = session.SteeringMessage
	}
	id := p.Message.ID
	if id == "" {
		id = uuid7.New()
	}
	source := p.Message.Source
	if source.Kind == "" {
		source.Kind = "user"
	}
	return session.Draft{
		Type:    kind,
		Data:    session.InputData{ID: id, Source: source, Content: p.Message.Content, Inbox: p.ID},
		Surface: &session.SurfaceOp{Op: session.OpAppend},
	}
}

// contextDraft is a message that the harness or a plugin adds to the conversation.
func contextDraft(m llm.Message) session.Draft {
	if m.Source.Kind == "" {
		m.Source.Kind = "plugin"
	}
	return inputDraft(session.Pending{Message: m})
}

// takeSteering lets the input that arrived during the step join the conversation.
func (a *loopAgent) takeSteering(t *turn, at agent.Step) (took bool, err error) {
	a.mu.Lock()
	t.input = a.inbox.drainSteering()
	a.mu.Unlock()
	if len(t.input) == 0 {
		return false, nil
	}
	messages, err := a.admit(t, at)
	if err != nil || t.halted {
		return false, err
	}
	var drafts []session.Draft
	for _, m := range messages {
		m.Steering = true
		drafts = append(drafts, inputDraft(m))
		took = took || !m.Quiet
	}
	return took, a.commit(t, func() {}, drafts...)
}

// continues asks whether the turn goes on after a step.
func (a *loopAgent) continues(t *turn, at agent.Step, answer *agent.Answer, calls ran, waiting bool) (bool, error) {
	done := &agent.StepDone{
		Step: at, Answer: answer, Calls: calls.blocks, Results: calls.results, Conclude: calls.conclude, Waiting: waiting,
	}
	next, err := agent.TurnContinuation.Run(t.ctx, a.scope, done, func(_ context.Context, d *agent.StepDone) (agent.Continuation, error) {
		return agent.Continuation{Continue: d.Waiting || len(d.Calls) > 0 && !d.Conclude}, nil
	})
	if err != nil {
		return false, err
	}
	if t.ctx.Err() != nil {
		return false, context.Cause(t.ctx)
	}
	if limit := a.options.Limits.Steps; next.Continue && limit > 0 && t.step >= limit {
		t.budget = "steps"
		return false, nil
	}
	if next.Continue {
		for _, m := range next.Messages {
			if _, err := a.session.Append(contextDraft(m)); err != nil {
				return false, err
			}
		}
		return true, nil
	}
	switch next.Reason {
	case session.Budget:
		t.budget = next.Detail
	case session.Blocked:
		t.halted, t.blocked = true, next.Detail
	case session.MaxTokens:
		t.maxTokens = true
	case session.Completed, session.Failed, session.Aborted, session.Disposed, session.Interrupted:
	}
	return false, nil
}
