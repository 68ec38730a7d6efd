package dsh

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/dsh-harness/dsh/agent"
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/session"
)

// StopTimeout bounds how long [Agent.Ask] waits for the end of a turn whose context has ended.
const StopTimeout = 4 * time.Second

// Agent is a live agent with one session. Besides [Agent.Ask] it has everything that the loop's
// agent has: steering, cancelling, its session, its own scope for listeners. It lasts until it is
// closed, or until a reload restarts a service that agents need: then its methods fail with
// [agent.ErrDisposed], and [Harness.Open] can resume its session.
type Agent struct {
	agent.Agent

	harness *Harness
	owned   *Harness // that Close ends too
	handle  agent.Handle
	record  *record
	turn    chan struct{} // holds a token while somebody asks
}

// Ask gives prompt to the agent and waits until it is idle again. Calls take turns. The result
// tells what has happened since the last call, so the first one of a resumed agent includes what a crash had
// left waiting. The error is nil for a completed turn and a [*TurnError] for any other.
//
// When ctx ends, the turn is cancelled and waiting prompts are dropped, and Ask returns once that is logged, or
// after [StopTimeout]. The context's cause may be an [agent.Cause]: it is logged as such,
// and [agent.CauseDisposed] ends the agent.
func (a *Agent) Ask(ctx context.Context, prompt string) (Result, error) {
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return Result{SessionID: a.Session().ID()}, fmt.Errorf("wait for another prompt to be answered: %w", context.Cause(ctx))
	}
	began := time.Now()
	err := a.Enqueue(ctx, llm.UserText(prompt))
	if err == nil {
		err = a.WhenIdle(ctx)
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), StopTimeout)
	defer cancel()
	if ctx.Err() != nil {
		err = a.stop(bounded, context.Cause(ctx))
	}
	result, ended := a.sum(bounded)
	result.Duration = time.Since(began)
	if ended == nil && result.Reason == "" && (err == nil || ctx.Err() != nil) {
		result.Reason = withdrawn(context.Cause(ctx))
		err = errors.Join(errors.New("the prompt was withdrawn before its turn began"), context.Cause(ctx))
	}
	return result, errors.Join(err, ended)
}

// withdrawn is the reason of a prompt that was cancelled before its turn began.
func withdrawn(cause error) session.Reason {
	var c agent.Cause
	if errors.As(cause, &c) && c == agent.CauseDisposed {
		return session.Disposed
	}
	return session.Aborted
}

// sum returns what the log tells of what has happened. What could not be saved is not told.
func (a *Agent) sum(ctx context.Context) (Result, error) {
	err := a.Session().Flush(ctx)
	if err == nil {
		err = a.record.reach(ctx, a.Session().Next())
	}
	result, ended := a.record.take(a.Session().History())
	if err != nil {
		result.Reason, result.Error = session.Failed, &session.ErrorData{Code: "storage", Message: err.Error()}
		return result, err
	}
	return result, ended
}

// stop cancels what runs and waits for its end.
func (a *Agent) stop(ctx context.Context, cause error) error {
	c := agent.CauseUser
	errors.As(cause, &c)
	if c == agent.CauseDisposed {
		return a.handle.Dispose(ctx)
	}
	a.Cancel(c)
	return a.WhenIdle(ctx)
}

// Close ends the agent: its turn, its listeners, and its session, which can be resumed later if it is
// stored. Every call returns only when that is complete, or when ctx ends.
func (a *Agent) Close(ctx context.Context) error {
	err := a.handle.Dispose(ctx)
	// What the agent logged at its end has been seen when its session has been read to the end.
	bounded, cancel := context.WithTimeout(ctx, StopTimeout)
	defer cancel()
	err = errors.Join(err, a.record.reach(bounded, math.MaxInt64))
	a.harness.forget(a.record)
	if a.owned != nil {
		err = errors.Join(err, a.owned.Close(ctx))
	}
	return err
}
