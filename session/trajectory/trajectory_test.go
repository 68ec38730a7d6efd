package trajectory_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/session/trajectory"
)

// log is a session: two turns, of which the first asks a person and retries, and the second does not end.
func log(t *testing.T) session.View {
	t.Helper()
	var events []session.Event
	add := func(ms int64, kind string, data any) {
		raw, err := json.Marshal(data)
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, session.Event{Seq: int64(len(events)), Time: ms, Type: kind, Data: raw})
	}
	text := func(s string) []llm.Block { return []llm.Block{llm.Text(s)} }
	add(1000, session.TurnStart, session.TurnStartData{Turn: 1})
	add(1000, session.StepStart, session.StepData{Turn: 1, Step: 1})
	add(1000, session.UserMessage, session.InputData{ID: "m1", Content: text("mend the\n\ntest")})
	add(1000, session.RequestHeader, llm.Header{Provider: "p", Model: "m", Params: llm.Params{Effort: "high"}})
	add(1500, session.Retry, session.RetryData{Turn: 1, Step: 1, Attempt: 1, Failure: session.ErrorData{Code: "server", Message: "down"}})
	add(2000, session.AssistantMessage, session.AssistantData{
		Turn: 1, Step: 1, Provider: "p", Model: "m", Usage: &llm.Usage{Input: 1200, Output: 34}, Finish: llm.FinishToolCalls,
		Message: session.AssistantContent{ID: "a1", Content: []llm.Block{{Type: llm.BlockToolCall, CallID: "c1", Name: "bash"}}},
	})
	add(2000, session.ToolCall, session.ToolCallData{Turn: 1, Step: 1, CallID: "c1", Name: "bash", Arguments: `{"command":"make"}`})
	add(2000, policy.Asked, policy.AskedData{ID: "q1", CallID: "c1", Tool: "bash"})
	add(5000, policy.Decided, policy.DecidedData{ID: "q1", Outcome: policy.Allowed})
	add(6000, session.ToolResult, session.ToolResultData{Turn: 1, Step: 1, CallID: "c1", Content: text("it failed"), IsError: true})
	add(6000, session.StepEnd, session.StepData{Turn: 1, Step: 1})
	add(6000, session.TurnEnd, session.TurnEndData{Turn: 1, Reason: session.Budget})
	add(7000, session.TurnStart, session.TurnStartData{Turn: 2})
	add(7000, session.StepStart, session.StepData{Turn: 2, Step: 1})
	return session.NewView(session.Header{ID: "s"}, "", func(_ context.Context, from int64) iter.Seq2[session.Event, error] {
		return func(yield func(session.Event, error) bool) {
			for _, e := range events[from:] {
				if !yield(e, nil) {
					return
				}
			}
		}
	})
}

func TestTheTimeLine(t *testing.T) {
	got, err := trajectory.Of(t.Context(), log(t))
	if err != nil {
		t.Fatal(err)
	}
	want := []trajectory.Row{
		{Kind: trajectory.RowTurn, Name: "1", Text: "mend the test", Note: "5.0s budget", To: 1},
		{Kind: trajectory.RowModel, Depth: 1, Name: "1.1", Text: "1 call", Note: "1.0s 1.2k in 34 out 1 failed", To: 0.2},
		{Kind: trajectory.RowAsked, Depth: 2, Name: "asked", Text: "allowed", Note: "3.0s", From: 0.2, To: 0.8},
		{Kind: trajectory.RowCall, Depth: 2, Name: "bash", Text: `{"command":"make"}`, Note: "4.0s 9B", Bad: true, From: 0.2, To: 1},
		{Kind: trajectory.RowTurn, Name: "2", Note: "0ms"},
		{Kind: trajectory.RowModel, Depth: 1, Name: "2.1", Note: "0ms"},
	}
	if d := cmp.Diff(want, trajectory.Rows(got)); d != "" {
		t.Error(d)
	}
	step := got.Turns[0].Steps[0]
	if step.Ref != "p/m" || step.Effort != "high" || step.Messages != 1 || len(step.Retries) != 1 || got.Usage.Input != 1200 {
		t.Errorf("the step is %+v", step)
	}
}

func TestWhereThereWasNoRequest(t *testing.T) {
	for _, at := range [][3]int{{1, 2, 0}, {2, 1, 0}, {1, 1, 3}, {0, 0, 0}} {
		if _, err := trajectory.Request(t.Context(), log(t), at[0], at[1], at[2]); !errors.Is(err, trajectory.ErrNoRequest) {
			t.Errorf("%v: %v", at, err)
		}
	}
}

func TestNumbersForPeople(t *testing.T) {
	for ms, want := range map[int64]string{0: "0ms", 999: "999ms", 1000: "1.0s", 59_940: "59.9s", 60_000: "1m00s", 3_725_000: "62m05s"} {
		if got := trajectory.Duration(ms); got != want {
			t.Errorf("%d ms is %s, want %s", ms, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1.0k", 1_250_000: "1.2M"} {
		if got := trajectory.Count(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}
