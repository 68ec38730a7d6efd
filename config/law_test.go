package config_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"
	"pgregory.net/rapid"

	"github.com/dsh-harness/dsh/config"
)

// The laws below compare compositions with a model in plain Go maps. Rows of the model: id, and a
// config of nested maps with texts and lists as leaves.

type modelRow struct {
	id, plugin string
	config     map[string]any
	replace    bool // in a layer: the row is replaced
}

// replaced marks a value of a layer that is written with !replace.
type replaced struct{ value any }

// removed stands for a key that is written with !remove.
type removed struct{}

func (r modelRow) yaml() *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{str("id"), str(r.id)}}
	if r.replace {
		n.Tag, n.Style = "!replace", yaml.TaggedStyle
	}
	if r.plugin != "" {
		n.Content = append(n.Content, str("plugin"), str(r.plugin))
	}
	if r.config != nil {
		n.Content = append(n.Content, str("config"), toYAML(r.config))
	}
	return n
}

func str(s string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s, Style: yaml.DoubleQuotedStyle}
}

func toYAML(v any) *yaml.Node {
	switch v := v.(type) {
	case string:
		return str(v)
	case removed:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!remove", Style: yaml.TaggedStyle}
	case replaced:
		n := toYAML(v.value)
		n.Tag, n.Style = "!replace", n.Style|yaml.TaggedStyle
		return n
	case []any:
		n := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		for _, item := range v {
			n.Content = append(n.Content, toYAML(item))
		}
		return n
	case map[string]any:
		n := &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			n.Content = append(n.Content, str(k), toYAML(v[k]))
		}
		return n
	}
	panic(fmt.Sprintf("no YAML for a %T", v))
}

func layerText(rows []modelRow) string {
	list := &yaml.Node{Kind: yaml.SequenceNode}
	for _, r := range rows {
		list.Content = append(list.Content, r.yaml())
	}
	out, err := yaml.Dump(list, yaml.WithLineWidth(-1))
	if err != nil {
		panic(err)
	}
	return string(out)
}

// merge is the model of merging: what the documentation says, written as simply as can be.
func (r modelRow) merge(over modelRow) modelRow {
	switch {
	case over.replace:
		return modelRow{id: r.id, plugin: over.plugin, config: mergeMaps(nil, over.config)}
	case over.plugin != "" && over.plugin != r.plugin:
		return modelRow{id: r.id, plugin: over.plugin, config: mergeMaps(nil, over.config)}
	default:
		return modelRow{id: r.id, plugin: r.plugin, config: mergeMaps(r.config, over.config)}
	}
}

func mergeMaps(below, over map[string]any) map[string]any {
	out := maps.Clone(below)
	if out == nil {
		out = map[string]any{}
	}
	for k, v := range over {
		switch v := v.(type) {
		case removed:
			delete(out, k)
		case replaced:
			out[k] = strip(v.value)
		case map[string]any:
			inner, _ := out[k].(map[string]any)
			out[k] = mergeMaps(inner, v)
		default:
			out[k] = v
		}
	}
	return out
}

// strip is a value without marks below it.
func strip(v any) any {
	if m, ok := v.(map[string]any); ok {
		return mergeMaps(nil, m)
	}
	return v
}

func mergeLayers(layers ...[]modelRow) []modelRow {
	var out []modelRow
	for _, layer := range layers {
		for _, r := range layer {
			if i := slices.IndexFunc(out, func(o modelRow) bool { return o.id == r.id }); i >= 0 {
				out[i] = out[i].merge(r)
			} else {
				out = append(out, modelRow{id: r.id, plugin: r.plugin, config: mergeMaps(nil, r.config)})
			}
		}
	}
	return out
}

// generator draws layers.
type generator struct {
	marks   bool // use !replace and !remove
	plugins []string
}

var keyNames = rapid.SampledFrom([]string{"a", "b", "c", "a.b", "yes", "5", ""})

func (g generator) value(t *rapid.T, depth int) any {
	kinds := []string{"text", "list", "map"}
	if depth == 0 {
		kinds = kinds[:2]
	}
	var v any
	switch rapid.SampledFrom(kinds).Draw(t, "kind") {
	case "text":
		v = rapid.SampledFrom([]string{"", "x", "true", "5", "${env:X}", "# no", "two\nlines", " - ", "!remove"}).Draw(t, "text")
	case "list":
		v = []any{}
		for range rapid.IntRange(0, 2).Draw(t, "items") {
			v = append(v.([]any), generator{plugins: g.plugins}.value(t, depth-min(depth, 1)))
		}
	case "map":
		v = g.mapping(t, depth-1)
	}
	if g.marks && rapid.IntRange(0, 4).Draw(t, "replace") == 0 {
		return replaced{v}
	}
	return v
}

func (g generator) mapping(t *rapid.T, depth int) map[string]any {
	m := map[string]any{}
	for _, k := range rapid.SliceOfNDistinct(keyNames, 0, 3, rapid.ID).Draw(t, "keys") {
		m[k] = g.value(t, depth)
	}
	return m
}

func (g generator) layer(t *rapid.T) []modelRow {
	var rows []modelRow
	for _, id := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"r1", "r2", "r-3", "4"}), 0, 3, rapid.ID).Draw(t, "ids") {
		r := modelRow{id: id, plugin: rapid.SampledFrom(g.plugins).Draw(t, "plugin")}
		if rapid.Bool().Draw(t, "has config") {
			r.config = g.mapping(t, 2)
		}
		r.replace = g.marks && rapid.IntRange(0, 5).Draw(t, "replace row") == 0
		rows = append(rows, r)
	}
	return rows
}

func compose(t rapid.TB, texts ...string) *config.Composition {
	t.Helper()
	var layers []config.Layer
	for i, text := range texts {
		layers = append(layers, config.Layer{Kind: config.Profile, Name: fmt.Sprint(i), Text: text})
	}
	c, err := config.Compose(layers)
	if err != nil {
		t.Fatalf("%v\n%s", err, strings.Join(texts, "---\n"))
	}
	return c
}

// read returns the rows of a composition as the model has them.
func read(t rapid.TB, c *config.Composition) []modelRow {
	t.Helper()
	shown, err := c.Show()
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		ID, Plugin string
		Config     map[string]any
	}
	if err := yaml.Load([]byte(shown), &rows); err != nil {
		t.Fatalf("%v\n%s", err, shown)
	}
	var out []modelRow
	for _, r := range rows {
		if r.Config == nil {
			r.Config = map[string]any{}
		}
		out = append(out, modelRow{id: r.ID, plugin: r.Plugin, config: r.Config})
	}
	return out
}

func equal(t rapid.TB, law string, want, got []modelRow) {
	t.Helper()
	if d := cmp.Diff(want, got, cmp.AllowUnexported(modelRow{})); d != "" {
		t.Fatalf("%s:\n%s", law, d)
	}
}

func TestMergeIsTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := generator{marks: true, plugins: []string{"p", "p", "q"}}
		a, b, c := g.layer(t), g.layer(t), g.layer(t)
		got := read(t, compose(t, layerText(a), layerText(b), layerText(c)))
		equal(t, "merging three layers", mergeLayers(a, b, c), got)
	})
}

// Without marks and with one plugin, it does not matter which layers are merged first.
func TestMergeIsAssociative(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := generator{plugins: []string{"p"}}
		a, b, c := layerText(g.layer(t)), layerText(g.layer(t)), layerText(g.layer(t))
		show := func(c *config.Composition) string {
			s, err := c.Show()
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		whole := read(t, compose(t, a, b, c))
		equal(t, "(a b) c", whole, read(t, compose(t, show(compose(t, a, b)), c)))
		equal(t, "a (b c)", whole, read(t, compose(t, a, show(compose(t, b, c)))))
	})
}

func TestMergeIsIdempotent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := generator{marks: true, plugins: []string{"p", "q"}}
		a, b := layerText(g.layer(t)), layerText(g.layer(t))
		once := read(t, compose(t, a, b))
		equal(t, "the same layer twice", once, read(t, compose(t, a, b, b)))
		equal(t, "an empty layer", once, read(t, compose(t, "", a, "[]", b, "# nothing")))
	})
}

func TestRowsKeepTheirPlaces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := generator{marks: true, plugins: []string{"p", "q"}}
		layers := [][]modelRow{g.layer(t), g.layer(t), g.layer(t)}
		var want []string
		texts := make([]string, len(layers))
		for i, layer := range layers {
			texts[i] = layerText(layer)
			for _, r := range layer {
				if !slices.Contains(want, r.id) {
					want = append(want, r.id)
				}
			}
		}
		var got []string
		for _, r := range compose(t, texts...).Rows() {
			got = append(got, r.ID)
		}
		if !slices.Equal(want, got) {
			t.Fatalf("rows %q, first named %q", got, want)
		}
	})
}

// A row that is removed and added again is a new row: nothing of the old one is left, and it comes
// last.
func TestRemoveThenAdd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := generator{plugins: []string{"p"}}
		a, b := g.layer(t), g.layer(t)
		if len(a) == 0 {
			t.Skip("nothing to remove")
		}
		victim := rapid.SampledFrom(a).Draw(t, "victim")
		rest := slices.DeleteFunc(slices.Clone(a), func(r modelRow) bool { return r.id == victim.id })
		remove := fmt.Sprintf("- !remove {id: %q}\n", victim.id)
		equal(t, "removed", mergeLayers(rest), read(t, compose(t, layerText(a), remove)))
		equal(t, "removed and added", mergeLayers(rest, b), read(t, compose(t, layerText(a), remove, layerText(b))))

		if len(victim.config) == 0 {
			return
		}
		key := rapid.SampledFrom(slices.Sorted(maps.Keys(victim.config))).Draw(t, "key")
		without := modelRow{id: victim.id, config: map[string]any{key: removed{}}}
		value := g.value(t, 2)
		with := modelRow{id: victim.id, config: map[string]any{key: value}}
		got := read(t, compose(t, layerText(a), layerText([]modelRow{without}), layerText([]modelRow{with})))
		equal(t, "key removed and added", mergeLayers(a, []modelRow{without}, []modelRow{with}), got)
	})
}

// What Show prints composes to what it shows.
func TestShowIsAConfiguration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := generator{marks: true, plugins: []string{"p", "q"}}
		c := compose(t, layerText(g.layer(t)), layerText(g.layer(t)))
		shown, err := c.Show()
		if err != nil {
			t.Fatal(err)
		}
		again, err := compose(t, shown).Show()
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(uncomment(shown), uncomment(again)); d != "" {
			t.Fatal(d)
		}
	})
}

// uncomment takes the names of layers away, which differ.
func uncomment(s string) string {
	for _, name := range []string{" # profile 0", " # profile 1"} {
		s = strings.ReplaceAll(s, name, "")
	}
	return s
}

// An assignment on the command line does what a file with the same change does.
func TestSetIsALayer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := generator{plugins: []string{"p"}}
		a := g.layer(t)
		if len(a) == 0 {
			t.Skip("no row to change")
		}
		row := rapid.SampledFrom(a).Draw(t, "row")
		keys := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b.c", "x=y", "config", "disabled"}), 1, 3).Draw(t, "keys")
		v := g.value(t, 1)
		changed := v
		path := row.id + ".config"
		for _, k := range slices.Backward(keys) {
			changed = map[string]any{k: changed}
		}
		for _, k := range keys {
			path += `."` + k + `"`
		}
		n := toYAML(v)
		n.Style |= yaml.FlowStyle
		value, err := yaml.Dump(n, yaml.WithLineWidth(-1))
		if err != nil {
			t.Fatal(err)
		}
		c, err := config.Compose([]config.Layer{
			{Kind: config.Profile, Name: "0", Text: layerText(a)},
			{Kind: config.Set, Text: path + "=" + string(value)},
		})
		if err != nil {
			t.Fatal(err)
		}
		want := mergeLayers(a, []modelRow{{id: row.id, config: changed.(map[string]any)}})
		equal(t, path, want, read(t, c))
	})
}
