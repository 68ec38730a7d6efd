package registry

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/dsh-harness/dsh/agent"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/tool"
)

const (
	// defaultTimeout bounds the body of a tool that names no timeout of its own.
	defaultTimeout = 15 * time.Minute
	// grace is how long a body may go on after its context ended, and shortGrace how
	// long when a person or the end of the harness waits for it: both are to be
	// over within 5 s.
	grace      = 10 * time.Second
	shortGrace = 3 * time.Second
)

func (r *registry) Execute(ctx context.Context, s *plugin.Scope, p *tool.Prepared) tool.Result {
	var executed *tool.Result // a listener that calls next again gets the same result
	result, err := tool.PostExecute.Run(ctx, s, p, func(ctx context.Context, p *tool.Prepared) (tool.Result, error) {
		if executed == nil {
			one := r.execute(ctx, s, p)
			executed = &one
		}
		return *executed, nil
	})
	if err != nil {
		// What the call returned may be what the listener was there to keep away.
		text := "its result is withheld: " + err.Error()
		if executed != nil && !executed.IsError {
			text = "the call succeeded, but " + text
		}
		result = tool.Failure(tool.CodeFailed, text)
	}
	result.Decision = p.Verdict.Decision
	return r.complete(p.Call, result)
}

// execute returns the result of a refused call, or runs the call within [tool.Execution].
func (r *registry) execute(ctx context.Context, s *plugin.Scope, p *tool.Prepared) tool.Result {
	switch {
	case p.Refused != nil:
		return *p.Refused
	case ctx.Err() != nil:
		return *notStarted()
	}
	started := false
	result, err := tool.Execution.Run(ctx, s, p, func(ctx context.Context, p *tool.Prepared) (tool.Result, error) {
		started = true
		return r.body(ctx, p), nil
	})
	switch {
	case err == nil:
		return result
	case started:
		return tool.Failure(tool.CodeFailed, fmt.Sprintf("%s ran, but its result is lost: %v", p.Call.Name, err))
	case ctx.Err() != nil:
		return *notStarted()
	default:
		return tool.Failure(tool.CodeFailed, fmt.Sprintf("%s did not run: %v", p.Call.Name, err))
	}
}

var (
	// errTimeout is the cause of a context that ended with the tool's timeout.
	errTimeout = errors.New("the tool took too long")
	// errExit is the error of a body that never returned: it called runtime.Goexit.
	errExit = errors.New("the tool ended its goroutine")
)

// run is one run of a body.
type run struct {
	name  string
	limit time.Duration // negative for none
	done  chan outcome  // has room for the one outcome
	// left tells whether the caller went on without the body, or the body ended first.
	left atomic.Int32
}

const (
	running int32 = iota
	ended
	leftBehind
)

// outcome is what a body returned.
type outcome struct {
	result tool.Result
	err    error
}

// body runs the tool and returns when that has ended, or will not.
func (r *registry) body(ctx context.Context, p *tool.Prepared) tool.Result {
	// Decoded here, where the stack has grown already.
	call, err := p.Definition.Bind(p.Call)
	if err != nil {
		return tool.Failure(tool.CodeFailed, err.Error())
	}
	b := &run{name: p.Call.Name, limit: p.Definition.Timeout(), done: make(chan outcome, 1)}
	if b.limit == 0 {
		b.limit = defaultTimeout
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if b.limit > 0 {
		defer time.AfterFunc(b.limit, func() { cancel(errTimeout) }).Stop()
	}
	err = r.scope.Go("tool "+b.name, func(context.Context) error {
		o := outcome{err: errExit}
		defer func() { r.end(b, o) }()
		o.err = r.contain("tool "+b.name, func() (err error) { o.result, err = call(ctx); return err })
		return nil
	})
	if err != nil {
		return *notStarted()
	}
	life := r.scope.Context()
	select {
	case o := <-b.done:
		return b.settle(ctx, o)
	case <-ctx.Done():
	case <-life.Done():
		cancel(context.Cause(life))
	}
	patience := time.NewTimer(graceFor(context.Cause(ctx)))
	defer patience.Stop()
	select {
	case o := <-b.done:
		return b.settle(ctx, o)
	case <-patience.C:
	}
	if !b.left.CompareAndSwap(running, leftBehind) {
		return b.settle(ctx, <-b.done)
	}
	r.scope.Log().Warn("a tool ignores that it was cancelled and is left behind", "tool", b.name, "left behind", r.strays.Add(1))
	return b.lost(ctx)
}

// end hands over what the body returned, or notes that nobody waits for it any more.
func (r *registry) end(b *run, o outcome) {
	b.done <- o
	if !b.left.CompareAndSwap(running, ended) {
		r.scope.Log().Info("a tool that was left behind has ended", "tool", b.name, "left behind", r.strays.Add(-1))
	}
}

func graceFor(cause error) time.Duration {
	if errors.Is(cause, agent.CauseUser) || errors.Is(cause, agent.CauseDisposed) {
		return shortGrace
	}
	return grace
}

// settle turns what a body returned into a result. What it returned without an
// error stands, even when its context had ended: the body alone knows what it did.
func (b *run) settle(ctx context.Context, o outcome) tool.Result {
	if o.err == nil {
		return o.result
	}
	if p := (*plugin.PanicError)(nil); errors.As(o.err, &p) {
		return tool.Failure(tool.CodePanic, fmt.Sprintf("%s failed inside, and what it has done so far is unknown: %v", b.name, p))
	}
	switch {
	case ctx.Err() == nil:
		return tool.Failure(tool.CodeFailed, o.err.Error())
	case errors.Is(context.Cause(ctx), errTimeout):
		return tool.Failure(tool.CodeTimeout, fmt.Sprintf("%s was ended after %v: %v", b.name, b.limit, o.err))
	default:
		return tool.Failure(tool.CodeAborted, fmt.Sprintf("%s was cancelled while it ran: %v", b.name, o.err))
	}
}

// lost is the result of a body that ignores the end of its context.
func (b *run) lost(ctx context.Context) tool.Result {
	why := "was cancelled"
	if errors.Is(context.Cause(ctx), errTimeout) {
		why = fmt.Sprintf("was to end after %v", b.limit)
	}
	return tool.Failure(tool.CodeUnknownResult, fmt.Sprintf(
		"%s %s and did not end; it may still be running, and what it did is unknown: look before you try again", b.name, why))
}
