package files

import (
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"github.com/dsh-harness/dsh/tool"
)

const (
	// diffedBytes is up to which size two contents are compared.
	diffedBytes = 1 << 20
	// shownBytes is how much of a diff is kept: it is in the log for ever.
	shownBytes = 16 << 10
	// contextLines stand around a change.
	contextLines = 3
	// scannedBytes bounds the cost of a diff, which looks at the whole file for each edit.
	scannedBytes = 256 << 20
)

// rewritten describes that all of a file was replaced.
func rewritten(name, old, content string) tool.Change {
	if len(old) > diffedBytes || len(content) > diffedBytes {
		return tool.Change{Path: name, Added: lines(content), Removed: lines(old)}
	}
	return changed(name, old, udiff.Lines(old, content))
}

// changed describes edits of old.
func changed(name, old string, edits []udiff.Edit) tool.Change {
	change := tool.Change{Path: name}
	if len(edits)*len(old) > scannedBytes {
		for _, e := range edits {
			change.Added += lines(e.New)
			change.Removed += lines(old[e.Start:e.End])
		}
		return change
	}
	diff, err := udiff.ToUnifiedDiff(name, name, old, edits, contextLines)
	if err != nil {
		return change // only overlapping edits fail, and ours do not overlap
	}
	for _, hunk := range diff.Hunks {
		for _, line := range hunk.Lines {
			switch line.Kind {
			case udiff.Insert:
				change.Added++
			case udiff.Delete:
				change.Removed++
			case udiff.Equal:
			}
		}
	}
	change.Diff = diff.String()
	if len(change.Diff) > shownBytes {
		end := strings.LastIndexByte(change.Diff[:shownBytes], '\n') + 1
		change.Diff, change.Cut = change.Diff[:end], true
	}
	return change
}
