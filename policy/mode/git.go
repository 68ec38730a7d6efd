package mode

import (
	"io"
	"os"
	"path/filepath"
	"strings"
)

// mostConfig is up to how many bytes of a configuration of git are looked at.
const mostConfig = 64 << 10

// hooksOf returns the folder that the repository at root has git run hooks from instead of its own, without links, "" when
// it has none. The sandbox keeps commands from changing what is in it.
func hooksOf(root string) string {
	f, err := os.Open(filepath.Join(root, ".git", "config"))
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(f, mostConfig))
	if err != nil {
		return ""
	}
	dir := ""
	for line := range strings.Lines(string(text)) {
		key, value, ok := strings.Cut(line, "=")
		if ok && strings.EqualFold(strings.TrimSpace(key), "hooksPath") {
			dir = strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
	if dir == "" {
		return ""
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(root, filepath.FromSlash(dir))
	}
	return resolver{}.resolve(filepath.Clean(dir))
}
