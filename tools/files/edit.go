package files

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/tool"
	"github.com/dsh-harness/dsh/workspace"
)

//go:embed edit.md
var editDoc string

type editInput struct {
	FilePath   string `json:"file_path"`
	OldString  string `json:"old_string"`
	NewString  string `json:"new_string"`
	ReplaceAll bool   `json:"replace_all,omitempty"`
}

func (t *tools) editTool() tool.Definition {
	return tool.New(tool.Spec{
		Name:        "edit",
		Description: strings.TrimSpace(editDoc),
		Effect:      session.EffectWrite,
		Access:      access(tool.AccessWrite),
		Present:     presentEdit,
	}, t.edit)
}

func (t *tools) edit(_ context.Context, c *tool.Call, in editInput) (tool.Result, error) {
	if c.Workspace == nil {
		return tool.Result{}, noWorkspace("edit")
	}
	switch {
	case in.OldString == "":
		return tool.Failure(codeNoMatch, "old_string is empty: give the text to replace; to create a file or replace all of one use write"), nil
	case in.OldString == in.NewString:
		return tool.Failure(codeNoChange, "old_string and new_string are the same: nothing would change"), nil
	}
	place, err := c.Workspace.FS().Locate(in.FilePath)
	if err != nil {
		return failure(err), nil
	}
	if !place.Exists {
		// Open says what may have been meant.
		file, err := c.Workspace.FS().Open(in.FilePath)
		if err != nil {
			return failure(err), nil
		}
		_ = file.Close() // it has come this very moment
		return stale(in.FilePath), nil
	}
	old, refused := load(c.Workspace, in.FilePath, place)
	if refused == nil {
		refused = t.seen.check(c.Session, in.FilePath, place.Path, old)
	}
	if refused == nil {
		if kind := binaryKind(old[:min(len(old), sniffed)]); kind != "" {
			r := tool.Failure(codeNotText, fmt.Sprintf("%s is %s", in.FilePath, kind))
			refused = &r
		}
	}
	if refused != nil {
		return *refused, nil
	}
	content := string(old)
	found, err := replace(content, in.OldString, in.NewString, in.ReplaceAll)
	if err != nil {
		code := codeNoMatch
		if len(found.edits) > 1 {
			code = codeAmbiguous
		}
		return tool.Failure(code, fmt.Sprintf("%s: %v", in.FilePath, err)), nil
	}
	changedContent, err := udiff.Apply(content, found.edits)
	if err != nil {
		return tool.Result{}, fmt.Errorf("edit %s: %w", in.FilePath, err)
	}
	if changedContent == content {
		return tool.Failure(codeNoChange, in.FilePath+": nothing would change: the file's line ends are already as they would be written"), nil
	}
	meta := changed(in.FilePath, content, found.edits)
	if refused := t.save(c, in.FilePath, place, []byte(changedContent), workspace.WriteOptions{Expect: old}); refused != nil {
		return *refused, nil
	}
	result := tool.Text(edited(in.FilePath, changedContent, found))
	result.Meta = meta
	return result, nil
}

const (
	// around is how many lines are shown before and after an edit.
	around = 2
	// shownLines is up to how many lines an edit's surroundings are shown.
	shownLines = 24
)

// edited tells the model what the file looks like now, in few words.
func edited(name, content string, found found) string {
	if n := len(found.edits); n > 1 {
		return fmt.Sprintf("Edited %s: %d places.%s", name, n, found.note)
	}
	e := found.edits[0]
	first := strings.Count(content[:e.Start], "\n") + 1
	last := first + strings.Count(strings.TrimSuffix(e.New, "\n"), "\n")
	text := fmt.Sprintf("Edited %s, line %d.%s", name, first, found.note)
	if last > first {
		text = fmt.Sprintf("Edited %s, lines %d-%d.%s", name, first, last, found.note)
	}
	if excerpt := excerpt(content, first-around, last+around); last-first+2*around < shownLines && excerpt != "" {
		text += " Now:\n" + excerpt
	}
	return text
}

// excerpt returns lines of content, numbered as read numbers them.
func excerpt(content string, from, to int) string {
	var out []byte
	n := 0
	for line := range strings.Lines(strings.TrimPrefix(content, string(bom))) {
		if n++; n > to {
			break
		}
		if n >= from {
			out = appendNumber(out, n)
			out = append(out, cutRunes([]byte(strings.ToValidUTF8(strings.TrimRight(line, "\r\n"), "\ufffd")), 200)...)
			out = append(out, '\n')
		}
	}
	return strings.TrimSuffix(string(out), "\n")
}
