package shell

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/dsh-harness/dsh/tool"
)

// present says how surfaces show a command: by what it is, never by what the model says it is for.
func present(arguments json.RawMessage) tool.Presentation {
	var in input
	if json.Unmarshal(arguments, &in) != nil || in.Command == "" {
		return tool.Presentation{Kind: tool.KindExecute, Terminal: true}
	}
	title, rest, more := strings.Cut(strings.TrimSpace(in.Command), "\n")
	if more {
		title = fmt.Sprintf("%s (and %d more lines)", title, strings.Count(rest, "\n")+1)
	}
	return tool.Presentation{Kind: tool.KindExecute, Title: "$ " + title, Terminal: true}
}
