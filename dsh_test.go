package dsh_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/dsh-harness/dsh"
	"github.com/dsh-harness/dsh/agent"
	"github.com/dsh-harness/dsh/config"
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/std"
	"github.com/dsh-harness/dsh/tool"
)

func TestMain(m *testing.M) {
	dsh.Guard()
	goleak.VerifyTestMain(m)
}

// scriptedIn are options whose sessions stand in a folder of the test.
func scriptedIn(t *testing.T, answers string) dsh.Options {
	t.Helper()
	return dsh.Options{
		Layers: scripted(answers),
		Set:    []string{"session-jsonl.dir=" + filepath.Join(t.TempDir(), "sessions")},
		Agent:  dsh.AgentOptions{Model: "replay/scripted", Dir: t.TempDir()},
	}
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestAskTellsHowATurnEnded(t *testing.T) {
	for _, test := range []struct {
		name, answers string
		change        func(*dsh.Options)
		reason        session.Reason
		says          string
	}{
		{"error", "    - error: {code: auth, message: no such key}\n", nil, session.Failed, "no such key"},
		{"output ceiling", "    - {text: half, finish: max-tokens}\n", nil, session.MaxTokens, "output ceiling"},
		{"steps", "    - calls: [{name: read, arguments: {file_path: x}}]\n", func(o *dsh.Options) { o.Agent.MaxSteps = 1 }, session.Budget, "limit: steps"},
		{"time", "    - hold: true\n", func(o *dsh.Options) { o.Agent.Timeout = 10 * time.Millisecond }, session.Budget, "limit: time"},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := scriptedIn(t, test.answers)
			if test.change != nil {
				test.change(&o)
			}
			r, err := dsh.Run(within(t), "go", o)
			var turn *dsh.TurnError
			if !errors.As(err, &turn) || turn.End.Reason != test.reason || r.Reason != test.reason || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%+v, %v", r, err)
			}
			if (r.Error != nil) != (test.reason == session.Failed) {
				t.Errorf("error: %+v", r.Error)
			}
		})
	}
}

func TestTheEndOfTheContextEndsTheTurn(t *testing.T) {
	for cause, reason := range map[error]session.Reason{
		agent.CauseUser: session.Aborted, agent.CauseDisposed: session.Disposed, errors.New("anything"): session.Aborted,
	} {
		o := scriptedIn(t, "    - hold: true\n")
		ctx, cancel := context.WithCancelCause(within(t))
		asked := make(chan struct{})
		var once sync.Once
		o.Agent.OnEvent = func(e session.Event) {
			if e.Type == session.RequestHeader {
				once.Do(func() { close(asked) })
			}
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			<-asked
			cancel(cause)
		})
		r, err := dsh.Run(ctx, "go", o)
		wg.Wait()
		var turn *dsh.TurnError
		if r.Reason != reason || !errors.As(err, &turn) {
			t.Errorf("%v: %+v, %v", cause, r, err)
		}
	}
}

func TestAsksTakeTurnsAndTellOnlyTheirOwn(t *testing.T) {
	o := scriptedIn(t, strings.Repeat("    - {text: ok, usage: {input: 3, output: 1}}\n", 8))
	a, err := dsh.Open(within(t), o)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			r, err := a.Ask(within(t), "go")
			if want := (llm.Usage{Input: 3, Output: 1}); err != nil || r.Usage != want || r.Steps != 1 || r.Text != "ok" || r.Cost != nil {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(a.Close(within(t)), a.Close(within(t))); err != nil {
		t.Error(err)
	}
	if _, err := a.Ask(within(t), "go"); !errors.Is(err, agent.ErrDisposed) {
		t.Errorf("after the end: %v", err)
	}
}

func TestDenialsAreTold(t *testing.T) {
	o := scriptedIn(t, `
    - calls: [{name: write, arguments: {file_path: a, content: x}}]
    - text: ok
`)
	for mode, want := range map[string][]dsh.Denial{
		"ask":         {{CallID: "c1_1_0", Tool: "write", Unanswered: true, Reason: "mode ask asks about every change to a file; the user can allow it with --permission-mode workspace-write"}},
		"read-only":   {{CallID: "c1_1_0", Tool: "write", Reason: "mode read-only allows no changes to files"}},
		"full-access": nil,
	} {
		o.Agent.Dir = t.TempDir()
		o := o
		o.Set = append([]string{"permission-mode.mode=" + mode}, o.Set...)
		r, err := dsh.Run(within(t), "go", o)
		if diff := cmp.Diff(want, r.Denied); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", mode, err, diff)
		}
	}
}

func TestResumeGoesOnAndTellsOnlyWhatIsNew(t *testing.T) {
	o := scriptedIn(t, "    - {text: one, usage: {input: 3, output: 1}}\n    - {text: two, usage: {input: 5, output: 1}}\n")
	first, err := dsh.Run(within(t), "1", o)
	if err != nil {
		t.Fatal(err)
	}
	o.Agent.Resume = first.SessionID
	var seen []int64
	o.Agent.OnEvent = func(e session.Event) { seen = append(seen, e.Seq) }
	second, err := dsh.Run(within(t), "2", o)
	if err != nil || second.SessionID != first.SessionID || second.Text != "two" || second.Usage.Input != 5 || second.Steps != 1 {
		t.Errorf("%+v, %v", second, err)
	}
	for i, seq := range seen {
		if seq != seen[0]+int64(i) || seen[0] == 0 {
			t.Fatalf("events %v", seen)
		}
	}
}

func TestOpenFailsBeforeAnythingIsWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sessions")
	for name, change := range map[string]func(*dsh.AgentOptions){
		"did you mean":       func(o *dsh.AgentOptions) { o.Model = "deepseek-v4-flsh" },
		"DEEPSEEK_API_KEY":   func(o *dsh.AgentOptions) { o.Model = "deepseek/deepseek-v4-flash" },
		"reasoning effort":   func(o *dsh.AgentOptions) { o.Model, o.Effort = "deepseek/deepseek-v4-flash", "huge" },
		"not a folder":       func(o *dsh.AgentOptions) { o.Dir = "dsh.go" },
		"no session of that": func(o *dsh.AgentOptions) { o.Resume = "nope" },
	} {
		t.Setenv("DEEPSEEK_API_KEY", "")
		o := scriptedIn(t, "    - text: ok\n")
		o.Set = []string{"session-jsonl.dir=" + dir}
		change(&o.Agent)
		if _, err := dsh.Open(within(t), o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%q is not in: %v", name, err)
		}
	}
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		t.Errorf("written: %v", entries)
	}
}

func TestABadCompositionStartsNothing(t *testing.T) {
	started := false
	spy := plugin.Plugin[struct{}]{Name: "spy", Start: func(context.Context, *plugin.Scope, struct{}) error {
		started = true
		return nil
	}}
	_, err := dsh.New(within(t), dsh.Options{
		Plugins: append(std.Plugins(), spy.Definition()),
		Layers:  []config.Layer{{Kind: config.User, Text: "- {id: spy, plugin: spy}\n- {id: x, plugin: nope}\n"}},
	})
	var wrong config.Errors
	if !errors.As(err, &wrong) || started {
		t.Errorf("%v, started %v", err, started)
	}
}

func TestReloadChangesWhatRuns(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cordis.yml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("- {id: prompt-environment, disabled: true}\n")
	h, err := dsh.New(within(t), dsh.Options{Layers: []config.Layer{{Kind: config.User, Path: file}}})
	if err != nil {
		t.Fatal(err)
	}
	state := func(id string) string {
		for _, d := range h.Dump() {
			if d.Name == id {
				return d.State.String()
			}
		}
		return "absent"
	}
	if got := state("prompt-environment"); got != "absent" {
		t.Errorf("a disabled row is %s", got)
	}
	write("[]\n")
	if _, err := h.Reload(within(t)); err != nil || state("prompt-environment") != "active" {
		t.Errorf("%v, %s", err, state("prompt-environment"))
	}
	write("- {id: prompt-environment, disabld: true}\n")
	if _, err := h.Reload(within(t)); err == nil || !strings.Contains(err.Error(), "disabled") || state("prompt-environment") != "active" {
		t.Errorf("%v, %s", err, state("prompt-environment"))
	}
	if err := h.Close(within(t)); err != nil {
		t.Error(err)
	}
}

func TestToolsOfTheProgramComeLast(t *testing.T) {
	mine := tool.New(tool.Spec{Name: "mine", Description: "Mine."}, func(context.Context, *tool.Call, struct{}) (tool.Result, error) {
		return tool.Text("x"), nil
	})
	h, err := dsh.New(within(t), dsh.Options{Tools: []tool.Definition{mine}})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for name := range tool.Tools.Visible(h.Scope()) {
		names = append(names, name)
	}
	if len(names) < 2 || names[len(names)-1] != "mine" {
		t.Errorf("tools: %v", names)
	}
	if err := h.Close(within(t)); err != nil {
		t.Error(err)
	}
}

func TestResultAsJSON(t *testing.T) {
	cost := 0.25
	for _, test := range []struct {
		r    dsh.Result
		want string
	}{
		{
			dsh.Result{SessionID: "s", Reason: session.Completed, Text: "<ok>", Cost: &cost, Steps: 2, Duration: 1500 * time.Millisecond},
			`{"sessionId":"s","reason":"completed","result":"<ok>","usage":{"input":0,"output":0},"cost":0.25,"steps":2,"durationMs":1500,"denied":[]}`,
		},
		{
			dsh.Result{Reason: session.Failed, Denied: []dsh.Denial{{CallID: "c", Tool: "t", Unanswered: true}}, Error: &session.ErrorData{Code: "auth", Message: "no"}},
			`{"sessionId":"","reason":"error","result":"","usage":{"input":0,"output":0},"cost":null,"steps":0,"durationMs":0,"denied":[{"callId":"c","tool":"t"}],"error":{"code":"auth","message":"no"}}`,
		},
	} {
		got, err := test.r.MarshalJSON()
		if err != nil || string(got) != test.want {
			t.Errorf("%v\n%s\nwant\n%s", err, got, test.want)
		}
		if !json.Valid(got) {
			t.Error("it is no JSON")
		}
	}
}

// Every shipped profile composes, and its rows name plugins that there are.
func TestShippedProfilesAreRight(t *testing.T) {
	for _, name := range []string{"", "base", "headless", "demo"} {
		c, err := dsh.Options{Profile: name}.Configuration()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := config.Check(c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := (dsh.Options{Profile: "headles"}).Configuration(); err == nil || !strings.Contains(err.Error(), `did you mean "headless"`) {
		t.Error(err)
	}
}

// TestAPromptThatIsWithdrawnHasAReason: whatever ends a prompt before its turn began, the result says so.
func TestAPromptThatIsWithdrawnHasAReason(t *testing.T) {
	for cause, want := range map[agent.Cause]session.Reason{
		agent.CauseUser:     session.Aborted,
		agent.CauseDisposed: session.Disposed,
	} {
		o := scriptedIn(t, "    - {text: ok}\n")
		a, err := dsh.Open(within(t), o)
		if err != nil {
			t.Fatal(err)
		}
		// The agent takes the prompt up when its context has ended already.
		err = a.Maintain(within(t), func(context.Context) error {
			ctx, cancel := context.WithCancelCause(within(t))
			done := make(chan error, 1)
			var r dsh.Result
			go func() {
				var err error
				r, err = a.Ask(ctx, "go")
				done <- err
			}()
			for len(a.Pending()) == 0 {
				runtime.Gosched()
			}
			cancel(cause)
			err := <-done
			if err == nil || r.Reason != want {
				t.Errorf("%s: the result is %q, %v", cause, r.Reason, err)
			}
			return nil
		})
		if err := errors.Join(err, a.Close(within(t))); err != nil {
			t.Error(err)
		}
	}
}
