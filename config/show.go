package config

import (
	"fmt"

	"go.yaml.in/yaml/v4"
)

// Show returns the composition as the text of a cordis.yml in which each value is followed by the
// layer that it comes from. References stand as they were written, so what they stand for is not
// shown.
func (c *Composition) Show() (string, error) {
	rows := &yaml.Node{Kind: yaml.SequenceNode}
	for _, f := range c.rows.fields {
		row := f.value.node(true)
		id := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: idKey}
		row.Content = append([]*yaml.Node{id, {Kind: yaml.ScalarNode, Tag: "!!str", Value: f.key}}, row.Content...)
		rows.Content = append(rows.Content, row)
	}
	out, err := yaml.Dump(rows, yaml.WithLineWidth(-1))
	if err != nil {
		return "", fmt.Errorf("write the composition as YAML: %w", err)
	}
	return string(out), nil
}

// node returns a value as YAML. comments says whether to name layers, which in a list would all be
// the same.
func (v *value) node(comments bool) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Value: v.text}
	switch v.kind {
	case null:
		n.Tag, n.Value = "!!null", "null"
	case boolean:
		n.Tag = "!!bool"
	case integer:
		n.Tag = "!!int"
	case float:
		n.Tag = "!!float"
	case text:
		n.Tag = "!!str"
	case list:
		n.Kind, n.Value = yaml.SequenceNode, ""
		for _, item := range v.items {
			n.Content = append(n.Content, item.node(false))
		}
	case mapping:
		n.Kind, n.Value = yaml.MappingNode, ""
		for _, f := range v.fields {
			k, w := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: f.key}, f.value.node(comments)
			switch {
			case !comments:
			case f.value.kind == mapping && len(f.value.fields) > 0: // its values say it themselves
			case f.value.kind == list && len(f.value.items) > 0:
				k.LineComment = oneLine(f.value.layer.String())
			default:
				w.LineComment = oneLine(f.value.layer.String())
			}
			n.Content = append(n.Content, k, w)
		}
	}
	return n
}
