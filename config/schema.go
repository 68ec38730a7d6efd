package config

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/dsh-harness/dsh/plugin"
)

// Schema returns the JSON Schema of a cordis.yml with rows of these plugins, for editors. It
// demands no key of a config, because a layer may change just one of them, and cannot know the
// tags !replace and !remove, nor what a Validate method refuses.
func Schema(plugins []plugin.Definition) *jsonschema.Schema {
	row := &jsonschema.Schema{
		Type:                 "object",
		Description:          "A plugin to mount, or a change to the row of this id in a layer below.",
		AdditionalProperties: never(),
		Required:             []string{idKey},
		PropertyOrder:        []string{idKey, pluginKey, disabledKey, requiredKey, configKey},
		Properties: map[string]*jsonschema.Schema{
			idKey:       {Type: "string", Pattern: "^[a-z0-9-]{1,64}$", Description: "The name of the row, which other layers change it by."},
			pluginKey:   {Type: "string", Description: "The plugin that the row mounts."},
			configKey:   {Types: []string{"object", "null"}, Description: "The plugin's configuration."},
			disabledKey: {Type: "boolean", Description: "Whether the row is left out.", Default: json.RawMessage("false")},
			requiredKey: {Type: "boolean", Description: "Whether the program ends when the row fails to start.", Default: json.RawMessage("false")},
		},
	}
	for _, d := range sortedByName(plugins) {
		name := any(d.Name())
		known := row.Properties[pluginKey]
		known.OneOf = append(known.OneOf, &jsonschema.Schema{Const: &name, Description: d.Doc()})
		config := typeSchema(reflect.ValueOf(d.NewConfig()).Elem(), nil)
		config.Type, config.Types = "", []string{"object", "null"}
		row.AllOf = append(row.AllOf, &jsonschema.Schema{
			If: &jsonschema.Schema{
				Required:   []string{pluginKey},
				Properties: map[string]*jsonschema.Schema{pluginKey: {Const: &name}},
			},
			Then: &jsonschema.Schema{Properties: map[string]*jsonschema.Schema{configKey: config}},
		})
	}
	return &jsonschema.Schema{
		Schema: "https://json-schema.org/draft/2020-12/schema",
		Title:  "cordis.yml",
		Types:  []string{"array", "null"},
		Items:  row,
	}
}

func sortedByName(plugins []plugin.Definition) []plugin.Definition {
	return slices.SortedFunc(slices.Values(plugins), func(a, b plugin.Definition) int { return strings.Compare(a.Name(), b.Name()) })
}

// never is the schema that nothing satisfies, which JSON writes as false.
func never() *jsonschema.Schema { return &jsonschema.Schema{Not: &jsonschema.Schema{}} }

// typeSchema returns the schema of v's type, with v as default. within lists the struct types
// around it: one that contains itself is described once.
func typeSchema(v reflect.Value, within []reflect.Type) *jsonschema.Schema {
	t := v.Type()
	element := func() *jsonschema.Schema { return typeSchema(reflect.New(t.Elem()).Elem(), within) }
	switch {
	case t == durationType:
		return &jsonschema.Schema{Type: "string", Description: `A duration such as "30s" or "1h30m".`}
	case t.Kind() == reflect.Pointer:
		inner := element()
		if !v.IsNil() {
			inner = typeSchema(v.Elem(), within)
		}
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{inner, {Type: "null"}}}
	case isJSON(t):
		return &jsonschema.Schema{}
	case isText(t):
		return &jsonschema.Schema{Type: "string"}
	}
	switch t.Kind() {
	case reflect.Struct:
		s := &jsonschema.Schema{Type: "object"}
		if slices.Contains(within, t) {
			return s
		}
		s.AdditionalProperties, s.Properties = never(), map[string]*jsonschema.Schema{}
		for _, setting := range settingsOf(t) {
			value := v.FieldByIndex(setting.index)
			property := typeSchema(value, append(within, t))
			if setting.doc != "" {
				property.Description = strings.TrimSpace(setting.doc + " " + property.Description)
			}
			if setting.typ.Kind() != reflect.Struct {
				property.Default = defaultOf(value)
			}
			s.Properties[setting.key] = property
			s.PropertyOrder = append(s.PropertyOrder, setting.key)
		}
		return s
	case reflect.Map:
		return &jsonschema.Schema{Type: "object", AdditionalProperties: element()}
	case reflect.Slice:
		return &jsonschema.Schema{Type: "array", Items: element()}
	case reflect.String:
		return &jsonschema.Schema{Type: "string"}
	case reflect.Bool:
		return orReference("boolean")
	case reflect.Float32, reflect.Float64:
		return orReference("number")
	case reflect.Interface:
		return &jsonschema.Schema{}
	default: // integers: settingsOf lets nothing else through
		return orReference("integer")
	}
}

// orReference is the schema of a type that a text may stand for if it is a reference.
func orReference(name string) *jsonschema.Schema {
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: name}, {Type: "string", Pattern: `^\$\{(env|file):[^}]*\}$`}}}
}

// defaultOf returns a default as JSON, or nil where there is nothing to tell.
func defaultOf(v reflect.Value) json.RawMessage {
	switch v.Kind() {
	case reflect.Slice, reflect.Map, reflect.Pointer, reflect.Interface, reflect.String, reflect.Struct:
		if v.IsZero() {
			return nil
		}
	default:
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(written(v)); err != nil {
		return nil // a default that JSON cannot hold is just not told
	}
	return bytes.TrimSpace(out.Bytes())
}

// written returns what a file would have to say to get v.
func written(v reflect.Value) any {
	t := v.Type()
	if t == durationType {
		return shortDuration(time.Duration(v.Int()))
	}
	if isJSON(t) || isText(t) {
		return v.Interface()
	}
	switch t.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return written(v.Elem())
	case reflect.Struct:
		m := map[string]any{}
		for _, s := range settingsOf(t) {
			m[s.key] = written(v.FieldByIndex(s.index))
		}
		return m
	case reflect.Slice:
		all := make([]any, v.Len())
		for i := range all {
			all[i] = written(v.Index(i))
		}
		return all
	case reflect.Map:
		m := map[string]any{}
		for k, e := range v.Seq2() {
			m[k.String()] = written(e)
		}
		return m
	default:
		return v.Interface()
	}
}

// shortDuration writes 2m0s as 2m and 1h0m0s as 1h.
func shortDuration(d time.Duration) string {
	s := d.String()
	if short, ok := strings.CutSuffix(s, "m0s"); ok {
		s = short + "m"
	}
	if short, ok := strings.CutSuffix(s, "h0m"); ok {
		s = short + "h"
	}
	return s
}
