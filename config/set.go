package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// parseSet reads an assignment "id.key=value" as a layer of one row. The value is YAML; nothing
// after the = is the empty text. The path goes into the row's config unless its first key is
// one of a row: "id.disabled=true" and "id.config.disabled=true" differ. A key in double quotes
// may hold dots.
func parseSet(layer *Layer, p *problems) *value {
	at := Position{File: layer.file()}
	rows := &value{kind: mapping, at: at, layer: layer}
	path, assigned, ok := cutAssignment(layer.Text)
	if !ok {
		p.add(at, "expected id.key=value, found %s", quote(layer.Text))
		return rows
	}
	keys, err := splitPath(path)
	if err != nil {
		p.add(at, "%v", err)
		return rows
	}
	// The path names the layer from here on, not the value, which may be secret.
	layer.Name = path
	at.File = layer.file()
	id := keys[0]
	if !isID(id) {
		p.add(at, "the id of a row is 1 to 64 of the characters a-z, 0-9 and -; found %s", quote(id))
		return rows
	}
	v := &value{kind: text, at: at, layer: layer}
	if assigned != "" {
		before := len(p.list)
		if v = parseValue(layer, assigned, p); v == nil {
			if len(p.list) == before {
				p.add(at, "expected a value, found only a comment: put it in quotes")
			}
			return rows
		}
	}
	keys = keys[1:]
	if len(keys) > 0 && !slices.Contains([]string{pluginKey, configKey, disabledKey, requiredKey}, keys[0]) {
		keys = slices.Insert(keys, 0, configKey)
	}
	for _, key := range slices.Backward(keys) {
		v = &value{kind: mapping, at: at, layer: layer, fields: []field{{key, at, v}}}
	}
	if len(keys) == 0 && v.mark == remove {
		v = &value{kind: mapping, at: at, layer: layer, mark: remove}
	}
	parser := parser{layer: layer, problems: p}
	if parser.checkRow(id, v) {
		rows.fields = []field{{id, at, v}}
	}
	return rows
}

// cutAssignment cuts at the first = that is not in a quoted key.
func cutAssignment(s string) (path, value string, ok bool) {
	quoted := false
	for i, r := range s {
		switch {
		case r == '"':
			quoted = !quoted
		case r == '=' && !quoted:
			return strings.TrimSpace(s[:i]), strings.TrimSpace(s[i+1:]), true
		}
	}
	return "", "", false
}

// splitPath splits a path at its dots; a part in double quotes is taken as it is.
func splitPath(path string) ([]string, error) {
	var keys []string
	for rest := path; ; {
		var key string
		if quoted, ok := strings.CutPrefix(rest, `"`); ok {
			if key, rest, ok = strings.Cut(quoted, `"`); !ok {
				return nil, errors.New("a quoted key does not end: close it with \"")
			}
		} else if i := strings.IndexByte(rest, '.'); i >= 0 {
			key, rest = rest[:i], rest[i:]
		} else {
			key, rest = rest, ""
		}
		if key == "" || len(keys) > maxDepth {
			return nil, fmt.Errorf("expected id.key=value, found the path %s", quote(path))
		}
		keys = append(keys, key)
		if rest == "" {
			return keys, nil
		}
		var ok bool
		if rest, ok = strings.CutPrefix(rest, "."); !ok {
			return nil, fmt.Errorf("expected a dot after the quoted key %s in %s", quote(key), quote(path))
		}
	}
}
