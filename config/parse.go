package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v4"
)

// A layer's text can cost no more than this, whatever its aliases multiply to.
const (
	maxDepth  = 50
	maxValues = 100_000
)

// The keys of a row.
const (
	idKey       = "id"
	pluginKey   = "plugin"
	configKey   = "config"
	disabledKey = "disabled"
	requiredKey = "required"
)

// parser turns the text of one layer into values.
type parser struct {
	layer *Layer
	*problems
	values int
}

// parseRows reads the text of a file: a list of rows. It returns a map from id to row,
// whose keys are those of a row without its id.
func parseRows(layer *Layer, text []byte, p *problems) *value {
	parser := parser{layer: layer, problems: p}
	rows := &value{kind: mapping, at: Position{File: layer.file()}, layer: layer}
	root := parser.load(text)
	if root == nil || isEmpty(root) {
		return rows
	}
	if root.Kind != yaml.SequenceNode {
		parser.add(parser.position(root), "expected a list of rows, each with an id, such as \"- id: tools\"; found %s", nodeKind(root))
		return rows
	}
	for _, n := range root.Content {
		parser.row(n, rows)
	}
	return rows
}

// parseValue reads a YAML value that is no file.
func parseValue(layer *Layer, text string, p *problems) *value {
	parser := parser{layer: layer, problems: p}
	root := parser.load([]byte(text))
	if root == nil {
		return nil
	}
	return parser.value(root, 0, true)
}

// load returns the one document in the text, or nil.
func (p *parser) load(text []byte) *yaml.Node {
	if !checkText(p.layer.file(), text, p.problems) {
		return nil
	}
	loader, err := yaml.NewLoader(bytes.NewReader(text), yaml.WithPlugin(limits{}))
	if err != nil {
		p.addCause(Position{File: p.layer.file()}, err, "cannot read YAML: %v", err)
		return nil
	}
	var document, second yaml.Node
	if err := loader.Load(&document); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		p.syntax(err, text)
		return nil
	}
	if err := loader.Load(&second); err == nil {
		p.add(p.position(&second), "expected one YAML document, found a second")
		return nil
	} else if !errors.Is(err, io.EOF) {
		p.syntax(err, text)
		return nil
	}
	if len(document.Content) == 0 {
		return nil
	}
	return document.Content[0]
}

// syntax reports an error of the YAML library with the place that it names.
func (p *parser) syntax(err error, text []byte) {
	at, detail := Position{File: p.layer.file()}, err.Error()
	if load := (*yaml.LoadError)(nil); errors.As(err, &load) {
		at.Line, at.Column = load.Mark.Line, load.Mark.Column
		detail = load.Message
		if load.ContextMsg != "" {
			detail += " " + load.ContextMsg
		}
		if i := load.Mark.Index; i < len(text) && text[i] == '\t' {
			detail += ": indent with spaces, not tabs"
		}
	}
	if p.layer.Kind == Set {
		at.Line, at.Column = 0, 0
	}
	p.addCause(at, err, "not valid YAML: %s", detail)
}

// limits refuses deep nesting while parsing, before it costs anything.
type limits struct{}

func (limits) CheckDepth(depth int, _ *yaml.DepthContext) error {
	if depth > 2*maxDepth { // the library counts an item of a list of maps twice
		return errTooDeep
	}
	return nil
}

// CheckAlias allows all: the library counts only when it decodes, and we count ourselves.
func (limits) CheckAlias(int, int) error { return nil }

var errTooDeep = fmt.Errorf("nested deeper than %d levels", maxDepth)

func (p *parser) position(n *yaml.Node) Position {
	if p.layer.Kind == Set {
		return Position{File: p.layer.file()} // the column in a part of an argument says nothing
	}
	return Position{p.layer.file(), n.Line, n.Column}
}

// row reads one row and adds it to rows.
func (p *parser) row(n *yaml.Node, rows *value) {
	at := p.position(n)
	m, tag, ok := p.tag(n)
	if !ok {
		return
	}
	for m.Kind == yaml.AliasNode {
		m = m.Alias
	}
	if m.Kind != yaml.MappingNode {
		p.add(at, "expected a row, such as \"id: tools\"; found %s", nodeKind(m))
		return
	}
	body := p.mapping(m, 0)
	if body == nil {
		return
	}
	id := body.get(idKey)
	if id == nil {
		p.add(at, "a row has no id: give it one of letters a-z, digits and -")
		return
	}
	if !isID(id.text) {
		p.add(id.at, "the id of a row is 1 to 64 of the characters a-z, 0-9 and -; found %s", id.describe())
		return
	}
	if i := rows.index(id.text); i >= 0 {
		p.add(id.at, "a second row has the id %q; the first is at %s", id.text, rows.fields[i].at)
		return
	}
	i := body.index(idKey)
	body.fields = append(body.fields[:i:i], body.fields[i+1:]...)
	body.at, body.mark = at, tag
	if p.checkRow(id.text, body) {
		rows.fields = append(rows.fields, field{id.text, id.at, body})
	}
}

// checkRow checks the keys of a row but for its id.
func (p *parser) checkRow(id string, body *value) bool {
	before := len(p.list)
	if body.kind != mapping {
		p.add(body.at, "%s: expected a row, a map; found %s", id, body.describe())
		return false
	}
	if body.mark == remove && len(body.fields) > 0 {
		p.add(body.fields[0].at, "%s: a row that is removed has no other keys", id)
		return false
	}
	kept := body.fields[:0:0]
	for _, f := range body.fields {
		v := f.value
		switch f.key {
		case pluginKey:
			if v.kind != text || v.text == "" || v.mark != merge {
				p.add(v.at, "%s.plugin: expected the name of a plugin, found %s", id, v.describe())
			}
		case disabledKey, requiredKey:
			if v.kind != boolean || v.mark != merge {
				p.add(v.at, "%s.%s: expected true or false, found %s", id, f.key, v.describe())
			}
		case configKey:
			if v.kind == null && v.mark == merge {
				continue // all keys of a config are commented out
			}
			if v.kind != mapping && v.mark != remove {
				p.add(v.at, "%s.config: expected a map, found %s", id, v.describe())
			}
		default:
			known := []string{pluginKey, configKey, disabledKey, requiredKey, idKey}
			p.add(f.at, "%s: unknown key %s of a row%s", id, quote(f.key), suggest(f.key, known))
		}
		kept = append(kept, f)
	}
	body.fields = kept
	return len(p.list) == before
}

// value reads a node. Tags about merging are allowed where something is merged: not in lists.
func (p *parser) value(n *yaml.Node, depth int, merged bool) *value {
	at := p.position(n)
	p.values++
	if p.values > maxValues {
		if p.values == maxValues+1 {
			p.add(at, "more than %d values, aliases counted: make the configuration smaller", maxValues)
		}
		return nil
	}
	if depth > maxDepth {
		p.add(at, "%v", errTooDeep)
		return nil
	}
	n, tag, ok := p.tag(n)
	if !ok {
		return nil
	}
	if tag != merge && !merged {
		p.add(at, "%s inside a list: lists are replaced whole, so write the new list", n.Tag)
		return nil
	}
	v := &value{at: at, layer: p.layer, mark: tag}
	switch n.Kind {
	case yaml.AliasNode:
		// The tag of the alias itself, if any, is gone: YAML allows none there.
		v = p.value(n.Alias, depth+1, merged)
		if v != nil {
			v.at = at
		}
		return v
	case yaml.MappingNode:
		v = p.mapping(n, depth)
		if v != nil {
			v.at, v.mark = at, tag
		}
		return v
	case yaml.SequenceNode:
		v.kind = list
		for _, item := range n.Content {
			w := p.value(item, depth+1, false)
			if w == nil {
				return nil
			}
			v.items = append(v.items, w)
		}
		return v
	case yaml.ScalarNode:
		if v.kind, ok = p.scalar(n, tag); !ok {
			return nil
		}
		v.text = n.Value
		return v
	case yaml.DocumentNode, yaml.StreamNode:
	}
	p.add(at, "unexpected YAML node")
	return nil
}

// mapping reads the keys and values of a map.
func (p *parser) mapping(n *yaml.Node, depth int) *value {
	v := &value{kind: mapping, at: p.position(n), layer: p.layer, fields: make([]field, 0, len(n.Content)/2)}
	seen := map[string]Position{}
	ok := true
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		at := p.position(k)
		switch {
		case k.Kind == yaml.AliasNode && k.Alias.Kind == yaml.ScalarNode:
			k = k.Alias
		case k.Kind != yaml.ScalarNode:
			p.add(at, "expected a key, found %s", nodeKind(k))
			ok = false
			continue
		case k.ShortTag() == "!!merge":
			p.add(at, "merge keys (<<) are not supported: write the keys out, or use an alias for the whole value")
			ok = false
			continue
		}
		if first, dup := seen[k.Value]; dup {
			p.add(at, "the key %s is here twice; first at %s", quote(k.Value), first)
			ok = false
			continue
		}
		seen[k.Value] = at
		w := p.value(n.Content[i+1], depth+1, true)
		if w == nil {
			ok = false
			continue
		}
		v.fields = append(v.fields, field{k.Value, at, w})
	}
	if !ok {
		return nil
	}
	return v
}

// tag separates a tag about merging from the node, and refuses tags that mean nothing here.
func (p *parser) tag(n *yaml.Node) (*yaml.Node, mark, bool) {
	if n.Kind == yaml.AliasNode || n.Style&yaml.TaggedStyle == 0 {
		return n, merge, true
	}
	switch tag := n.ShortTag(); {
	case tag == replaceTag:
		return n, replace, true
	case tag == removeTag:
		if n.Kind == yaml.ScalarNode && n.Value != "" {
			p.add(p.position(n), "!remove stands without a value; found %s", quote(n.Value))
			return n, remove, false
		}
		return n, remove, true
	case strings.HasPrefix(tag, "!!"):
		return n, merge, true // of YAML itself
	default:
		p.add(p.position(n), "unknown tag %s%s", quote(tag), suggest(tag, []string{replaceTag, removeTag}))
		return n, merge, false
	}
}

// scalar says of what kind the text of a scalar is.
func (p *parser) scalar(n *yaml.Node, tag mark) (kind, bool) {
	short := n.ShortTag()
	if tag != merge {
		short = untagged(n)
	}
	switch short {
	case "!!null":
		return null, true
	case "!!bool":
		return boolean, true
	case "!!int":
		return integer, true
	case "!!float":
		return float, true
	case "!!str", "!!timestamp":
		return text, true
	default:
		p.add(p.position(n), "the tag %s is not supported", short)
		return null, false
	}
}

// untagged returns the tag that a scalar would have had without the one it has.
func untagged(n *yaml.Node) string {
	if n.Style != yaml.TaggedStyle {
		return "!!str" // in quotes or a block
	}
	var x any
	if err := (&yaml.Node{Kind: yaml.ScalarNode, Value: n.Value}).Load(&x); err != nil {
		return "!!str"
	}
	switch x.(type) {
	case nil:
		return "!!null"
	case bool:
		return "!!bool"
	case int, int64, uint64:
		return "!!int"
	case float64:
		return "!!float"
	default:
		return "!!str"
	}
}

// isEmpty says whether a document holds nothing, as a file of comments or a bare --- does.
func isEmpty(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// nodeKind names a node for an error.
func nodeKind(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a map"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode:
		if n.ShortTag() == "!!null" {
			return "nothing"
		}
		return quote(n.Value)
	case yaml.AliasNode:
		return "the alias *" + n.Value
	case yaml.DocumentNode, yaml.StreamNode:
	}
	return "something else"
}
