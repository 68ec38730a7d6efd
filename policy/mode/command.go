package mode

import (
	"encoding/json"
	"iter"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/policy/internal/command"
	"github.com/dsh-harness/dsh/tool"
	"github.com/dsh-harness/dsh/workspace"
)

// judgeCommand judges a command line. What its words name counts in every mode; what a program opens
// without being told is up to the sandbox.
func (r *rules) judgeCommand(m policy.Mode, row row, c *tool.Call, text string) finding {
	level := workspace.SandboxNone
	if c.Workspace != nil {
		level, _ = c.Workspace.Sandbox()
	}
	line := command.Parse(text)
	if reason := r.namesPrivate(c, &line); reason != "" {
		return found(tool.Deny, "%s", reason)
	}
	if asksForControl(m) {
		if names, paths := r.controlsIn(c, &line); len(names) > 0 {
			f := found(tool.Ask, "the command changes %s, which is a control file: what is in it is executed or obeyed later, so a person has to approve the change",
				strings.Join(names, " and "))
			f.beyond = paths
			return f
		}
	}
	d := row.execute(level)
	switch d {
	case tool.Allow:
		return found(d, "mode %s allows commands", m)
	case tool.Confined:
		return found(d, "commands run in the sandbox")
	case tool.Ask, tool.Deny:
	}
	permitted := tool.Confined
	if level == workspace.SandboxNone {
		permitted = tool.Allow
	}
	if m != policy.AskFirst {
		return lifted(m, found(d, "mode %s asks about a command where the sandbox is %s, because nothing confines it", m, level), permitted)
	}
	if level == workspace.SandboxFull {
		if proven, _ := line.ReadOnly(); proven {
			return found(tool.Confined, "the command is proven to only read")
		}
	}
	return lifted(m, found(d, "mode %s asks about every command that is not proven to only read", m), permitted)
}

// asksForControl reports whether a command that names a control file is asked about: elsewhere it can
// change none, or all of them in ways that no word tells.
func asksForControl(m policy.Mode) bool { return m == policy.AskFirst || m == policy.WorkspaceWrite }

// namesPrivate returns why a line may not run that names a private place, "" when it names none.
func (r *rules) namesPrivate(c *tool.Call, line *command.Line) string {
	for at, name := range located(c, line.Paths()) {
		a := tool.Access{Kind: tool.AccessRead, Target: name}
		if reason := r.private(c, a, at, newSpot(at, r.lexical(c, name))); reason != "" {
			return reason
		}
	}
	return ""
}

// controlsIn returns the control files that a line names and changes, as it calls them and where they are.
func (r *rules) controlsIn(c *tool.Call, line *command.Line) (names, paths []string) {
	for at, name := range located(c, line.Writes()) {
		if r.control.match(newSpot(at, r.lexical(c, name))) != "" && !slices.Contains(paths, at.Path) {
			names, paths = append(names, name), append(paths, at.Path)
		}
	}
	return names, paths
}

// located yields where the files are that words of a command name, and those names seen
// from the folder of the session. Words that name no file are left out.
func located(c *tool.Call, words []string) iter.Seq2[workspace.Place, string] {
	return func(yield func(workspace.Place, string) bool) {
		if c.Workspace == nil {
			return
		}
		dir := workdir(c)
		seen := map[string]bool{}
		for _, word := range words {
			name := filepath.FromSlash(word)
			if name == "" || seen[name] {
				continue
			}
			seen[name] = true
			if dir != "" && !filepath.IsAbs(name) && !strings.HasPrefix(name, "~") {
				name = filepath.Join(dir, name)
			}
			if at, err := c.Workspace.FS().Locate(name); err == nil && !yield(at, name) {
				return
			}
		}
	}
}

// workdir is the folder that a call names to run in, "" for that of the session.
func workdir(c *tool.Call) string {
	var in struct {
		Workdir string `json:"workdir"`
	}
	_ = json.Unmarshal(c.Arguments, &in) // other tools have other arguments, and none of this name
	return filepath.FromSlash(in.Workdir)
}
