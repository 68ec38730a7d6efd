package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/dsh-harness/dsh/agent"
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a tree with the registry and some tools.
type bench struct {
	t     testing.TB
	tree  *plugin.Tree
	scope *plugin.Scope // where calls come from
	tool.Registry
}

func setUp(t testing.TB, tools ...tool.Definition) *bench {
	b := &bench{t: t, tree: plugin.New(slog.New(slog.DiscardHandler))}
	b.mount("tools", func(s *plugin.Scope) error { return Plugin.Start(s.Context(), s, struct{}{}) })
	b.mount("some-tools", func(s *plugin.Scope) error { return tool.Add(s, tools...) })
	b.scope = b.mount("agent", func(s *plugin.Scope) error {
		b.Registry = tool.Service.From(s)
		return nil
	}, tool.Service.Required())
	return b
}

func (b *bench) close() {
	b.t.Helper()
	if err := b.tree.Close(context.Background()); err != nil {
		b.t.Errorf("close: %v", err)
	}
}

// mount starts a plugin and returns its scope.
func (b *bench) mount(name string, f func(*plugin.Scope) error, needs ...plugin.Need) (scope *plugin.Scope) {
	b.t.Helper()
	n, err := b.tree.Root().Mount(name, needs, func(_ context.Context, s *plugin.Scope) error {
		scope = s
		return f(s)
	})
	if err == nil {
		err = n.Settle(context.Background())
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return scope
}

// run prepares and executes a call.
func (b *bench) run(ctx context.Context, name, arguments string) tool.Result {
	return b.Execute(ctx, b.scope, b.Prepare(ctx, b.scope, &tool.Call{ID: "c1_1_0", Name: name}, arguments))
}

// show renders a result: its code when it failed, and its text.
func show(r tool.Result) string {
	text := llm.PlainText(r.Content)
	if r.Error != nil {
		return r.Error.Code + " | " + text
	}
	return text
}

type echoInput struct {
	Text string `json:"text"`
}

// echo returns its argument and notes that it ran.
func echo(ran *[]string) tool.Definition {
	return tool.New(tool.Spec{Name: "echo", Description: "Returns the text.", Effect: session.EffectRead, Parallel: true},
		func(_ context.Context, _ *tool.Call, in echoInput) (tool.Result, error) {
			if ran != nil {
				*ran = append(*ran, in.Text)
			}
			return tool.Text(in.Text), nil
		})
}

// body is a tool without arguments.
func body(name string, f func(context.Context, *tool.Call) (tool.Result, error)) tool.Definition {
	return tool.New(tool.Spec{Name: name}, func(ctx context.Context, c *tool.Call, _ struct{}) (tool.Result, error) { return f(ctx, c) })
}

func TestSchemasStandInTheOrderOfTheRows(t *testing.T) {
	b := setUp(t, echo(nil), body("alpha", nil))
	defer b.close()
	want := []llm.ToolSchema{
		{Name: "echo", Description: "Returns the text.", Parameters: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false}`)},
		{Name: "alpha", Parameters: json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`)},
	}
	if d := cmp.Diff(want, b.Schemas(b.scope)); d != "" {
		t.Error(d)
	}
	if _, ok := b.Lookup(b.scope, "alpha"); !ok {
		t.Error("a tool is not found")
	}
}

// What the model sends in vain: the tool does not run, and the model is told what to mend.
func TestTrust_A06_CallsWithBrokenArgumentsDoNotRun(t *testing.T) {
	var ran []string
	b := setUp(t, echo(&ran))
	defer b.close()
	ctx := context.Background()
	for name, raw := range map[string]string{
		"truncated":      `{"text":"half of a fi`,
		"duplicate keys": `{"text":"a","text":"b"}`,
		"depth 10,000":   strings.Repeat(`{"text":`, 10_000),
		"10 MB":          `{"text":"` + strings.Repeat("x", 10<<20) + `"}`,
		"not an object":  `["text"]`,
		"wrong members":  `{"txt":1}`,
		"wrong type":     `{"text":{}}`,
	} {
		got := show(b.run(ctx, "echo", raw))
		if !strings.HasPrefix(got, "invalid-arguments | Error: invalid arguments for echo:\n- ") || len(got) > 500 {
			t.Errorf("%s: got %.600s", name, got)
		}
	}
	if len(ran) > 0 {
		t.Errorf("the tool ran with %.100q", ran)
	}
	if got, want := show(b.run(ctx, "echo", `{"txt":1}`)),
		"invalid-arguments | Error: invalid arguments for echo:\n- \"txt\" is not known; did you mean \"text\"?\n- \"text\" is missing"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestTrust_A08_AnUnknownToolIsNeverGuessed(t *testing.T) {
	var ran []string
	b := setUp(t, echo(&ran), body("other", nil))
	defer b.close()
	for name, want := range map[string]string{
		"ehco": `unknown-tool | Error: there is no tool "ehco"; did you mean "echo"?` + "\nThe tools are: echo, other",
		"Echo": `unknown-tool | Error: there is no tool "Echo"; did you mean "echo"?` + "\nThe tools are: echo, other",
		"rm":   `unknown-tool | Error: there is no tool "rm"` + "\nThe tools are: echo, other",
		"":     `unknown-tool | Error: there is no tool ""` + "\nThe tools are: echo, other",
	} {
		if got := show(b.run(context.Background(), name, `{"text":"a"}`)); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	if len(ran) > 0 {
		t.Errorf("the tool ran with %q", ran)
	}
}

func TestCase_o_str_14_AWrappedCallRuns(t *testing.T) {
	var ran []string
	b := setUp(t, echo(&ran))
	defer b.close()
	if got := show(b.run(context.Background(), "echo", `"{\"text\":\"**/*.md\"}"`)); got != "**/*.md" {
		t.Errorf("got %s", got)
	}
}

func TestCase_o_str_16_ACallWithoutArgumentsRuns(t *testing.T) {
	var got []string
	b := setUp(t, body("job_list", func(_ context.Context, c *tool.Call) (tool.Result, error) {
		got = append(got, string(c.Arguments))
		return tool.Text("none"), nil
	}))
	defer b.close()
	for _, raw := range []string{"", "{}"} {
		b.run(context.Background(), "job_list", raw)
	}
	if want := []string{"{}", "{}"}; !slices.Equal(got, want) {
		t.Errorf("the tool saw %q", got)
	}
}

// Each extension point is reached by a plugin, in the order of the stages, whatever
// the order in which the plugins started.
func TestS16_StagesRunInOrderAroundTheBody(t *testing.T) {
	var trace []string
	b := setUp(t, body("work", func(context.Context, *tool.Call) (tool.Result, error) {
		trace = append(trace, "body")
		return tool.Text("done"), nil
	}))
	defer b.close()
	note := func(s plugin.Stage) { trace = append(trace, string(s)) }
	b.mount("listeners", func(s *plugin.Scope) error {
		var errs []error
		on := func(_ func(context.Context) error, err error) { errs = append(errs, err) }
		for _, stage := range []plugin.Stage{tool.Answer, tool.Decide, tool.Rewrite} {
			on(tool.PreExecute.On(s, func(ctx context.Context, p *tool.Pending, next plugin.Next[*tool.Pending, tool.Verdict]) (tool.Verdict, error) {
				note(stage)
				return next(ctx, p)
			}, plugin.At(stage)))
		}
		for _, stage := range []plugin.Stage{tool.Sandbox, tool.Timeout, tool.Barrier, tool.Permission, tool.Budget} {
			on(tool.Execution.On(s, func(ctx context.Context, p *tool.Prepared, next plugin.Next[*tool.Prepared, tool.Result]) (tool.Result, error) {
				note(stage)
				return next(ctx, p)
			}, plugin.At(stage)))
		}
		for _, stage := range []plugin.Stage{tool.Redact, tool.Inspect, tool.Spill} {
			on(tool.PostExecute.On(s, func(ctx context.Context, p *tool.Prepared, next plugin.Next[*tool.Prepared, tool.Result]) (tool.Result, error) {
				r, err := next(ctx, p)
				note(stage)
				return r, err
			}, plugin.At(stage)))
		}
		return errors.Join(errs...)
	})
	if got := show(b.run(context.Background(), "work", "")); got != "done" {
		t.Errorf("got %s", got)
	}
	want := []string{"rewrite", "decide", "ask", "budget", "permission", "barrier", "timeout", "sandbox", "body", "inspect", "redact", "spill"}
	if d := cmp.Diff(want, trace); d != "" {
		t.Error(d)
	}
}

// A listener that fails or panics: the call gets a result that says so, and what
// follows in the pipeline is as it must be.
func TestListenersThatFailAreContained(t *testing.T) {
	for _, c := range []struct {
		name   string
		stage  plugin.Stage
		listen func(s *plugin.Scope, at plugin.Stage, fail func() error) error
		want   string
		runs   bool
	}{
		{"before", tool.Decide, beforeCall, "failed | Error: work did not run: nobody could decide about it: policy on tools/pre-execute: ", false},
		{"around", tool.Barrier, aroundBody, "failed | Error: work did not run: policy on tools/execute: ", false},
		{"after", tool.Redact, afterCall, "failed | Error: the call succeeded, but its result is withheld: policy on tools/post-execute: ", true},
	} {
		for how, fail := range map[string]func() error{
			"disk full":       func() error { return errors.New("disk full") },
			"panic: no brain": func() error { panic("no brain") },
		} {
			t.Run(c.name+" "+how, func(t *testing.T) {
				ran := false
				b := setUp(t, body("work", func(context.Context, *tool.Call) (tool.Result, error) {
					ran = true
					return tool.Text("secret"), nil
				}))
				defer b.close()
				b.mount("policy", func(s *plugin.Scope) error { return c.listen(s, c.stage, fail) })
				if got, want := show(b.run(context.Background(), "work", "")), c.want+how; got != want {
					t.Errorf("got  %s\nwant %s", got, want)
				}
				if ran != c.runs {
					t.Errorf("the body ran: %v", ran)
				}
			})
		}
	}
}

func beforeCall(s *plugin.Scope, at plugin.Stage, fail func() error) error {
	_, err := tool.PreExecute.On(s, func(context.Context, *tool.Pending, plugin.Next[*tool.Pending, tool.Verdict]) (tool.Verdict, error) {
		return tool.Verdict{}, fail()
	}, plugin.At(at))
	return err
}

func aroundBody(s *plugin.Scope, at plugin.Stage, fail func() error) error {
	_, err := tool.Execution.On(s, func(context.Context, *tool.Prepared, plugin.Next[*tool.Prepared, tool.Result]) (tool.Result, error) {
		return tool.Result{}, fail()
	}, plugin.At(at))
	return err
}

func afterCall(s *plugin.Scope, at plugin.Stage, fail func() error) error {
	_, err := tool.PostExecute.On(s, func(ctx context.Context, p *tool.Prepared, next plugin.Next[*tool.Prepared, tool.Result]) (tool.Result, error) {
		if _, err := next(ctx, p); err != nil {
			return tool.Result{}, err
		}
		return tool.Result{}, fail()
	}, plugin.At(at))
	return err
}

// decide lets a function take part in the decision.
func (b *bench) decide(name string, at plugin.Stage, f func(p *tool.Pending)) {
	b.mount(name, func(s *plugin.Scope) error {
		_, err := tool.PreExecute.On(s, func(ctx context.Context, p *tool.Pending, next plugin.Next[*tool.Pending, tool.Verdict]) (tool.Verdict, error) {
			f(p)
			return next(ctx, p)
		}, plugin.At(at))
		return err
	})
}

func TestTheStrictestDecisionWinsAndOnlyAnAnswerLowersIt(t *testing.T) {
	for _, c := range []struct {
		name    string
		raise   []tool.Decision
		answer  func(*tool.Pending)
		want    string
		verdict tool.Verdict
	}{
		{name: "nobody decides", want: "hi"},
		{name: "allow", raise: []tool.Decision{tool.Allow}, want: "hi", verdict: tool.Verdict{Decision: tool.Allow, Reason: "allow", By: "d0"}},
		{name: "confined", raise: []tool.Decision{tool.Confined, tool.Allow}, want: "hi", verdict: tool.Verdict{Decision: tool.Confined, Reason: "confined", By: "d0"}},
		{name: "ask", raise: []tool.Decision{tool.Allow, tool.Ask}, want: "denied | Error: nobody could approve this call: ask", verdict: tool.Verdict{Decision: tool.Ask, Reason: "ask", By: "d1"}},
		{name: "deny", raise: []tool.Decision{tool.Deny, tool.Allow, tool.Ask}, want: "denied | Error: denied: deny", verdict: tool.Verdict{Decision: tool.Deny, Reason: "deny", By: "d0"}},
		{name: "yes", raise: []tool.Decision{tool.Ask}, answer: func(p *tool.Pending) { p.Settle(true, "me", "fine") }, want: "hi", verdict: tool.Verdict{Decision: tool.Allow, Reason: "fine", By: "me"}},
		{name: "no", raise: []tool.Decision{tool.Ask}, answer: func(p *tool.Pending) { p.Settle(false, "me", "rather not") }, want: "denied | Error: denied: rather not", verdict: tool.Verdict{Decision: tool.Deny, Reason: "rather not", By: "me"}},
		{name: "yes to a denied call", raise: []tool.Decision{tool.Deny}, answer: func(p *tool.Pending) { p.Settle(true, "me", "fine") }, want: "denied | Error: denied: deny", verdict: tool.Verdict{Decision: tool.Deny, Reason: "deny", By: "d0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := setUp(t, echo(nil))
			defer b.close()
			for i, d := range c.raise {
				by := fmt.Sprint("d", i)
				b.decide(by, tool.Decide, func(p *tool.Pending) { p.Raise(d, by, d.String()) })
			}
			if c.answer != nil {
				b.decide("person", tool.Answer, c.answer)
			}
			call := &tool.Call{ID: "c1_1_0", Name: "echo"}
			p := b.Prepare(context.Background(), b.scope, call, `{"text":"hi"}`)
			if d := cmp.Diff(c.verdict, p.Verdict); d != "" {
				t.Error(d)
			}
			if decided := c.raise != nil; decided != (p.Digest == tool.Digest(call)) {
				t.Errorf("the digest is %x", p.Digest)
			}
			result := b.Execute(context.Background(), b.scope, p)
			if got := show(result); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if result.Decision != c.verdict.Decision {
				t.Errorf("the result says %v", result.Decision)
			}
		})
	}
}

// What a listener returns may be stricter than what was raised, and never laxer.
func TestAReturnedVerdictCannotLowerTheDecision(t *testing.T) {
	for _, c := range []struct {
		raise   tool.Decision
		returns tool.Verdict
		want    string
	}{
		{tool.Deny, tool.Verdict{Decision: tool.Allow, By: "sneak", Reason: "why not"}, "denied | Error: denied: rule"},
		{tool.Allow, tool.Verdict{Decision: tool.Deny, By: "strict", Reason: "too late"}, "denied | Error: denied: too late"},
		{tool.Deny, tool.Verdict{}, "denied | Error: denied: rule"},
	} {
		b := setUp(t, echo(nil))
		b.mount("outer", func(s *plugin.Scope) error {
			_, err := tool.PreExecute.On(s, func(ctx context.Context, p *tool.Pending, next plugin.Next[*tool.Pending, tool.Verdict]) (tool.Verdict, error) {
				p.Raise(c.raise, "rule", "rule")
				_, err := next(ctx, p)
				return c.returns, err
			}, plugin.At(tool.Decide))
			return err
		})
		if got := show(b.run(context.Background(), "echo", `{"text":"hi"}`)); got != c.want {
			t.Errorf("%v, then %+v: got %s\nwant %s", c.raise, c.returns, got, c.want)
		}
		b.close()
	}
}

func TestACallThatIsCancelledDuringTheDecisionDoesNotStart(t *testing.T) {
	var ran []string
	b := setUp(t, echo(&ran))
	defer b.close()
	ctx, cancel := context.WithCancel(context.Background())
	b.decide("slow", tool.Decide, func(p *tool.Pending) { cancel(); p.Raise(tool.Ask, "slow", "who knows") })
	p := b.Prepare(ctx, b.scope, &tool.Call{Name: "echo"}, `{"text":"a"}`)
	if p.Refused == nil || p.Refused.Error.Code != tool.CodeNotStarted {
		t.Errorf("the call was prepared as %+v", p.Refused)
	}
}

func TestRewrittenArgumentsAreCheckedBeforeTheDecision(t *testing.T) {
	var ran []string
	b := setUp(t, echo(&ran))
	defer b.close()
	var errs []string
	rewrite := func(name, arguments string, at plugin.Stage) {
		b.decide(name, at, func(p *tool.Pending) {
			if err := p.Rewrite(name, json.RawMessage(arguments)); err != nil {
				errs = append(errs, err.Error())
			}
		})
	}
	rewrite("breaker", `{"txt":1}`, tool.Rewrite)
	rewrite("hook", ` {"text":"changed"}`, tool.Rewrite)
	b.decide("policy", tool.Decide, func(p *tool.Pending) { p.Raise(tool.Allow, "policy", string(p.Call.Arguments)) })
	rewrite("late", `{"text":"worse"}`, tool.Decide)
	call := &tool.Call{ID: "c1_1_0", Name: "echo"}
	p := b.Prepare(context.Background(), b.scope, call, `{"text":"asked for"}`)
	if got := show(b.Execute(context.Background(), b.scope, p)); got != "changed" {
		t.Errorf("got %s", got)
	}
	if p.Verdict.Reason != `{"text":"changed"}` {
		t.Errorf("the decision was about %s", p.Verdict.Reason)
	}
	want := []string{
		`breaker rewrites the arguments of echo: "txt" is not known; did you mean "text"?; "text" is missing`,
		`late rewrites the arguments of echo: policy has decided about them already`,
	}
	if d := cmp.Diff(want, errs); d != "" {
		t.Error(d)
	}
}

// Siblings of calls that go wrong each give their own result.
func TestTrust_A12_OnePanicsOneHangsOneFloods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		b := setUp(t,
			echo(nil),
			body("panics", func(context.Context, *tool.Call) (tool.Result, error) { panic("out of cheese") }),
			body("hangs", func(context.Context, *tool.Call) (tool.Result, error) { <-release; return tool.Text("late"), nil }),
			body("floods", func(context.Context, *tool.Call) (tool.Result, error) {
				return tool.Text(strings.Repeat("x", 10<<20)), nil
			}),
			body("exits", func(context.Context, *tool.Call) (tool.Result, error) {
				return tool.Result{}, errors.New("exit status 1")
			}),
		)
		ctx, cancel := context.WithCancel(context.Background())
		names := []string{"echo", "panics", "hangs", "floods", "exits", "echo"}
		results := make([]chan tool.Result, len(names))
		for i, name := range names {
			results[i] = make(chan tool.Result, 1)
			p := b.Prepare(ctx, b.scope, &tool.Call{ID: fmt.Sprint("c1_1_", i), Name: name}, map[bool]string{true: `{"text":"hi"}`}[name == "echo"])
			go func() { results[i] <- b.Execute(ctx, b.scope, p) }()
		}
		synctest.Wait()
		for i, want := range []string{
			"hi",
			"panic | Error: panics failed inside, and what it has done so far is unknown: panic: out of cheese",
			"",
			strings.Repeat("x", 10<<20),
			"failed | Error: exit status 1",
			"hi",
		} {
			if names[i] == "hangs" {
				continue
			}
			select {
			case r := <-results[i]:
				if got := show(r); got != want {
					t.Errorf("%s: got %.200s", names[i], got)
				}
			default:
				t.Errorf("%s has no result", names[i])
			}
		}
		cancel()
		start := time.Now()
		got := show(<-results[2])
		if want := "outcome-unknown | Error: hangs was cancelled and did not end; it may still be running, and what it did is unknown: look before you try again"; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if d := time.Since(start); d != grace {
			t.Errorf("waited %v", d)
		}
		close(release)
		b.close()
	})
}

func TestTimeouts(t *testing.T) {
	obeys := func(ctx context.Context, _ *tool.Call) (tool.Result, error) {
		<-ctx.Done()
		return tool.Result{}, errors.New("half done")
	}
	for _, c := range []struct {
		name    string
		timeout time.Duration
		cancel  time.Duration // when the caller cancels; 0 for never
		cause   error
		body    func(context.Context, *tool.Call) (tool.Result, error)
		want    string
		took    time.Duration
	}{
		{"the tool's own", time.Second, 0, nil, obeys, "timeout | Error: work was ended after 1s: half done", time.Second},
		{"the registry's", 0, 0, nil, obeys, "timeout | Error: work was ended after 15m0s: half done", defaultTimeout},
		{"none", -1, time.Hour, errors.New("enough"), obeys, "aborted | Error: work was cancelled while it ran: half done", time.Hour},
		{"cancelled", 0, time.Second, errors.New("enough"), obeys, "aborted | Error: work was cancelled while it ran: half done", time.Second},
		{"finished nevertheless", time.Second, 0, nil, func(ctx context.Context, _ *tool.Call) (tool.Result, error) {
			<-ctx.Done()
			time.Sleep(grace - 1)
			return tool.Text("written"), nil
		}, "written", time.Second + grace - 1},
		{"ignored", time.Second, 0, nil, func(ctx context.Context, _ *tool.Call) (tool.Result, error) {
			time.Sleep(time.Minute)
			return tool.Text("written"), nil
		}, "outcome-unknown | Error: work was to end after 1s and did not end; it may still be running, and what it did is unknown: look before you try again", time.Second + grace},
		{"ignored while a person waits", 0, time.Second, agent.CauseUser, func(ctx context.Context, _ *tool.Call) (tool.Result, error) {
			time.Sleep(time.Minute)
			return tool.Text("written"), nil
		}, "outcome-unknown | Error: work was cancelled and did not end; it may still be running, and what it did is unknown: look before you try again", time.Second + shortGrace},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := setUp(t, tool.New(tool.Spec{Name: "work", Timeout: c.timeout}, func(ctx context.Context, call *tool.Call, _ struct{}) (tool.Result, error) {
					return c.body(ctx, call)
				}))
				ctx, cancel := context.WithCancelCause(context.Background())
				defer cancel(nil)
				if c.cancel > 0 {
					time.AfterFunc(c.cancel, func() { cancel(c.cause) })
				}
				start := time.Now()
				if got := show(b.run(ctx, "work", "")); got != c.want {
					t.Errorf("got  %s\nwant %s", got, c.want)
				}
				if d := time.Since(start); d != c.took {
					t.Errorf("took %v, want %v", d, c.took)
				}
				time.Sleep(time.Minute) // a body that was left behind ends
				synctest.Wait()
				b.close()
			})
		})
	}
}

func TestACancelledCallDoesNotStart(t *testing.T) {
	var ran []string
	b := setUp(t, echo(&ran))
	defer b.close()
	const want = "not-started | Error: the call was cancelled before it started; nothing was done"
	ctx, cancel := context.WithCancel(context.Background())
	p := b.Prepare(ctx, b.scope, &tool.Call{Name: "echo"}, `{"text":"a"}`)
	cancel()
	for what, r := range map[string]tool.Result{
		"after Prepare":  b.Execute(ctx, b.scope, p),
		"before Prepare": b.run(ctx, "echo", `{"text":"a"}`),
	} {
		if got := show(r); got != want {
			t.Errorf("%s: got %s", what, got)
		}
	}
	if len(ran) > 0 {
		t.Errorf("the tool ran with %q", ran)
	}
}

// A tool whose plugin goes: before the call it is unknown, during the call the body
// still gives its result.
func TestCase_o_his_07_AToolThatDisappears(t *testing.T) {
	b := setUp(t, echo(nil))
	defer b.close()
	release := make(chan struct{})
	began := make(chan struct{})
	s := b.mount("server", func(s *plugin.Scope) error {
		return tool.Add(s, body("remote", func(ctx context.Context, _ *tool.Call) (tool.Result, error) {
			close(began)
			<-release
			return tool.Result{}, errors.New("the server is gone")
		}))
	})
	ctx := context.Background()
	p := b.Prepare(ctx, b.scope, &tool.Call{Name: "remote"}, "")
	result := make(chan tool.Result, 1)
	go func() { result <- b.Execute(ctx, b.scope, p) }()
	<-began
	if err := s.Node().Close(ctx); err != nil {
		t.Fatal(err)
	}
	close(release)
	if got, want := show(<-result), "failed | Error: the server is gone"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := show(b.run(ctx, "remote", "")), "unknown-tool | Error: there is no tool \"remote\"\nThe tools are: echo"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := show(b.run(ctx, "echo", `{"text":"hi"}`)); got != "hi" {
		t.Errorf("the sibling: got %s", got)
	}
}

func TestResultsCanAlwaysBeLoggedAndSent(t *testing.T) {
	for _, c := range []struct {
		name string
		give tool.Result
		want tool.Result
	}{
		{"nothing", tool.Result{}, tool.Text("work succeeded and has no output")},
		{"an empty text", tool.Text(""), tool.Text("work succeeded and has no output")},
		{"a silent failure", tool.Result{IsError: true}, tool.Result{
			Content: []llm.Block{llm.Text("Error: work failed and did not say why")}, IsError: true,
			Error: &session.ToolErrorData{Name: "ToolError", Code: tool.CodeFailed},
		}},
		{"bytes that are no text", tool.Text("a\xffb"), tool.Text("a\uFFFDb")},
		{"an image", tool.Result{Content: []llm.Block{{Type: llm.BlockImage, MediaType: "image/png"}}}, tool.Result{Content: []llm.Block{{Type: llm.BlockImage, MediaType: "image/png"}}}},
		{"a call in a result", tool.Result{Content: []llm.Block{{Type: llm.BlockToolCall, Name: "rm"}, llm.Text("a")}}, tool.Text("a")},
		{"meta", tool.Result{Content: []llm.Block{llm.Text("a")}, Meta: map[string]int{"n": 1}}, tool.Result{Content: []llm.Block{llm.Text("a")}, Meta: json.RawMessage(`{"n":1}`)}},
		{"meta without an encoding", tool.Result{Content: []llm.Block{llm.Text("a")}, Meta: make(chan int)}, tool.Text("a")},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := setUp(t, body("work", func(context.Context, *tool.Call) (tool.Result, error) { return c.give, nil }))
			defer b.close()
			if d := cmp.Diff(c.want, b.run(context.Background(), "work", "")); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestAListenerThatCallsNextAgainDoesNotRunTheBodyAgain(t *testing.T) {
	runs := 0
	b := setUp(t, body("work", func(context.Context, *tool.Call) (tool.Result, error) { runs++; return tool.Text("done"), nil }))
	defer b.close()
	b.mount("twice", func(s *plugin.Scope) error {
		_, err := tool.PostExecute.On(s, func(ctx context.Context, p *tool.Prepared, next plugin.Next[*tool.Prepared, tool.Result]) (tool.Result, error) {
			if _, err := next(ctx, p); err != nil {
				return tool.Result{}, err
			}
			return next(ctx, p)
		}, plugin.At(tool.Inspect))
		return err
	})
	if got := show(b.run(context.Background(), "work", "")); got != "done" || runs != 1 {
		t.Errorf("got %s after %d runs", got, runs)
	}
}

type unschemable struct{ C chan int }

func TestAToolThatCannotHaveASchemaGivesAResult(t *testing.T) {
	b := setUp(t, tool.New(tool.Spec{Name: "work"}, func(context.Context, *tool.Call, unschemable) (tool.Result, error) {
		return tool.Result{}, nil
	}))
	defer b.close()
	if got, want := show(b.run(context.Background(), "work", "")), "panic | Error: work did not run: its schema is broken: panic: schema: "; !strings.HasPrefix(got, want) {
		t.Errorf("got %s", got)
	}
}

func TestABodyThatEndsItsGoroutineGivesAResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setUp(t, body("work", func(context.Context, *tool.Call) (tool.Result, error) { runtime.Goexit(); return tool.Result{}, nil }))
		if got, want := show(b.run(context.Background(), "work", "")), "failed | Error: the tool ended its goroutine"; got != want {
			t.Errorf("got %s", got)
		}
		b.close()
	})
}

// A body that runs while the registry goes is cancelled and waited for.
func TestTheEndOfTheRegistryEndsTheBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setUp(t, body("work", func(ctx context.Context, _ *tool.Call) (tool.Result, error) {
			<-ctx.Done()
			time.Sleep(time.Second)
			return tool.Text("tidied up"), nil
		}))
		result := make(chan tool.Result, 1)
		go func() { result <- b.run(context.Background(), "work", "") }()
		synctest.Wait()
		began := time.Now()
		b.close()
		if got := show(<-result); got != "tidied up" {
			t.Errorf("got %s", got)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

func BenchmarkCall(b *testing.B) {
	h := setUp(b, echo(nil))
	defer h.close()
	h.decide("policy", tool.Decide, func(p *tool.Pending) { p.Raise(tool.Allow, "policy", "") })
	ctx := context.Background()
	for b.Loop() {
		h.run(ctx, "echo", `{"text":"f12.txt"}`)
	}
}
