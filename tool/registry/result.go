package registry

import (
	"encoding/json"
	"strings"

	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/tool"
)

// complete makes a result one that can be logged and sent to any model: it says
// something, in valid UTF-8, a failure has a kind, and its meta has an encoding.
func (r *registry) complete(c *tool.Call, result tool.Result) tool.Result {
	content := make([]llm.Block, 0, len(result.Content)+1)
	said := false
	for _, b := range result.Content {
		switch b.Type {
		case llm.BlockText:
			b.Text = strings.ToValidUTF8(b.Text, "\uFFFD")
			said = said || b.Text != ""
		case llm.BlockImage:
			said = true
		case llm.BlockReasoning, llm.BlockToolCall, llm.BlockOpaque:
			continue // no wire has a place for them in a result
		default:
			continue
		}
		content = append(content, b)
	}
	switch {
	case said:
	case result.IsError:
		content = []llm.Block{llm.Text("Error: " + c.Name + " failed and did not say why")}
	default:
		content = []llm.Block{llm.Text(c.Name + " succeeded and has no output")}
	}
	result.Content = content
	if result.IsError && result.Error == nil {
		result.Error = &session.ToolErrorData{Name: "ToolError", Code: tool.CodeFailed}
	}
	if result.Meta != nil {
		meta, err := json.Marshal(result.Meta)
		if err != nil {
			r.scope.Log().Error("the meta of a tool's result has no encoding", "tool", c.Name, "err", err)
			result.Meta = nil
		} else {
			result.Meta = json.RawMessage(meta)
		}
	}
	return result
}
