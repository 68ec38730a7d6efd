package local

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// socketsOutside lists the sockets of the machine's programs in the file system, but for those below dirs. Neither a
// read-only mount nor, before its version 9, Landlock keeps a command from connecting to one, and some of them obey whoever does.
func socketsOutside(dirs []string) (paths []string) {
	text, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return nil // without /proc nobody sees more
	}
	for line := range strings.Lines(string(text)) {
		// The path is the eighth field, and may have blanks in it; names that begin with @ are not in the file system.
		_, path, ok := strings.Cut(line, " /")
		path = filepath.Clean("/" + strings.TrimSuffix(path, "\n"))
		if ok && !slices.ContainsFunc(dirs, func(dir string) bool { return within(dir, path) }) {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}
