package search

import (
	"encoding/json"

	"github.com/dsh-harness/dsh/tool"
)

// presentGlob says how surfaces show a call of glob.
func presentGlob(arguments json.RawMessage) tool.Presentation {
	var in globInput
	if json.Unmarshal(arguments, &in) != nil || in.Pattern == "" {
		return tool.Presentation{Kind: tool.KindSearch}
	}
	return searched("Find "+in.Pattern, in.Path)
}

// presentGrep says how surfaces show a call of grep.
func presentGrep(arguments json.RawMessage) tool.Presentation {
	var in grepInput
	if json.Unmarshal(arguments, &in) != nil || in.Pattern == "" {
		return tool.Presentation{Kind: tool.KindSearch}
	}
	title := "Search " + in.Pattern
	if in.Glob != "" {
		title += " in " + in.Glob
	}
	return searched(title, in.Path)
}

func searched(title, path string) tool.Presentation {
	p := tool.Presentation{Kind: tool.KindSearch, Title: title}
	if path != "" {
		p.Title += " below " + path
		p.Locations = []tool.Location{{Path: path}}
	}
	return p
}
