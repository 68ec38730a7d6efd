package loop_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dsh-harness/dsh/agent"
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/tool"
)

// timeline notes what bodies do, in order.
type timeline struct {
	mu    sync.Mutex
	lines []string
}

func (l *timeline) note(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

func (l *timeline) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines)
}

// timed is a tool that notes its begin and end, and takes a while in between.
func (l *timeline) timed(name string, parallel bool, d time.Duration) tool.Definition {
	return newTool(name, parallel, func(ctx context.Context, c *tool.Call) (tool.Result, error) {
		l.note("%s begins", c.ID)
		select {
		case <-time.After(d):
		case <-ctx.Done():
			l.note("%s cancelled", c.ID)
			return tool.Result{}, context.Cause(ctx)
		}
		l.note("%s ends", c.ID)
		return tool.Text(name), nil
	})
}

func TestCalls_SiblingsOverlapAndResultsAreInModelOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l timeline
		w := newWorld(t, toolPart(l.timed("slow", true, 3*time.Second), l.timed("fast", true, time.Second)))
		w.model.script(calls("slow", "fast", "fast"))
		_, a := w.create(agent.Options{})
		began := time.Now()
		ask(t, a, "go")
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("three calls side by side took %v, want 3s", took)
		}
		wantTrace(t, only(trace(t, a.Session()), "tool/result"), "tool/result c1_1_0 slow", "tool/result c1_1_1 fast", "tool/result c1_1_2 fast")
	})
}

func TestCalls_ABarrierRunsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l timeline
		w := newWorld(t, toolPart(l.timed("read", true, time.Second), l.timed("write", false, time.Second)))
		w.model.script(calls("read", "write", "read"))
		_, a := w.create(agent.Options{})
		ask(t, a, "go")
		wantTrace(t, l.all(), "c1_1_0 begins", "c1_1_0 ends", "c1_1_1 begins", "c1_1_1 ends", "c1_1_2 begins", "c1_1_2 ends")
	})
}

func TestCalls_NoMoreThanTheCapRunAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l timeline
		w := newWorld(t, toolPart(l.timed("read", true, time.Second)))
		w.model.script(calls(slices.Repeat([]string{"read"}, 25)...))
		_, a := w.create(agent.Options{})
		began := time.Now()
		ask(t, a, "go")
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("25 calls of a second, ten at once, took %v, want 3s", took)
		}
	})
}

// TestCalls_PolicyRunsInModelOrder: decisions are made one after the other, also when bodies overlap.
func TestCalls_PolicyRunsInModelOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l timeline
		policy := listens("policy", func(s *plugin.Scope) error {
			return first(tool.PreExecute.On(s, func(ctx context.Context, p *tool.Pending, next plugin.Next[*tool.Pending, tool.Verdict]) (tool.Verdict, error) {
				l.note("%s decided", p.Call.ID)
				time.Sleep(time.Second) // fake time
				return next(ctx, p)
			}, plugin.At(tool.Decide)))
		})
		w := newWorld(t, policy, toolPart(echo("echo")))
		w.model.script(calls("echo", "echo", "echo"))
		_, a := w.create(agent.Options{})
		ask(t, a, "go")
		wantTrace(t, l.all(), "c1_1_0 decided", "c1_1_1 decided", "c1_1_2 decided")
	})
}

func TestCalls_AWaitingApprovalDoesNotHoldBackReadsOfOtherFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l timeline
		approve := make(chan struct{})
		type path struct {
			Path string `json:"path"`
		}
		access := func(kind tool.AccessKind) func(c *tool.Call) []tool.Access {
			return func(c *tool.Call) []tool.Access {
				_, name, _ := strings.Cut(string(c.Arguments), `"path":"`)
				name, _, _ = strings.Cut(name, `"`)
				return []tool.Access{{Kind: kind, Target: name}}
			}
		}
		body := func(_ context.Context, c *tool.Call, _ path) (tool.Result, error) {
			l.note("%s runs", c.ID)
			return tool.Text("done"), nil
		}
		read := tool.New(tool.Spec{Name: "read", Description: "r", Effect: session.EffectRead, Parallel: true, Access: access(tool.AccessRead)}, body)
		write := tool.New(tool.Spec{Name: "write", Description: "w", Effect: session.EffectWrite, Access: access(tool.AccessWrite)}, body)
		person := listens("person", func(s *plugin.Scope) error {
			return first(tool.PreExecute.On(s, func(ctx context.Context, p *tool.Pending, next plugin.Next[*tool.Pending, tool.Verdict]) (tool.Verdict, error) {
				if p.Call.Name != "write" {
					return next(ctx, p)
				}
				p.Call.Asking(p.Definition.Access(p.Call))
				select {
				case <-approve:
				case <-ctx.Done():
					return tool.Verdict{}, context.Cause(ctx)
				}
				return tool.Verdict{By: "person"}, nil
			}, plugin.At(tool.Answer)))
		})
		w := newWorld(t, person, toolPart(read, write))
		w.model.script(calls(`read {"path":"x"}`, `write {"path":"a"}`, `read {"path":"b"}`, `read {"path":"a"}`))
		_, a := w.create(agent.Options{})
		check(t, a.Enqueue(t.Context(), llm.UserText("go")))
		synctest.Wait()
		wantTrace(t, slices.Sorted(slices.Values(l.all())), "c1_1_0 runs", "c1_1_2 runs") // not the read of what is to be written
		close(approve)
		check(t, a.WhenIdle(t.Context()))
		wantTrace(t, l.all()[2:], "c1_1_1 runs", "c1_1_3 runs")
		wantTrace(t, only(trace(t, a.Session()), "tool/result"),
			"tool/result c1_1_0 done", "tool/result c1_1_1 done", "tool/result c1_1_2 done", "tool/result c1_1_3 done")
	})
}

func TestCalls_AbortAnswersEveryCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l timeline
		w := newWorld(t, toolPart(l.timed("read", true, time.Minute), l.timed("write", false, time.Minute)))
		w.model.script(calls("read", "read", "write", "read"))
		_, a := w.create(agent.Options{})
		check(t, a.Enqueue(t.Context(), llm.UserText("go")))
		synctest.Wait()
		a.Abort(agent.CauseUser)
		check(t, a.WhenIdle(t.Context()))
		cancelled := only(l.all(), "c1_1_0 c", "c1_1_1 c")
		if len(l.all()) != 4 || len(cancelled) != 2 {
			t.Errorf("the bodies did %q, want two that begin and are cancelled", l.all())
		}
		got := only(trace(t, a.Session()), "tool/result", "turn/end")
		if len(got) != 5 || got[4] != "turn/end 1 aborted user" {
			t.Fatalf("the log says %q", got)
		}
		for i, line := range got[:4] {
			if !strings.HasPrefix(line, fmt.Sprintf("tool/result c1_1_%d ", i)) {
				t.Errorf("result %d is %q", i, line)
			}
		}
	})
}

func TestTrust_A12_OneCallPanicsOneHangsOneFloods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		panics := newTool("panics", true, func(context.Context, *tool.Call) (tool.Result, error) { panic("inside") })
		hangs := newTool("hangs", true, func(ctx context.Context, _ *tool.Call) (tool.Result, error) {
			<-ctx.Done()
			return tool.Result{}, context.Cause(ctx)
		})
		floods := newTool("floods", true, func(context.Context, *tool.Call) (tool.Result, error) {
			return tool.Text(strings.Repeat("flood", 4<<20)), nil
		})
		w := newWorld(t, toolPart(panics, hangs, floods, echo("echo")))
		w.model.script(calls("panics", "hangs", "floods", "echo"))
		_, a := w.create(agent.Options{})
		ask(t, a, "go")
		got := only(trace(t, a.Session()), "tool/result", "turn/end")
		if len(got) != 5 {
			t.Fatalf("the log says %d results and ends", len(got))
		}
		for i, want := range []string{"panic", "took too long", "", "echo ran", "turn/end 1 completed"} {
			if !strings.Contains(got[i], want) || len(got[i]) > 16<<20 {
				t.Errorf("result %d, of %d bytes, does not say %q: %.100s", i, len(got[i]), want, got[i])
			}
		}
	})
}

func TestCase_o_his_07_AToolDisappearsWhileItsCallsAreUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gone *plugin.Node
		vanish := newTool("vanish", false, func(ctx context.Context, _ *tool.Call) (tool.Result, error) {
			return tool.Text("went"), gone.Close(ctx)
		})
		w := newWorld(t, toolPart(vanish, newTool("panics", true, func(context.Context, *tool.Call) (tool.Result, error) { panic("inside") })))
		w.mount("guest", toolPart(echo("guest")))
		check(t, w.tree.Settle(t.Context()))
		gone = w.nodes["guest"]
		w.model.script(calls("vanish", "guest", "unheard_of"), calls("panics", "vanish"))
		_, a := w.create(agent.Options{})
		ask(t, a, "go")
		got := only(trace(t, a.Session()), "tool/result", "turn/end")
		if len(got) != 6 || got[5] != "turn/end 1 completed" {
			t.Fatalf("the log says %q", got)
		}
		if !strings.Contains(got[1], "guest") || !strings.HasPrefix(got[1], "tool/result c1_1_1 Error") {
			t.Errorf("the call of the tool that went says %q", got[1])
		}
		requests := w.model.sent()
		tools := requests[len(requests)-1].Header.Tools
		if !slices.ContainsFunc(tools, func(s llm.ToolSchema) bool { return s.Name == "guest" }) {
			t.Error("a removed tool left the prefix")
		}
	})
}
