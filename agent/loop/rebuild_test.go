package loop_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"

	"github.com/dsh-harness/dsh/agent"
	"github.com/dsh-harness/dsh/internal/testllm"
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/llm/openai"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/prompt"
	"github.com/dsh-harness/dsh/session"
)

// provides is the chat wire to a server, as a provider of that name.
func provides(name, url string) part {
	return part{name, nil, func(ctx context.Context, s *plugin.Scope) error {
		c := openai.Plugin.Default()
		c.Name, c.BaseURL, c.Dialect = name, url, openai.DeepSeek
		c.Models = []llm.Model{{ID: "first"}, {ID: "second"}}
		if err := c.Validate(); err != nil {
			return err
		}
		return openai.Plugin.Start(ctx, s, c)
	}}
}

// retriesOnce logs a failed request and has it sent again.
func retriesOnce() part {
	return listens("retry", func(s *plugin.Scope) error {
		return first(agent.RequestFailed.On(s, func(ctx context.Context, f *agent.RequestFailure, next plugin.Next[*agent.RequestFailure, agent.Recovery]) (agent.Recovery, error) {
			if f.Attempt > 1 {
				return next(ctx, f)
			}
			_, err := f.Agent.Session().Append(session.Draft{Type: session.Retry, Data: session.RetryData{
				Turn: f.Turn, Step: f.Step.Step, Attempt: f.Attempt, Failure: session.ErrorData{Code: string(f.Err.Code), Message: f.Err.Error()},
			}})
			return agent.Recovery{Retry: true}, err
		}, plugin.At(agent.Retry)))
	})
}

// TestRequests_AreRebuiltFromTheLog plays a long session with everything that shapes a
// request, and then sends, from nothing but the log, each request again: it is
// the same byte for byte. The law of the prefix is checked on the way.
func TestRequests_AreRebuiltFromTheLog(t *testing.T) {
	srv := testllm.New(t)
	srv.Strict(testllm.Rules{Alternate: true})
	dir := t.TempDir()
	section := "The sky is blue."
	streamed := make(chan struct{}, 1)
	parts := func() []part {
		return []part{
			provides("live", srv.URL), retriesOnce(), toolPart(echo("echo"), newTool("none", false, echoNothing)),
			listens("sky", func(s *plugin.Scope) error {
				return errors.Join(
					first(prompt.Sections.Add(s, "sky", prompt.Section{Text: func(context.Context, prompt.Input) (string, error) { return section, nil }})),
					first(agent.StreamChunk.On(s, func(_ context.Context, n agent.ChunkNotice) error {
						if n.Chunk.Text == "half an" {
							streamed <- struct{}{}
						}
						return nil
					})),
				)
			}),
		}
	}
	options := agent.Options{Model: "live/first", Params: llm.Params{MaxTokens: 1000}}
	w := newWorldOn(t, dir, parts()...)
	h, a := w.create(options)
	say := func(reasoning, text string, calls ...testllm.Call) testllm.Turn {
		return testllm.Answer{Reasoning: reasoning, Text: text, Calls: calls}.Turn()
	}
	srv.Script(
		say("think A", "", testllm.Call{Name: "echo"}, testllm.Call{Name: "none", Arguments: `{}`}),
		testllm.Fail(503, "busy"),
		say("", "looking", testllm.Call{ID: "call_1", Name: "echo", Arguments: `{}`}),
		say("think B", "first answer 世界"),
	)
	ask(t, a, "one")
	section = "The sky is red."
	srv.Script(say("", "", testllm.Call{Name: "unheard_of", Arguments: `{"a`}), say("", "second answer"))
	ask(t, a, "two")
	cut := testllm.Stream("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"half an\"}}]}\n\n")
	cut.End = testllm.Hold
	srv.Script(cut)
	check(t, a.Enqueue(t.Context(), llm.UserText("three")))
	<-streamed // an attempt that said nothing leaves no trace in the log
	a.Abort(agent.CauseUser)
	check(t, a.WhenIdle(t.Context()))
	srv.Script(say("", "third answer"))
	check(t, a.Inject(t.Context(), llm.UserText("by the way")))
	ask(t, a, "go on")
	check(t, h.Dispose(t.Context()))

	again := newWorldOn(t, dir, parts()...)
	h, a = again.resume(agent.Options{Params: options.Params})
	for i := range 5 {
		srv.Script(say("", "", testllm.Call{Name: "echo", Arguments: `{}`}), say("", "done"))
		ask(t, a, fmt.Sprint("more ", i))
	}
	first := srv.Requests()
	check(t, testllm.CheckPrefix(first))
	a.SetSelection(agent.Selection{Model: "live/second"})
	srv.Script(say("", "another model"))
	ask(t, a, "who are you?")
	check(t, a.Session().Flush(t.Context()))

	var events []session.Event
	for e, err := range a.Session().Events(t.Context(), 0) {
		check(t, err)
		events = append(events, e)
	}
	header := a.Session().Header()
	check(t, h.Dispose(t.Context()))
	bodies := rebuild(t, header, events)
	sent := srv.Requests()
	if len(bodies) != len(sent) {
		t.Fatalf("the log tells of %d requests, %d were sent", len(bodies), len(sent))
	}
	for i, body := range bodies {
		if !bytes.Equal(body, sent[i].Body) {
			t.Errorf("request %d differs\nrebuilt: %s\nsent:    %s", i, body, sent[i].Body)
		}
	}
	if len(sent) < 18 {
		t.Errorf("only %d requests were compared", len(sent))
	}
}

// rebuild returns the body of each request that a log tells of: one stands before
// each answer, interrupted ones too, and before each retry.
func rebuild(t *testing.T, h session.Header, events []session.Event) [][]byte {
	recorder := testllm.New(t)
	recorder.Tolerate()
	w := newWorld(t, provides("live", recorder.URL))
	for i, e := range events {
		if e.Type != session.AssistantMessage && e.Type != session.Retry {
			continue
		}
		view := session.NewView(h, "", func(context.Context, int64) iter.Seq2[session.Event, error] {
			return func(yield func(session.Event, error) bool) {
				for _, e := range events[:i] {
					if !yield(e, nil) {
						return
					}
				}
			}
		})
		then, err := view.Summary(t.Context())
		check(t, err)
		recorder.Script(testllm.Text("recorded"))
		models := w.models()
		req := &llm.Request{Header: then.RequestHeader, History: then.History, Session: h.ID}
		for _, err := range models.Stream(t.Context(), w.root, req) {
			check(t, err)
		}
	}
	var bodies [][]byte
	for _, r := range recorder.Requests() {
		bodies = append(bodies, r.Body)
	}
	return bodies
}
