package loop_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/dsh-harness/dsh/agent"
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/tool"
)

// points calls hit at every place of a turn where the loop waits for somebody.
func points(hit func(where string)) part {
	return listens("points", func(s *plugin.Scope) error {
		return errors.Join(
			first(agent.PreStep.On(s, passing[*agent.StepInput, agent.Admission]("pre-step", hit), plugin.At(agent.Guard))),
			first(agent.Requesting.On(s, passing[*agent.RequestDraft, *llm.Request]("request", hit), plugin.At(agent.Select))),
			first(llm.StreamCall.On(s, passing[*llm.Request, llm.Stream]("stream", hit), plugin.At(llm.Observe))),
			first(agent.StepResult.On(s, passing[*agent.Answer, *agent.Answer]("step-result", hit), plugin.At(agent.Rework))),
			first(tool.PreExecute.On(s, passing[*tool.Pending, tool.Verdict]("pre-execute", hit), plugin.At(tool.Decide))),
			first(tool.Execution.On(s, passing[*tool.Prepared, tool.Result]("execute", hit), plugin.At(tool.Timeout))),
			first(tool.PostExecute.On(s, passing[*tool.Prepared, tool.Result]("post-execute", hit), plugin.At(tool.Inspect))),
			first(agent.TurnContinuation.On(s, passing[*agent.StepDone, agent.Continuation]("turn-continuation", hit), plugin.At(agent.Limit))),
			first(agent.StreamChunk.On(s, func(context.Context, agent.ChunkNotice) error { hit("chunk"); return nil })),
			first(agent.StatusChanged.On(s, func(context.Context, agent.StatusNotice) error { hit("status"); return nil })),
			first(session.Flushing.On(s, func(context.Context, *session.Session) error { hit("flush"); return nil })),
		)
	})
}

// passing is a listener that hits on the way in and on the way out.
func passing[P, R any](where string, hit func(string)) plugin.Middleware[P, R] {
	return func(ctx context.Context, p P, next plugin.Next[P, R]) (R, error) {
		hit("before " + where)
		r, err := next(ctx, p)
		hit("after " + where)
		return r, err
	}
}

// unpaired says what a strict provider would refuse about the order of calls and results.
func unpaired(messages []*llm.Message) error {
	var open []string
	for i, m := range messages {
		switch m.Role {
		case llm.RoleTool:
			if len(open) == 0 || open[0] != m.CallID {
				return fmt.Errorf("message %d answers %s, due are %q", i, m.CallID, open)
			}
			open = open[1:]
		case llm.RoleUser, llm.RoleAssistant:
			if len(open) > 0 {
				return fmt.Errorf("message %d comes while %q have no result", i, open)
			}
		}
		for _, c := range llm.ToolCalls(m.Content) {
			open = append(open, c.CallID)
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("%q have no result", open)
	}
	return nil
}

// TestTrust_A1 interrupts a turn of five tools at its first point, at its second, and so
// on until a run finishes without having been interrupted.
func TestTrust_A01_InterruptAtEveryPoint(t *testing.T) {
	for how, interrupt := range map[string]func(h agent.Handle){
		"abort":   func(h agent.Handle) { h.Agent().Abort(agent.CauseUser) },
		"cancel":  func(h agent.Handle) { h.Agent().Cancel(agent.CauseUser) },
		"dispose": func(h agent.Handle) { go func() { _ = h.Dispose(context.Background()) }() },
	} {
		t.Run(how, func(t *testing.T) {
			for k := 1; ; k++ {
				struck := ""
				synctest.Test(t, func(t *testing.T) { struck = interruptAt(t, k, how == "dispose", interrupt) })
				if struck == "" {
					t.Logf("%d points", k-1)
					if k < 40 {
						t.Errorf("only %d points were reached, want 40 or more", k-1)
					}
					return
				}
			}
		})
	}
}

func interruptAt(t *testing.T, k int, disposes bool, interrupt func(agent.Handle)) (struck string) {
	dir := t.TempDir()
	var handle agent.Handle
	seen := make(chan int, 1)
	seen <- 0
	hit := func(where string) {
		n := <-seen + 1
		seen <- n
		if n == k && handle != nil {
			struck = where
			interrupt(handle)
		}
	}
	parts := func() []part {
		return []part{toolPart(echo("read"), newTool("write", false, func(context.Context, *tool.Call) (tool.Result, error) {
			hit("body")
			return tool.Text("written"), nil
		}))}
	}
	w := newWorldOn(t, dir, append(parts(), points(hit))...)
	w.model.script(calls("read", "read", "write"), calls("write", "read"), says("done"))
	var a agent.Agent
	handle, a = w.create(agent.Options{})
	if err := a.Enqueue(t.Context(), llm.UserText("go")); err != nil && !disposes {
		t.Fatal(err)
	}
	check(t, a.WhenIdle(t.Context()))
	synctest.Wait()
	if struck == "" {
		check(t, handle.Dispose(t.Context()))
		return ""
	}
	if disposes {
		check(t, handle.Dispose(t.Context()))
		again := newWorldOn(t, dir, parts()...)
		_, a = again.resume(agent.Options{})
		check(t, a.WhenIdle(t.Context()))
		w = again
	}
	w.model.mu.Lock()
	w.model.answers = nil
	w.model.mu.Unlock()
	ask(t, a, "and now?")
	sent := w.model.sent()
	if err := unpaired(sent[len(sent)-1].Messages); err != nil {
		t.Errorf("struck %s (point %d): %v", struck, k, err)
	}
	ends := only(trace(t, a.Session()), "turn/end")
	if last := ends[len(ends)-1]; last != fmt.Sprintf("turn/end %d completed", len(ends)) {
		t.Errorf("struck %s (point %d): the next turn ended %q", struck, k, last)
	}
	return struck
}
