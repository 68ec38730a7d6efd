package loop_test

import (
	"context"
	"strings"

	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
)

type tmpRuntime struct{}

func (tmpRuntime) Resolve(s *plugin.Scope, ref string) (llm.Model, error) {
	if p, m, ok := strings.Cut(ref, "/"); ok && p == "live" {
		return llm.Model{Provider: p, ID: m}, nil
	}
	if ref == "fake/two" {
		return llm.Model{Provider: "fake", ID: "two"}, nil
	}
	return llm.Model{Provider: "fake", ID: "one"}, nil
}
func (tmpRuntime) Models(s *plugin.Scope) []llm.Model { return nil }
func (tmpRuntime) Stream(ctx context.Context, s *plugin.Scope, req *llm.Request) llm.Stream {
	return func(yield func(llm.Chunk, error) bool) {
		st, err := llm.StreamCall.Run(ctx, s, req, func(ctx context.Context, r *llm.Request) (llm.Stream, error) {
			p, _ := llm.Providers.Get(s, r.Header.Provider)
			return p.Adapter.Stream(ctx, r), nil
		})
		if err != nil {
			yield(llm.Chunk{}, &llm.Error{Code: llm.CodeUnknown, Message: err.Error(), Err: err})
			return
		}
		st(yield)
	}
}

func tmpRuntimePlugin() plugin.Plugin[struct{}] {
	return plugin.Plugin[struct{}]{Name: "llm", Start: func(_ context.Context, s *plugin.Scope, _ struct{}) error {
		return llm.Service.Provide(s, tmpRuntime{})
	}}
}
