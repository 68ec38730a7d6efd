package hooks

import (
	"encoding/json"
	"path/filepath"
	"strings"

	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/tool"
)

// foreign returns the name that Claude Code gives a tool of ours.
func foreign(tool string) string {
	switch tool {
	case "bash":
		return "Bash"
	case "read":
		return "Read"
	case "write":
		return "Write"
	case "edit":
		return "Edit"
	case "glob":
		return "Glob"
	case "grep":
		return "Grep"
	}
	return tool
}

// subjects returns the names by which a matcher may mean a tool. Codex changes files with one tool.
func subjects(tool string) []string {
	all := []string{foreign(tool)}
	if all[0] != tool {
		all = append(all, tool)
	}
	switch tool {
	case "write", "edit", "delete":
		all = append(all, "apply_patch")
	}
	return all
}

// foreignMode returns Claude Code's name for what is nearest to a mode.
func foreignMode(m policy.Mode) string {
	switch m {
	case policy.Plan:
		return "plan"
	case policy.WorkspaceWrite:
		return "acceptEdits"
	case policy.FullAccess:
		return "bypassPermissions"
	case policy.ReadOnly, policy.AskFirst:
	}
	return "default"
}

// input returns the arguments of a call as hooks know them: our tools name them as Claude Code's do, but there
// file_path is absolute. Codex gives no more than the command.
func input(style Style, c *tool.Call, dir string) any {
	var fields map[string]any
	if json.Unmarshal(c.Arguments, &fields) != nil {
		return c.Arguments
	}
	if style == Codex {
		command, _ := fields["command"].(string)
		return map[string]any{"command": command}
	}
	if path, ok := fields["file_path"].(string); ok && !filepath.IsAbs(path) && path != "~" && !strings.HasPrefix(path, "~/") {
		fields["file_path"] = filepath.Join(dir, path)
	}
	return fields
}
