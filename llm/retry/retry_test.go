package retry

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dsh-harness/dsh/agent"
	"github.com/dsh-harness/dsh/agent/loop"
	agents "github.com/dsh-harness/dsh/agent/registry"
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/llm/runtime"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/prompt/assembler"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/session/sessiontest"
	tools "github.com/dsh-harness/dsh/tool/registry"
)

// provider fails as its list says, and then answers. It keeps when it was called.
type provider struct {
	mu       sync.Mutex
	failures []*llm.Error
	calls    []time.Time
}

func (p *provider) fail(n int, e llm.Error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for range n {
		again := e
		p.failures = append(p.failures, &again)
	}
}

func (p *provider) called() []time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]time.Time(nil), p.calls...)
}

func (p *provider) Stream(context.Context, *llm.Request) llm.Stream {
	return func(yield func(llm.Chunk, error) bool) {
		p.mu.Lock()
		p.calls = append(p.calls, time.Now())
		var failure *llm.Error
		if len(p.failures) > 0 {
			failure, p.failures = p.failures[0], p.failures[1:]
		}
		p.mu.Unlock()
		switch {
		case failure != nil && failure.Code == llm.CodeEmpty: // as a provider gives it
			yield(llm.Chunk{Kind: llm.ChunkFinish, Finish: llm.FinishStop}, nil)
		case failure != nil:
			_ = yield(llm.Chunk{Block: llm.BlockText, Text: "half"}, nil) && yield(llm.Chunk{}, failure)
		default:
			_ = yield(llm.Chunk{Block: llm.BlockText, Text: "whole"}, nil) && yield(llm.Chunk{Kind: llm.ChunkFinish, Finish: llm.FinishStop}, nil)
		}
	}
}

// world is the real loop on a provider that fails, in the bubble of a test.
type world struct {
	t        *testing.T
	tree     *plugin.Tree
	retry    *plugin.Node
	provider *provider
	registry agent.Registry
}

// row is a plugin with its default config.
func row[C any](p plugin.Plugin[C]) (name string, needs []plugin.Need, start plugin.StartFunc) {
	return p.Name, p.Needs, func(ctx context.Context, s *plugin.Scope) error {
		var c C
		if p.Default != nil {
			c = p.Default()
		}
		return p.Start(ctx, s, c)
	}
}

func inWorld(t *testing.T, c Config, f func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, tree: plugin.New(nil), provider: &provider{}}
		mount := func(name string, needs []plugin.Need, start plugin.StartFunc) *plugin.Node {
			n, err := w.tree.Root().Mount(name, needs, start)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		mount("log", nil, func(_ context.Context, s *plugin.Scope) error {
			return session.PersistenceService.Provide(s, sessiontest.NewMemory())
		})
		mount(row(session.StorePlugin))
		mount(row(runtime.Plugin))
		mount("provider", nil, func(_ context.Context, s *plugin.Scope) error {
			_, err := llm.Providers.Add(s, "acme", llm.Provider{Adapter: w.provider, Models: []llm.Model{{Provider: "acme", ID: "m"}}})
			return err
		})
		w.retry = mount("retry", Plugin.Needs, func(ctx context.Context, s *plugin.Scope) error { return Plugin.Start(ctx, s, c) })
		mount(row(tools.Plugin))
		mount(row(assembler.Plugin))
		mount(row(agents.Plugin))
		mount(row(loop.Plugin))
		mount("test", []plugin.Need{agent.Service.Required(), agent.LoopService.Required()}, func(_ context.Context, s *plugin.Scope) error {
			w.registry = agent.Service.From(s)
			return nil
		})
		if err := w.tree.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		f(t, w)
		if err := w.tree.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

func (w *world) agent(name string) agent.Agent {
	w.t.Helper()
	h, err := w.registry.Create(w.t.Context(), w.tree.Root(), agent.CreateOptions{AgentID: name})
	if err != nil {
		w.t.Fatal(err)
	}
	return h.Agent()
}

// run gives the agent a prompt and returns its log once it is idle.
func (w *world) run(a agent.Agent) outcome {
	w.t.Helper()
	w.send(a)
	if err := a.WhenIdle(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	return w.log(a)
}

func (w *world) send(a agent.Agent) {
	w.t.Helper()
	if err := a.Enqueue(w.t.Context(), llm.UserText("go")); err != nil {
		w.t.Fatal(err)
	}
}

// outcome is what the log says about the model calls of a turn.
type outcome struct {
	retries []session.RetryData
	answers []string
	end     session.TurnEndData
}

func (w *world) log(a agent.Agent) (o outcome) {
	w.t.Helper()
	for e, err := range a.Session().Events(w.t.Context(), 0) {
		if err != nil {
			w.t.Fatal(err)
		}
		var into any
		var answer session.AssistantData
		var retry session.RetryData
		switch e.Type {
		case session.Retry:
			into = &retry
		case session.AssistantMessage:
			into = &answer
		case session.TurnEnd:
			into = &o.end
		default:
			continue
		}
		if err := json.Unmarshal(e.Data, into); err != nil {
			w.t.Fatal(err)
		}
		switch e.Type {
		case session.Retry:
			o.retries = append(o.retries, retry)
		case session.AssistantMessage:
			o.answers = append(o.answers, llm.PlainText(answer.Message.Content))
		}
	}
	return o
}

// gaps are the waits between the calls.
func gaps(calls []time.Time) []time.Duration {
	var out []time.Duration
	for i := 1; i < len(calls); i++ {
		out = append(out, calls[i].Sub(calls[i-1]))
	}
	return out
}

func TestTrust_A02_RateLimitedFiveTimes(t *testing.T) {
	inWorld(t, defaultConfig(), func(t *testing.T, w *world) {
		w.provider.fail(5, llm.Error{Code: llm.CodeRateLimit, Status: 429, Message: "slow down", After: 2 * time.Second})
		o := w.run(w.agent("a"))
		if len(o.answers) != 1 || o.answers[0] != "whole" || o.end.Reason != session.Completed || len(o.retries) != 5 {
			t.Errorf("%+v", o)
		}
		for i, r := range o.retries {
			if r.Attempt != i+1 || r.Failure.Code != "rate-limit" || r.Failure.Status != 429 || r.Failure.Message != "slow down" {
				t.Errorf("%+v", r)
			}
		}
		for i, gap := range gaps(w.provider.called()) {
			if gap < 2*time.Second || gap > 2400*time.Millisecond {
				t.Errorf("wait %d was %s", i+1, gap)
			}
		}
	})
}

// TestTrust_A02_CancelDuringTheWait: the retry is in the log, durable, while it
// waits; a cancel ends the wait at once.
func TestTrust_A02_CancelDuringTheWait(t *testing.T) {
	inWorld(t, defaultConfig(), func(t *testing.T, w *world) {
		w.provider.fail(1, llm.Error{Code: llm.CodeServer, Message: "down", After: 30 * time.Second})
		a := w.agent("a")
		w.send(a)
		synctest.Wait() // it waits for its time now
		o := w.log(a)
		if len(o.retries) != 1 || o.retries[0].DelayMS < 30000 || o.end.Turn != 0 {
			t.Errorf("%+v", o)
		}
		if next, durable := a.Session().Next(), a.Session().Durable(); durable != next {
			t.Errorf("%d of %d events are durable", durable, next)
		}
		begin := time.Now()
		a.Cancel(agent.CauseUser)
		if err := a.WhenIdle(t.Context()); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(begin); d > 100*time.Millisecond {
			t.Errorf("the cancel took %s", d)
		}
		if o := w.log(a); o.end.Reason != session.Aborted || len(w.provider.called()) != 1 {
			t.Errorf("%+v after %d calls", o, len(w.provider.called()))
		}
		if o := w.run(a); len(o.answers) == 0 || o.end.Reason != session.Completed {
			t.Errorf("the next prompt: %+v", o)
		}
	})
}

func TestTheWaitDoubles(t *testing.T) {
	inWorld(t, defaultConfig(), func(t *testing.T, w *world) {
		w.provider.fail(20, llm.Error{Code: llm.CodeServer, Message: "down"})
		o := w.run(w.agent("a"))
		want := []float64{0.5, 1, 2, 4, 8, 10, 10}
		got := gaps(w.provider.called())
		if len(got) != len(want) {
			t.Fatalf("waits %v", got)
		}
		for i, gap := range got {
			if s := gap.Seconds(); s < want[i]*0.89 || s > want[i]*1.11 || gap > 10*time.Second {
				t.Errorf("wait %d was %s", i+1, gap)
			}
		}
		if o.end.Reason != session.Failed || o.end.Error == nil || o.end.Error.Message != "down; given up after 8 attempts" {
			t.Errorf("%+v", o.end)
		}
	})
}

func TestWhatIsNotTriedAgain(t *testing.T) {
	short := defaultConfig()
	short.MaxTime, short.Jitter = 3*time.Second, 0
	once := defaultConfig()
	once.MaxAttempts = 1
	for name, tc := range map[string]struct {
		config  Config
		failure llm.Error
		calls   int
		want    string
	}{
		"another key is needed": {defaultConfig(), llm.Error{Code: llm.CodeAuth, Message: "no"}, 1, "no"},
		"no credit":             {defaultConfig(), llm.Error{Code: llm.CodeQuota, Message: "no"}, 1, "no"},
		"too long a wait":       {defaultConfig(), llm.Error{Code: llm.CodeRateLimit, Message: "no", After: time.Hour}, 1, "no; try again at 01:00:00, in 1h0m0s"},
		"an empty answer":       {defaultConfig(), llm.Error{Code: llm.CodeEmpty}, 2, "acme/m answered with nothing: try again, or choose another model; it was asked twice"},
		"too long in all":       {short, llm.Error{Code: llm.CodeServer, Message: "no"}, 3, "no; given up 2s after the first failure"},
		"one attempt":           {once, llm.Error{Code: llm.CodeServer, Message: "no"}, 1, "no"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, tc.config, func(t *testing.T, w *world) {
				w.provider.fail(20, tc.failure)
				o := w.run(w.agent("a"))
				if n := len(w.provider.called()); n != tc.calls || len(o.retries) != n-1 {
					t.Errorf("%d calls, %d retries", n, len(o.retries))
				}
				if o.end.Error == nil || o.end.Error.Message != tc.want || o.end.Error.Code != string(tc.failure.Code) {
					t.Errorf("%+v", o.end.Error)
				}
			})
		})
	}
}

// TestOneLimiterForAllAgents: what one agent was told holds the others, too, until
// the moment has come, and then they do not go all at once.
func TestOneLimiterForAllAgents(t *testing.T) {
	inWorld(t, defaultConfig(), func(t *testing.T, w *world) {
		w.provider.fail(1, llm.Error{Code: llm.CodeRateLimit, Message: "slow down", After: 10 * time.Second})
		begin := time.Now()
		first := w.agent("first")
		w.send(first)
		synctest.Wait()
		var others []agent.Agent
		for i := range 5 {
			time.Sleep(time.Second)
			a := w.agent(fmt.Sprint("other", i))
			w.send(a)
			others = append(others, a)
		}
		synctest.Wait()
		if n := len(w.provider.called()); n != 1 {
			t.Fatalf("%d calls while the provider wanted none", n)
		}
		for _, a := range append(others, first) {
			if err := a.WhenIdle(t.Context()); err != nil {
				t.Fatal(err)
			}
			if o := w.log(a); len(o.answers) != 1 || o.end.Reason != session.Completed {
				t.Errorf("%s: %+v", a.ID(), o)
			}
		}
		moments := map[time.Time]bool{}
		for _, at := range w.provider.called()[1:] {
			if after := at.Sub(begin); after < 10*time.Second || after > 12*time.Second {
				t.Errorf("a call after %s", after)
			}
			moments[at] = true
		}
		if len(moments) < 4 {
			t.Errorf("the calls went out at %d moments", len(moments))
		}
	})
}

func TestAHeldCallCanBeCancelled(t *testing.T) {
	inWorld(t, defaultConfig(), func(t *testing.T, w *world) {
		w.provider.fail(1, llm.Error{Code: llm.CodeRateLimit, Message: "slow down", After: 50 * time.Second})
		w.send(w.agent("first"))
		synctest.Wait()
		held := w.agent("held")
		w.send(held)
		synctest.Wait()
		begin := time.Now()
		held.Cancel(agent.CauseUser)
		if err := held.WhenIdle(t.Context()); err != nil {
			t.Fatal(err)
		}
		if o := w.log(held); time.Since(begin) > 100*time.Millisecond || o.end.Reason != session.Aborted {
			t.Errorf("%+v after %s", o.end, time.Since(begin))
		}
	})
}

// TestAHoldIsBounded: a provider that asks to wait again and again does not hold a
// call for ever.
func TestAHoldIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := defaultConfig()
		c.MaxTime = 90 * time.Second
		tree := plugin.New(nil)
		p := &policy{scope: tree.Root(), config: c, holds: map[string]time.Time{}}
		nag := &llm.Error{Code: llm.CodeRateLimit, After: time.Minute}
		p.note("acme", nag)
		time.AfterFunc(59*time.Second, func() { p.note("acme", nag) })
		begin := time.Now()
		err := p.hold(t.Context(), "acme")
		if err == nil || !strings.Contains(err.Error(), "acme: it goes on asking to wait, for 1m") || time.Since(begin) > c.MaxTime {
			t.Errorf("%v after %s", err, time.Since(begin))
		}
		if err := p.hold(t.Context(), "another"); err != nil {
			t.Error(err)
		}
		if err := tree.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// TestTheWaitEndsWithThePlugin: a row that goes while a request waits ends the wait, and
// the step fails as if there were no policy.
func TestTheWaitEndsWithThePlugin(t *testing.T) {
	inWorld(t, defaultConfig(), func(t *testing.T, w *world) {
		w.provider.fail(1, llm.Error{Code: llm.CodeServer, Message: "down", After: 30 * time.Second})
		a := w.agent("a")
		w.send(a)
		synctest.Wait()
		begin := time.Now()
		if err := w.retry.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := a.WhenIdle(t.Context()); err != nil {
			t.Fatal(err)
		}
		if o := w.log(a); time.Since(begin) > time.Second || o.end.Reason != session.Failed {
			t.Errorf("%+v after %s", o.end, time.Since(begin))
		}
	})
}

func TestStateGoesWithTheAgent(t *testing.T) {
	inWorld(t, defaultConfig(), func(t *testing.T, w *world) {
		w.provider.fail(1, llm.Error{Code: llm.CodeServer, Message: "down"})
		h, err := w.registry.Create(t.Context(), w.tree.Root(), agent.CreateOptions{AgentID: "a"})
		if err != nil {
			t.Fatal(err)
		}
		w.run(h.Agent())
		p := &policy{steps: map[string]step{"a": {turn: 1}, "b": {turn: 1}}}
		if err := p.forget(t.Context(), h.Agent()); err != nil || len(p.steps) != 1 {
			t.Errorf("%v %v", p.steps, err)
		}
	})
}

func TestConfig(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"":                  func(*Config) {},
		"maxAttempts 0":     func(c *Config) { c.MaxAttempts = 0 },
		"want maxTime":      func(c *Config) { c.MaxTime = 0 },
		"initialDelay":      func(c *Config) { c.InitialDelay = 0 },
		"maxDelay at least": func(c *Config) { c.MaxDelay = 1 },
		"maxAfter not":      func(c *Config) { c.MaxAfter = -1 },
		"jitter 2":          func(c *Config) { c.Jitter = 2 },
	} {
		c := defaultConfig()
		change(&c)
		if err := c.Validate(); (err == nil) != (name == "") || err != nil && !strings.Contains(err.Error(), name) {
			t.Errorf("%q: %v", name, err)
		}
	}
}
