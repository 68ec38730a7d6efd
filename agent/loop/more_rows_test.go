package loop_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dsh-harness/dsh/agent"
	"github.com/dsh-harness/dsh/agent/loop"
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/prompt"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/tool"
	"pgregory.net/rapid"
)

func TestS06_ResumeGoesOnWithTheSameSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		w := newWorldOn(t, dir, toolPart(echo("echo")))
		h, a := w.create(agent.Options{})
		w.model.script(calls("echo"), says("first"))
		ask(t, a, "one")
		before := a.Session().History()
		check(t, h.Dispose(t.Context()))

		again := newWorldOn(t, dir, toolPart(echo("echo")))
		_, b := again.resume(agent.Options{})
		if b.Session().ID() != "s" {
			t.Errorf("resumed as session %s", b.Session().ID())
		}
		after := b.Session().History()
		if before.Len() != after.Len() || before.Len() != 4 {
			t.Fatalf("the history has %d messages, before it had %d", after.Len(), before.Len())
		}
		ask(t, b, "two")
		sent := again.model.sent()[0]
		if len(sent.Messages) != 5 || llm.PlainText(sent.Messages[4].Content) != "two" || sent.Messages[0].ID != before.At(0).ID {
			t.Errorf("the first request after the resume has %d messages", len(sent.Messages))
		}
		wantTrace(t, only(trace(t, b.Session()), "turn/"),
			"turn/start 1", "turn/end 1 completed", "turn/start 2", "turn/end 2 completed")
	})
}

// TestS11 sends from many goroutines at once: each sender's order is kept in each
// of the two queues, and nothing is delivered twice or lost.
func TestS11_InboxKeepsOrderAndLosesNothing(t *testing.T) {
	const senders, each = 8, 25
	w := newWorld(t)
	_, a := w.create(agent.Options{})
	var wg sync.WaitGroup
	for s := range senders {
		wg.Go(func() {
			for n := range each {
				send := a.Enqueue
				if s%2 == 1 {
					send = a.Steer
				}
				if err := send(t.Context(), llm.UserText(fmt.Sprintf("%d %d", s, n))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	check(t, a.WhenIdle(t.Context()))
	next := make([]int, senders)
	for _, line := range only(trace(t, a.Session()), "user/message", "steering/message") {
		var s, n int
		_, text, _ := strings.Cut(line, " ")
		if _, err := fmt.Sscanf(text, "%d %d", &s, &n); err != nil {
			t.Fatal(err)
		}
		if n != next[s] {
			t.Fatalf("sender %d: message %d came when %d was due", s, n, next[s])
		}
		next[s]++
	}
	for s, n := range next {
		if n != each {
			t.Errorf("sender %d: %d of %d messages were delivered", s, n, each)
		}
	}
}

// TestS15 rebuilds what an agent did from its events alone.
func TestS15_EverythingObservableIsAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l timeline
		watch := listens("watch", func(s *plugin.Scope) error {
			return errors.Join(
				first(agent.Created.On(s, func(_ context.Context, a agent.Agent) error { l.note("created %s", a.ID()); return nil })),
				first(agent.Gone.On(s, func(_ context.Context, a agent.Agent) error { l.note("disposed %s", a.ID()); return nil })),
				first(agent.StatusChanged.On(s, func(_ context.Context, n agent.StatusNotice) error { l.note("status %s", n.Status); return nil })),
				first(agent.SessionStart.On(s, func(_ context.Context, n agent.StartNotice) error { l.note("start %s", n.Source); return nil })),
				first(agent.StreamChunk.On(s, func(_ context.Context, n agent.ChunkNotice) error {
					if n.Chunk.Kind == llm.ChunkDelta {
						l.note("chunk %s", n.Chunk.Text)
					}
					return nil
				})),
				first(agent.Erred.On(s, func(_ context.Context, n agent.ErrorNotice) error { l.note("error %v", n.Err); return nil })),
			)
		})
		w := newWorld(t, watch)
		h, a := w.create(agent.Options{})
		ask(t, a, "one")
		w.model.script(fails("", llm.CodeAuth))
		ask(t, a, "two")
		check(t, h.Dispose(t.Context()))
		wantTrace(t, l.all(), "created a", "start startup", "status running", "chunk ok", "status idle",
			"status running", "error scripted auth", "status idle", "status disposed", "disposed a")
	})
}

// TestS16 does what the row lists with plugins on the extension points alone.
func TestS16_CapabilitiesArePlugins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l timeline
		hook := listens("hook", func(s *plugin.Scope) error {
			return errors.Join(
				first(agent.Requesting.On(s, func(ctx context.Context, d *agent.RequestDraft, next plugin.Next[*agent.RequestDraft, *llm.Request]) (*llm.Request, error) {
					l.note("request hook")
					return next(ctx, d)
				}, plugin.At(agent.Select))),
				first(agent.StepResult.On(s, func(ctx context.Context, r *agent.Answer, next plugin.Next[*agent.Answer, *agent.Answer]) (*agent.Answer, error) {
					changed := *r
					changed.Content = slices.Clone(r.Content)
					if changed.Content[0].Type == llm.BlockText {
						changed.Content[0].Text += " (checked)"
					}
					return next(ctx, &changed)
				}, plugin.At(agent.Rework))),
			)
		})
		compaction := listens("compaction", func(s *plugin.Scope) error {
			return first(agent.Requesting.On(s, func(ctx context.Context, d *agent.RequestDraft, next plugin.Next[*agent.RequestDraft, *llm.Request]) (*llm.Request, error) {
				if h := d.Request.History; h.Len() > 3 {
					short := *d.Request
					short.History = llm.NewHistory(h.Messages()[h.Len()-1:]...)
					copied := *d
					copied.Request = &short
					d = &copied
				}
				return next(ctx, d)
			}, plugin.At(agent.Compact)))
		})
		sandbox := listens("sandbox", func(s *plugin.Scope) error {
			return first(tool.Execution.On(s, func(ctx context.Context, p *tool.Prepared, next plugin.Next[*tool.Prepared, tool.Result]) (tool.Result, error) {
				if p.Call.Name == "forbidden" {
					return tool.Failure(tool.CodeDenied, "not in this sandbox"), nil
				}
				return next(ctx, p)
			}, plugin.At(tool.Sandbox)))
		})
		goal := listens("goal", func(s *plugin.Scope) error {
			var once sync.Once
			return first(agent.TurnContinuation.On(s, func(ctx context.Context, d *agent.StepDone, next plugin.Next[*agent.StepDone, agent.Continuation]) (agent.Continuation, error) {
				c, err := next(ctx, d)
				if !c.Continue {
					once.Do(func() { c = agent.Continuation{Continue: true, Messages: []llm.Message{llm.UserText("go on")}} })
				}
				return c, err
			}, plugin.At(agent.Continue)))
		})
		persistence := listens("persistence", func(s *plugin.Scope) error {
			return errors.Join(
				first(session.Committed.On(s, func(_ context.Context, n session.EventNotice) error {
					if n.Event.Type == session.TurnEnd {
						l.note("committed the end")
					}
					return nil
				})),
				first(session.Flushing.On(s, func(context.Context, *session.Session) error { return nil })),
			)
		})
		w := newWorld(t, hook, compaction, sandbox, goal, persistence, toolPart(echo("forbidden")))
		w.model.script(calls("forbidden"), says("one"), says("two"))
		_, a := w.create(agent.Options{})
		ask(t, a, "go")
		synctest.Wait()
		wantTrace(t, only(trace(t, a.Session()), "tool/result", "assistant", "user", "turn/end"),
			"user/message go", "assistant/message forbidden()", "tool/result c1_1_0 Error: not in this sandbox",
			"assistant/message one (checked)", "user/message go on", "assistant/message two (checked)", "turn/end 1 completed")
		wantTrace(t, l.all(), "request hook", "request hook", "request hook", "committed the end")
		if last := w.model.sent()[2]; len(last.Messages) != 1 {
			t.Errorf("the compacted request has %d messages, want one", len(last.Messages))
		}
	})
}

// TestS23 is the law of scheduling: whatever is sent whenever, every message is
// consumed once and in order, turns are well nested, and the status alternates.
func TestS23_EveryMessageIsConsumedOnceAndTurnsNest(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.IntRange(0, 3), 1, 20).Draw(rt, "steps")
		var problem string
		synctest.Test(t, func(t *testing.T) { problem = schedules(t, steps) })
		if problem != "" {
			rt.Fatal(problem)
		}
	})
}

func schedules(t *testing.T, steps []int) string {
	var l timeline
	w := buildWorld(t, listens("watch", func(s *plugin.Scope) error {
		return first(agent.StatusChanged.On(s, func(_ context.Context, n agent.StatusNotice) error { l.note("%s", n.Status); return nil }))
	}))
	defer func() { check(t, w.tree.Close(context.Background())) }()
	_, a := w.create(agent.Options{})
	sent := 0
	for _, s := range steps {
		switch s {
		case 0, 1:
			check(t, a.Enqueue(t.Context(), llm.UserText(fmt.Sprint(sent))))
			sent++
		case 2:
			check(t, a.WhenIdle(t.Context()))
		case 3:
			synctest.Wait()
		}
	}
	check(t, a.WhenIdle(t.Context()))
	want, open := 0, false
	for _, line := range only(trace(t, a.Session()), "turn/", "user/message") {
		kind, text, _ := strings.Cut(line, " ")
		switch {
		case kind == "turn/start" && open, kind == "turn/end" && !open, kind == "user/message" && !open:
			return "turns do not nest: " + line
		case kind == "user/message":
			if text != fmt.Sprint(want) {
				return fmt.Sprintf("message %s came when %d was due", text, want)
			}
			want++
		default:
			open = kind == "turn/start"
		}
	}
	if want != sent {
		return fmt.Sprintf("%d of %d messages were consumed", want, sent)
	}
	for i, s := range l.all() {
		if s != [...]string{"running", "idle"}[i%2] {
			return fmt.Sprintf("the status went %q", l.all())
		}
	}
	return ""
}

func TestPrefix_StaysWhileSectionsAndToolsChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		section := "The mode is ask."
		w := newWorld(t, toolPart(echo("echo")), listens("section", func(s *plugin.Scope) error {
			return first(prompt.Sections.Add(s, "mode", prompt.Section{Text: func(context.Context, prompt.Input) (string, error) { return section, nil }}))
		}))
		_, a := w.create(agent.Options{})
		ask(t, a, "one")
		section = "The mode is full-access."
		w.mount("later", toolPart(echo("later")))
		check(t, w.tree.Settle(t.Context()))
		ask(t, a, "two")
		ask(t, a, "three")
		a.SetSelection(agent.Selection{Model: "fake/two"})
		ask(t, a, "four")
		sent := w.model.sent()
		if sent[0].Header.System != sent[2].Header.System {
			t.Error("the system text changed within a session")
		}
		var told []string
		for _, m := range sent[2].Messages {
			if text := llm.PlainText(m.Content); strings.Contains(text, "full-access") {
				told = append(told, text)
			}
		}
		if len(told) != 1 {
			t.Errorf("the change was told %d times: %q", len(told), told)
		}
		names := func(h *llm.Header) (all []string) {
			for _, s := range h.Tools {
				all = append(all, s.Name)
			}
			return all
		}
		wantTrace(t, append(names(sent[0].Header), names(sent[1].Header)...), "echo", "echo", "later")
		if h := sent[3].Header; h.Model != "two" || !strings.Contains(h.System, "full-access") {
			t.Errorf("another model begins with the system text %q", h.System)
		}
		for i := 1; i < 4; i++ {
			for j, m := range sent[i-1].Messages {
				if sent[i].Messages[j] != m {
					t.Errorf("message %d of request %d is not at the head of the next", j, i-1)
				}
			}
		}
	})
}

func TestChunks_LongAnswersAreLoggedWhileTheyStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, a := w.create(agent.Options{})
		w.model.script(func(ctx context.Context, req *llm.Request, yield func(llm.Chunk, error) bool) {
			for range 4 {
				if !yield(llm.Chunk{Kind: llm.ChunkDelta, Block: llm.BlockText, Text: "tick "}, nil) {
					return
				}
				time.Sleep(600 * time.Millisecond)
			}
			says("end")(ctx, req, yield)
		}, says("short"))
		ask(t, a, "long")
		ask(t, a, "short")
		got := only(trace(t, a.Session()), "assistant")
		wantTrace(t, got, "assistant/chunk", "assistant/chunk", "assistant/message tick tick tick tick end", "assistant/message short")
	})
}

// TestAgents_ComeBackWithTheirServices: an agent stops with a service that it needs, and goes
// on with the same session when that is back.
func TestAgents_ComeBackWithTheirServices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOn(t, t.TempDir())
		h, a := w.create(agent.Options{})
		ask(t, a, "one")
		check(t, w.nodes["llm"].Close(t.Context()))
		check(t, w.tree.Settle(t.Context()))
		if a.Status() != agent.Disposed {
			t.Fatalf("without its models the agent is %s", a.Status())
		}
		w.mount("llm", services()["llm"])
		check(t, w.tree.Settle(t.Context()))
		again := h.Agent()
		if again == a || again.Session().ID() != "s" {
			t.Fatalf("the agent is back as %v on %s", again.ID(), again.Session().ID())
		}
		ask(t, again, "two")
		wantTrace(t, only(trace(t, again.Session()), "turn/end"), "turn/end 1 completed", "turn/end 2 completed")
	})
}

// TestReconfigure_KeepsRunningTurns: a change of the loop's row neither ends a turn nor
// agents that are listed as before.
func TestReconfigure_KeepsRunningTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		check(t, w.nodes["loop"].Close(t.Context()))
		loader := plugin.NewLoader(w.root)
		apply := func(fingerprint string, c loop.Config) plugin.Report {
			prepared, err := loop.Plugin.Definition().Bind(&c)
			check(t, err)
			report, err := loader.Apply(t.Context(), []plugin.Row{{ID: "agent-loop", Plugin: "agent-loop", Prepared: prepared, Fingerprint: fingerprint}})
			check(t, err)
			check(t, w.tree.Settle(t.Context()))
			return report
		}
		apply("1", loop.Config{ParallelCalls: 1, Agents: []loop.AgentConfig{{ID: "stays"}, {ID: "goes"}}})
		var agents agent.Registry
		w.with(func(s *plugin.Scope) error { agents = agent.Service.From(s); return nil })
		stays, _ := agents.Get("stays")
		goes, _ := agents.Get("goes")
		begun := make(chan struct{})
		w.model.script(hangs("", begun))
		check(t, stays.Enqueue(t.Context(), llm.UserText("work")))
		<-begun
		report := apply("2", loop.Config{ParallelCalls: 5, Agents: []loop.AgentConfig{{ID: "stays"}, {ID: "comes"}}})
		if report.Rows[0].Outcome != plugin.RowReconfigured {
			t.Errorf("the row was %v", report.Rows[0])
		}
		if stays.Status() != agent.Running || goes.Status() != agent.Disposed {
			t.Errorf("stays is %s, goes is %s", stays.Status(), goes.Status())
		}
		if _, ok := agents.Get("comes"); !ok {
			t.Error("the new agent did not start")
		}
	})
}

func TestContinueTurn_GoesOnWhereACrashCutIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		w := newWorldOn(t, filepath.Join(dir, "1"), toolPart(echo("echo")))
		_, a := w.create(agent.Options{})
		begun := make(chan struct{})
		w.model.script(calls("echo"), hangs("", begun))
		check(t, a.Enqueue(t.Context(), llm.UserText("go")))
		<-begun
		check(t, os.CopyFS(filepath.Join(dir, "2"), os.DirFS(filepath.Join(dir, "1")))) // what a crash leaves

		again := newWorldOn(t, filepath.Join(dir, "2"), toolPart(echo("echo")))
		var agents agent.Registry
		again.with(func(s *plugin.Scope) error { agents = agent.Service.From(s); return nil })
		h, err := agents.Resume(t.Context(), again.root, agent.ResumeOptions{ResumeSessionID: "s", ContinueTurn: true})
		check(t, err)
		check(t, h.Agent().WhenIdle(t.Context()))
		wantTrace(t, only(trace(t, h.Agent().Session()), "turn", "step/start", "user", "tool/result", "assistant"),
			"turn/start 1", "user/message go", "step/start 1", "assistant/message echo()", "tool/result c1_1_0 echo ran",
			"step/start 2", "step/start 3", "assistant/message ok", "turn/end 1 completed")
	})
}

// TestMaintain_APromptThatArrivesMeanwhileIsWaitedFor: who waits for idle does not miss a
// prompt that other work holds back.
func TestMaintain_APromptThatArrivesMeanwhileIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, a := w.create(agent.Options{})
		idle := make(chan error, 1)
		check(t, a.Maintain(t.Context(), func(ctx context.Context) error {
			check(t, a.Enqueue(ctx, llm.UserText("one")))
			go func() { idle <- a.WhenIdle(context.Background()) }()
			synctest.Wait()
			if len(idle) != 0 {
				t.Error("the agent is called idle while a prompt waits")
			}
			if err := a.WhenIdle(ctx); !errors.Is(err, plugin.ErrWouldDeadlock) {
				t.Errorf("waiting from inside says %v", err)
			}
			return nil
		}))
		check(t, <-idle)
		wantTrace(t, only(trace(t, a.Session()), "turn"), "turn/start 1", "turn/end 1 completed")
	})
}
