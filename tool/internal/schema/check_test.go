package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// check returns what Check makes of raw, or the violations, one a line.
func check(s *Schema, raw string) string {
	out, err := s.Check(raw)
	if err == nil {
		return string(out)
	}
	var invalid *InvalidError
	if !errors.As(err, &invalid) {
		return "untyped error: " + err.Error()
	}
	return "! " + strings.Join(invalid.Violations, "\n! ")
}

func TestCheck(t *testing.T) {
	s := For(reflect.TypeFor[shapes]())
	const rest = `"todos":[],"env":{},"Plain":true`
	for _, c := range []struct{ name, raw, want string }{
		{"canonical", ` { "file_path" : "a\u0062" , ` + rest + ` } `, `{"file_path":"a\u0062","todos":[],"env":{},"Plain":true}`},
		{"integral numbers", `{"file_path":"a",` + rest + `,"limit":5.0,"count":1.2e2,"small":-0,"byte":2550e-1}`,
			`{"file_path":"a",` + rest + `,"limit":5,"count":120,"small":0,"byte":255}`},
		{"null for what may be absent", `{"file_path":"a",` + rest + `,"limit":null,"all":null,"mode":null}`, `{"file_path":"a",` + rest + `}`},
		{"null for a list and a map", `{"file_path":"a","todos":null,"env":null,"Plain":true}`, `{"file_path":"a","todos":[],"env":{},"Plain":true}`},
		{"null for what may be anything", `{"file_path":"a",` + rest + `,"extra":null}`, `{"file_path":"a",` + rest + `,"extra":null}`},
		{"anything", `{"file_path":"a",` + rest + `,"extra":[1.50,{"x":"\/"}],"raw":"s"}`, `{"file_path":"a",` + rest + `,"extra":[1.50,{"x":"\/"}],"raw":"s"}`},

		{"all violations", `{"filepath":1,"limit":"3","mode":"medium","todos":[{"content":1,"status":"gone"},3],"env":{"A":true}}`,
			`! "filepath" is not known; did you mean "file_path"?
! "limit" must be an integer, not a string
! "mode" must be one of "fast", "slow", not "medium"
! "todos[0].content" must be a string, not a number
! "todos[0].status" must be one of "pending", "done", not "gone"
! "todos[1]" must be an object, not a number
! "env.A" must be an integer, not a boolean
! "file_path" is missing
! "Plain" is missing`},
		{"bounds", `{"file_path":"a",` + rest + `,"limit":1e300,"small":128,"count":-1,"byte":256,"ratio":1e999,"thin":1e39}`,
			`! "limit" must be between -9223372036854775808 and 9223372036854775807, not 1e300
! "small" must be between -128 and 127, not 128
! "count" must be between 0 and 18446744073709551615, not -1
! "byte" must be between 0 and 255, not 256
! "ratio" must be a number of ordinary size, not 1e999
! "thin" must be a number of ordinary size, not 1e39`},
		{"fractions", `{"file_path":"a",` + rest + `,"limit":1.5,"count":1e-1,"small":10.01,"byte":1e-999999999999}`,
			`! "limit" must be an integer, not 1.5
! "count" must be an integer, not 1e-1
! "small" must be an integer, not 10.01
! "byte" must be an integer, not 1e-999999999999`},
		{"null for what must be there", `{"file_path":null,` + rest + `}`, `! "file_path" must be a string, not null`},
		{"unknown", `{"file_path":"a",` + rest + `,"todos2xyz":{"a":[1]}}`, `! "todos2xyz" is not known; there are only "file_path", "mode", "limit", "small", "count", "byte", "ratio", "thin", "all", "todos", "env", "extra", "raw", "grid", "Plain", "inlined"`},
		{"key in another case", `{"File_Path":"a",` + rest + `}`, "! \"File_Path\" is not known; did you mean \"file_path\"?\n! \"file_path\" is missing"},
		{"not an object", `[1]`, `! the arguments must be an object, not a list`},
		{"null", `null`, `! the arguments must be an object, not null`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if d := cmp.Diff(c.want, check(s, c.raw)); d != "" {
				t.Error(d)
			}
		})
	}
}

type globInput struct {
	Pattern string `json:"pattern"`
}

type todoInput struct {
	Todos []todo `json:"todos"`
}

// A whole call, or one list, that arrives as a string which holds it.
func TestCase_o_str_14_UnwrapsOnceWhatAStringHolds(t *testing.T) {
	glob, todos := For(reflect.TypeFor[globInput]()), For(reflect.TypeFor[todoInput]())
	for _, c := range []struct {
		name      string
		s         *Schema
		raw, want string
	}{
		{"whole call", glob, `"{\"pattern\":\"**/*.md\"}"`, `{"pattern":"**/*.md"}`},
		{"a list", todos, `{"todos":"[{\"content\":\"a\",\"status\":\"pending\"}]"}`, `{"todos":[{"content":"a","status":"pending"}]}`},
		{"both", todos, `"{\"todos\":\" [] \"}"`, `{"todos":[]}`},
		{"an element", todos, `{"todos":["{\"content\":\"a\",\"status\":\"done\"}"]}`, `{"todos":[{"content":"a","status":"done"}]}`},
		{"a string stays a string", glob, `{"pattern":"{\"a\":1}"}`, `{"pattern":"{\"a\":1}"}`},
		{"twice wrapped", glob, `"\"{\\\"pattern\\\":\\\"x\\\"}\""`, `! the arguments must be an object, not a string`},
		{"broken inside", todos, `{"todos":"[{\"content\":"}`, `! "todos" must be a list, not a string`},
		{"another kind inside", todos, `{"todos":"{}"}`, `! "todos" must be a list, not a string`},
		{"wrong inside", todos, `{"todos":"[{\"content\":1,\"status\":\"done\"}]"}`, `! "todos[0].content" must be a string, not a number`},
		{"twice there inside", glob, `"{\"pattern\":\"a\",\"pattern\":\"b\"}"`, `! "pattern" is there twice`},
		{"empty string", glob, `""`, `! the arguments must be an object, not a string`},
		{"word", glob, `"**"`, `! the arguments must be an object, not a string`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if d := cmp.Diff(c.want, check(c.s, c.raw)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestCase_o_str_16_NoArgumentsAreTheEmptyObject(t *testing.T) {
	none := For(reflect.TypeFor[struct{}]())
	for _, raw := range []string{"", " \n", "{}", " { } "} {
		if got := check(none, raw); got != "{}" {
			t.Errorf("%q: got %s", raw, got)
		}
	}
	if got, want := check(For(reflect.TypeFor[globInput]()), ""), `! "pattern" is missing`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Arguments that no tool must run on.
func TestTrust_A06_BrokenArgumentsAreRefused(t *testing.T) {
	s := For(reflect.TypeFor[shapes]())
	foreign, err := Parse(json.RawMessage(`{"type":"object"}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, raw := range map[string]string{
		"cut in a string":  `{"file_path":"README.md","content":"# T\n\nline 1\nli`,
		"cut in a key":     `{"file_p`,
		"cut after a key":  `{"file_path"`,
		"only the bracket": `{`,
		"trailing comma":   `{"file_path":"a",}`,
		"two objects":      `{}{}`,
		"text behind":      `{} done`,
		"fence":            "```json\n{}\n```",
		"comment":          `{/* */}`,
		"control":          "{\"file_path\":\"a\nb\"}",
		"lone escape":      `{"file_path":"\x"}`,
		"NaN":              `{"limit":NaN}`,
		"leading zero":     `{"limit":01}`,
		"duplicate key":    `{"file_path":"a","file_path":"b"}`,
		"duplicate escape": `{"file_path":"a","f\u0069le_path":"b"}`,
		"deep duplicate":   `{"extra":{"a":[{"b":1,"b":1}]}}`,
		"depth 10,000":     `{"extra":` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + `}`,
		"depth, unclosed":  strings.Repeat(`{"a":`, 1_000_000),
		"depth in string":  `"` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `"`,
		"10 MB":            `{"file_path":"` + strings.Repeat("a", 10<<20) + `"}`,
		"10 MB of quotes":  strings.Repeat(`"`, 10<<20),
		"a NUL":            "{\x00}",
		"a BOM":            "\ufeff{}",
	} {
		t.Run(name, func(t *testing.T) {
			for what, s := range map[string]*Schema{"derived": s, "foreign": foreign} {
				start := time.Now()
				got := check(s, raw)
				if what == "foreign" && (name == "deep duplicate" || strings.HasPrefix(name, "duplicate")) && !strings.Contains(got, "twice") {
					t.Errorf("%s: the duplicate is not named: %s", what, got)
				}
				if !strings.HasPrefix(got, "! ") || len(got) > 2000 || strings.Contains(strings.ReplaceAll(got, "\n! ", ""), "\n") {
					t.Errorf("%s: not refused in short lines: %.300s", what, got)
				}
				if d := time.Since(start); d > 5*time.Second {
					t.Errorf("%s: took %v", what, d)
				}
			}
		})
	}
}

func TestSyntaxErrorsNameThePlace(t *testing.T) {
	s := For(reflect.TypeFor[globInput]())
	for raw, want := range map[string]string{
		`{"pattern":"ab`: `! the arguments are not valid JSON: unexpected end of JSON input, at byte 14 of 14`,
		`{"pattern":x}`:  `! the arguments are not valid JSON: invalid character 'x' looking for beginning of value, at byte 12 of 13`,
	} {
		if got := check(s, raw); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	if got, want := check(s, strings.Repeat("[", 300)), "! the arguments nest deeper than 256 levels at byte 256"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestManyViolationsAreCounted(t *testing.T) {
	raw := `{"todos":[` + strings.TrimSuffix(strings.Repeat("1,", 1000), ",") + `]}`
	lines := strings.Split(check(For(reflect.TypeFor[todoInput]()), raw), "\n")
	if len(lines) != maxViolations+1 || lines[maxViolations] != fmt.Sprintf("! and %d more", 1000-maxViolations) {
		t.Errorf("%d lines, the last is %q", len(lines), lines[len(lines)-1])
	}
}

func TestForeignSchemas(t *testing.T) {
	for _, c := range []struct{ name, schema, raw, want string }{
		{"open by default", `{"type":"object","properties":{"a":{"type":"string"}}}`, `{"a":"x","b":{"c":[1]}}`, `{"a":"x","b":{"c":[1]}}`},
		{"closed", `{"properties":{"a":{"type":"string"}},"additionalProperties":false}`, `{"b":1}`, `! "b" is not known; there are only "a"`},
		{"typed extras", `{"additionalProperties":{"type":"integer"}}`, `{"b":"1"}`, `! "b" must be an integer, not a string`},
		{"required without a property", `{"required":["a"]}`, `{}`, `! "a" is missing`},
		{"several types", `{"properties":{"a":{"type":["string","null"]}}}`, `{"a":null}`, `{"a":null}`},
		{"null is no string", `{"properties":{"a":{"type":"string"}},"required":["a"]}`, `{"a":null}`, `! "a" must be a string, not null`},
		{"enum of any scalars", `{"properties":{"a":{"enum":[1,"b",null,true]}}}`, `{"a":2}`, `! "a" must be one of 1, "b", null, true, not 2`},
		{"const", `{"properties":{"a":{"const":"x"}}}`, `{"a":"y"}`, `! "a" must be one of "x", not "y"`},
		{"unknown keywords", `{"properties":{"a":{"oneOf":[{"type":"string"}],"pattern":"^x"}}}`, `{"a":1}`, `{"a":1}`},
		{"reference", `{"$defs":{"s":{"type":"string"}},"properties":{"a":{"$ref":"#/$defs/s"}}}`, `{"a":1}`, `{"a":1}`},
		{"boolean schema", `{"properties":{"a":true}}`, `{"a":[1]}`, `{"a":[1]}`},
		{"keywords in unknown forms", `{"type":7,"properties":[],"required":"a","items":3,"enum":{}}`, `{"a":1}`, `{"a":1}`},
		{"pattern properties", `{"patternProperties":{"^x":{}},"additionalProperties":false}`, `{"x1":1}`, `{"x1":1}`},
		{"items", `{"properties":{"a":{"type":"array","items":{"type":"number"}}}}`, `{"a":[1.5,"2"]}`, `! "a[1]" must be a number, not a string`},
		{"list without items", `{"properties":{"a":{"type":"array"}}}`, `{"a":[1.5,"2"]}`, `{"a":[1.5,"2"]}`},
		{"not an object at the root", `{"type":"string"}`, `"x"`, `! the arguments must be an object, not a string`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := Parse(json.RawMessage(c.schema))
			if err != nil {
				t.Fatal(err)
			}
			if got := string(s.JSON()); got != c.schema {
				t.Errorf("the schema became %s", got)
			}
			if d := cmp.Diff(c.want, check(s, c.raw)); d != "" {
				t.Error(d)
			}
		})
	}
	for _, raw := range []string{``, `true`, `[]`, `{`, `null`} {
		if _, err := Parse(json.RawMessage(raw)); err == nil {
			t.Errorf("%q was read as a schema", raw)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	s := For(reflect.TypeFor[shapes]())
	small := `{"file_path":"f12.txt","todos":[],"env":{},"Plain":true}`
	large := `{"file_path":"` + strings.Repeat("line of text\\n", 10_000) + `","todos":[],"env":{},"Plain":true}`
	for name, raw := range map[string]string{"small": small, "130kB": large} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				if _, err := s.Check(raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
