package schema

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// For returns the schema of the struct type t. Members are named by `json` tags
// and described by `doc` tags; a member is required unless its field is a
// pointer, omitempty or omitzero; `enum:"a,b"` lists the values of a string; members
// that have no field are refused.
//
// For panics when t holds what has no schema here: recursive types, arrays, byte
// slices, pointers but as fields, channels, types that encode themselves but
// [json.RawMessage]. That is a mistake in the program.
func For(t reflect.Type) *Schema {
	if t.Kind() != reflect.Struct {
		panic(fmt.Sprintf("schema: arguments are a struct, not %s", t))
	}
	d := deriver{}
	root := d.node(t, t.String())
	return &Schema{root: root, text: appendSchema(nil, root)}
}

type deriver struct {
	open []reflect.Type // the structs that enclose what is derived, to find recursion
}

func (d *deriver) node(t reflect.Type, where string) *node {
	switch {
	case t == reflect.TypeFor[json.RawMessage]():
		return &node{kinds: anything}
	case encodesItself(t):
		panic(fmt.Sprintf("schema: %s encodes itself, so its schema is unknown: %s", t, where))
	}
	switch t.Kind() {
	case reflect.Bool:
		return &node{kinds: boolean}
	case reflect.Int, reflect.Int64:
		return &node{kinds: integer}
	case reflect.Uint, reflect.Uint64:
		return &node{kinds: integer, unsigned: true}
	case reflect.Int8, reflect.Int16, reflect.Int32:
		return &node{kinds: integer, bits: t.Bits()}
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return &node{kinds: integer, bits: t.Bits(), unsigned: true}
	case reflect.Float64:
		return &node{kinds: number | integer}
	case reflect.Float32:
		return &node{kinds: number | integer, bits: t.Bits()}
	case reflect.String:
		return &node{kinds: text}
	case reflect.Interface:
		if t.NumMethod() == 0 {
			return &node{kinds: anything}
		}
	case reflect.Slice:
		if t.Elem().Kind() != reflect.Uint8 { // those encode as base64
			return &node{kinds: array, items: d.node(t.Elem(), where+"[]"), nilable: true}
		}
	case reflect.Map:
		if t.Key().Kind() == reflect.String && !encodesItself(t.Key()) {
			return &node{kinds: object, extra: d.node(t.Elem(), where+"[]"), nilable: true}
		}
	case reflect.Struct:
		return d.structure(t, where)
	case reflect.Invalid, reflect.Uintptr, reflect.Complex64, reflect.Complex128, reflect.Array, reflect.Chan,
		reflect.Func, reflect.Pointer, reflect.UnsafePointer:
	}
	panic(fmt.Sprintf("schema: %s has no schema: %s", t, where))
}

func (d *deriver) structure(t reflect.Type, where string) *node {
	if slices.Contains(d.open, t) {
		panic(fmt.Sprintf("schema: %s is recursive: %s", t, where))
	}
	d.open = append(d.open, t)
	defer func() { d.open = d.open[:len(d.open)-1] }()
	n := &node{kinds: object}
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct:
			n.members = append(n.members, d.structure(f.Type, where).members...)
			continue
		case f.Anonymous && name == "":
			panic(fmt.Sprintf("schema: an embedded %s has no schema: %s", f.Type, where))
		case !f.IsExported() || name == "-":
			continue
		case name == "":
			name = f.Name
		}
		n.members = append(n.members, d.member(f, name, options, where+"."+f.Name))
	}
	names := n.names()
	slices.Sort(names)
	if len(slices.Compact(names)) < len(n.members) {
		panic(fmt.Sprintf("schema: two fields have one name: %s", where))
	}
	return n
}

func (d *deriver) member(f reflect.StructField, name, options, where string) member {
	m := member{name: name, required: true}
	t := f.Type
	if t.Kind() == reflect.Pointer {
		m.required, t = false, t.Elem()
	}
	m.node = d.node(t, where)
	for o := range strings.SplitSeq(options, ",") {
		switch o {
		case "":
		case "omitempty", "omitzero":
			m.required = false
		default:
			panic(fmt.Sprintf("schema: the option %q of a json tag is not supported: %s", o, where))
		}
	}
	m.node.description = f.Tag.Get("doc")
	if values, ok := f.Tag.Lookup("enum"); ok {
		if m.node.kinds != text {
			panic(fmt.Sprintf("schema: only strings have an enum: %s", where))
		}
		for v := range strings.SplitSeq(values, ",") {
			m.node.enum = append(m.node.enum, v)
		}
	}
	return m
}

// encodesItself reports whether encoding/json asks values of t for their encoding.
func encodesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	for _, i := range [...]reflect.Type{
		reflect.TypeFor[json.Marshaler](), reflect.TypeFor[json.Unmarshaler](),
		reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.TextUnmarshaler](),
	} {
		if p.Implements(i) {
			return true
		}
	}
	return false
}
