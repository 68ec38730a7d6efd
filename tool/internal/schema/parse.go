package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Parse reads a schema that somebody else wrote. What it says beyond what this
// package knows ($ref, oneOf, pattern, …) reaches the model and is not checked:
// whoever runs the call does that. Its text is kept as it is, made compact.
func Parse(raw json.RawMessage) (*Schema, error) {
	if !isObject(raw) {
		return nil, fmt.Errorf("a schema of arguments is a JSON object, not %.40q", raw)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		return nil, fmt.Errorf("read a schema of arguments: %w", err)
	}
	root := parse(raw)
	root.kinds = object // arguments always are
	return &Schema{root: root, text: compact.Bytes()}, nil
}

// AnyObject returns the schema that every object fits.
func AnyObject() *Schema {
	return &Schema{
		root: &node{kinds: object, extra: &node{kinds: anything}},
		text: json.RawMessage(`{"type":"object","properties":{}}`),
	}
}

func isObject(raw []byte) bool { return bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) }

// foreign is what is read of a schema. Each keyword is decoded by itself, so that
// one in an unknown form costs only its own check.
type foreign map[string]json.RawMessage

// read decodes one keyword and reports whether it is there in that form.
func (f foreign) read(keyword string, into any) bool {
	raw, ok := f[keyword]
	return ok && json.Unmarshal(raw, into) == nil
}

func parse(raw json.RawMessage) *node {
	var f foreign
	if !isObject(raw) || json.Unmarshal(raw, &f) != nil {
		return &node{kinds: anything} // true, or nothing that we know
	}
	n := &node{kinds: f.kinds()}
	var enum []any
	if f.read("enum", &enum) && scalars(enum) {
		n.enum = enum
	}
	var constant any
	if f.read("const", &constant) && scalars([]any{constant}) {
		n.enum = []any{constant}
	}
	if items, ok := f["items"]; ok {
		n.items = parse(items)
	}
	f.members(n)
	return n
}

// kinds returns what the keyword type allows.
func (f foreign) kinds() kinds {
	var names []string
	var name string
	switch {
	case f.read("type", &name):
		names = []string{name}
	case !f.read("type", &names):
		return anything
	}
	var k kinds
	for _, name := range names {
		switch name {
		case "null":
			k |= null
		case "boolean":
			k |= boolean
		case "integer":
			k |= integer
		case "number":
			k |= number | integer
		case "string":
			k |= text
		case "array":
			k |= array
		case "object":
			k |= object
		default:
			return anything
		}
	}
	if k == 0 {
		return anything
	}
	return k
}

// members reads what is said about the members of an object.
func (f foreign) members(n *node) {
	var properties map[string]json.RawMessage
	f.read("properties", &properties)
	var required []string
	f.read("required", &required)
	for _, name := range required {
		if n.member(name) == nil {
			n.members = append(n.members, member{name: name, required: true, node: &node{kinds: anything}})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		m := n.member(name)
		if m == nil {
			n.members = append(n.members, member{name: name})
			m = &n.members[len(n.members)-1]
		}
		m.node = parse(properties[name])
	}
	_, patterns := f["patternProperties"]
	extra, there := f["additionalProperties"]
	switch {
	case patterns || !there:
		n.extra = &node{kinds: anything}
	case string(extra) != "false":
		n.extra = parse(extra)
	}
}

func scalars(values []any) bool {
	for _, v := range values {
		switch v.(type) {
		case map[string]any, []any:
			return false
		}
	}
	return true
}
