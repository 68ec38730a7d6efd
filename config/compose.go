package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"slices"

	"github.com/dsh-harness/dsh/plugin"
)

// Composition is what a list of layers comes to. It does not change, so any goroutine may use it.
type Composition struct {
	layers  []Layer
	rows    *value // a map from id to row
	ignored Errors
}

// Compose reads the layers and lays each over those before it: [Profile] layers first, then
// [User], [Project], [Patch] and [Set], an order that is the caller's to keep. It runs no code and
// resolves no reference. Its error is of type [Errors] and holds what is wrong in all layers.
//
// The Text of a [Set] layer is "id.key=value": a YAML value for a key of a row's config, or
// "id.disabled=…", "id.required=…" or "id.plugin=…" for the row itself, or "id=…" for a whole row,
// such as "id=!remove". Deeper keys are separated by dots; a key with a dot in it stands in double
// quotes.
func Compose(layers []Layer) (*Composition, error) {
	var p problems
	c := &Composition{rows: &value{kind: mapping}}
	parsed := make([]*value, 0, len(layers))
	for i := range layers {
		layer := layers[i] // a copy that values point to
		if layer.Kind == Set {
			parsed = append(parsed, parseSet(&layer, &p))
			c.layers = append(c.layers, layer)
			continue
		}
		if text, found := layer.read(&p); found {
			parsed = append(parsed, parseRows(&layer, text, &p))
			c.layers = append(c.layers, layer)
		}
	}
	if len(p.list) == 0 { // else a row that could not be read would be missed below
		var ignored problems
		for _, rows := range parsed {
			if rows.layer != nil && rows.layer.Kind == Project {
				rows = permitted(c.rows, rows, &ignored)
			}
			c.rows = mergeRows(c.rows, rows, &p)
		}
		c.ignored = ignored.list
	}
	if err := p.err(); err != nil {
		return nil, err
	}
	return c, nil
}

// Ignored are the rows of [Project] layers that were left out, each with its place and the reason; at most 51.
func (c *Composition) Ignored() Errors { return slices.Clone(c.ignored) }

// Layers returns the layers that were there: all but optional ones without a file.
func (c *Composition) Layers() []Layer { return slices.Clone(c.layers) }

// Row is a composed row without its config.
type Row struct {
	ID       string
	Plugin   string
	Disabled bool
	Required bool
	At       Position // where the row was first named
	Layer    string   // the layer that names its plugin
}

// Rows returns the rows in their order.
func (c *Composition) Rows() []Row {
	rows := make([]Row, len(c.rows.fields))
	for i, f := range c.rows.fields {
		named := f.value.get(pluginKey)
		rows[i] = Row{
			ID:       f.key,
			Plugin:   named.text,
			Disabled: f.value.flag(disabledKey),
			Required: f.value.flag(requiredKey),
			At:       f.at,
			Layer:    named.layer.String(),
		}
	}
	return rows
}

// flag returns a bool of a row, which parsing has checked.
func (v *value) flag(key string) bool {
	f := v.get(key)
	if f == nil {
		return false
	}
	b, _ := f.bool()
	return b
}

// Prepare resolves the references, decodes each row's config into the type of its plugin, over the
// plugin's defaults, and binds it. Nothing is started. A disabled row is not looked at, so it may
// lack a variable or name a plugin that this program has not. The error is of type [Errors] and
// holds what is wrong in all rows. Two plugins of one name are a mistake of the program and panic.
func (c *Composition) Prepare(plugins []plugin.Definition, env Environment) ([]plugin.Row, error) {
	var p problems
	byName := make(map[string]plugin.Definition, len(plugins))
	for _, d := range plugins {
		if _, dup := byName[d.Name()]; dup {
			panic("config: two plugins are named " + d.Name())
		}
		byName[d.Name()] = d
	}
	resolver := resolver{env: env}
	prepared := make([]plugin.Row, 0, len(c.rows.fields))
	for i, row := range c.Rows() {
		out := plugin.Row{ID: row.ID, Plugin: row.Plugin, Required: row.Required, Disabled: row.Disabled}
		if !row.Disabled {
			name := c.rows.fields[i].value.get(pluginKey)
			d, ok := byName[row.Plugin]
			if !ok {
				p.add(name.at, "%s: unknown plugin %s%s", row.ID, quote(row.Plugin), suggest(row.Plugin, names(plugins)))
				continue
			}
			prepare(&out, name.at, c.rows.fields[i].value.get(configKey), d, &resolver, &p)
		}
		prepared = append(prepared, out)
	}
	if err := p.err(); err != nil {
		return nil, err
	}
	return prepared, nil
}

func names(plugins []plugin.Definition) []string {
	all := make([]string, len(plugins))
	for i, d := range plugins {
		all[i] = d.Name()
	}
	return all
}

// prepare makes one row ready. at is where an error about the whole config points when none is written.
func prepare(row *plugin.Row, at Position, v *value, d plugin.Definition, r *resolver, p *problems) {
	config := d.NewConfig()
	if v == nil {
		v = &value{kind: mapping, at: at}
	}
	expanded, ok := r.expand(row.ID, v, p)
	if !ok {
		return
	}
	before := len(p.list)
	(&decoder{p, r}).store(row.ID, expanded, reflect.ValueOf(config).Elem())
	if len(p.list) > before {
		return
	}
	var err error
	if row.Fingerprint, err = fingerprint(expanded); err == nil {
		row.Prepared, err = d.Bind(config)
	}
	if err != nil {
		err = r.clean(err)
		p.addCause(v.at, err, "%s: %v", row.ID, err)
	}
}

// fingerprint is equal for configs that mean the same: the order of keys and the way of writing do
// not count. It is a hash because the config may hold secrets by now.
func fingerprint(v *value) (string, error) {
	canonical, err := json.Marshal(v.any()) // sorts the keys
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:]), nil
}
