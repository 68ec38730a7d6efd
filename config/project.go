package config

import (
	"slices"
	"strings"
)

// permitted returns the rows of a project that it may lay over those below: each has to be of a plugin that is left to projects,
// before and after. p collects why the others are left out.
func permitted(below, rows *value, p *problems) *value {
	out := *rows
	out.fields = nil
	for _, f := range rows.fields {
		allowed := true
		for _, row := range []*value{below.get(f.key), f.value} {
			if named := row.get(pluginKey); named != nil && !slices.Contains(rows.layer.Plugins, named.text) {
				p.add(f.at, "%s: ignored: a folder may not change rows of the plugin %s, only of %s",
					f.key, quote(named.text), strings.Join(rows.layer.Plugins, ", "))
				allowed = false
				break
			}
		}
		if allowed {
			out.fields = append(out.fields, f)
		}
	}
	return &out
}
