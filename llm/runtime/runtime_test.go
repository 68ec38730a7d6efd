package runtime

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/llm/llmtest"
	"github.com/dsh-harness/dsh/plugin"
)

// scripted is an adapter made of one function.
type scripted func(ctx context.Context, req *llm.Request, yield func(llm.Chunk, error) bool)

func (f scripted) Stream(ctx context.Context, req *llm.Request) llm.Stream {
	return func(yield func(llm.Chunk, error) bool) { f(ctx, req, yield) }
}

func hello(_ context.Context, _ *llm.Request, yield func(llm.Chunk, error) bool) {
	_ = yield(llm.Chunk{Block: llm.BlockText, Text: "hello"}, nil) &&
		yield(llm.Chunk{Kind: llm.ChunkBlockEnd}, nil) &&
		yield(llm.Chunk{Kind: llm.ChunkFinish, Finish: llm.FinishStop}, nil)
}

// start mounts the plugin and returns the service and a scope that has it.
func start(t *testing.T) (llm.Runtime, *plugin.Scope) {
	t.Helper()
	tree := plugin.New(nil)
	t.Cleanup(func() {
		if err := tree.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if _, err := tree.Root().Mount("llm", nil, func(ctx context.Context, s *plugin.Scope) error {
		return Plugin.Start(ctx, s, struct{}{})
	}); err != nil {
		t.Fatal(err)
	}
	var user *plugin.Scope
	if _, err := tree.Root().Mount("user", []plugin.Need{llm.Service.Required()}, func(_ context.Context, s *plugin.Scope) error {
		user = s
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := tree.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	return llm.Service.From(user), user
}

func add(t *testing.T, s *plugin.Scope, name string, p llm.Provider) {
	t.Helper()
	if _, err := llm.Providers.Add(s, name, p); err != nil {
		t.Fatal(err)
	}
}

func TestResolve(t *testing.T) {
	r, s := start(t)
	if _, err := r.Resolve(s, ""); err == nil || !strings.Contains(err.Error(), "no provider lists a model") {
		t.Error(err)
	}
	if _, err := r.Resolve(s, "x/y"); err == nil || err.Error() != `unknown provider "x"; no row adds one` {
		t.Error(err)
	}
	add(t, s, "deepseek", llm.Provider{Models: []llm.Model{{ID: "deepseek-v4-flash", Window: 7}, {ID: "deepseek-v4-pro"}, {ID: "shared"}}})
	add(t, s, "router", llm.Provider{Exact: true, Models: []llm.Model{{ID: "acme/large"}, {ID: "shared"}}})
	flash := llm.Model{Provider: "deepseek", ID: "deepseek-v4-flash", Window: 7}
	for ref, want := range map[string]llm.Model{
		"":                           flash,
		"deepseek-v4-flash":          flash,
		"deepseek/deepseek-v4-flash": flash,
		"acme/large":                 {Provider: "router", ID: "acme/large"},
		"router/acme/large":          {Provider: "router", ID: "acme/large"},
		"deepseek/brand-new":         {Provider: "deepseek", ID: "brand-new"},
		"deepseek/a/b":               {Provider: "deepseek", ID: "a/b"},
	} {
		got, err := r.Resolve(s, ref)
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Errorf("%s: %v %s", ref, err, d)
		}
	}
	for ref, want := range map[string]string{
		"shared":                  `unknown-model: several providers have the model "shared": say which with deepseek/shared or router/shared`,
		"deepseek-v4-falsh":       `unknown-model: unknown model "deepseek-v4-falsh"; did you mean deepseek/deepseek-v4-flash?`,
		"gibberish":               `unknown-model: unknown model "gibberish"`,
		"router/acme/lrge":        `unknown-model: unknown model "router/acme/lrge"; did you mean router/acme/large?`,
		"router/":                 `unknown-model: "router/" names no model of the provider router; did you mean router/acme/large?`,
		"depseek/deepseek-v4-pro": `unknown-provider: unknown provider "depseek"; did you mean deepseek/deepseek-v4-pro?`,
		"deepsek/x":               `unknown-provider: unknown provider "deepsek"; did you mean the provider deepseek?`,
		"nobody/x":                `unknown-provider: unknown provider "nobody"; there are deepseek, router`,
	} {
		_, err := r.Resolve(s, ref)
		var e *llm.Error
		if !errors.As(err, &e) || string(e.Code)+": "+e.Error() != want {
			t.Errorf("%s: %v", ref, err)
		}
	}
	if got := r.Models(s); len(got) != 5 || got[0].Ref() != "deepseek/deepseek-v4-flash" || got[4].Ref() != "router/shared" {
		t.Errorf("%v", got)
	}
}

func request(provider string) *llm.Request {
	return &llm.Request{Header: &llm.Header{Provider: provider, Model: "m"}}
}

func TestStream(t *testing.T) {
	r, s := start(t)
	broken := errors.New("broken\n pipe")
	for name, f := range map[string]scripted{
		"good":  hello,
		"panic": func(context.Context, *llm.Request, func(llm.Chunk, error) bool) { panic("adapter") },
		"late": func(_ context.Context, _ *llm.Request, yield func(llm.Chunk, error) bool) {
			yield(llm.Chunk{Block: llm.BlockText, Text: "x"}, nil)
			panic(errors.New("later"))
		},
		"plain": func(_ context.Context, _ *llm.Request, yield func(llm.Chunk, error) bool) { yield(llm.Chunk{}, broken) },
		"typed": func(_ context.Context, _ *llm.Request, yield func(llm.Chunk, error) bool) {
			yield(llm.Chunk{}, &llm.Error{Code: llm.CodeServer, Message: "down"})
		},
		"cut": func(_ context.Context, _ *llm.Request, yield func(llm.Chunk, error) bool) {
			yield(llm.Chunk{Block: llm.BlockText, Text: "x"}, nil)
		},
		"nobody": nil,
	} {
		if f != nil {
			add(t, s, name, llm.Provider{Adapter: f})
		}
	}
	for name, want := range map[string]string{
		"good": "", "panic": "unknown: call the model: panic: adapter", "late": "unknown: call the model: panic: later",
		"plain": "unknown: call the model: broken pipe", "typed": "server: down",
		"cut": "stream-closed: cut: the answer ended before it was complete",
	} {
		got := llmtest.Collect(r.Stream(t.Context(), s, request(name)))
		said := ""
		if got.Err != nil {
			var e *llm.Error
			if !errors.As(got.Err, &e) {
				t.Fatalf("%s: %T", name, got.Err)
			}
			said = string(e.Code) + ": " + e.Error()
		}
		if said != want {
			t.Errorf("%s: %q", name, said)
		}
	}
	got := llmtest.Collect(r.Stream(t.Context(), s, request("nobody")))
	if got.Err == nil || !strings.HasPrefix(got.Err.Error(), `unknown provider "nobody"; there are `) {
		t.Error(got.Err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var e *llm.Error
	if got := llmtest.Collect(r.Stream(ctx, s, request("plain"))); !errors.As(got.Err, &e) || e.Code != llm.CodeAborted {
		t.Error(got.Err)
	}
}

func TestListenersWrapTheAdapter(t *testing.T) {
	r, s := start(t)
	add(t, s, "p", llm.Provider{Adapter: scripted(hello)})
	var heard []string
	listen := func(stage plugin.Stage, f plugin.Middleware[*llm.Request, llm.Stream]) func(context.Context) error {
		off, err := llm.StreamCall.On(s, f, plugin.At(stage))
		if err != nil {
			t.Fatal(err)
		}
		return off
	}
	for _, stage := range []plugin.Stage{llm.Transport, llm.Barrier, llm.Observe, llm.Admit} {
		listen(stage, func(ctx context.Context, req *llm.Request, next plugin.Next[*llm.Request, llm.Stream]) (llm.Stream, error) {
			heard = append(heard, string(stage))
			return next(ctx, req)
		})
	}
	stream := r.Stream(t.Context(), s, request("p"))
	if heard != nil {
		t.Error("a listener ran before anybody wanted the answer")
	}
	if got := llmtest.Collect(stream); got.Err != nil || llm.PlainText(got.Blocks) != "hello" {
		t.Errorf("%+v", got)
	}
	if got := strings.Join(heard, " "); got != "observe admit barrier transport" {
		t.Error(got)
	}
	for _, fail := range []func() error{func() error { return errors.New("no") }, func() error { panic("no") }} {
		off := listen(llm.Barrier, func(context.Context, *llm.Request, plugin.Next[*llm.Request, llm.Stream]) (llm.Stream, error) {
			return nil, fail()
		})
		var e *llm.Error
		if got := llmtest.Collect(r.Stream(t.Context(), s, request("p"))); !errors.As(got.Err, &e) || !strings.Contains(e.Error(), "user on llm/stream") {
			t.Error(got.Err)
		}
		if err := off(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestTheConsumersPanicIsItsOwn: what the loop body does wrong is not blamed on
// the adapter, and leaving the loop ends the call.
func TestTheConsumersPanicIsItsOwn(t *testing.T) {
	r, s := start(t)
	ended := 0
	add(t, s, "p", llm.Provider{Adapter: scripted(func(_ context.Context, _ *llm.Request, yield func(llm.Chunk, error) bool) {
		defer func() { ended++ }()
		for yield(llm.Chunk{Block: llm.BlockText, Text: "x"}, nil) {
		}
	})})
	func() {
		defer func() {
			if v := recover(); v != "mine" {
				t.Errorf("recovered %v", v)
			}
		}()
		for range r.Stream(t.Context(), s, request("p")) {
			panic("mine")
		}
	}()
	for range r.Stream(t.Context(), s, request("p")) {
		break
	}
	if ended != 2 {
		t.Errorf("%d calls ended", ended)
	}
}

func BenchmarkStream(b *testing.B) {
	tree := plugin.New(nil)
	s := tree.Root()
	if _, err := llm.Providers.Add(s, "p", llm.Provider{Adapter: scripted(func(_ context.Context, _ *llm.Request, yield func(llm.Chunk, error) bool) {
		for range 1000 {
			if !yield(llm.Chunk{Block: llm.BlockText, Text: "tok "}, nil) {
				return
			}
		}
		yield(llm.Chunk{Kind: llm.ChunkFinish}, nil)
	})}); err != nil {
		b.Fatal(err)
	}
	req := request("p")
	b.ReportAllocs()
	for b.Loop() {
		for _, err := range (service{}).Stream(b.Context(), s, req) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}
