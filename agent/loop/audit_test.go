package loop_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/dsh-harness/dsh/agent"
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/prompt"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/session/barrier"
	"github.com/dsh-harness/dsh/tool"
	"github.com/google/go-cmp/cmp"
)

// streams yields chunks one after the other, and then what end does.
func streams(end answer, chunks ...llm.Chunk) answer {
	return func(ctx context.Context, req *llm.Request, yield func(llm.Chunk, error) bool) {
		for _, c := range chunks {
			if !yield(c, nil) {
				return
			}
		}
		end(ctx, req, yield)
	}
}

func delta(index int, kind llm.BlockType, text string) llm.Chunk {
	return llm.Chunk{Kind: llm.ChunkDelta, Index: index, Block: kind, Text: text}
}

// waits is a tool that runs until it is cancelled.
func waits(name string) tool.Definition {
	return newTool(name, false, func(ctx context.Context, _ *tool.Call) (tool.Result, error) {
		<-ctx.Done()
		return tool.Result{}, context.Cause(ctx)
	})
}

// TestS07_CancelFromAnObserver cancels from listeners of what has just happened. The model
// and the tool wait until they are cancelled, so that every window stays open.
func TestS07_CancelFromAnObserver(t *testing.T) {
	for name, window := range map[string]struct {
		on   string // the event whose first observer cancels
		want []string
	}{
		"a step began":       {session.StepStart, []string{"turn/start 1", "user/message one", "step/start 1", "step/end 1", "turn/end 1 aborted user"}},
		"the model answered": {session.AssistantMessage, []string{"turn/start 1", "user/message one", "step/start 1", "assistant/message wait()", "step/end 1", "turn/end 1 aborted user"}},
		"a call began":       {session.ToolCall, []string{"turn/start 1", "user/message one", "step/start 1", "assistant/message wait()", "step/end 1", "turn/end 1 aborted user"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var a agent.Agent
				var once sync.Once
				w := newWorld(t, toolPart(waits("wait")), listens("strike", func(s *plugin.Scope) error {
					return first(session.Committed.On(s, func(_ context.Context, n session.EventNotice) error {
						if n.Event.Type == window.on {
							once.Do(func() { a.Cancel(agent.CauseUser) })
						}
						return nil
					}))
				}))
				if window.on == session.StepStart {
					w.model.script(hangs("", make(chan struct{})))
				} else {
					w.model.script(calls("wait"))
				}
				_, a = w.create(agent.Options{})
				ask(t, a, "one")
				got := trace(t, a.Session())
				wantTrace(t, only(got, "turn", "user", "step", "assistant"), window.want...)
				if results := only(got, "tool/result"); window.on != session.StepStart && len(results) != 1 {
					t.Errorf("the call has the results %q, want one", results)
				}
				// Observers are told a moment later: the request may have left by then, or never.
				if n := len(w.model.sent()); n > 1 || n == 0 && window.on != session.StepStart {
					t.Errorf("the model was asked %d times", n)
				}
				w.model.mu.Lock()
				w.model.answers = nil
				w.model.mu.Unlock()
				ask(t, a, "next")
				sent := w.model.sent()
				check(t, unpaired(sent[len(sent)-1].Messages))
				ends := only(trace(t, a.Session()), "turn/end")
				wantTrace(t, ends[1:], "turn/end 2 completed")
			})
		})
	}
}

// TestS07_CancelRightAfterAWakingPrompt: whether the driver has begun or not, the prompt never reaches the
// model and the mark does not reach the next one.
func TestS07_CancelRightAfterAWakingPrompt(t *testing.T) {
	for range 50 {
		w := newWorld(t)
		_, a := w.create(agent.Options{})
		w.model.script(hangs("", make(chan struct{})))
		check(t, a.Enqueue(t.Context(), llm.UserText("one")))
		a.Cancel(agent.CauseUser)
		check(t, a.WhenIdle(t.Context()))
		w.model.mu.Lock()
		w.model.answers = nil
		w.model.mu.Unlock()
		ask(t, a, "two")
		got := only(trace(t, a.Session()), "turn/end", "user", "assistant")
		last := len(got) - 1
		wantTrace(t, got[last-2:], "user/message two", "assistant/message ok", got[last])
		if !strings.HasSuffix(got[last], "completed") {
			t.Errorf("the prompt after it ended %q", got[last])
		}
		for _, line := range got[:last-2] {
			if line != "user/message one" && line != "turn/end 1 aborted user" {
				t.Errorf("the cancelled prompt left %q", line)
			}
		}
	}
}

// TestS07_TheFirstCauseWins, against a later cancel and against the teardown, both ways round.
func TestS07_TheFirstCauseWins(t *testing.T) {
	for want, strike := range map[string]func(h agent.Handle, dispose func()){
		"turn/end 1 aborted user": func(h agent.Handle, dispose func()) {
			h.Agent().Abort(agent.CauseUser)
			h.Agent().Cancel(agent.CauseParent)
			dispose()
		},
		"turn/end 1 disposed": func(h agent.Handle, dispose func()) {
			dispose()
			h.Agent().Cancel(agent.CauseUser)
		},
	} {
		t.Run(want, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				begun, release := make(chan struct{}), make(chan struct{})
				w.model.script(func(_ context.Context, _ *llm.Request, yield func(llm.Chunk, error) bool) {
					close(begun)
					<-release // it does not hear the cancel
					yield(llm.Chunk{}, &llm.Error{Code: llm.CodeTransport, Message: "gone"})
				})
				h, a := w.create(agent.Options{})
				check(t, a.Enqueue(t.Context(), llm.UserText("one")))
				<-begun
				disposed := make(chan error, 1)
				strike(h, func() {
					go func() { disposed <- h.Dispose(context.Background()) }()
					synctest.Wait()
				})
				close(release)
				check(t, <-disposed)
				wantTrace(t, only(trace(t, a.Session()), "turn/end"), want)
			})
		})
	}
}

func TestWhenIdle_WaitersFromBeforeTheCancelReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, a := w.create(agent.Options{})
		begun := make(chan struct{})
		w.model.script(hangs("", begun))
		check(t, a.Enqueue(t.Context(), llm.UserText("one")))
		<-begun
		done := make(chan error, 3)
		for range 3 {
			go func() { done <- a.WhenIdle(context.Background()) }()
		}
		synctest.Wait()
		if len(done) != 0 {
			t.Fatal("a waiter returned while the agent was running")
		}
		a.Cancel(agent.CauseUser)
		for range 3 {
			check(t, <-done)
		}
		if a.Status() != agent.Idle {
			t.Errorf("the agent is %s", a.Status())
		}
	})
}

// TestInterrupted_KeepsTextAndReasoningAndDropsHalfCalls
func TestInterrupted_KeepsTextAndReasoningAndDropsHalfCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, toolPart(echo("echo")))
		_, a := w.create(agent.Options{})
		begun := make(chan struct{})
		w.model.script(streams(hangs("", begun),
			delta(0, llm.BlockReasoning, "because"), delta(1, llm.BlockText, "half an"),
			llm.Chunk{Kind: llm.ChunkDelta, Index: 2, Block: llm.BlockToolCall, ProviderID: "p", Name: "echo", Text: `{"a":`}))
		check(t, a.Enqueue(t.Context(), llm.UserText("one")))
		<-begun
		a.Cancel(agent.CauseUser)
		check(t, a.WhenIdle(t.Context()))
		wantTrace(t, only(trace(t, a.Session()), "assistant", "tool", "turn/end"), "assistant/message half an", "turn/end 1 aborted user")
		ask(t, a, "two")
		sent := w.model.sent()[1].Messages
		kept := sent[1].Content
		if len(kept) != 2 || kept[0].Type != llm.BlockReasoning || kept[0].Text != "because" || kept[1].Text != "half an" {
			t.Errorf("what was kept is %+v", kept)
		}
		check(t, unpaired(sent))
	})
}

// TestRetry_AFailedAttemptIsNotFinalised: what it streamed stays in the log as it was seen, and is no message.
func TestRetry_AFailedAttemptIsNotFinalised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, retriesOnce())
		_, a := w.create(agent.Options{})
		long := strings.Repeat("lost ", 8<<10)
		w.model.script(streams(fails("", llm.CodeTransport), delta(0, llm.BlockText, long)), says("good"))
		ask(t, a, "one")
		got := only(trace(t, a.Session()), "assistant", "llm", "turn/end")
		var kinds []string
		for _, line := range got {
			kind, _, _ := strings.Cut(line, " ")
			kinds = append(kinds, kind)
		}
		wantTrace(t, kinds, session.AssistantChunk, session.Retry, session.AssistantMessage, session.TurnEnd)
		ask(t, a, "two")
		for _, m := range w.model.sent()[2].Messages {
			if strings.Contains(llm.PlainText(m.Content), "lost") {
				t.Error("the failed attempt is in the next request")
			}
		}
	})
}

// admits makes a listener of agent/pre-step that changes what the first step of turn 1 takes.
func admits(change func(in *agent.StepInput) agent.Admission) part {
	return listens("admits", func(s *plugin.Scope) error {
		return first(agent.PreStep.On(s, func(ctx context.Context, in *agent.StepInput, next plugin.Next[*agent.StepInput, agent.Admission]) (agent.Admission, error) {
			if in.Turn == 1 && in.Step.Step == 1 {
				return change(in), nil
			}
			return next(ctx, in)
		}, plugin.At(agent.Guard)))
	})
}

func TestPreStep_UnchangedRewrittenExtendedRejected(t *testing.T) {
	for name, c := range map[string]struct {
		change func(in *agent.StepInput) agent.Admission
		want   []string
	}{
		"unchanged": {func(in *agent.StepInput) agent.Admission { return agent.Admission{Messages: in.Messages} },
			[]string{"user/message one", "user/message two", "turn/end 1 completed"}},
		"rewritten": {func(in *agent.StepInput) agent.Admission {
			m := append([]session.Pending(nil), in.Messages...)
			m[0].Message.Content = []llm.Block{llm.Text("another")}
			return agent.Admission{Messages: m}
		}, []string{"user/message another", "user/message two", "turn/end 1 completed"}},
		"extended": {func(in *agent.StepInput) agent.Admission {
			return agent.Admission{Messages: append(in.Messages[:2:2], session.Pending{Message: llm.UserText("more")})}
		}, []string{"user/message one", "user/message two", "user/message more", "turn/end 1 completed"}},
		"one of two is dropped": {func(in *agent.StepInput) agent.Admission { return agent.Admission{Messages: in.Messages[1:]} },
			[]string{"inbox/cleared 1", "user/message two", "turn/end 1 completed"}},
		"all are dropped": {func(*agent.StepInput) agent.Admission { return agent.Admission{} },
			[]string{"inbox/cleared 2", "turn/end 1 completed"}},
		"rejected": {func(*agent.StepInput) agent.Admission { return agent.Admission{Reject: true, Reason: "not today"} },
			[]string{"inbox/cleared 2", "turn/end 1 blocked blocked"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, admits(c.change))
				_, a := w.create(agent.Options{})
				check(t, a.Maintain(t.Context(), func(ctx context.Context) error {
					return errors.Join(a.Enqueue(ctx, llm.UserText("one")), a.Enqueue(ctx, llm.UserText("two")))
				}))
				check(t, a.WhenIdle(t.Context()))
				got := only(trace(t, a.Session()), "user", "turn/end", "inbox/cleared")
				if diff := cmp.Diff(sorted(c.want), sorted(got)); diff != "" {
					t.Errorf("the log differs (-want +got):\n%s", diff)
				}
				if len(a.Pending()) != 0 {
					t.Errorf("%d deliveries are left", len(a.Pending()))
				}
				ask(t, a, "later")
				got = only(trace(t, a.Session()), "user", "turn/end")
				wantTrace(t, got[len(got)-2:], "user/message later", "turn/end 2 completed")
			})
		})
	}
}

// sorted brings the events that drop input to the front: only the order of the others is a promise.
func sorted(lines []string) []string {
	return append(only(lines, "inbox/"), only(lines, "user", "turn")...)
}

// TestPreStep_ARejectionKeepsLaterInput: what is delivered while a prompt is being rejected runs in its own turn.
func TestPreStep_ARejectionKeepsLaterInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a agent.Agent
		w := newWorld(t, admits(func(*agent.StepInput) agent.Admission {
			check(t, a.Enqueue(context.Background(), llm.UserText("later")))
			return agent.Admission{Reject: true, Reason: "not today"}
		}))
		_, a = w.create(agent.Options{})
		ask(t, a, "one")
		wantTrace(t, only(trace(t, a.Session()), "user", "turn/end"),
			"turn/end 1 blocked blocked", "user/message later", "turn/end 2 completed")
	})
}

// TestPreStep_ATurnThatEndsThereHasNoStep: a cancel and a disposal while pre-step runs, and while the
// system prompt is put together.
func TestPreStep_ATurnThatEndsThereHasNoStep(t *testing.T) {
	places := map[string]func(s *plugin.Scope, begun chan struct{}) error{
		"in pre-step": func(s *plugin.Scope, begun chan struct{}) error {
			return first(agent.PreStep.On(s, func(ctx context.Context, _ *agent.StepInput, _ plugin.Next[*agent.StepInput, agent.Admission]) (agent.Admission, error) {
				close(begun)
				<-ctx.Done()
				return agent.Admission{}, context.Cause(ctx)
			}, plugin.At(agent.Guard)))
		},
		"in the assembly": func(s *plugin.Scope, begun chan struct{}) error {
			return first(prompt.Sections.Add(s, "slow", prompt.Section{Text: func(ctx context.Context, _ prompt.Input) (string, error) {
				close(begun)
				<-ctx.Done()
				return "", context.Cause(ctx)
			}}))
		},
	}
	for place, register := range places {
		for how, want := range map[string]string{"cancel": "turn/end 1 aborted user", "dispose": "turn/end 1 disposed"} {
			t.Run(how+" "+place, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					begun := make(chan struct{})
					w := newWorld(t, listens("slow", func(s *plugin.Scope) error { return register(s, begun) }))
					h, a := w.create(agent.Options{})
					check(t, a.Enqueue(t.Context(), llm.UserText("one")))
					<-begun
					if how == "cancel" {
						a.Cancel(agent.CauseUser)
						check(t, a.WhenIdle(t.Context()))
					} else {
						check(t, h.Dispose(t.Context()))
					}
					got := only(trace(t, a.Session()), "turn", "step", "assistant", "request")
					wanted := []string{"turn/start 1", want}
					if place == "in the assembly" { // the step has begun by then, and is closed
						wanted = []string{"turn/start 1", "step/start 1", "step/end 1", want}
					}
					wantTrace(t, got, wanted...)
					if n := len(w.model.sent()); n != 0 {
						t.Errorf("the model was asked %d times", n)
					}
				})
			})
		}
	}
}

// TestCalls_ContextComesAfterAllResults of its step, in the order of the calls.
func TestCalls_ContextComesAfterAllResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		adds := func(name string, parallel bool) tool.Definition {
			return newTool(name, parallel, func(context.Context, *tool.Call) (tool.Result, error) {
				r := tool.Text(name)
				r.Context = []llm.Message{llm.UserText("about " + name)}
				return r, nil
			})
		}
		w := newWorld(t, toolPart(adds("read", true), adds("write", false)))
		w.model.script(calls("read", "write", "read"))
		_, a := w.create(agent.Options{})
		ask(t, a, "go")
		wantTrace(t, only(trace(t, a.Session()), "tool/result", "user/message about"),
			"tool/result c1_1_0 read", "tool/result c1_1_1 write", "tool/result c1_1_2 read",
			"user/message about read", "user/message about write", "user/message about read")
		check(t, unpaired(w.model.sent()[1].Messages))
	})
}

func TestSessionStart_WhatIsInjectedIsInTheFirstRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, listens("greets", func(s *plugin.Scope) error {
			return first(agent.SessionStart.On(s, func(ctx context.Context, n agent.StartNotice) error {
				return n.Agent.Inject(ctx, llm.UserText("the sky is blue"))
			}))
		}))
		_, a := w.create(agent.Options{})
		if a.Status() != agent.Idle {
			t.Errorf("context woke the agent: it is %s", a.Status())
		}
		ask(t, a, "hello")
		var texts []string
		for _, m := range w.model.sent()[0].Messages {
			texts = append(texts, llm.PlainText(m.Content))
		}
		if all := strings.Join(texts, "|"); !strings.Contains(all, "the sky is blue") || !strings.Contains(all, "hello") {
			t.Errorf("the first request says %q", all)
		}
	})
}

// TestListeners_DisappearWithTheirPlugin, those of every event of the loop at once.
func TestListeners_DisappearWithTheirPlugin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hits atomic.Int64
		w := newWorld(t, toolPart(echo("echo")), points(func(string) { hits.Add(1) }))
		_, a := w.create(agent.Options{})
		w.model.script(calls("echo"))
		ask(t, a, "one")
		if hits.Load() < 30 {
			t.Fatalf("only %d listeners were called", hits.Load())
		}
		check(t, w.nodes["points"].Close(t.Context()))
		before := hits.Load()
		w.model.script(calls("echo"))
		ask(t, a, "two")
		if after := hits.Load(); after != before {
			t.Errorf("%d calls reached a plugin that is gone", after-before)
		}
	})
}

// observers break at every event that only tells.
func observers(broken func() error) part {
	return listens("observers", func(s *plugin.Scope) error {
		return errors.Join(
			first(agent.Created.On(s, func(context.Context, agent.Agent) error { return broken() })),
			first(agent.Gone.On(s, func(context.Context, agent.Agent) error { return broken() })),
			first(agent.StatusChanged.On(s, func(context.Context, agent.StatusNotice) error { return broken() })),
			first(agent.Erred.On(s, func(context.Context, agent.ErrorNotice) error { return broken() })),
			first(agent.InboxChanged.On(s, func(context.Context, agent.InboxNotice) error { return broken() })),
			first(agent.StreamChunk.On(s, func(context.Context, agent.ChunkNotice) error { return broken() })),
			first(agent.SessionStart.On(s, func(context.Context, agent.StartNotice) error { return broken() })),
			first(agent.ToolProgress.On(s, func(context.Context, agent.ProgressNotice) error { return broken() })),
			first(session.Created.On(s, func(context.Context, *session.Session) error { return broken() })),
			first(session.Gone.On(s, func(context.Context, *session.Session) error { return broken() })),
			first(session.Committed.On(s, func(context.Context, session.EventNotice) error { return broken() })),
		)
	})
}

// TestS12_ObserversThatThrowReachNobody: with observers that fail or panic at every boundary an agent
// does exactly what it does without them.
func TestS12_ObserversThatThrowReachNobody(t *testing.T) {
	life := func(t *testing.T, more ...part) (got []string) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, append(more, toolPart(newTool("tells", true, func(_ context.Context, c *tool.Call) (tool.Result, error) {
				c.Progress("half way")
				return tool.Text("done"), nil
			})))...)
			h, a := w.create(agent.Options{})
			w.model.script(calls("tells", "tells"), says("one"), fails("", llm.CodeAuth), says("three"))
			ask(t, a, "one")
			ask(t, a, "two")
			ask(t, a, "three")
			check(t, a.Inject(t.Context(), llm.UserText("by the way")))
			check(t, h.Dispose(t.Context()))
			got = trace(t, a.Session())
		})
		return got
	}
	want := life(t)
	for how, broken := range map[string]func() error{
		"fail":  func() error { return errBroken },
		"panic": func() error { panic(errBroken) },
	} {
		t.Run(how, func(t *testing.T) {
			var hits atomic.Int64
			wantTrace(t, life(t, observers(func() error { hits.Add(1); return broken() })), want...)
			if hits.Load() < 30 {
				t.Errorf("only %d observers were called", hits.Load())
			}
		})
	}
}

// TestS12_AToolListenerThatFailsIsAResult: around a call a listener that fails or panics becomes the call's
// result, and the turn goes on.
func TestS12_AToolListenerThatFailsIsAResult(t *testing.T) {
	places := map[string]func(s *plugin.Scope, broken func() error) error{
		"pre-execute": func(s *plugin.Scope, broken func() error) error {
			return first(tool.PreExecute.On(s, func(context.Context, *tool.Pending, plugin.Next[*tool.Pending, tool.Verdict]) (tool.Verdict, error) {
				return tool.Verdict{}, broken()
			}, plugin.At(tool.Decide)))
		},
		"execute": func(s *plugin.Scope, broken func() error) error {
			return first(tool.Execution.On(s, func(context.Context, *tool.Prepared, plugin.Next[*tool.Prepared, tool.Result]) (tool.Result, error) {
				return tool.Result{}, broken()
			}, plugin.At(tool.Timeout)))
		},
		"post-execute": func(s *plugin.Scope, broken func() error) error {
			return first(tool.PostExecute.On(s, func(context.Context, *tool.Prepared, plugin.Next[*tool.Prepared, tool.Result]) (tool.Result, error) {
				return tool.Result{}, broken()
			}, plugin.At(tool.Inspect)))
		},
	}
	for place, register := range places {
		for how, broken := range map[string]func() error{
			"fails":  func() error { return errBroken },
			"panics": func() error { panic(errBroken) },
		} {
			t.Run(place+" "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, toolPart(echo("echo")), listens("broken", func(s *plugin.Scope) error { return register(s, broken) }))
					_, a := w.create(agent.Options{})
					w.model.script(calls("echo", "echo"))
					ask(t, a, "one")
					got := only(trace(t, a.Session()), "tool/result", "turn/end")
					if len(got) != 3 || got[2] != "turn/end 1 completed" {
						t.Fatalf("the log says %q", got)
					}
					for i, line := range got[:2] {
						if !strings.HasPrefix(line, fmt.Sprintf("tool/result c1_1_%d Error", i)) {
							t.Errorf("result %d is %q", i, line)
						}
					}
				})
			})
		}
	}
}

// TestFork_TurnNumbersGoOn in a copy, and the copy asks with what was said before.
func TestFork_TurnNumbersGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOn(t, t.TempDir())
		_, a := w.create(agent.Options{})
		ask(t, a, "one")
		ask(t, a, "two")
		check(t, a.Inject(t.Context(), llm.UserText("for the original only")))
		var agents agent.Registry
		var sessions session.Store
		w.with(func(s *plugin.Scope) error {
			agents, sessions = agent.Service.From(s), session.Service.From(s)
			return nil
		})
		header, err := sessions.Fork(t.Context(), session.ForkOptions{ID: "s"})
		check(t, err)
		h, err := agents.Resume(t.Context(), w.root, agent.ResumeOptions{AgentID: "copy", ResumeSessionID: header.ID})
		check(t, err)
		ask(t, h.Agent(), "three")
		got := only(trace(t, h.Agent().Session()), "turn/end")
		wantTrace(t, got[len(got)-1:], "turn/end 3 completed")
		sent := w.model.sent()[2].Messages
		if len(sent) != 5 || llm.PlainText(sent[0].Content) != "one" || llm.PlainText(sent[4].Content) != "three" {
			t.Errorf("the copy asked with %d messages", len(sent))
		}
		ask(t, a, "three here")
		got = only(trace(t, a.Session()), "turn/end")
		wantTrace(t, got[len(got)-1:], "turn/end 3 completed")
	})
}

// TestS14_DisposalTakesPrecedence over the output ceiling, which the other row does not show.
func TestS14_DisposalTakesPrecedence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, toolPart(echo("echo")))
		h, a := w.create(agent.Options{})
		begun := make(chan struct{})
		w.model.script(callsThen(llm.FinishMaxTokens, "echo"), hangs("", begun))
		check(t, a.Enqueue(t.Context(), llm.UserText("one")))
		<-begun
		check(t, h.Dispose(t.Context()))
		wantTrace(t, only(trace(t, a.Session()), "turn/end"), "turn/end 1 disposed")
	})
}

// TestS16_SubagentsAreMadeByThePlugin that has the factory: a tool that asks another agent and gives back what it said.
func TestS16_SubagentsAreMadeByThePlugin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		delegates := part{"subagents", []plugin.Need{agent.Service.Required()}, func(_ context.Context, s *plugin.Scope) error {
			agents := agent.Service.From(s)
			return tool.Add(s, newTool("delegate", false, func(ctx context.Context, c *tool.Call) (tool.Result, error) {
				h, err := agents.Create(ctx, s, agent.CreateOptions{
					AgentID: "child", Session: session.PrepareOptions{Parent: c.Session.ID(), Depth: c.Session.Header().Depth + 1},
				})
				if err != nil {
					return tool.Result{}, err
				}
				child := h.Agent()
				err = errors.Join(child.Enqueue(ctx, llm.UserText("look")), child.WhenIdle(ctx))
				said := child.Session().History()
				text := llm.PlainText(said.At(said.Len() - 1).Content)
				return tool.Text("the child says " + text), errors.Join(err, h.Dispose(ctx))
			}))
		}}
		w := newWorld(t, delegates)
		w.model.script(calls("delegate"), says("found it"), says("thanks"))
		_, a := w.create(agent.Options{})
		ask(t, a, "go")
		wantTrace(t, only(trace(t, a.Session()), "tool/result", "assistant", "turn/end"),
			"assistant/message delegate()", "tool/result c1_1_0 the child says found it", "assistant/message thanks", "turn/end 1 completed")
		waitListed(t, w.tree, w.root, 1)
	})
}

// TestS23_PromptsOneAfterTheOther: each sequential prompt is a turn of its own.
func TestS23_PromptsOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, a := w.create(agent.Options{})
		var want []string
		for n := 1; n <= 20; n++ {
			ask(t, a, fmt.Sprint("p", n))
			want = append(want, fmt.Sprint("turn/start ", n), fmt.Sprint("user/message p", n), fmt.Sprintf("turn/end %d completed", n))
		}
		wantTrace(t, only(trace(t, a.Session()), "turn", "user"), want...)
	})
}

// TestPrefix_AChangeAndItsReturnAreBothTold: a section that changes and changes back is told twice, and
// neither a resume nor another model brings back what was superseded or tells twice what is known.
func TestPrefix_AChangeAndItsReturnAreBothTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, section := t.TempDir(), "The mode is ask."
		sections := listens("section", func(s *plugin.Scope) error {
			return first(prompt.Sections.Add(s, "mode", prompt.Section{Text: func(context.Context, prompt.Input) (string, error) { return section, nil }}))
		})
		w := newWorldOn(t, dir, sections)
		told := func() (modes []string) {
			sent := w.model.sent()
			for _, m := range sent[len(sent)-1].Messages {
				if _, mode, ok := strings.Cut(llm.PlainText(m.Content), "The mode is "); ok {
					modes = append(modes, mode)
				}
			}
			return modes
		}
		h, a := w.create(agent.Options{})
		for _, section = range []string{"The mode is ask.", "The mode is full-access.", "The mode is full-access.", "The mode is ask.", "The mode is ask."} {
			ask(t, a, "go")
		}
		wantTrace(t, told(), "full-access.", "ask.")
		check(t, h.Dispose(t.Context()))

		w = newWorldOn(t, dir, sections)
		_, a = w.resume(agent.Options{})
		ask(t, a, "go")
		wantTrace(t, told(), "full-access.", "ask.")
		section = "The mode is full-access."
		ask(t, a, "go")
		wantTrace(t, told(), "full-access.", "ask.", "full-access.")
		section = "The mode is ask."
		a.SetSelection(agent.Selection{Model: "fake/two"})
		ask(t, a, "go")
		wantTrace(t, told(), "full-access.", "ask.", "full-access.", "ask.")
	})
}

// onDisk is how many events of that type the log of the session "s" holds on disk.
func onDisk(t testing.TB, dir, kind string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "s", "log.jsonl"))
	check(t, err)
	return strings.Count(string(text), `"type":"`+kind+`"`)
}

// TestBarrier_TheCauseIsOnDiskBeforeItsEffect: when a request is sent its prompt and header are, when a body
// runs its call and the answer are.
func TestBarrier_TheCauseIsOnDiskBeforeItsEffect(t *testing.T) {
	dir := t.TempDir()
	var bodies, requests atomic.Int64
	body := newTool("body", false, func(context.Context, *tool.Call) (tool.Result, error) {
		n := int(bodies.Add(1))
		if calls, answers := onDisk(t, dir, session.ToolCall), onDisk(t, dir, session.AssistantMessage); calls != n || answers != n {
			t.Errorf("body %d runs with %d calls and %d answers on disk", n, calls, answers)
		}
		return tool.Text("done"), nil
	})
	w := newWorldOn(t, dir, toolPart(body))
	checked := func(then answer) answer {
		return func(ctx context.Context, req *llm.Request, yield func(llm.Chunk, error) bool) {
			n := int(requests.Add(1))
			steps, results := onDisk(t, dir, session.StepStart), onDisk(t, dir, session.ToolResult)
			if steps != n || results != n-1 || onDisk(t, dir, session.UserMessage) != 1 || onDisk(t, dir, session.RequestHeader) != 1 {
				t.Errorf("request %d is sent with %d steps and %d results on disk", n, steps, results)
			}
			then(ctx, req, yield)
		}
	}
	w.model.script(checked(calls("body")), checked(calls("body")), checked(says("done")))
	_, a := w.create(agent.Options{})
	ask(t, a, "go")
	if bodies.Load() != 2 || requests.Load() != 3 {
		t.Errorf("%d bodies and %d requests, want 2 and 3", bodies.Load(), requests.Load())
	}
}

// TestBarrier_NothingGoesOutWhenTheLogCannotBeWritten: neither the request nor the body, and the next turn is as any.
func TestBarrier_NothingGoesOutWhenTheLogCannotBeWritten(t *testing.T) {
	for name, c := range map[string]struct {
		arm      func(full *atomic.Bool) part
		requests int
		want     []string
	}{
		"before the request": {func(full *atomic.Bool) part {
			return admits(func(in *agent.StepInput) agent.Admission {
				full.Store(true)
				return agent.Admission{Messages: in.Messages}
			})
		}, 0, []string{"turn/end 1 error unknown"}},
		"before the body": {func(full *atomic.Bool) part {
			return listens("arms", func(s *plugin.Scope) error {
				return first(tool.PreExecute.On(s, func(ctx context.Context, p *tool.Pending, next plugin.Next[*tool.Pending, tool.Verdict]) (tool.Verdict, error) {
					full.Store(true)
					return next(ctx, p)
				}, plugin.At(tool.Decide)))
			})
		}, 2, []string{"tool/result c1_1_0 Error: the call did not run, as the log of the session cannot be written: disk on session/flush: broken on purpose", "turn/end 1 completed"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ran, full atomic.Bool
				w := newWorld(t, of(barrier.Plugin), c.arm(&full), listens("disk", func(s *plugin.Scope) error {
					return first(session.Flushing.On(s, func(context.Context, *session.Session) error {
						if full.Swap(false) {
							return errBroken
						}
						return nil
					}))
				}), toolPart(newTool("body", false, func(context.Context, *tool.Call) (tool.Result, error) {
					ran.Store(true)
					return tool.Text("done"), nil
				})))
				w.model.script(calls("body"), says("done"))
				_, a := w.create(agent.Options{})
				ask(t, a, "one")
				if ran.Load() {
					t.Error("the body ran")
				}
				if n := len(w.model.sent()); n != c.requests {
					t.Errorf("%d requests were sent, want %d", n, c.requests)
				}
				wantTrace(t, only(trace(t, a.Session()), "tool/result", "turn/end"), c.want...)
				w.model.mu.Lock()
				w.model.answers = nil
				w.model.mu.Unlock()
				ask(t, a, "two")
				end := only(trace(t, a.Session()), "turn/end")
				wantTrace(t, end[1:], "turn/end 2 completed")
			})
		})
	}
}

// TestS14_TheCeilingOutlivesALimit: of what may end a turn only disposal, abort and error come before it.
func TestS14_TheCeilingOutlivesALimit(t *testing.T) {
	for name, c := range map[string]struct {
		limits agent.Limits
		more   []part
	}{
		"a limit of steps": {agent.Limits{Steps: 2}, nil},
		"a plugin's budget": {agent.Limits{}, []part{listens("budget", func(s *plugin.Scope) error {
			return first(agent.TurnContinuation.On(s, func(ctx context.Context, d *agent.StepDone, next plugin.Next[*agent.StepDone, agent.Continuation]) (agent.Continuation, error) {
				if d.Step.Step == 2 {
					return agent.Continuation{Reason: session.Budget, Detail: "cost"}, nil
				}
				return next(ctx, d)
			}, plugin.At(agent.Limit)))
		})}},
		"a plugin's block": {agent.Limits{}, []part{listens("block", func(s *plugin.Scope) error {
			return first(agent.PreStep.On(s, func(ctx context.Context, in *agent.StepInput, next plugin.Next[*agent.StepInput, agent.Admission]) (agent.Admission, error) {
				if in.Step.Step == 2 {
					return agent.Admission{Reject: true, Reason: "enough"}, nil
				}
				return next(ctx, in)
			}, plugin.At(agent.Guard)))
		})}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, append(c.more, toolPart(echo("echo")))...)
				_, a := w.create(agent.Options{Limits: c.limits})
				w.model.script(callsThen(llm.FinishMaxTokens, "echo"), calls("echo"), calls("echo"))
				ask(t, a, "one")
				wantTrace(t, only(trace(t, a.Session()), "turn/end"), "turn/end 1 max-tokens")
			})
		})
	}
}

// TestS08_AToolMayDisposeItsOwnAgent: it is told that it cannot wait for that, and the agent ends.
func TestS08_AToolMayDisposeItsOwnAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h agent.Handle
		said := make(chan error, 1)
		w := newWorld(t, toolPart(newTool("leave", false, func(ctx context.Context, _ *tool.Call) (tool.Result, error) {
			said <- h.Dispose(ctx)
			return tool.Text("bye"), nil
		})))
		w.model.script(calls("leave"))
		var a agent.Agent
		h, a = w.create(agent.Options{})
		check(t, a.Enqueue(t.Context(), llm.UserText("go")))
		if err := <-said; !errors.Is(err, plugin.ErrWouldDeadlock) {
			t.Errorf("dispose from inside says %v", err)
		}
		synctest.Wait()
		if a.Status() != agent.Disposed {
			t.Errorf("the agent is %s", a.Status())
		}
		check(t, h.Dispose(t.Context()))
		check(t, unpaired(a.Session().History().Messages()))
	})
}

// TestModels_WithoutOneTheTurnFailsAndTheNextGoesOn
func TestModels_WithoutOneTheTurnFailsAndTheNextGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, a := w.create(agent.Options{Model: "nobody/none"})
		ask(t, a, "one")
		a.SetSelection(agent.Selection{Model: "fake/one"})
		ask(t, a, "two")
		wantTrace(t, only(trace(t, a.Session()), "turn/end"), "turn/end 1 error unknown-provider", "turn/end 2 completed")
	})
}

// TestS02_WithoutTheRegistryTheAgentsStop, which the other rows of TestS02 cannot look up any more.
func TestS02_WithoutTheRegistryTheAgentsStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, a := w.create(agent.Options{})
		begun := make(chan struct{})
		w.model.script(hangs("", begun))
		check(t, a.Enqueue(t.Context(), llm.UserText("one")))
		<-begun
		check(t, w.nodes["agents"].Close(t.Context()))
		check(t, w.tree.Settle(t.Context()))
		if state, _ := w.nodes["loop"].State(); state != plugin.Pending || a.Status() != agent.Disposed {
			t.Errorf("the loop is %s, the agent %s", state, a.Status())
		}
		wantTrace(t, only(trace(t, a.Session()), "turn/end"), "turn/end 1 disposed")
	})
}
