package search

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/tool"
	"github.com/dsh-harness/dsh/workspace"
)

//go:embed glob.md
var globDoc string

type globInput struct {
	Pattern string `json:"pattern"`
	Path    string `json:"path,omitempty" doc:"Folder to search in; by default that of the session."`
}

func (t *tools) globTool() tool.Definition {
	return tool.New(tool.Spec{
		Name:        "glob",
		Description: strings.TrimSpace(globDoc),
		Effect:      session.EffectRead,
		Parallel:    true,
		Timeout:     t.timeout(),
		Present:     presentGlob,
		Access: func(c *tool.Call) []tool.Access {
			var in globInput
			_ = json.Unmarshal(c.Arguments, &in) // valid arguments decode
			base, _ := splitPattern(in.Pattern)
			return []tool.Access{{Kind: tool.AccessRead, Target: cmp.Or(below(in.Path, base), ".")}}
		},
	}, t.glob)
}

// splitPattern cuts the fixed folders off a pattern: they are named, so neither hidden nor ignored.
func splitPattern(pattern string) (base, rest string) {
	base, rest = doublestar.SplitPattern(strings.TrimPrefix(pattern, "./"))
	return unescape(base), rest
}

// unescape returns what a pattern without wildcards names.
func unescape(pattern string) string {
	var out strings.Builder
	for i := 0; i < len(pattern); i++ {
		if pattern[i] == '\\' && i+1 < len(pattern) {
			i++
		}
		out.WriteByte(pattern[i])
	}
	return out.String()
}

// listed is a file that a glob found.
type listed struct {
	path string // as the model sees it
	time time.Time
}

func (t *tools) glob(ctx context.Context, c *tool.Call, in globInput) (tool.Result, error) {
	if c.Workspace == nil {
		return tool.Result{}, errors.New("glob: this agent has no workspace")
	}
	if strings.TrimSpace(in.Pattern) == "" {
		return tool.Failure(codePattern, "pattern is empty"), nil
	}
	if !doublestar.ValidatePattern(in.Pattern) {
		return tool.Failure(codePattern, fmt.Sprintf("the pattern %q is not valid: a [ or { is not closed, or it ends with \\; put \\ before a character that is meant as itself", in.Pattern)), nil
	}
	if in.Path != "" {
		_, info, err := place(c.Workspace, in.Path)
		if err != nil {
			return failure(err), nil
		}
		if !info.IsDir() {
			return tool.Failure(codeNotFound, in.Path+" is a file: path is the folder to search in"), nil
		}
	}
	ctx, cancel := t.limited(ctx)
	defer cancel()
	base, rest := splitPattern(in.Pattern)
	found := map[string]time.Time{}
	t.literal(c.Workspace, below(in.Path, unescape(strings.TrimPrefix(in.Pattern, "./"))), found)
	root, info, err := place(c.Workspace, cmp.Or(below(in.Path, base), "."))
	if err != nil || !info.IsDir() {
		return t.globText(found, false, 0), nil
	}
	wanted := patterns(in.Pattern, rest)
	q := query{w: c.Workspace, root: root.Path, named: named(in.Pattern)}
	l, err := t.list(ctx, q)
	if err != nil {
		return failure(err), nil
	}
	for _, name := range l.files {
		if !matches(wanted, name) {
			continue
		}
		abs := join(root.Path, name)
		if info, err := c.Workspace.FS().Lstat(abs); err == nil { // it may be gone by now
			found[shown(c.Workspace, abs)] = info.ModTime()
		}
	}
	hidden := 0
	if len(found) == 0 && !l.partial {
		q.all = true
		ignored, err := t.list(ctx, q)
		if err != nil {
			return failure(err), nil
		}
		for _, name := range ignored.files {
			if matches(wanted, name) {
				hidden++
			}
		}
	}
	return t.globText(found, l.partial, hidden), nil
}

// literal adds the file that the pattern names as it is, if there is one. A link is shown
// by its own name.
func (t *tools) literal(w workspace.Workspace, name string, found map[string]time.Time) {
	info, err := w.FS().Lstat(name)
	if err != nil || info.IsDir() {
		return
	}
	if info.Mode()&fs.ModeSymlink == 0 {
		p, err := w.FS().Locate(name)
		if err != nil {
			return
		}
		name = shown(w, p.Path)
	}
	found[name] = info.ModTime()
}

// patterns returns what matches the rest of a pattern below its fixed folders. Brackets
// may be a class, or part of a name, as in app/[id]/page.tsx.
func patterns(pattern, rest string) []string {
	if !strings.Contains(pattern, "/") {
		rest = "**/" + rest
	}
	wanted := []string{rest}
	if strings.Contains(rest, "[") {
		wanted = append(wanted, strings.NewReplacer("[", `\[`, "]", `\]`).Replace(rest))
	}
	return wanted
}

func matches(wanted []string, name string) bool {
	return slices.ContainsFunc(wanted, func(pattern string) bool { return doublestar.MatchUnvalidated(pattern, name) })
}

// named returns the names in a pattern.
func named(pattern string) []string { return strings.Split(pattern, "/") }

func (t *tools) globText(found map[string]time.Time, partial bool, hidden int) tool.Result {
	files := make([]listed, 0, len(found))
	for name, at := range found {
		files = append(files, listed{name, at})
	}
	slices.SortFunc(files, func(a, b listed) int {
		return cmp.Or(b.time.Compare(a.time), strings.Compare(a.path, b.path))
	})
	var out strings.Builder
	for _, f := range files[:min(len(files), t.config.Files)] {
		out.WriteString(f.path + "\n")
	}
	switch {
	case len(files) > t.config.Files:
		fmt.Fprintf(&out, "[%d of %d files, the newest. Narrow the pattern to see others.]\n", t.config.Files, len(files))
	case len(files) == 0 && hidden > 0:
		fmt.Fprintf(&out, "No files found, but %d that .gitignore excludes. Name their folder in the pattern to see them.\n", hidden)
	case len(files) == 0:
		out.WriteString("No files found\n")
	}
	if partial {
		out.WriteString("[There was not enough time or room for all files: search in a folder further down.]\n")
	}
	return tool.Text(strings.TrimSuffix(out.String(), "\n"))
}
