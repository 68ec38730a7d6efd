// Package schema makes the JSON Schema of a tool's arguments from a Go type and
// checks what a model sent against it. It serves package tool alone.
//
// It knows the part of JSON Schema that tools are written in: type, properties,
// required, additionalProperties, items, enum, const, description, and the
// bounds of integers. A general validator stops at the first violation and
// mends nothing; this one names all violations, undoes what models are known to
// get wrong, and returns the arguments in one canonical spelling.
//
// A [Schema] never changes and may be used by many goroutines at once.
package schema

import (
	"encoding/json"
	"slices"
	"strings"
)

// Schema is the schema of the arguments of one tool.
type Schema struct {
	root *node
	text json.RawMessage
}

// JSON returns the schema as compact JSON, the same bytes for the same type. The
// caller must not change it.
func (s *Schema) JSON() json.RawMessage { return s.text }

// kinds is a set of kinds of JSON values.
type kinds uint8

const (
	null kinds = 1 << iota
	boolean
	integer // a number without a fraction, however it is written
	number
	text
	array
	object

	anything = null | boolean | integer | number | text | array | object
)

// String names the kinds as a message about a wrong one does.
func (k kinds) String() string {
	var names []string
	for _, one := range [...]struct {
		kind kinds
		name string
	}{
		{boolean, "a boolean"}, {integer, "an integer"}, {number, "a number"}, {text, "a string"},
		{array, "a list"}, {object, "an object"}, {null, "null"},
	} {
		if k&one.kind != 0 && (one.kind != integer || k&number == 0) {
			names = append(names, one.name)
		}
	}
	return strings.Join(names, " or ")
}

// node is the schema of one value.
type node struct {
	kinds       kinds
	description string
	enum        []any // scalars as encoding/json decodes them; nil means any
	bits        int   // size of the Go integer or float; 0 means 64
	unsigned    bool

	members []member // of an object, in the order of the fields
	extra   *node    // of members that are not listed; nil means that there may be none
	items   *node    // of a list

	// nilable tells that nil of the Go type, which encodes as null, means the
	// empty list or object.
	nilable bool
}

type member struct {
	name     string
	required bool
	node     *node
}

func (n *node) member(name string) *member {
	i := slices.IndexFunc(n.members, func(m member) bool { return m.name == name })
	if i < 0 {
		return nil
	}
	return &n.members[i]
}

func (n *node) names() []string {
	names := make([]string, len(n.members))
	for i, m := range n.members {
		names[i] = m.name
	}
	return names
}

// bounds returns the least and the greatest value of an integer, as decimal digits
// with their sign.
func (n *node) bounds() (low int64, high uint64) {
	bits := n.bits
	if bits == 0 {
		bits = 64
	}
	if n.unsigned {
		return 0, 1<<bits - 1
	}
	return -1 << (bits - 1), 1<<(bits-1) - 1
}
