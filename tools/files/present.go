package files

import (
	"encoding/json"
	"fmt"

	"github.com/dsh-harness/dsh/tool"
)

// What surfaces show of a call. Arguments that do not decode leave names empty, and the seam shows them plainly.

func presentRead(arguments json.RawMessage) tool.Presentation {
	var in readInput
	if json.Unmarshal(arguments, &in) != nil || in.FilePath == "" {
		return tool.Presentation{Kind: tool.KindRead}
	}
	title := "Read " + in.FilePath
	switch {
	case in.Limit > 0:
		title += fmt.Sprintf(" (lines %d-%d)", max(in.Offset, 1), max(in.Offset, 1)+in.Limit-1)
	case in.Offset > 1:
		title += fmt.Sprintf(" (from line %d)", in.Offset)
	}
	return tool.Presentation{Kind: tool.KindRead, Title: title, Locations: []tool.Location{{Path: in.FilePath, Line: max(in.Offset, 0)}}}
}

func presentWrite(arguments json.RawMessage) tool.Presentation {
	var in writeInput
	if json.Unmarshal(arguments, &in) != nil || in.FilePath == "" {
		return tool.Presentation{Kind: tool.KindEdit}
	}
	return tool.Presentation{
		Kind: tool.KindEdit, Title: "Write " + in.FilePath,
		Locations: []tool.Location{{Path: in.FilePath}},
		Diffs:     []tool.Diff{{Path: in.FilePath, New: in.Content}},
	}
}

func presentEdit(arguments json.RawMessage) tool.Presentation {
	var in editInput
	if json.Unmarshal(arguments, &in) != nil || in.FilePath == "" {
		return tool.Presentation{Kind: tool.KindEdit}
	}
	title := "Edit " + in.FilePath
	if in.ReplaceAll {
		title += " (everywhere)"
	}
	return tool.Presentation{
		Kind: tool.KindEdit, Title: title,
		Locations: []tool.Location{{Path: in.FilePath}},
		Diffs:     []tool.Diff{{Path: in.FilePath, Old: &in.OldString, New: in.NewString}},
	}
}

func presentDelete(arguments json.RawMessage) tool.Presentation {
	p := tool.Presentation{Kind: tool.KindDelete}
	if path := pathArgument(arguments); path != "" {
		p.Title, p.Locations = "Delete "+path, []tool.Location{{Path: path}}
	}
	return p
}
