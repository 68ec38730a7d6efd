package registry

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/tool"
)

// openCall is a session in which a call of the tool echo is logged.
func (b *bench) openCall(drafts ...session.Draft) *session.Session {
	b.t.Helper()
	b.mount("sessions", func(s *plugin.Scope) error { return session.StorePlugin.Start(s.Context(), s, struct{}{}) }, session.StorePlugin.Needs...)
	var s *session.Session
	b.mount("store-user", func(scope *plugin.Scope) (err error) {
		store := session.Service.From(scope)
		if s, err = store.Prepare(context.Background(), session.PrepareOptions{Cwd: b.t.TempDir()}); err == nil {
			_, err = store.Enter(s)
		}
		return err
	}, session.Service.Required())
	if _, err := s.Append(drafts...); err != nil {
		b.t.Fatal(err)
	}
	return s
}

// upToCall are the events before a body may run.
func upToCall(arguments string) []session.Draft {
	return []session.Draft{
		{Type: session.TurnStart, Data: session.TurnStartData{Turn: 1}},
		{Type: session.StepStart, Data: session.StepData{Turn: 1, Step: 1}},
		{Type: session.AssistantMessage, Surface: &session.SurfaceOp{Op: session.OpAppend}, Data: session.AssistantData{
			Turn: 1, Step: 1, Provider: "p", Model: "m", Finish: llm.FinishToolCalls,
			Message: session.AssistantContent{ID: "m1", Content: []llm.Block{{Type: llm.BlockToolCall, CallID: "c1_1_0", Name: "echo", Arguments: arguments}}},
		}},
		{Type: session.ToolCall, Data: session.ToolCallData{Turn: 1, Step: 1, CallID: "c1_1_0", Name: "echo", Arguments: arguments, Effect: session.EffectRead}},
	}
}

func rewriteTo(b *bench, arguments string) {
	b.decide("hook", tool.Rewrite, func(p *tool.Pending) {
		if err := p.Rewrite("hook", json.RawMessage(arguments)); err != nil {
			b.t.Error(err)
		}
	})
}

func TestRewrittenArgumentsAreLoggedBeforeTheBody(t *testing.T) {
	for _, c := range []struct {
		name, rewrite string
		want          []string
	}{
		{"changed", `{"text":"b"}`, []string{`{"callId":"c1_1_0","arguments":"{\"text\":\"b\"}","by":"hook"}`}},
		{"the same again", ` {"text" : "a"} `, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := setUp(t, echo(nil))
			defer b.close()
			s := b.openCall(upToCall(`{"text":"a"}`)...)
			rewriteTo(b, c.rewrite)
			p := b.Prepare(context.Background(), b.scope, &tool.Call{ID: "c1_1_0", Name: "echo", Session: s}, `{"text":"a"}`)
			if p.Refused != nil {
				t.Fatal(show(*p.Refused))
			}
			var got []string
			for e, err := range s.Events(context.Background(), 0) {
				if err != nil {
					t.Fatal(err)
				}
				if e.Type == session.ToolRewritten {
					got = append(got, string(e.Data))
				}
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestWhatCannotBeLoggedDoesNotRun(t *testing.T) {
	b := setUp(t, echo(nil))
	defer b.close()
	s := b.openCall() // no turn is open, so nothing of a call can be logged
	rewriteTo(b, `{"text":"b"}`)
	p := b.Prepare(context.Background(), b.scope, &tool.Call{ID: "c1_1_0", Name: "echo", Session: s}, `{"text":"a"}`)
	if p.Refused == nil || !strings.HasPrefix(show(*p.Refused), "failed | Error: echo did not run: what hook made of its arguments could not be logged: ") {
		t.Errorf("the call was prepared as %+v", p.Refused)
	}
}
