package registry

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/dsh-harness/dsh/internal/nearest"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/tool"
)

func (r *registry) Prepare(ctx context.Context, s *plugin.Scope, c *tool.Call, raw string) *tool.Prepared {
	if c.Progress == nil {
		c.Progress = func(string) {}
	}
	p := &tool.Prepared{Call: c}
	if refused := r.prepare(ctx, s, p, raw); refused != nil {
		refused.Decision = p.Verdict.Decision
		p.Refused = refused
	}
	return p
}

// prepare fills p in, and returns the result of a call that may not run.
func (r *registry) prepare(ctx context.Context, s *plugin.Scope, p *tool.Prepared, raw string) *tool.Result {
	if ctx.Err() != nil {
		return notStarted()
	}
	c := p.Call
	d, ok := tool.Tools.Get(s, c.Name)
	if !ok {
		return refuse(tool.CodeUnknownTool, unknownTool(s, c.Name))
	}
	p.Definition = d
	err := r.contain("schema of "+c.Name, func() (err error) { c.Arguments, err = d.Check(raw); return err })
	if invalid := (*tool.InvalidArgumentsError)(nil); errors.As(err, &invalid) {
		return refuse(tool.CodeInvalidArgs, "invalid arguments for "+c.Name+":\n- "+strings.Join(invalid.Violations, "\n- "))
	} else if err != nil {
		return refuse(tool.CodePanic, fmt.Sprintf("%s did not run: its schema is broken: %v", c.Name, err))
	}

	pending, err := decide(ctx, s, &tool.Pending{Call: c, Definition: d})
	switch {
	case ctx.Err() != nil:
		return notStarted()
	case err != nil:
		return refuse(tool.CodeFailed, fmt.Sprintf("%s did not run: nobody could decide about it: %v", c.Name, err))
	}
	p.Verdict, p.Opinions, p.Digest = pending.Verdict, pending.Opinions(), pending.DecidedOn()
	if by := pending.RewrittenBy(); by != "" && c.Session != nil {
		_, err := c.Session.Append(session.Draft{Type: session.ToolRewritten, Data: session.ToolRewrittenData{
			CallID: c.ID, Arguments: string(c.Arguments), By: by,
		}})
		if err != nil {
			return refuse(tool.CodeFailed, fmt.Sprintf("%s did not run: what %s made of its arguments could not be logged: %v", c.Name, by, err))
		}
	}
	switch p.Verdict.Decision {
	case tool.Allow, tool.Confined:
		return nil
	case tool.Ask:
		return refuse(tool.CodeDenied, "nobody could approve this call: "+p.Verdict.Reason)
	case tool.Deny:
	}
	return refuse(tool.CodeDenied, "denied: "+p.Verdict.Reason)
}

// maxAmendments bounds how often the arguments of one call may be edited.
const maxAmendments = 8

// decide runs [tool.PreExecute], again when a person edited the arguments. It returns the call as it was decided on.
func decide(ctx context.Context, s *plugin.Scope, pending *tool.Pending) (*tool.Pending, error) {
	for range maxAmendments {
		v, err := tool.PreExecute.Run(ctx, s, pending, func(_ context.Context, p *tool.Pending) (tool.Verdict, error) {
			return p.Verdict, nil
		})
		if err != nil {
			return pending, err
		}
		again, ok := pending.Again()
		if !ok {
			if v.By != "" && v != pending.Verdict {
				pending.Raise(v.Decision, v.By, v.Reason)
			}
			return pending, nil
		}
		pending = again
	}
	return pending, fmt.Errorf("its arguments were edited %d times", maxAmendments)
}

func refuse(code, text string) *tool.Result {
	result := tool.Failure(code, text)
	return &result
}

func notStarted() *tool.Result {
	return refuse(tool.CodeNotStarted, "the call was cancelled before it started; nothing was done")
}

// unknownTool tells the model which tools there are; it is never guessed which one it meant.
func unknownTool(s *plugin.Scope, name string) string {
	var names []string
	for n := range tool.Tools.Visible(s) {
		names = append(names, n)
	}
	near := ""
	if n := nearest.Name(name, names); n != "" {
		near = fmt.Sprintf("; did you mean %q?", n)
	}
	if len(names) == 0 {
		return fmt.Sprintf("there is no tool %.100q, nor any other", name)
	}
	return fmt.Sprintf("there is no tool %.100q%s\nThe tools are: %s", name, near, strings.Join(names, ", "))
}
