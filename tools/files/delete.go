package files

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/tool"
	"github.com/dsh-harness/dsh/workspace"
)

//go:embed delete.md
var deleteDoc string

type deleteInput struct {
	FilePath string `json:"file_path"`
}

func (t *tools) deleteTool() tool.Definition {
	return tool.New(tool.Spec{
		Name:        "delete",
		Description: strings.TrimSpace(deleteDoc),
		Effect:      session.EffectIdempotent,
		Access:      access(tool.AccessWrite),
		Present:     presentDelete,
	}, t.delete)
}

// Deleted is what delete tells surfaces, as the meta of its result.
type Deleted struct {
	Path  string `json:"path"`
	Files int    `json:"files"`
	Bytes int64  `json:"bytes"`
	Trash string `json:"trash,omitempty"` // what restores it, "" when it is gone for good
}

func (t *tools) delete(_ context.Context, c *tool.Call, in deleteInput) (tool.Result, error) {
	if c.Workspace == nil {
		return tool.Result{}, noWorkspace("delete")
	}
	deleted, err := c.Workspace.FS().Delete(in.FilePath)
	if err != nil {
		return failure(err), nil
	}
	result := tool.Text(fmt.Sprintf("Deleted %s: %s.", in.FilePath, amount(deleted)))
	result.Meta = Deleted{Path: in.FilePath, Files: deleted.Files, Bytes: deleted.Bytes, Trash: deleted.Trash}
	return result, nil
}

func amount(d workspace.Deleted) string {
	what := fmt.Sprintf("%d files", d.Files)
	if d.Files == 1 {
		what = "1 file"
	}
	if d.Trash == "" {
		return what + ", too large for the trash and gone for good"
	}
	return what + ", which dsh trash restore " + d.Trash + " brings back"
}
