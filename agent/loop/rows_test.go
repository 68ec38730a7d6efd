package loop_test

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/google/go-cmp/cmp"
)

func wantTrace(t *testing.T, got []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the log differs (-want +got):\n%s", diff)
	}
}

func ask(t *testing.T, a agent.Agent, text string) {
	t.Helper()
	check(t, a.Enqueue(t.Context(), llm.UserText(text)))
	check(t, a.WhenIdle(t.Context()))
}

func TestS02_LoopWaitsForEachOfTheFiveServices(t *testing.T) {
	for missing := range services() {
		t.Run(missing, func(t *testing.T) {
			tree := plugin.New(nil)
			defer func() { check(t, tree.Close(context.Background())) }()
			root := tree.Root()
			nodes := map[string]*plugin.Node{}
			mount := func(name string, p part) {
				n, err := root.Mount(name, p.needs, p.start)
				check(t, err)
				nodes[name] = n
			}
			for name, p := range services() {
				if name != missing {
					mount(name, p)
				}
			}
			lp := of(loop.Plugin)
			lp.start = func(ctx context.Context, s *plugin.Scope) error {
				// One configured agent shows that agents go with the loop.
				c := loop.Config{ParallelCalls: 1, Agents: []loop.AgentConfig{{ID: "listed"}}}
				return loop.Plugin.Start(ctx, s, c)
			}
			mount("loop", lp)
			check(t, tree.Settle(t.Context()))
			state, _ := nodes["loop"].State()
			if state != plugin.Pending {
				t.Fatalf("without %s the loop is %s, want pending", missing, state)
			}
			if lacking := fmt.Sprint(tree.Waiting()); !strings.Contains(lacking, missing) {
				t.Errorf("what the loop waits for, %s, does not name %s", lacking, missing)
			}

			mount(missing, services()[missing])
			check(t, tree.Settle(t.Context()))
			if state, err := nodes["loop"].State(); state != plugin.Active {
				t.Fatalf("with %s the loop is %s (%v), want active", missing, state, err)
			}
			waitListed(t, tree, root, 1)

			check(t, nodes[missing].Close(t.Context()))
			check(t, tree.Settle(t.Context()))
			if state, _ := nodes["loop"].State(); state != plugin.Pending {
				t.Errorf("after %s went the loop is %s, want pending", missing, state)
			}
			if missing != "agents" {
				waitListed(t, tree, root, 0)
			}
		})
	}
}

// waitListed checks how many agents are known once the tree is quiet.
func waitListed(t *testing.T, tree *plugin.Tree, root *plugin.Scope, want int) {
	t.Helper()
	check(t, tree.Settle(t.Context()))
	n, err := root.Mount("look", []plugin.Need{agent.Service.Required()}, func(_ context.Context, s *plugin.Scope) error {
		if got := len(agent.Service.From(s).List()); got != want {
			return fmt.Errorf("%d agents are known, want %d", got, want)
		}
		return nil
	})
	check(t, err)
	check(t, n.Settle(t.Context()))
	check(t, n.Close(t.Context()))
}

func TestS03_CreateStartsOnAFreshSessionAndEndsWithTheCaller(t *testing.T) {
	w := newWorld(t)
	var agents agent.Registry
	var l agent.Loop
	w.with(func(s *plugin.Scope) error {
		agents, l = agent.Service.From(s), agent.LoopService.From(s)
		return nil
	})
	var scope *plugin.Scope
	holder, err := w.root.Mount("holder", nil, func(_ context.Context, s *plugin.Scope) error { scope = s; return nil })
	check(t, err)
	check(t, holder.Settle(t.Context()))
	one, err := l.Create(t.Context(), scope, "worker", agent.Options{})
	check(t, err)
	if id := one.Session().ID(); !strings.HasPrefix(id, "worker-session-") || len(id) != len("worker-session-")+36 {
		t.Errorf("the session is %q, want worker-session-<uuid>", id)
	}
	if got, ok := agents.Get("worker"); !ok || got != one {
		t.Error("the agent is not registered")
	}
	earlier := one.Session().ID()
	check(t, holder.Close(t.Context()))
	if one.Status() != agent.Disposed {
		t.Errorf("after its caller ended the agent is %s", one.Status())
	}
	if _, ok := agents.Get("worker"); ok {
		t.Error("after its caller ended the agent is still registered")
	}
	two, err := l.Create(t.Context(), w.root, "worker", agent.Options{})
	check(t, err)
	if two.Session().ID() == earlier {
		t.Error("two runs share a session")
	}
}

func TestS04_ConfigurationIsChecked(t *testing.T) {
	for want, c := range map[string]loop.Config{
		"":                                  {ParallelCalls: 1, Agents: []loop.AgentConfig{{ID: "a"}, {ID: "b", Model: "fake/one"}}},
		"agents[1].id: missing":             {ParallelCalls: 1, Agents: []loop.AgentConfig{{ID: "a"}, {}}},
		`agents[1].id: "a" is listed twice`: {ParallelCalls: 1, Agents: []loop.AgentConfig{{ID: "a"}, {ID: "a"}}},
		"parallelCalls: 0 is not":           {Agents: []loop.AgentConfig{{ID: "a"}}},
	} {
		err := c.Validate()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestS04_ListedAgentsStartWithTheLoop(t *testing.T) {
	w := newWorld(t)
	check(t, w.nodes["loop"].Close(t.Context()))
	w.mount("loop", part{"loop", loop.Plugin.Needs, func(ctx context.Context, s *plugin.Scope) error {
		return loop.Plugin.Start(ctx, s, loop.Config{ParallelCalls: 1, Agents: []loop.AgentConfig{
			{ID: "one", SystemPrompt: "You are one.", Model: "fake/two"}, {ID: "two"},
		}})
	}})
	check(t, w.tree.Settle(t.Context()))
	var agents agent.Registry
	w.with(func(s *plugin.Scope) error { agents = agent.Service.From(s); return nil })
	a, ok := agents.Get("one")
	if !ok || len(agents.List()) != 2 {
		t.Fatalf("%d agents started, want two", len(agents.List()))
	}
	ask(t, a, "hi")
	if h := w.model.sent()[0].Header; h.Model != "two" || !strings.Contains(h.System, "You are one.") {
		t.Errorf("the request went to %s with the system text %q", h.Model, h.System)
	}
}

func TestS05_AgentsAreReachedThroughTheRegistry(t *testing.T) {
	w := newWorld(t)
	h, a := w.create(agent.Options{})
	ask(t, a, "hi")
	if a.Session().ID() != "s" || a.ID() != "a" {
		t.Errorf("agent %s on session %s, want a on s", a.ID(), a.Session().ID())
	}
	check(t, h.Dispose(t.Context()))
	check(t, w.nodes["loop"].Close(t.Context()))
	var agents agent.Registry
	n, err := w.root.Mount("late", []plugin.Need{agent.Service.Required()}, func(_ context.Context, s *plugin.Scope) error {
		agents = agent.Service.From(s)
		return nil
	})
	check(t, err)
	check(t, n.Settle(t.Context()))
	if _, err := agents.Create(t.Context(), w.root, agent.CreateOptions{}); !errors.Is(err, agent.ErrNoFactory) {
		t.Errorf("without a loop create says %v", err)
	}
}

func TestS06_ResumeNeedsPersistence(t *testing.T) {
	w := newWorld(t)
	var agents agent.Registry
	w.with(func(s *plugin.Scope) error { agents = agent.Service.From(s); return nil })
	_, err := agents.Resume(t.Context(), w.root, agent.ResumeOptions{ResumeSessionID: "s"})
	if !errors.Is(err, session.ErrNoPersistence) {
		t.Errorf("resume without persistence says %v", err)
	}
	if len(agents.List()) != 0 {
		t.Error("a failed resume left an agent behind")
	}
}

func TestS07_AbortEndsTheStepInFlightAndKeepsTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, a := w.create(agent.Options{})
		begun := make(chan struct{})
		w.model.script(hangs("half", begun))
		check(t, a.Enqueue(t.Context(), llm.UserText("one")))
		<-begun
		check(t, a.Enqueue(t.Context(), llm.UserText("two")))
		a.Abort(agent.CauseUser)
		check(t, a.WhenIdle(t.Context()))
		wantTrace(t, only(trace(t, a.Session()), "turn", "user", "assistant", "inbox"),
			"inbox/queued one", "turn/start 1", "user/message one", "inbox/queued two", "assistant/message half", "turn/end 1 aborted user",
			"turn/start 2", "user/message two", "assistant/message ok", "turn/end 2 completed")
	})
}

func TestS07_CancelGovernsExactlyOneTurn(t *testing.T) {
	// Where the cancel strikes, and what the log says afterwards.
	windows := map[string]struct {
		strike func(s *plugin.Scope, cancel func()) error
		want   []string
	}{
		"before the turn starts": {func(s *plugin.Scope, cancel func()) error {
			return first(agent.StatusChanged.On(s, func(_ context.Context, n agent.StatusNotice) error {
				if n.Status == agent.Running {
					cancel()
				}
				return nil
			}))
		}, nil},
		"before the first step": {func(s *plugin.Scope, cancel func()) error {
			return first(agent.PreStep.On(s, func(ctx context.Context, in *agent.StepInput, next plugin.Next[*agent.StepInput, agent.Admission]) (agent.Admission, error) {
				cancel()
				return next(ctx, in)
			}, plugin.At(agent.Guard)))
		}, []string{"turn/start 1", "turn/end 1 aborted user"}},
		"before the request": {func(s *plugin.Scope, cancel func()) error {
			return first(agent.Requesting.On(s, func(ctx context.Context, d *agent.RequestDraft, next plugin.Next[*agent.RequestDraft, *llm.Request]) (*llm.Request, error) {
				cancel()
				return next(ctx, d)
			}, plugin.At(agent.Select)))
		}, []string{"turn/start 1", "user/message one", "turn/end 1 aborted user"}},
		"at the continuation gate": {func(s *plugin.Scope, cancel func()) error {
			return first(agent.TurnContinuation.On(s, func(ctx context.Context, d *agent.StepDone, next plugin.Next[*agent.StepDone, agent.Continuation]) (agent.Continuation, error) {
				cancel()
				return next(ctx, d)
			}, plugin.At(agent.Limit)))
		}, []string{"turn/start 1", "user/message one", "assistant/message echo()", "turn/end 1 aborted user"}},
	}
	for name, window := range windows {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var a agent.Agent
				var once sync.Once
				strike := listens("strike", func(s *plugin.Scope) error {
					return window.strike(s, func() {
						once.Do(func() {
							check(t, a.Enqueue(context.Background(), llm.UserText("queued")))
							check(t, a.Steer(context.Background(), llm.UserText("steering")))
							a.Cancel(agent.CauseUser)
							a.Cancel(agent.CauseParent) // the first cause wins
						})
					})
				})
				w := newWorld(t, strike, toolPart(echo("echo")))
				w.model.script(calls("echo"))
				_, a = w.create(agent.Options{})
				ask(t, a, "one")
				got := only(trace(t, a.Session()), "turn", "user", "assistant")
				wantTrace(t, got, window.want...)
				if p := a.Pending(); len(p) != 0 {
					t.Errorf("cancel left %d deliveries", len(p))
				}
				ask(t, a, "next")
				after := only(trace(t, a.Session()), "turn/end")
				if last := after[len(after)-1]; !strings.HasSuffix(last, "completed") {
					t.Errorf("the prompt after the cancelled turn ended with %q", last)
				}
			})
		})
	}
}

func TestS07_CancelWhenIdleNeverReachesTheNextPrompt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, a := w.create(agent.Options{})
		a.Cancel(agent.CauseUser)
		a.Abort(agent.CauseUser)
		ask(t, a, "one")
		wantTrace(t, only(trace(t, a.Session()), "turn"), "turn/start 1", "turn/end 1 completed")
	})
}

func TestS07_KeepInboxParksUntilTheNextWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, a := w.create(agent.Options{})
		begun := make(chan struct{})
		w.model.script(hangs("", begun))
		check(t, a.Enqueue(t.Context(), llm.UserText("one")))
		<-begun
		check(t, a.Enqueue(t.Context(), llm.UserText("two")))
		a.Cancel(agent.CauseUser, agent.KeepInbox)
		check(t, a.WhenIdle(t.Context()))
		if len(a.Pending()) != 1 {
			t.Fatalf("%d deliveries wait, want the one that was kept", len(a.Pending()))
		}
		ask(t, a, "three")
		wantTrace(t, only(trace(t, a.Session()), "turn", "user"),
			"turn/start 1", "user/message one", "turn/end 1 aborted user",
			"turn/start 2", "user/message two", "user/message three", "turn/end 2 completed")
	})
}

func TestS08_EveryDisposeReturnsAfterTheSameTeardown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, flushing := make(chan struct{}), make(chan struct{})
		var once sync.Once
		gate := listens("gate", func(s *plugin.Scope) error {
			return first(session.Flushing.On(s, func(ctx context.Context, sess *session.Session) error {
				if sess.State().Turn > 0 && !sess.State().TurnOpen {
					once.Do(func() { close(flushing) })
					<-release
				}
				return nil
			}))
		})
		w := newWorld(t, gate)
		h, a := w.create(agent.Options{})
		check(t, a.Enqueue(t.Context(), llm.UserText("one")))
		<-flushing // the last flush of the turn
		done := make(chan error, 3)
		for range 3 {
			go func() { done <- h.Dispose(context.Background()) }()
		}
		synctest.Wait()
		if len(done) != 0 {
			t.Fatal("a dispose returned before the teardown was complete")
		}
		close(release)
		for range 3 {
			check(t, <-done)
		}
		check(t, h.Dispose(t.Context()))
		var agents agent.Registry
		var sessions session.Store
		w.with(func(s *plugin.Scope) error {
			agents, sessions = agent.Service.From(s), session.Service.From(s)
			return nil
		})
		if len(agents.List()) != 0 || len(sessions.List()) != 0 {
			t.Errorf("after dispose %d agents and %d sessions are left", len(agents.List()), len(sessions.List()))
		}
	})
}

func TestS09_OrderOfATurn(t *testing.T) { orderOfATurn(t) }

func TestS10_OrderOfAStep(t *testing.T) { orderOfATurn(t) }

// orderOfATurn takes one turn of two steps apart: what is logged, and which extension points it passes.
func orderOfATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var order []string
		note := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, what)
		}
		var a agent.Agent
		observe := listens("observe", func(s *plugin.Scope) error {
			return errors.Join(
				first(agent.Requesting.On(s, func(ctx context.Context, d *agent.RequestDraft, next plugin.Next[*agent.RequestDraft, *llm.Request]) (*llm.Request, error) {
					note("agent/request")
					return next(ctx, d)
				}, plugin.At(agent.Select))),
				first(agent.StepResult.On(s, func(ctx context.Context, r *agent.Answer, next plugin.Next[*agent.Answer, *agent.Answer]) (*agent.Answer, error) {
					note("agent/step-result")
					return next(ctx, r)
				}, plugin.At(agent.Rework))),
				first(agent.TurnContinuation.On(s, func(ctx context.Context, d *agent.StepDone, next plugin.Next[*agent.StepDone, agent.Continuation]) (agent.Continuation, error) {
					note(fmt.Sprintf("agent/turn-continuation waiting=%v", d.Waiting))
					return next(ctx, d)
				}, plugin.At(agent.Limit))),
				first(prompt.Sections.Add(s, "noted", prompt.Section{Text: func(context.Context, prompt.Input) (string, error) {
					note("assemble")
					return "a section", nil
				}})),
				first(session.Flushing.On(s, func(_ context.Context, sess *session.Session) error {
					if st := sess.State(); st.Turn == 1 && !st.TurnOpen {
						note("session/flush")
					}
					return nil
				})),
			)
		})
		steer := newTool("steer", false, func(ctx context.Context, c *tool.Call) (tool.Result, error) {
			note("execute")
			return tool.Text("done"), a.Steer(ctx, llm.UserText("left"))
		})
		w := newWorld(t, observe, toolPart(steer))
		w.model.script(calls("steer"))
		_, a = w.create(agent.Options{})
		check(t, a.Maintain(t.Context(), func(ctx context.Context) error {
			check(t, a.Enqueue(ctx, llm.UserText("one")))
			return a.Enqueue(ctx, llm.UserText("two"))
		}))
		check(t, a.WhenIdle(t.Context()))
		wantTrace(t, only(trace(t, a.Session()), "turn", "step", "user", "steering", "assistant", "tool", "request/header"),
			"turn/start 1", "user/message one", "user/message two", "step/start 1", "request/header one",
			"assistant/message steer()", "tool/call c1_1_0 steer", "tool/result c1_1_0 done", "steering/message left", "step/end 1",
			"step/start 2", "assistant/message ok", "step/end 2", "turn/end 1 completed")
		mu.Lock()
		defer mu.Unlock()
		if diff := cmp.Diff([]string{
			"assemble", "agent/request", "agent/step-result", "execute", "agent/turn-continuation waiting=true",
			"assemble", "agent/request", "agent/step-result", "agent/turn-continuation waiting=false", "session/flush",
		}, order); diff != "" {
			t.Errorf("the order differs (-want +got):\n%s", diff)
		}
	})
}

func TestS09_LeftoverSteeringIsQueuedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a agent.Agent
		var once sync.Once
		late := listens("late", func(s *plugin.Scope) error {
			return first(agent.TurnContinuation.On(s, func(ctx context.Context, d *agent.StepDone, next plugin.Next[*agent.StepDone, agent.Continuation]) (agent.Continuation, error) {
				c, err := next(ctx, d)
				once.Do(func() { check(t, a.Steer(ctx, llm.UserText("late"))) })
				return c, err
			}, plugin.At(agent.Limit)))
		})
		w := newWorld(t, late)
		_, a = w.create(agent.Options{})
		ask(t, a, "one")
		wantTrace(t, only(trace(t, a.Session()), "turn", "user", "steering"),
			"turn/start 1", "user/message one", "turn/end 1 completed",
			"turn/start 2", "user/message late", "turn/end 2 completed")
	})
}

// thrower makes a plugin fail or panic at one extension point, once.
type thrower struct {
	name      string
	register  func(s *plugin.Scope, hit func() error) error
	contained bool // an observer reaches nobody
}

func throwers() []thrower {
	return []thrower{
		{"agent/pre-step", func(s *plugin.Scope, hit func() error) error {
			return first(agent.PreStep.On(s, func(ctx context.Context, p *agent.StepInput, next plugin.Next[*agent.StepInput, agent.Admission]) (agent.Admission, error) {
				if err := hit(); err != nil {
					return agent.Admission{}, err
				}
				return next(ctx, p)
			}, plugin.At(agent.Guard)))
		}, false},
		{"agent/request", func(s *plugin.Scope, hit func() error) error {
			return first(agent.Requesting.On(s, func(ctx context.Context, p *agent.RequestDraft, next plugin.Next[*agent.RequestDraft, *llm.Request]) (*llm.Request, error) {
				if err := hit(); err != nil {
					return nil, err
				}
				return next(ctx, p)
			}, plugin.At(agent.Select)))
		}, false},
		{"llm/stream", func(s *plugin.Scope, hit func() error) error {
			return first(llm.StreamCall.On(s, func(ctx context.Context, p *llm.Request, next plugin.Next[*llm.Request, llm.Stream]) (llm.Stream, error) {
				if err := hit(); err != nil {
					return nil, err
				}
				return next(ctx, p)
			}, plugin.At(llm.Observe)))
		}, false},
		{"agent/step-result", func(s *plugin.Scope, hit func() error) error {
			return first(agent.StepResult.On(s, func(ctx context.Context, p *agent.Answer, next plugin.Next[*agent.Answer, *agent.Answer]) (*agent.Answer, error) {
				if err := hit(); err != nil {
					return nil, err
				}
				return next(ctx, p)
			}, plugin.At(agent.Rework)))
		}, false},
		{"agent/turn-continuation", func(s *plugin.Scope, hit func() error) error {
			return first(agent.TurnContinuation.On(s, func(ctx context.Context, p *agent.StepDone, next plugin.Next[*agent.StepDone, agent.Continuation]) (agent.Continuation, error) {
				if err := hit(); err != nil {
					return agent.Continuation{}, err
				}
				return next(ctx, p)
			}, plugin.At(agent.Limit)))
		}, false},
		{"a section", func(s *plugin.Scope, hit func() error) error {
			return first(prompt.Sections.Add(s, "broken", prompt.Section{Text: func(context.Context, prompt.Input) (string, error) {
				return "", hit()
			}}))
		}, false},
		{"agent/status", func(s *plugin.Scope, hit func() error) error {
			return first(agent.StatusChanged.On(s, func(context.Context, agent.StatusNotice) error { return hit() }))
		}, true},
		{"agent/stream-chunk", func(s *plugin.Scope, hit func() error) error {
			return first(agent.StreamChunk.On(s, func(context.Context, agent.ChunkNotice) error { return hit() }))
		}, true},
		{"session/event", func(s *plugin.Scope, hit func() error) error {
			return first(session.Committed.On(s, func(context.Context, session.EventNotice) error { return hit() }))
		}, true},
	}
}

func TestS12_APluginThatFailsEndsTheTurnNeverTheLoop(t *testing.T) {
	for _, th := range throwers() {
		for _, how := range []string{"fails", "panics"} {
			t.Run(th.name+" "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var once sync.Once
					hit := func() (err error) {
						once.Do(func() { err = errBroken })
						if err != nil && how == "panics" {
							panic(err)
						}
						return err
					}
					w := newWorld(t, listens("broken", func(s *plugin.Scope) error { return th.register(s, hit) }))
					_, a := w.create(agent.Options{})
					ask(t, a, "one")
					ask(t, a, "two")
					ends := only(trace(t, a.Session()), "turn/end")
					want := "turn/end 1 error"
					if th.contained {
						want = "turn/end 1 completed"
					}
					if !strings.HasPrefix(ends[0], want) || ends[1] != "turn/end 2 completed" {
						t.Errorf("the turns ended %q", ends)
					}
					if a.Status() != agent.Idle {
						t.Errorf("the agent is %s", a.Status())
					}
				})
			})
		}
	}
}

func TestS13_DisposalInMidTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var statuses []agent.Status
		watch := listens("watch", func(s *plugin.Scope) error {
			return first(agent.StatusChanged.On(s, func(_ context.Context, n agent.StatusNotice) error {
				mu.Lock()
				defer mu.Unlock()
				statuses = append(statuses, n.Status)
				return nil
			}))
		})
		w := newWorld(t, watch)
		h, a := w.create(agent.Options{})
		begun := make(chan struct{})
		w.model.script(hangs("half", begun))
		check(t, a.Enqueue(t.Context(), llm.UserText("one")))
		<-begun
		check(t, h.Dispose(t.Context()))
		wantTrace(t, only(trace(t, a.Session()), "turn", "assistant"), "turn/start 1", "assistant/message half", "turn/end 1 disposed")
		mu.Lock()
		defer mu.Unlock()
		if !slices.Equal(statuses, []agent.Status{agent.Running, agent.Disposed}) {
			t.Errorf("the agent told %v", statuses)
		}
		if err := a.Enqueue(t.Context(), llm.UserText("late")); !errors.Is(err, agent.ErrDisposed) {
			t.Errorf("a delivery after the end says %v", err)
		}
	})
}

func TestS14_TheOutputCeilingSticks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, toolPart(echo("echo")))
		_, a := w.create(agent.Options{})
		w.model.script(callsThen(llm.FinishMaxTokens, "echo"), says("done"))
		ask(t, a, "one")
		got := only(trace(t, a.Session()), "turn/end", "tool")
		if len(got) != 2 || !strings.Contains(got[0], "output limit") || got[1] != "turn/end 1 max-tokens" {
			t.Errorf("the log says %q", got)
		}
		// What is stronger takes precedence.
		w.model.script(callsThen(llm.FinishMaxTokens, "echo"), fails("", llm.CodeAuth))
		ask(t, a, "two")
		begun := make(chan struct{})
		w.model.script(callsThen(llm.FinishMaxTokens, "echo"), hangs("", begun))
		check(t, a.Enqueue(t.Context(), llm.UserText("three")))
		<-begun
		a.Abort(agent.CauseUser)
		check(t, a.WhenIdle(t.Context()))
		wantTrace(t, only(trace(t, a.Session()), "turn/end"),
			"turn/end 1 max-tokens", "turn/end 2 error auth", "turn/end 3 aborted user")
	})
}

func TestLimits_StepsAndTimeEndTheTurnWithBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, toolPart(echo("echo")))
		_, a := w.create(agent.Options{Limits: agent.Limits{Steps: 2, Time: time.Minute}})
		w.model.script(calls("echo"), calls("echo"), calls("echo"))
		ask(t, a, "one")
		begun := make(chan struct{})
		w.model.script()
		w.model.mu.Lock()
		w.model.answers = []answer{hangs("", begun)}
		w.model.mu.Unlock()
		check(t, a.Enqueue(t.Context(), llm.UserText("two")))
		check(t, a.WhenIdle(t.Context())) // the clock moves to the limit by itself
		wantTrace(t, only(trace(t, a.Session()), "turn/end", "tool/result"),
			"tool/result c1_1_0 echo ran", "tool/result c1_2_0 echo ran", "turn/end 1 budget steps", "turn/end 2 budget time")
	})
}
