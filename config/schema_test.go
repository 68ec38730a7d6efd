package config_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"
	"go.yaml.in/yaml/v4"

	"github.com/dsh-harness/dsh/config"
	"github.com/dsh-harness/dsh/plugin"
)

// tree is a config type that contains itself.
type tree struct {
	Name     string `json:"name"`
	Children []tree `json:"children"`
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Error(d)
	}
}

func documented() []plugin.Definition {
	start := func(context.Context, *plugin.Scope, tree) error { return nil }
	return append(plugins(nil), plugin.Plugin[tree]{Name: "tree", Doc: "Contains itself.", Start: start}.Definition())
}

func TestSchemaGolden(t *testing.T) {
	out, err := json.MarshalIndent(config.Schema(documented()), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "schema.json", string(out)+"\n")
}

func TestMarkdownGolden(t *testing.T) {
	golden(t, "config.md", config.Markdown(documented()))
}

// The schema and the decoder agree about a file, but for what the schema says that it cannot know.
func TestSchemaAgreesWithDecoding(t *testing.T) {
	schema, err := config.Schema(documented()).Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		text       string
		ok         bool
		onlySchema bool // decoding is not even tried, or refuses for a reason that the schema cannot know
	}{
		{text: "", ok: true},
		{text: "[]", ok: true},
		{text: "- {id: a, plugin: tools}", ok: true},
		{text: "- {id: a, plugin: tools, config: }", ok: true},
		{text: "- {id: a, plugin: tools, config: {}, required: true, disabled: false}", ok: true},
		{text: "- {id: a, plugin: tools, config: {x: 1}}"},
		{text: "- {id: a, plugin: tools, config: []}"},
		{text: "- {id: a, plugin: tools, required: 1}"},
		{text: "- {id: a, plugin: tools, x: 1}"},
		{text: "- {id: A, plugin: tools}"},
		{text: "- {plugin: tools}"},
		{text: "- {id: a, plugin: nothing}"},
		{text: "{id: a}"},
		{text: "- {id: a, plugin: wire, config: {url: u, timeout: 5s, retries: 1, port: 1, ratio: 1, verbose: true, level: low}}", ok: true},
		{text: "- {id: a, plugin: wire, config: {headers: {a: b}, stop: [a], models: [{name: m, price: {in: 1.5}}], servers: {a: {window: 1}}}}", ok: true},
		{text: "- {id: a, plugin: wire, config: {tags: [], extra: {a: [1]}, fallback: {name: f}}}", ok: true},
		{text: "- {id: a, plugin: wire, config: {fallback: null, when: '2026-01-01T00:00:00Z'}}", ok: true},
		{text: "- {id: a, plugin: wire, config: {retries: '${env:N:-1}', ratio: '${env:N:-1}', verbose: '${env:B:-true}'}}", ok: true},
		{text: "- {id: a, plugin: wire, config: {retries: '1'}}"},
		{text: "- {id: a, plugin: wire, config: {retries: 1.5}}"},
		{text: "- {id: a, plugin: wire, config: {ratio: x}}"},
		{text: "- {id: a, plugin: wire, config: {verbose: 1}}"},
		{text: "- {id: a, plugin: wire, config: {timeout: 5}}"},
		{text: "- {id: a, plugin: wire, config: {level: 5}}"},
		{text: "- {id: a, plugin: wire, config: {url: 5}}"},
		{text: "- {id: a, plugin: wire, config: {url: null}}"},
		{text: "- {id: a, plugin: wire, config: {headers: {a: 1}}}"},
		{text: "- {id: a, plugin: wire, config: {stop: a}}"},
		{text: "- {id: a, plugin: wire, config: {models: [{nmae: m}]}}"},
		{text: "- {id: a, plugin: wire, config: {servers: {a: {price: 1}}}}"},
		{text: "- {id: a, plugin: wire, config: {callback: x}}"},
		{text: "- {id: a, plugin: wire, config: {Skipped: x}}"},
		{text: "- {id: a, plugin: tree, config: {name: a, children: [{name: b, children: [{name: c}]}]}}", ok: true},
		{text: "- {id: a, plugin: tree, config: {name: a, children: [{nmae: b}]}}", ok: true, onlySchema: true},
		{text: "- {id: a, config: {anything: 1}}", ok: true, onlySchema: true},
		{text: "- {id: a, plugin: wire, config: {retries: -1}}", ok: true, onlySchema: true},
	} {
		var document any
		if c.text != "" {
			if err := yaml.Load([]byte(c.text), &document); err != nil {
				t.Fatal(err)
			}
		}
		schemaErr := schema.Validate(document)
		if (schemaErr == nil) != c.ok {
			t.Errorf("%s: the schema says %v", c.text, schemaErr)
		}
		if c.onlySchema {
			continue
		}
		_, err := config.Check(config.Options{
			Layers:      []config.Layer{{Kind: config.User, Text: c.text}},
			Plugins:     documented(),
			Environment: config.Environment{Lookup: func(string) (string, bool) { return "", false }},
		})
		if (err == nil) != c.ok {
			t.Errorf("%s: composing says %v", c.text, err)
		}
	}
}

// Each default is one that the schema allows.
func TestDefaultsFitTheSchema(t *testing.T) {
	var walk func(path string, s *jsonschema.Schema)
	walk = func(path string, s *jsonschema.Schema) {
		if s == nil {
			return
		}
		if s.Default != nil {
			alone := s.CloneSchemas()
			resolved, err := alone.Resolve(nil)
			if err != nil {
				t.Fatal(err)
			}
			var v any
			if err := json.Unmarshal(s.Default, &v); err != nil {
				t.Fatal(err)
			}
			if err := resolved.Validate(v); err != nil {
				t.Errorf("%s: the default %s: %v", path, s.Default, err)
			}
		}
		for k, p := range s.Properties {
			walk(path+"."+k, p)
		}
		for _, group := range [][]*jsonschema.Schema{s.AllOf, s.AnyOf, s.OneOf} {
			for _, one := range group {
				walk(path, one)
			}
		}
		walk(path, s.Then)
		walk(path+"[]", s.Items)
	}
	walk("", config.Schema(documented()))
}
