package mounts

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Below fails, and names the place, when something is mounted at dir or below it.
// dir is absolute and without links.
func Below(dir string) error {
	list, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("find out whether something is mounted in it: %w", err)
	}
	for line := range strings.Lines(string(list)) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		if point := unescape(fields[4]); within(dir, point) {
			return fmt.Errorf("%s is mounted in it: unmount that and remove the folder by hand", point)
		}
	}
	return nil
}

// unescape decodes the octal escapes of mountinfo, e.g. \040 for a space.
func unescape(s string) string {
	var out []byte
	for len(s) > 0 {
		if s[0] == '\\' && len(s) >= 4 {
			if c, err := strconv.ParseUint(s[1:4], 8, 8); err == nil {
				out, s = append(out, byte(c)), s[4:]
				continue
			}
		}
		out, s = append(out, s[0]), s[1:]
	}
	return string(out)
}

// within compares whole components: /a/bc is not in /a/b.
func within(dir, path string) bool {
	rest, ok := strings.CutPrefix(path, strings.TrimSuffix(dir, "/"))
	return ok && (rest == "" || rest[0] == '/')
}
