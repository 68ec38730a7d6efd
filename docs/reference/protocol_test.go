package reference

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/dsh-harness/dsh/protocol"
	"github.com/dsh-harness/dsh/surface/acp"
	"github.com/dsh-harness/dsh/surface/tui"
	"github.com/dsh-harness/dsh/tool"
)

// schema is a JSON Schema, or a part of one.
type schema = map[string]any

// definitions gathers the types of the extensions, by name.
type definitions map[string]schema

// of returns the schema of a type; structs are referred to.
func (d definitions) of(t reflect.Type) schema {
	switch {
	case t == reflect.TypeFor[json.RawMessage](), t.Kind() == reflect.Interface:
		return schema{}
	case t == reflect.TypeFor[protocol.ContentBlock]():
		return schema{"description": "a ContentBlock of the Agent Client Protocol", "type": "object"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return d.of(t.Elem())
	case reflect.Slice:
		return schema{"type": "array", "items": d.of(t.Elem())}
	case reflect.Map:
		return schema{"type": "object", "additionalProperties": d.of(t.Elem())}
	case reflect.String:
		return schema{"type": "string"}
	case reflect.Bool:
		return schema{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return schema{"type": "integer"}
	case reflect.Float64:
		return schema{"type": "number"}
	case reflect.Struct:
		if t.NumField() == 0 {
			return schema{"type": "object"}
		}
		if _, known := d[t.Name()]; !known {
			d[t.Name()] = nil // it may refer to itself
			d[t.Name()] = d.object(t)
		}
		return schema{"$ref": "#/$defs/" + t.Name()}
	}
	panic("a type of the protocol has no schema: " + t.String())
}

// object is the schema of a struct. Members may be added in a later version, so others are allowed.
func (d definitions) object(t reflect.Type) schema {
	properties, required := schema{}, []string{}
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || !f.IsExported() {
			continue
		}
		s := d.of(f.Type)
		if doc := f.Tag.Get("doc"); doc != "" {
			s["description"] = doc // beside a reference, too: it is allowed in this draft
		}
		if values := f.Tag.Get("enum"); values != "" {
			s["enum"] = strings.Split(values, ",")
		}
		properties[name] = s
		if !strings.Contains(options, "omit") {
			required = append(required, name)
		}
	}
	slices.Sort(required)
	return schema{"type": "object", "properties": properties, "required": required}
}

// protocolSchema is the schema of our extensions of the Agent Client Protocol.
func protocolSchema(t *testing.T) string {
	defs := definitions{}
	methods, notes := schema{}, schema{}
	for _, m := range acp.Methods() {
		if strings.HasPrefix(m.Name, "_dsh/") {
			methods[m.Name] = schema{"description": m.Doc, "params": defs.of(m.Params), "result": defs.of(m.Result)}
		}
	}
	for _, n := range acp.Notes() {
		notes[n.Name] = schema{"description": n.Doc, "params": defs.of(n.Params)}
	}
	for _, other := range []reflect.Type{
		reflect.TypeFor[protocol.Offer](), reflect.TypeFor[protocol.Ask](), reflect.TypeFor[protocol.Problem](), reflect.TypeFor[tool.Presentation](),
	} {
		defs.of(other)
	}
	raw, err := json.MarshalIndent(schema{
		"$schema":       "https://json-schema.org/draft/2020-12/schema",
		"title":         "The extensions of dsh to the Agent Client Protocol",
		"description":   fmt.Sprintf("Version %d. Within a version methods and members are only added.", protocol.Version),
		"methods":       methods,
		"notifications": notes,
		"$defs":         defs,
	}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw) + "\n"
}

// protocolPage is the page of what a client may call.
func protocolPage(*testing.T) string {
	var b strings.Builder
	b.WriteString("# The client protocol\n\nGenerated from the table of methods. [The schema](protocol.schema.json) has the types of the extensions; those of the other methods are\n" +
		"in the schema of the Agent Client Protocol. Connections and tokens are in [the page about the server](../server.md).\n\n")
	b.WriteString("| method | does |\n| --- | --- |\n")
	for _, m := range acp.Methods() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", m.Name, m.Doc)
	}
	b.WriteString("\nA client that watches is sent:\n\n| notification | tells |\n| --- | --- |\n")
	for _, n := range acp.Notes() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", n.Name, n.Doc)
	}
	return b.String()
}

// keys is the page of what keys do.
func keys(*testing.T) string {
	var b strings.Builder
	b.WriteString("# Keys\n\nGenerated from the table of actions. [The page about the interface](../interface.md) says how to choose others.\n\n| action | keys | does |\n| --- | --- | --- |\n")
	for _, a := range tui.Actions() {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", a.Name, strings.Join(a.Keys, ", "), a.Doc)
	}
	return b.String()
}
