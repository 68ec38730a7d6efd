package local

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// mountedBelow says what is mounted in dir, so that removing dir does not empty a
// disk that somebody mounted there.
func mountedBelow(dir string) error {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("find out whether something is mounted in it: %w", err)
	}
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		if point := unescapeMount(fields[4]); within(dir, point) {
			return fmt.Errorf("%s is mounted in it: unmount that and remove the folder by hand", point)
		}
	}
	return nil
}

// unescapeMount decodes the octal escapes of mountinfo, e.g. \040 for a space.
func unescapeMount(s string) string {
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
