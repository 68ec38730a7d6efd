package files

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/tool"
	"github.com/dsh-harness/dsh/workspace"
)

//go:embed write.md
var writeDoc string

type writeInput struct {
	FilePath string `json:"file_path"`
	Content  string `json:"content"`
}

func (t *tools) writeTool() tool.Definition {
	return tool.New(tool.Spec{
		Name:        "write",
		Description: strings.TrimSpace(writeDoc),
		Effect:      session.EffectIdempotent,
		Access:      access(tool.AccessWrite),
		Present:     presentWrite,
	}, t.write)
}

func (t *tools) write(_ context.Context, c *tool.Call, in writeInput) (tool.Result, error) {
	if c.Workspace == nil {
		return tool.Result{}, noWorkspace("write")
	}
	place, err := c.Workspace.FS().Locate(in.FilePath)
	if err != nil {
		return failure(err), nil
	}
	if !place.Exists {
		return t.create(c, in, place), nil
	}
	old, refused := load(c.Workspace, in.FilePath, place)
	if refused == nil {
		refused = t.seen.check(c.Session, in.FilePath, place.Path, old)
	}
	if refused != nil {
		return *refused, nil
	}
	content := []byte(in.Content)
	if bytes.Equal(old, content) {
		return tool.Text(in.FilePath + " already has exactly this content."), nil
	}
	change := rewritten(in.FilePath, string(old), in.Content)
	if refused := t.save(c, in.FilePath, place, content, workspace.WriteOptions{Expect: old}); refused != nil {
		return *refused, nil
	}
	result := tool.Text(fmt.Sprintf("Replaced %s: it has %s now.", in.FilePath, countLines(in.Content)))
	result.Meta = change
	return result, nil
}

func (t *tools) create(c *tool.Call, in writeInput, place workspace.Place) tool.Result {
	if refused := t.save(c, in.FilePath, place, []byte(in.Content), workspace.WriteOptions{MustBeNew: true}); refused != nil {
		return *refused
	}
	result := tool.Text(fmt.Sprintf("Created %s with %s.", in.FilePath, countLines(in.Content)))
	result.Meta = tool.Change{Path: in.FilePath, Created: true, Added: lines(in.Content)}
	return result
}

// save writes and remembers what is there from now on.
func (t *tools) save(c *tool.Call, name string, place workspace.Place, content []byte, o workspace.WriteOptions) *tool.Result {
	err := c.Workspace.FS().WriteFile(place.Path, content, o)
	var refused tool.Result
	switch {
	case err == nil:
		t.seen.remember(c.Session, place.Path, t.seen.sum(content))
		return nil
	case errors.Is(err, workspace.ErrChanged), errors.Is(err, fs.ErrExist):
		refused = stale(name)
	default:
		refused = failure(err)
	}
	return &refused
}

// lines counts a last line without an end, too.
func lines(text string) int {
	n := strings.Count(text, "\n")
	if text != "" && !strings.HasSuffix(text, "\n") {
		n++
	}
	return n
}

func countLines(text string) string {
	if n := lines(text); n != 1 {
		return fmt.Sprintf("%d lines", n)
	}
	return "1 line"
}
