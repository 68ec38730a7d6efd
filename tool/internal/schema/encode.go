package schema

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// appendSchema writes n as compact JSON Schema. Members stand in the order of
// the Go fields: the text is part of what providers cache by its bytes.
func appendSchema(b []byte, n *node) []byte {
	o := objectWriter{append(b, '{')}
	if name := schemaType(n.kinds); name != "" {
		o.key("type")
		o.b = appendString(o.b, name)
	}
	if n.description != "" {
		o.key("description")
		o.b = appendString(o.b, n.description)
	}
	if n.enum != nil {
		o.key("enum")
		o.b = appendList(o.b, n.enum, func(b []byte, v any) []byte { return appendString(b, v.(string)) })
	}
	if n.kinds == integer && (n.unsigned || n.bits != 0) {
		low, high := n.bounds()
		o.key("minimum")
		o.b = strconv.AppendInt(o.b, low, 10)
		if n.bits != 0 {
			o.key("maximum")
			o.b = strconv.AppendUint(o.b, high, 10)
		}
	}
	if n.items != nil {
		o.key("items")
		o.b = appendSchema(o.b, n.items)
	}
	if n.kinds == object {
		appendMembers(&o, n)
	}
	return append(o.b, '}')
}

func appendMembers(o *objectWriter, n *node) {
	if n.extra != nil {
		o.key("additionalProperties")
		o.b = appendSchema(o.b, n.extra)
		return
	}
	o.key("properties")
	properties := objectWriter{append(o.b, '{')}
	var required []string
	for _, m := range n.members {
		properties.key(m.name)
		properties.b = appendSchema(properties.b, m.node)
		if m.required {
			required = append(required, m.name)
		}
	}
	o.b = append(properties.b, '}')
	if required != nil {
		o.key("required")
		o.b = appendList(o.b, required, appendString)
	}
	o.key("additionalProperties")
	o.b = append(o.b, "false"...)
}

// schemaType returns the value of the keyword type; "" for no restriction.
func schemaType(k kinds) string {
	switch {
	case k == boolean:
		return "boolean"
	case k == integer:
		return "integer"
	case k == number|integer:
		return "number"
	case k == text:
		return "string"
	case k == array:
		return "array"
	case k == object:
		return "object"
	}
	return ""
}

// objectWriter writes the keys of one object.
type objectWriter struct{ b []byte }

func (o *objectWriter) key(k string) {
	if o.b[len(o.b)-1] != '{' {
		o.b = append(o.b, ',')
	}
	o.b = append(appendString(o.b, k), ':')
}

func appendList[T any](b []byte, list []T, appendOne func([]byte, T) []byte) []byte {
	b = append(b, '[')
	for i, v := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendOne(b, v)
	}
	return append(b, ']')
}

// appendString writes s as a JSON string, without the escapes for HTML that
// would only cost the model tokens.
func appendString(b []byte, s string) []byte {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err) // a string always has an encoding
	}
	return append(b, bytes.TrimSuffix(buf.Bytes(), []byte("\n"))...)
}
