package repetition

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/dsh-harness/dsh/agent"
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// named is an agent of which only the name is used.
type named struct {
	agent.Agent
	id string
}

func (n named) ID() string { return n.id }

// loop asks the plugin after each step, as the agent loop does.
type loop struct {
	t    *testing.T
	tree *plugin.Tree
	turn int
	step int
}

func start(t *testing.T, limit int) *loop {
	l := &loop{t: t, tree: plugin.New(nil), turn: 1}
	t.Cleanup(func() {
		if err := l.tree.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	_, err := l.tree.Root().Mount(name, nil, func(ctx context.Context, s *plugin.Scope) error {
		return Plugin.Start(ctx, s, Config{Limit: limit})
	})
	if err == nil {
		err = l.tree.Settle(context.Background())
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// after describes what follows a step of these calls, each as "tool arguments", and
// with ! and a code before that for one that failed.
func (l *loop) after(who string, waiting bool, calls ...string) string {
	l.t.Helper()
	l.step++
	d := &agent.StepDone{Step: agent.Step{Agent: named{id: who}, Turn: l.turn, Step: l.step}, Waiting: waiting}
	for _, call := range calls {
		r := tool.Text("ok")
		if failed, ok := strings.CutPrefix(call, "!"); ok {
			code, rest, _ := strings.Cut(failed, " ")
			r, call = tool.Failure(code, "no"), rest
		}
		tool, arguments, _ := strings.Cut(call, " ")
		d.Calls = append(d.Calls, llm.Block{Type: llm.BlockToolCall, Name: tool, Arguments: arguments})
		d.Results = append(d.Results, r)
	}
	c, err := agent.TurnContinuation.Run(context.Background(), l.tree.Root(), d, func(context.Context, *agent.StepDone) (agent.Continuation, error) {
		return agent.Continuation{Continue: len(calls) > 0}, nil
	})
	switch {
	case err != nil:
		return err.Error()
	case c.Reason != "":
		return fmt.Sprintf("ends: %s %s", c.Reason, c.Detail)
	case !c.Continue:
		return "ends"
	case len(c.Messages) > 0:
		m := c.Messages[0]
		return fmt.Sprintf("reminds as %s/%s/%s: %s", m.Source.Kind, m.Source.Name, m.Source.Form, llm.PlainText(m.Content))
	}
	return "goes on"
}

const reminder = "reminds as plugin/repetition-guard/reminder: You have called bash 3 times in a row with the same arguments. " +
	"The answer will not change: do something else, or say what keeps you from going on. After 5 such calls the turn ends."

func TestCase_o_his_04_TheSameCallOverAndOver(t *testing.T) {
	l := start(t, 5)
	for i, want := range []string{"goes on", "goes on", reminder, "goes on", "ends: budget repetition"} {
		if got := l.after("a", false, `bash {"command":"ls"}`); got != want {
			t.Errorf("step %d: got %s\nwant %s", i+1, got, want)
		}
	}
	l.turn++
	if got := l.after("a", false, `bash {"command":"ls"}`); got != "goes on" {
		t.Errorf("the next turn: %s", got)
	}
}

// Ends after a bounded number of requests, and the reason names the output limit.
func TestCase_o_str_07_TheSameCutOverAndOver(t *testing.T) {
	l := start(t, 0)
	for i, want := range []string{"goes on", "goes on", "ends: max-tokens output-limit"} {
		if got := l.after("a", false, fmt.Sprintf(`!truncated write {"content":"%s`, strings.Repeat("x", i))); got != want {
			t.Errorf("step %d: got %s, want %s", i+1, got, want)
		}
	}
}

func TestSequences(t *testing.T) {
	const same = `read {"file_path":"a"}`
	for _, c := range []struct {
		name  string
		limit int
		steps [][]string
		want  []string
	}{
		{"spelled differently", 3, [][]string{{`read {"a":1,"b":2}`}, {`read { "b":2, "a":1 }`}, {`read {"b":2,"a":1}`}},
			[]string{"goes on", "reminds", "ends: budget repetition"}},
		{"another call between", 3, [][]string{{same}, {same}, {"edit {}"}, {same}, {same}}, []string{"goes on", "reminds", "goes on", "goes on", "reminds"}},
		{"in one step", 3, [][]string{{same, same, same, same}}, []string{"ends: budget repetition"}},
		{"ended by the last of a step", 3, [][]string{{"edit {}", same}, {same, same}}, []string{"goes on", "ends: budget repetition"}},
		{"reminder overtaken", 3, [][]string{{same, same, "edit {}"}}, []string{"goes on"}},
		{"numbers that differ late", 3, [][]string{{`f {"n":9007199254740992}`}, {`f {"n":9007199254740993}`}, {`f {"n":9007199254740992}`}}, []string{"goes on", "goes on", "goes on"}},
		{"denied calls count", 3, [][]string{{"!denied bash {}"}, {"!denied bash {}"}, {"!denied bash {}"}}, []string{"goes on", "reminds", "ends: budget repetition"}},
		{"no limit", 0, [][]string{{same}, {same}, {same}, {same}, {same}, {same}}, []string{"goes on", "goes on", "goes on", "goes on", "goes on", "goes on"}},
		{"invalid", 0, [][]string{{"!invalid-arguments read x"}, {"!invalid-arguments read {}"}, {"!invalid-arguments read y"}}, []string{"goes on", "goes on", "ends: budget invalid-arguments"}},
		{"several invalid in a step count once", 0, [][]string{{"!invalid-arguments read x", "!invalid-arguments read y", "!invalid-arguments read z"}}, []string{"goes on"}},
		{"one that runs between", 0, [][]string{{"!invalid-arguments read x"}, {"!invalid-arguments read x"}, {"!invalid-arguments read x", "ls {}"}, {"!invalid-arguments read x"}},
			[]string{"goes on", "goes on", "goes on", "goes on"}},
		{"no calls", 3, [][]string{nil}, []string{"ends"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := start(t, c.limit)
			var got []string
			for _, calls := range c.steps {
				what, _, _ := strings.Cut(l.after("a", false, calls...), " as plugin")
				got = append(got, what)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestAgentsDoNotCountForEachOther(t *testing.T) {
	l := start(t, 3)
	for range 2 {
		l.after("a", false, "ls {}")
		if got := l.after("b", false, "ls {}"); strings.HasPrefix(got, "ends") {
			t.Errorf("got %s", got)
		}
	}
}

func TestAPersonWhoSteersBeginsAnew(t *testing.T) {
	l := start(t, 3)
	l.after("a", false, "ls {}")
	l.after("a", false, "ls {}")
	if got := l.after("a", true, "ls {}"); got != "goes on" {
		t.Errorf("with steering: %s", got)
	}
	if got := l.after("a", false, "ls {}"); got != "goes on" {
		t.Errorf("after steering: %s", got)
	}
}

func TestAnAgentThatGoesIsForgotten(t *testing.T) {
	g := &guard{turns: map[string]*turn{}}
	g.of(&agent.StepDone{Step: agent.Step{Agent: named{id: "a"}, Turn: 1}})
	g.forget("a")
	if len(g.turns) != 0 {
		t.Errorf("remembers %v", g.turns)
	}
	l := start(t, 3)
	l.after("a", false, "ls {}")
	l.after("a", false, "ls {}")
	if err := agent.Gone.Emit(context.Background(), l.tree.Root(), named{id: "a"}); err != nil {
		t.Fatal(err)
	}
	if got := l.after("a", false, "ls {}"); got != "goes on" {
		t.Errorf("its successor: %s", got)
	}
}

func TestAFailureFurtherInIsPassedOn(t *testing.T) {
	g := &guard{limit: 3, turns: map[string]*turn{}}
	want := errors.New("no")
	_, err := g.listen(context.Background(), &agent.StepDone{}, func(context.Context, *agent.StepDone) (agent.Continuation, error) {
		return agent.Continuation{}, want
	})
	if !errors.Is(err, want) {
		t.Errorf("got %v", err)
	}
}

func TestConfigurationIsChecked(t *testing.T) {
	for limit, ok := range map[int]bool{0: true, 3: true, 100: true, 1: false, 2: false, -1: false} {
		if err := (&Config{Limit: limit}).Validate(); (err == nil) != ok {
			t.Errorf("%d: %v", limit, err)
		}
	}
}
