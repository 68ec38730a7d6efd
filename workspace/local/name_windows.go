package local

import (
	"fmt"
	"path/filepath"
	"strings"
)

// checkName refuses names that Windows turns into something else: devices such as NUL,
// streams such as file.txt:x, and names whose trailing dots or spaces it drops.
func checkName(path string) error {
	for part := range strings.SplitSeq(path[len(filepath.VolumeName(path)):], separator) {
		switch {
		case part == "" || part == "." || part == "..":
		case !filepath.IsLocal(part), strings.Contains(part, ":"), strings.TrimRight(part, ". ") != part:
			return fmt.Errorf("%q is not the name of a file on Windows", part)
		}
	}
	return nil
}
