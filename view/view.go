// Package view is the seam for what surfaces show of a session beside its conversation: projections, which are
// folded from its log, each with the panel and the editor's update that it brings. A capability that has
// something to show adds a [Projection] to [Projections]; no surface has to know it.
//
// A fold is used by one goroutine at a time. Everything else may be used from any.
package view

import (
	"reflect"

	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/protocol"
	"github.com/dsh-harness/dsh/session"
)

// Projections is the set of projections, by name: [a-z-]+. Surfaces show panels in this order.
var Projections = plugin.NewSet[Projection]("view/projections")

// Projection is state of a session that is folded from its log.
type Projection struct {
	Doc string // one sentence: what it holds
	// Type is the type of the values, for the schema: reflect.TypeFor[MyValue]().
	Type reflect.Type
	// New begins the fold of one session. s is the scope of its agent, or that of the program when the session has none.
	New func(s *plugin.Scope) Fold
	// Panel shows a value in few lines. Nil: it is not shown by itself.
	Panel func(value any) protocol.Panel
	// Update is what an editor is told when the value has changed. Nil, or an update whose Kind is "": nothing.
	Update func(value any) protocol.Update
}

// Fold follows one session. All its methods are called by one goroutine at a time.
type Fold interface {
	// Apply takes the next durable event and reports whether the value changed. It must be quick, and cost no more when the session is
	// long.
	Apply(session.Event) bool
	// Value returns the value as it is: something that encodes to JSON and that nobody changes any more.
	Value() any
}
