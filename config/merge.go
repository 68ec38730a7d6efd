package config

// mergeRows lays the rows of a layer over those below it. Neither is changed.
func mergeRows(below, layer *value, p *problems) *value {
	rows := &value{kind: mapping, fields: append([]field(nil), below.fields...)}
	for _, f := range layer.fields {
		i := rows.index(f.key)
		switch {
		case f.value.mark == remove && i < 0:
			p.add(f.at, "%s: nothing to remove: no layer below has this row%s", f.key, suggest(f.key, rows.keys()))
		case f.value.mark == remove:
			rows.fields = append(rows.fields[:i], rows.fields[i+1:]...)
		case i < 0 || f.value.mark == replace:
			switch {
			case f.value.get(pluginKey) != nil:
			case i < 0:
				p.add(f.at, "%s: a new row needs a plugin, and no layer below has this row%s", f.key, suggest(f.key, rows.keys()))
				continue
			default:
				p.add(f.at, "%s: a row that is replaced needs a plugin of its own", f.key)
				continue
			}
			row := field{f.key, f.at, mergeValue(f.key, nil, f.value, p)}
			if i < 0 {
				rows.fields = append(rows.fields, row)
			} else {
				rows.fields[i] = row
			}
		default:
			// The config of another plugin means nothing to this one.
			row := rows.fields[i].value
			if plugin := f.value.get(pluginKey); plugin != nil && plugin.text != row.get(pluginKey).text {
				row = row.without(configKey)
			}
			rows.fields[i].value = mergeValue(f.key, row, f.value, p)
		}
	}
	return rows
}

// mergeValue lays a value over the one below it, which may be nil: maps key by key, all else whole.
// path names the value in errors.
func mergeValue(path string, below, v *value, p *problems) *value {
	if v.kind != mapping {
		return v
	}
	out := *v
	out.fields = nil
	if below != nil && below.kind == mapping && v.mark == merge {
		out.fields = append(make([]field, 0, len(below.fields)+len(v.fields)), below.fields...)
	}
	for _, f := range v.fields {
		i := out.index(f.key)
		switch {
		case f.value.mark == remove && i < 0:
			p.add(f.at, "%s.%s: nothing to remove: no layer below sets this key%s", path, f.key, suggest(f.key, out.keys()))
		case f.value.mark == remove:
			out.fields = append(out.fields[:i], out.fields[i+1:]...)
		case i < 0:
			out.fields = append(out.fields, field{f.key, f.at, mergeValue(path+"."+f.key, nil, f.value, p)})
		default:
			out.fields[i].value = mergeValue(path+"."+f.key, out.fields[i].value, f.value, p)
			out.fields[i].at = f.at
		}
	}
	return &out
}

// keys returns the keys of a map, in order.
func (v *value) keys() []string {
	keys := make([]string, len(v.fields))
	for i, f := range v.fields {
		keys[i] = f.key
	}
	return keys
}

// without returns the map without one key.
func (v *value) without(key string) *value {
	out := *v
	out.fields = nil
	for _, f := range v.fields {
		if f.key != key {
			out.fields = append(out.fields, f)
		}
	}
	return &out
}
