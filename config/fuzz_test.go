package config

import (
	"errors"
	"strings"
	"testing"
)

// FuzzCompose feeds a file from anywhere: it composes or is refused with places in it, and what
// composes shows as a configuration that composes to the same.
func FuzzCompose(f *testing.F) {
	for _, seed := range []string{
		"", "- id: a\n  plugin: p\n  config: {a: [1, {b: !!str 2}], c: !replace x}\n", "- !remove {id: a}\n",
		"- &r {id: a, plugin: p, config: &c {a: *r, b: *c}}", "[[[[[[[[", "- id: a\n  plugin: |\n    p\n", "a: b", "- id: *x",
		"- {id: a, plugin: p, config: {x: .inf, y: 0x_1, z: 1_0, n: ~, t: 2026-01-01, ? 1 : 2}}",
		"- id: a\n  plugin: \"p\\u0085\\u2028\"\n  config: {'': '', \"\\e\": \"\\0\"}\n", "\ufeff- id: a", "---\n...\n---\n", "- id: a\n\tplugin: b",
		"- id: a\n  plugin: p\n  config:\n    k: |2-\n       x\n    # c\n    l: >+\n     y\n\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		layer := Layer{Kind: Profile, Name: "f", Text: text}
		c, err := Compose([]Layer{layer})
		if err != nil {
			checkErrors(t, err, "profile f")
			return
		}
		shown, err := c.Show()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Compose([]Layer{{Kind: Profile, Name: "f", Text: shown}})
		if err != nil {
			t.Fatalf("%v\n%s", err, shown)
		}
		for i, row := range c.rows.fields {
			before, err := fingerprint(row.value)
			if err != nil {
				t.Fatal(err)
			}
			after, err := fingerprint(again.rows.fields[i].value)
			if err != nil {
				t.Fatal(err)
			}
			if before != after || again.rows.fields[i].key != row.key {
				t.Fatalf("row %s changed by being shown:\n%s", row.key, shown)
			}
		}
	})
}

func checkErrors(t *testing.T, err error, file string) {
	t.Helper()
	var all Errors
	if !errors.As(err, &all) || len(all) == 0 || len(all) > maxErrors+1 {
		t.Fatalf("not a list of errors: %v", err)
	}
	for _, e := range all {
		if !strings.HasPrefix(strings.TrimPrefix(e.Error(), `"`), file) || e.Detail == "" || strings.ContainsAny(e.Error(), "\n\x00\x1b") {
			t.Fatalf("not an error with a place on one line: %q", e.Error())
		}
	}
}

// FuzzReferences splits any text: escaping makes it literal, and the parts of what is accepted
// make it up.
func FuzzReferences(f *testing.F) {
	for _, seed := range []string{"", "x", "${env:A}", "a${env:A:-b}c${file:x}", "$${env:A}", "$$${env:A}", "${", "$", "${}", "${env:A:-${env:B}}", "}${file:}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		escaped := strings.ReplaceAll(s, "${", "$${")
		pieces, err := parseReferences(escaped)
		if err != nil {
			t.Fatalf("escaped %q: %v", escaped, err)
		}
		literal := ""
		for _, p := range pieces {
			if p.ref != nil {
				t.Fatalf("escaped %q holds the reference %+v", escaped, p.ref)
			}
			literal += p.literal
		}
		if literal != s {
			t.Fatalf("escaped %q stands for %q, not for %q", escaped, literal, s)
		}

		pieces, err = parseReferences(s)
		if err != nil {
			return
		}
		whole := ""
		for _, p := range pieces {
			if p.ref == nil {
				whole += strings.ReplaceAll(p.literal, "${", "$${")
				continue
			}
			whole += p.ref.source
			if p.ref.name == "" || p.ref.file == isEnv(p.ref.source) {
				t.Fatalf("%q holds the reference %+v", s, p.ref)
			}
		}
		if whole != s {
			t.Fatalf("the parts of %q are %q", s, whole)
		}
	})
}

func isEnv(source string) bool { return strings.HasPrefix(source, "${env:") }

// FuzzSet reads any assignment: it changes one row or is refused.
func FuzzSet(f *testing.F) {
	for _, seed := range []string{"a.b=c", "a=!remove", "a.\"b.c\".d=[1]", "a.disabled=true", "=", "a.=", "a.b={", "a.b=#", "a.b=!replace {c: d}", "a={plugin: p}", "a.b= "} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		layer := &Layer{Kind: Set, Text: s}
		var p problems
		rows := parseSet(layer, &p)
		if err := p.err(); err != nil {
			checkErrors(t, err, "--set")
			return
		}
		if len(rows.fields) != 1 || !isID(rows.fields[0].key) || !strings.HasPrefix(layer.file(), "--set ") {
			t.Fatalf("%q is a layer of %d rows named %q", s, len(rows.fields), layer.file())
		}
	})
}
