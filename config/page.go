package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/dsh-harness/dsh/plugin"
)

// Markdown returns the reference page of what can be configured in these plugins: for each its
// documentation, the services that it needs, and its keys with type, default and meaning.
func Markdown(plugins []plugin.Definition) string {
	var b strings.Builder
	b.WriteString("# Configuration reference\n\nGenerated from the plugins' config types; do not edit.\n")
	for _, d := range sortedByName(plugins) {
		fmt.Fprintf(&b, "\n## %s\n", d.Name())
		if doc := strings.TrimSpace(d.Doc()); doc != "" {
			fmt.Fprintf(&b, "\n%s\n", doc)
		}
		var needs []string
		for _, n := range d.Needs() {
			needs = append(needs, "`"+n.Service()+"`")
		}
		if len(needs) > 0 {
			fmt.Fprintf(&b, "\nNeeds %s.\n", strings.Join(needs, ", "))
		}
		lines := pageLines("", reflect.ValueOf(d.NewConfig()).Elem(), nil)
		if len(lines) == 0 {
			b.WriteString("\nNothing to configure.\n")
			continue
		}
		b.WriteString("\n| key | type | default | meaning |\n| --- | --- | --- | --- |\n")
		for _, line := range lines {
			b.WriteString(line)
		}
	}
	return b.String()
}

// pageLines returns the lines of a table about v's type, whose default is v. prefix is the path to it.
func pageLines(prefix string, v reflect.Value, within []reflect.Type) []string {
	t := v.Type()
	if t.Kind() != reflect.Struct || isJSON(t) || isText(t) || slices.Contains(within, t) {
		return nil
	}
	within = append(within, t)
	var lines []string
	for _, s := range settingsOf(t) {
		path, value := prefix+s.key, v.FieldByIndex(s.index)
		def := ""
		inner := innerLines(path, value, within)
		describedInside := len(inner) > 0 && (s.typ.Kind() == reflect.Struct || s.typ.Kind() == reflect.Pointer)
		if raw := defaultOf(value); raw != nil && !describedInside {
			def = "`" + string(raw) + "`"
		}
		lines = append(lines, fmt.Sprintf("| `%s` | %s | %s | %s |\n", path, typeName(s.typ), cell(def), cell(s.doc)))
		lines = append(lines, inner...)
	}
	return lines
}

// innerLines describes the structs that a value holds, is, or points to.
func innerLines(path string, v reflect.Value, within []reflect.Type) []string {
	t := v.Type()
	switch t.Kind() {
	case reflect.Struct:
		return pageLines(path+".", v, within)
	case reflect.Pointer:
		if v.IsNil() {
			v = reflect.New(t.Elem())
		}
		return innerLines(path, v.Elem(), within)
	case reflect.Slice:
		return innerLines(path+"[]", reflect.New(t.Elem()).Elem(), within)
	case reflect.Map:
		return innerLines(path+".<name>", reflect.New(t.Elem()).Elem(), within)
	default:
		return nil
	}
}

// cell makes text fit into a cell of a table.
func cell(s string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "|", `\|`)
}

// typeName names a type as people who write files call it.
func typeName(t reflect.Type) string {
	switch {
	case t == durationType:
		return "duration"
	case t.Kind() == reflect.Pointer:
		return typeName(t.Elem())
	case isJSON(t):
		return "any"
	case isText(t):
		return "text"
	}
	switch t.Kind() {
	case reflect.Struct:
		return "map"
	case reflect.Map:
		return "map of " + plural(typeName(t.Elem()))
	case reflect.Slice:
		return "list of " + plural(typeName(t.Elem()))
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "number"
	case reflect.Interface:
		return "any"
	default: // integers: settingsOf lets nothing else through
		return "whole number"
	}
}

func plural(name string) string {
	for _, of := range []string{"list", "map"} {
		if rest, ok := strings.CutPrefix(name, of+" of "); ok {
			return of + "s of " + rest
		}
	}
	if name == "any" || name == "true or false" {
		return name
	}
	return name + "s"
}
