package schema

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/jsonschema-go/jsonschema"
	"pgregory.net/rapid"
)

// oracle validates with a general JSON Schema library.
func oracle(t testing.TB, s *Schema) func(raw []byte) error {
	var parsed jsonschema.Schema
	if err := json.Unmarshal(s.JSON(), &parsed); err != nil {
		t.Fatal(err)
	}
	resolved, err := parsed.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return func(raw []byte) error {
		var v any
		if err := json.Unmarshal(raw, &v); err != nil {
			return err
		}
		return resolved.Validate(v)
	}
}

// fitting generates JSON text that a schema, read as JSON, accepts.
func fitting(t *rapid.T, schema map[string]any, depth int) string {
	space := rapid.SampledFrom([]string{"", "", " ", "\n\t"}).Draw(t, "space")
	if values, ok := schema["enum"].([]any); ok {
		return space + encode(t, rapid.SampledFrom(values).Draw(t, "enum"))
	}
	switch schema["type"] {
	case "object":
		var members []string
		add := func(name string, s any) {
			members = append(members, encode(t, name)+space+":"+fitting(t, s.(map[string]any), depth+1))
		}
		required, _ := schema["required"].([]any)
		properties, _ := schema["properties"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			if slices.Contains(required, any(name)) || rapid.Bool().Draw(t, "there") {
				add(name, properties[name])
			}
		}
		if extra, ok := schema["additionalProperties"].(map[string]any); ok {
			for _, name := range rapid.SliceOfNDistinct(rapid.String(), 0, 3, rapid.ID).Draw(t, "keys") {
				add(name, extra)
			}
		}
		if len(members) > 1 {
			members = rapid.Permutation(members).Draw(t, "order")
		}
		return space + "{" + strings.Join(members, ",") + space + "}"
	case "array":
		items := make([]string, rapid.IntRange(0, 3).Draw(t, "length"))
		for i := range items {
			items[i] = fitting(t, schema["items"].(map[string]any), depth+1)
		}
		return space + "[" + strings.Join(items, ",") + space + "]"
	case "integer":
		low, high := int64(math.MinInt64), int64(math.MaxInt64)
		if v, ok := schema["minimum"].(float64); ok {
			low = int64(v)
		}
		if v, ok := schema["maximum"].(float64); ok {
			high = int64(v)
		}
		spelling := rapid.SampledFrom([]string{"", "", ".0", "e0", "e+0", "E-0"}).Draw(t, "spelling")
		return encode(t, rapid.Int64Range(low, high).Draw(t, "integer")) + spelling
	case "number":
		return encode(t, rapid.Float32().Filter(finite).Draw(t, "number"))
	case "boolean":
		return encode(t, rapid.Bool().Draw(t, "boolean"))
	case "string":
		return encode(t, rapid.String().Draw(t, "string"))
	}
	return anyJSON(t, depth)
}

func finite(f float32) bool { return !math.IsNaN(float64(f)) && !math.IsInf(float64(f), 0) }

// anyJSON generates any JSON text, as its callers need it: not too deep.
func anyJSON(t *rapid.T, depth int) string {
	kinds := []string{"null", "bool", "string", "integer", "number", "list", "object", "held"}
	if depth > 3 {
		kinds = kinds[:5]
	}
	switch rapid.SampledFrom(kinds).Draw(t, "kind") {
	case "bool":
		return encode(t, rapid.Bool().Draw(t, "bool"))
	case "string":
		return encode(t, rapid.SampledFrom([]string{"", "a", "fast", "pending", "{", "\x00é\u2028"}).Draw(t, "string"))
	case "integer":
		return rapid.SampledFrom([]string{"0", "-0", "7", "1e2", "1.0", "300", "-129", "18446744073709551615"}).Draw(t, "integer")
	case "number":
		return rapid.SampledFrom([]string{"0.5", "-1.5e-3", "1e20", "0.1e1"}).Draw(t, "number")
	case "list":
		items := make([]string, rapid.IntRange(0, 3).Draw(t, "length"))
		for i := range items {
			items[i] = anyJSON(t, depth+1)
		}
		return "[" + strings.Join(items, ",") + "]"
	case "object":
		var members []string
		names := rapid.SampledFrom([]string{"file_path", "todos", "content", "status", "limit", "env", "Plain", "mode", "x"})
		for _, name := range rapid.SliceOfNDistinct(names, 0, 5, rapid.ID).Draw(t, "keys") {
			members = append(members, encode(t, name)+":"+anyJSON(t, depth+1))
		}
		return "{" + strings.Join(members, ",") + "}"
	case "held":
		return encode(t, anyJSON(t, depth+1))
	}
	return "null"
}

func encode(t *rapid.T, v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestS22_InputGeneratedFromTheSchemaFitsAndDecodes(t *testing.T) {
	for _, typ := range []reflect.Type{
		reflect.TypeFor[shapes](), reflect.TypeFor[globInput](), reflect.TypeFor[todoInput](), reflect.TypeFor[struct{}](),
	} {
		s := For(typ)
		valid := oracle(t, s)
		var parsed map[string]any
		if err := json.Unmarshal(s.JSON(), &parsed); err != nil {
			t.Fatal(err)
		}
		t.Run(typ.String(), rapid.MakeCheck(func(t *rapid.T) {
			raw := fitting(t, parsed, 0)
			out, err := s.Check(raw)
			if err != nil {
				t.Fatalf("%s\nis refused: %v", raw, err)
			}
			if err := valid(out); err != nil {
				t.Fatalf("%s\nbecame %s\nwhich the oracle refuses: %v", raw, out, err)
			}
			d := json.NewDecoder(bytes.NewReader(out))
			d.DisallowUnknownFields()
			if err := d.Decode(reflect.New(typ).Interface()); err != nil {
				t.Fatalf("%s\nbecame %s\nwhich does not decode: %v", raw, out, err)
			}
			again, err := s.Check(string(out))
			if err != nil || !bytes.Equal(again, out) {
				t.Fatalf("%s\nchecked again is %s, %v", out, again, err)
			}
		}))
	}
}

func TestS22_AnyValueOfTheTypeIsValidInput(t *testing.T) {
	s := For(reflect.TypeFor[shapes]())
	text := rapid.String()
	rapid.Check(t, func(t *rapid.T) {
		v := shapes{
			Path:  text.Draw(t, "path"),
			Mode:  rapid.SampledFrom([]string{"", "fast", "slow"}).Draw(t, "mode"),
			Limit: rapid.Int().Draw(t, "limit"),
			Small: rapid.Int8().Draw(t, "small"),
			Count: rapid.Uint().Draw(t, "count"),
			Byte:  rapid.Uint8().Draw(t, "byte"),
			Ratio: rapid.Float64().Filter(func(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }).Draw(t, "ratio"),
			Thin:  rapid.Float32().Filter(finite).Draw(t, "thin"),
			All:   rapid.Ptr(rapid.Bool(), true).Draw(t, "all"),
			Todos: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) todo {
				return todo{text.Draw(t, "content"), rapid.SampledFrom([]string{"pending", "done"}).Draw(t, "status")}
			}), 0, 3).Draw(t, "todos"),
			Env:      rapid.MapOfN(text, rapid.Int(), 0, 3).Draw(t, "env"),
			Grid:     rapid.SliceOfN(rapid.SliceOfN(text, 0, 2), 0, 2).Draw(t, "grid"),
			Plain:    rapid.Bool().Draw(t, "plain"),
			embedded: embedded{Inlined: text.Draw(t, "inlined")},
		}
		if rapid.Bool().Draw(t, "nil lists") {
			v.Todos, v.Env = nil, nil
		}
		out, err := s.Check(encode(t, v))
		if err != nil {
			t.Fatalf("%+v\nis refused: %v", v, err)
		}
		var back shapes
		if err := json.Unmarshal(out, &back); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(v, back, cmp.AllowUnexported(shapes{}), cmpopts.EquateEmpty()); d != "" {
			t.Fatal(d)
		}
	})
}

func TestCheckAgreesWithTheOracle(t *testing.T) {
	s := For(reflect.TypeFor[shapes]())
	valid := oracle(t, s)
	rapid.Check(t, func(t *rapid.T) {
		raw := anyJSON(t, 0)
		out, err := s.Check(raw)
		switch {
		case err == nil:
			if err := valid(out); err != nil {
				t.Fatalf("%s\nbecame %s\nwhich the oracle refuses: %v", raw, out, err)
			}
		case valid([]byte(raw)) == nil:
			t.Fatalf("the oracle accepts\n%s\nwhich is refused: %v", raw, err)
		}
	})
}

func TestEachMissingMemberIsNamed(t *testing.T) {
	s := For(reflect.TypeFor[shapes]())
	rapid.Check(t, func(t *rapid.T) {
		all := map[string]any{"file_path": "", "todos": []int{}, "env": struct{}{}, "Plain": true}
		gone := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"file_path", "todos", "env", "Plain"}), 1, 4, rapid.ID).Draw(t, "gone")
		for _, name := range gone {
			delete(all, name)
		}
		_, err := s.Check(encode(t, all))
		invalid, ok := err.(*InvalidError)
		if !ok || len(invalid.Violations) != len(gone) {
			t.Fatalf("without %q: %v", gone, err)
		}
		for _, name := range gone {
			if !slices.Contains(invalid.Violations, `"`+name+`" is missing`) {
				t.Fatalf("without %q: %v", gone, err)
			}
		}
	})
}

func FuzzCheck(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, `null`, `"{}"`, `{"file_path":"a","todos":[],"env":{},"Plain":true}`, `{"todos":"[]"}`, `{"a":1,"a":2}`,
		`{"limit":1e-9223372036854775809}`, `{"limit":-0.0e1}`, `{"count":1E+20}`, `{"\ud800":"\ud800"}`, "\xff", `{"extra":[[[]]],"raw":{"":{}}}`,
	} {
		f.Add(seed)
	}
	derived := For(reflect.TypeFor[shapes]())
	foreign, err := Parse(json.RawMessage(`{"properties":{"todos":{"type":"array"},"limit":{"type":"integer"}}}`))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		for _, s := range []*Schema{derived, foreign} {
			out, err := s.Check(raw)
			if err != nil {
				continue
			}
			again, err := s.Check(string(out))
			if err != nil || !bytes.Equal(again, out) {
				t.Fatalf("%s\nchecked again is %s, %v", out, again, err)
			}
			if s == derived {
				if err := json.Unmarshal(out, &shapes{}); err != nil {
					t.Fatalf("%s\ndoes not decode: %v", out, err)
				}
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"type":["string",3]}`, `{"properties":{"a":{"properties":{"b":false}}},"required":["a","a"]}`, `{"enum":[[]],"const":{}}`, `[]`, `{"items":[{}]}`,
	} {
		f.Add(seed, `{"a":{"b":[1]}}`)
	}
	f.Fuzz(func(t *testing.T, schema, raw string) {
		s, err := Parse(json.RawMessage(schema))
		if err != nil {
			return
		}
		if !json.Valid(s.JSON()) {
			t.Fatalf("the schema became %s", s.JSON())
		}
		if out, err := s.Check(raw); err == nil && !json.Valid(out) {
			t.Fatalf("%q became %q", raw, out)
		}
	})
}
