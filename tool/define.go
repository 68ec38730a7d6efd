package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/tool/internal/schema"
)

// Definition is a tool: what the model is told about it, and what runs when it is
// called. [New] and [NewRaw] make one. The zero value is no tool; its methods must
// not be called but Name. It never changes and may be used by many goroutines at once.
type Definition struct{ *definition }

type definition struct {
	spec   Spec
	schema func() *schema.Schema
	bind   func(*Call) (Body, error)
}

// New returns a tool whose arguments are the struct type In. Its schema is derived
// from In when it is first needed: members are named by `json` tags and described by
// `doc` tags, `enum:"a,b"` lists the values of a string, and a member may be
// left out when its field is a pointer, omitempty or omitzero. Members that In does not
// have are refused. The schema and In cannot drift apart: what the schema
// accepts decodes into In, and what In encodes to the schema accepts.
//
// run is called by the registry for calls that may run, each in a goroutine
// of its own; several at once, if the Spec says Parallel. Its context ends with
// the turn, after the tool's timeout, or with the harness: run then returns soon,
// telling in its result or error what became of the call. An error is for what
// went wrong outside of the tool's own rules; the model sees its text. For what the
// model can mend return [Failure].
//
// New panics when the name is not [a-z0-9_]{1,64}, and the first use of the
// definition when In has no schema: mistakes of the programmer.
//
//	type input struct {
//		Path  string `json:"path" doc:"the file, relative to the folder of the session"`
//		Lines int    `json:"lines,omitempty" doc:"how many lines, all of them by default"`
//	}
//
//	head := tool.New(tool.Spec{Name: "head", Description: "Reads the first lines of a file."},
//		func(ctx context.Context, c *tool.Call, in input) (tool.Result, error) { … })
func New[In any](spec Spec, run func(ctx context.Context, c *Call, in In) (Result, error)) Definition {
	if !validName(spec.Name) {
		panic(fmt.Sprintf("tool: the name %q is not [a-z0-9_]{1,64}", spec.Name))
	}
	return Definition{&definition{
		spec:   spec,
		schema: sync.OnceValue(func() *schema.Schema { return schema.For(reflect.TypeFor[In]()) }),
		bind: func(c *Call) (Body, error) {
			var in In
			if err := json.Unmarshal(c.Arguments, &in); err != nil {
				return nil, fmt.Errorf("decode the arguments of %s: %w", spec.Name, err)
			}
			return func(ctx context.Context) (Result, error) { return run(ctx, c, in) }, nil
		},
	}}
}

// NewRaw returns a tool with a schema that somebody else wrote, for example an MCP
// server. The model gets that schema as it is. Arguments are checked for what
// can be known here: type, properties, required, additionalProperties, items,
// enum and const; the rest is for run to check. Something that is no JSON
// object in place of a schema means that any object will do. run gets the
// arguments as compact JSON; for the rest see [New]. NewRaw accepts any name.
func NewRaw(spec Spec, parameters json.RawMessage, run func(ctx context.Context, c *Call, arguments json.RawMessage) (Result, error)) Definition {
	return Definition{&definition{
		spec: spec,
		schema: sync.OnceValue(func() *schema.Schema {
			s, err := schema.Parse(parameters)
			if err != nil {
				return schema.AnyObject()
			}
			return s
		}),
		bind: func(c *Call) (Body, error) {
			return func(ctx context.Context) (Result, error) { return run(ctx, c, c.Arguments) }, nil
		},
	}}
}

func validName(name string) bool {
	return len(name) >= 1 && len(name) <= 64 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// Add adds tools to [Tools] until s ends; it is what the Start of a tool's plugin calls.
func Add(s *plugin.Scope, tools ...Definition) error {
	for _, d := range tools {
		if _, err := Tools.Add(s, d.Name(), d); err != nil {
			return err
		}
	}
	return nil
}

// Name returns what the model calls; "" for the zero value.
func (d Definition) Name() string {
	if d.definition == nil {
		return ""
	}
	return d.spec.Name
}

// Description returns what the model reads.
func (d Definition) Description() string { return d.spec.Description }

// Effect tells what running a call twice does, [session.EffectUnknown] when the
// Spec does not say.
func (d Definition) Effect() session.Effect {
	if d.definition == nil || d.spec.Effect == "" {
		return session.EffectUnknown
	}
	return d.spec.Effect
}

// Parallel tells whether calls may run beside others.
func (d Definition) Parallel() bool { return d.definition != nil && d.spec.Parallel }

// Timeout bounds the body; 0 means the registry's default.
func (d Definition) Timeout() time.Duration { return d.spec.Timeout }

// Schema returns the JSON Schema of the arguments: compact, the same bytes in
// every process. The caller must not change it.
func (d Definition) Schema() json.RawMessage { return d.schema().JSON() }

// Access returns what c touches, see [Spec]. The arguments of c must be valid.
func (d Definition) Access(c *Call) []Access {
	if d.spec.Access == nil {
		return nil
	}
	return d.spec.Access(c)
}

// Check checks raw, the arguments as a model sent them, and returns them in
// canonical spelling: compact JSON of an object. Empty arguments are the empty
// object. A string that holds the object or list that the schema wants is
// unwrapped, once. Null for a member that may be left out is dropped. Arguments of
// more than 4 MiB or 256 levels, duplicate keys, and whatever does not
// fit the schema are refused with an [*InvalidArgumentsError].
func (d Definition) Check(raw string) (json.RawMessage, error) {
	return d.schema().Check(raw)
}

// InvalidArgumentsError is the error of [Definition.Check]. Violations names
// everything that is wrong, one line each, in words that the model can act on.
type InvalidArgumentsError = schema.InvalidError

// Body is the code of a tool, with the arguments of one call.
type Body func(ctx context.Context) (Result, error)

// Bind decodes the arguments of a call and returns its body, which runs in the
// goroutine that calls it and without any guard: only the registry calls it.
// c.Arguments must be what [Definition.Check] returned.
func (d Definition) Bind(c *Call) (Body, error) { return d.bind(c) }

// Run binds a call and runs its body, for tests of a tool.
func (d Definition) Run(ctx context.Context, c *Call) (Result, error) {
	body, err := d.Bind(c)
	if err != nil {
		return Result{}, err
	}
	return body(ctx)
}
