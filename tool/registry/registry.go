// Package registry resolves, checks and runs the calls of tools. It is the plugin
// "tools", which needs nothing and has no configuration; what tools there are
// comes from the plugins that add to [tool.Tools]:
//
//	# cordis.yml
//	- {id: tools, plugin: tools}
//
// It serves [tool.Service]; any goroutine may use it. Each body runs in a goroutine of
// its own that belongs to the plugin's scope.
package registry

import (
	"context"
	"runtime/debug"
	"sync/atomic"

	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/tool"
)

// Plugin provides [tool.Service].
var Plugin = plugin.Plugin[struct{}]{
	Name: "tools",
	Doc:  "The registry of tools: it checks the arguments of calls, has them decided on, and runs them.",
	Start: func(_ context.Context, s *plugin.Scope, _ struct{}) error {
		return tool.Service.Provide(s, &registry{scope: s})
	},
}

type registry struct {
	scope *plugin.Scope
	// strays counts bodies that ignored the end of their context and still run.
	strays atomic.Int64
}

func (r *registry) Schemas(s *plugin.Scope) []llm.ToolSchema {
	var schemas []llm.ToolSchema
	for name, d := range tool.Tools.Visible(s) {
		schemas = append(schemas, llm.ToolSchema{Name: name, Description: d.Description(), Parameters: d.Schema()})
	}
	return schemas
}

func (r *registry) Lookup(s *plugin.Scope, name string) (tool.Definition, bool) {
	return tool.Tools.Get(s, name)
}

// contain runs code of a tool and turns a panic into an error, after having logged its stack.
func (r *registry) contain(what string, f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			p := &plugin.PanicError{Value: v, Stack: debug.Stack()}
			r.scope.Log().Error("panic", "in", what, "err", p, "stack", string(p.Stack))
			err = p
		}
	}()
	return f()
}
