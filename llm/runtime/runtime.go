// Package runtime provides [llm.Service]: it finds the model that a name means, and
// passes requests through [llm.StreamCall] to the adapter of their provider.
//
//	# cordis.yml
//	- id: llm
//	  plugin: llm
//	  required: true
//
// The service keeps nothing; it is used by many goroutines.
package runtime

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/dsh-harness/dsh/internal/nearest"
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
)

// Plugin provides [llm.Service]. It has no configuration: providers are rows of their own.
var Plugin = plugin.Plugin[struct{}]{
	Name: "llm",
	Doc:  "Calls models through the providers that other rows add.",
	Start: func(_ context.Context, s *plugin.Scope, _ struct{}) error {
		return llm.Service.Provide(s, service{})
	},
}

type service struct{}

// Models implements [llm.Runtime].
func (service) Models(s *plugin.Scope) []llm.Model {
	var all []llm.Model
	for name, p := range llm.Providers.Visible(s) {
		for _, m := range p.Models {
			m.Provider = name
			all = append(all, m)
		}
	}
	return all
}

// Resolve implements [llm.Runtime].
func (r service) Resolve(s *plugin.Scope, ref string) (llm.Model, error) {
	models := r.Models(s)
	if ref == "" {
		if len(models) == 0 {
			return llm.Model{}, unknown(llm.CodeUnknownProvider, "no provider lists a model: name one as provider/model, or add a row of the plugin llm-openai")
		}
		return models[0], nil
	}
	var bare []llm.Model
	for _, m := range models {
		if m.Ref() == ref {
			return m, nil
		}
		if m.ID == ref { // which may have a slash of its own
			bare = append(bare, m)
		}
	}
	if len(bare) == 1 {
		return bare[0], nil
	}
	if len(bare) > 1 {
		return llm.Model{}, unknown(llm.CodeUnknownModel, fmt.Sprintf("several providers have the model %q: say which with %s", ref, strings.Join(refs(bare), " or ")))
	}
	name, id, ok := strings.Cut(ref, "/")
	if !ok {
		return llm.Model{}, unknown(llm.CodeUnknownModel, fmt.Sprintf("unknown model %q%s", ref, hint(ref, models)))
	}
	p, ok := llm.Providers.Get(s, name)
	switch {
	case !ok:
		return llm.Model{}, unknownProvider(s, name, hint(ref, models))
	case id == "":
		return llm.Model{}, unknown(llm.CodeUnknownModel, fmt.Sprintf("%q names no model of the provider %s%s", ref, name, hint(ref, models)))
	case p.Exact:
		return llm.Model{}, unknown(llm.CodeUnknownModel, fmt.Sprintf("unknown model %q%s", ref, hint(ref, models)))
	}
	return llm.Model{Provider: name, ID: id}, nil
}

func unknown(code llm.Code, message string) *llm.Error {
	return &llm.Error{Code: code, Message: message}
}

func unknownProvider(s *plugin.Scope, name, hint string) *llm.Error {
	var names []string
	for known := range llm.Providers.Visible(s) {
		names = append(names, known)
	}
	if near := nearest.Name(name, names); hint == "" && near != "" {
		hint = "; did you mean the provider " + near + "?"
	}
	if hint == "" {
		hint = "; there are " + strings.Join(names, ", ")
		if len(names) == 0 {
			hint = "; no row adds one"
		}
	}
	return unknown(llm.CodeUnknownProvider, fmt.Sprintf("unknown provider %q%s", name, hint))
}

func refs(models []llm.Model) []string {
	out := make([]string, len(models))
	for i, m := range models {
		out[i] = m.Ref()
	}
	return out
}

// hint says which known model ref may have meant.
func hint(ref string, models []llm.Model) string {
	ids := make([]string, len(models))
	for i, m := range models {
		ids[i] = m.ID
	}
	full := refs(models)
	near := nearest.Name(ref, full)
	if near == "" {
		if id := nearest.Name(ref, ids); id != "" {
			for i := range ids {
				if ids[i] == id {
					near = full[i]
					break
				}
			}
		}
	}
	if near == "" {
		return ""
	}
	return "; did you mean " + near + "?"
}

// Stream implements [llm.Runtime].
func (service) Stream(ctx context.Context, s *plugin.Scope, req *llm.Request) llm.Stream {
	return func(yield func(llm.Chunk, error) bool) {
		c := call{yield: yield, scope: s, req: req}
		if err := c.run(ctx); err != nil && !c.left {
			yield(llm.Chunk{}, typed(ctx, err))
		}
	}
}

// call is one request on its way.
type call struct {
	yield   func(llm.Chunk, error) bool
	scope   *plugin.Scope
	req     *llm.Request
	outside bool // the consumer runs
	left    bool // the consumer wants no more
}

// run passes the answer on. It contains the panics of listeners and adapters, and
// none of the consumer's.
func (c *call) run(ctx context.Context) (err error) {
	defer func() {
		if c.outside {
			return
		}
		if v := recover(); v != nil {
			p := &plugin.PanicError{Value: v, Stack: debug.Stack()}
			c.scope.Log().Error("panic", "in", "the adapter of "+c.req.Header.Provider, "err", p, "stack", string(p.Stack))
			err = p
		}
	}()
	stream, err := llm.StreamCall.Run(ctx, c.scope, c.req, c.adapter)
	if err != nil {
		return err
	}
	finished := false
	for chunk, err := range stream {
		if err != nil {
			return err
		}
		finished = finished || chunk.Kind == llm.ChunkFinish
		c.outside = true
		more := c.yield(chunk, nil)
		c.outside = false
		if !more {
			c.left = true
			return nil
		}
	}
	if !finished {
		return unknown(llm.CodeStreamClosed, c.req.Header.Provider+": the answer ended before it was complete")
	}
	return nil
}

func (c *call) adapter(ctx context.Context, req *llm.Request) (llm.Stream, error) {
	p, ok := llm.Providers.Get(c.scope, req.Header.Provider)
	if !ok {
		return nil, unknownProvider(c.scope, req.Header.Provider, "")
	}
	return p.Adapter.Stream(ctx, req), nil
}

// typed makes any error an [*llm.Error].
func typed(ctx context.Context, err error) *llm.Error {
	var e *llm.Error
	if errors.As(err, &e) {
		return e
	}
	message := strings.Join(strings.Fields(err.Error()), " ")
	if ctx.Err() != nil {
		return &llm.Error{Code: llm.CodeAborted, Message: message, Err: err}
	}
	return &llm.Error{Code: llm.CodeUnknown, Message: "call the model: " + message, Err: err}
}
