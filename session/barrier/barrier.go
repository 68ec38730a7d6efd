// Package barrier keeps the promise that a cause is on disk before its effect: the
// session's log is made durable before each request to a model and before each
// body of a tool. When that fails, the request is not sent and the body does not run.
//
// Its listeners run on the goroutines of the agents. The row has no configuration, and
// compositions mark it required:
//
//	# cordis.yml
//	- id: session-barrier
//	  plugin: session-barrier
//	  required: true
package barrier

import (
	"context"
	"fmt"

	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/tool"
)

// Plugin is the barrier.
var Plugin = plugin.Plugin[struct{}]{
	Name:  "session-barrier",
	Doc:   "Makes the log durable before each request to a model and before each tool.",
	Needs: []plugin.Need{session.Service.Required()},
	Start: start,
}

func start(_ context.Context, s *plugin.Scope, _ struct{}) error {
	_, err := llm.StreamCall.On(s, barrier{session.Service.From(s)}.request, plugin.At(llm.Barrier))
	if err != nil {
		return err
	}
	_, err = tool.Execution.On(s, body, plugin.At(tool.Barrier))
	return err
}

type barrier struct{ sessions session.Store }

// request flushes the log of the conversation that asks. A request that belongs to no
// live session has nothing to make durable.
func (b barrier) request(ctx context.Context, req *llm.Request, next plugin.Next[*llm.Request, llm.Stream]) (llm.Stream, error) {
	if s, live := b.sessions.Get(req.Session); live {
		if err := s.Flush(ctx); err != nil {
			return nil, fmt.Errorf("make the log of session %s durable before the request: %w", req.Session, err)
		}
	}
	return next(ctx, req)
}

// body flushes the log of the session that calls.
func body(ctx context.Context, p *tool.Prepared, next plugin.Next[*tool.Prepared, tool.Result]) (tool.Result, error) {
	if s := p.Call.Session; s != nil {
		if err := s.Flush(ctx); err != nil {
			return tool.Failure("storage", fmt.Sprintf("the call did not run, as the log of the session cannot be written: %v", err)), nil
		}
	}
	return next(ctx, p)
}
