package mode

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dsh-harness/dsh/internal/canon"
	"github.com/dsh-harness/dsh/workspace"
)

// places are patterns of files and folders, each with what is below it. A pattern
// that begins with / or ~/ (on Windows, a drive) is anchored: it is one path. Any
// other is names that follow one another anywhere below a root.
type places []place

type place struct {
	pattern  string   // as it is listed
	names    []string // folded
	anchored bool
	path     string // of an anchored one, with the home folder filled in
}

// checkPattern reports what is wrong with a pattern.
func checkPattern(pattern string) error {
	if strings.Trim(pattern, "/ ") == "" || strings.HasPrefix(pattern, "~") && !strings.HasPrefix(pattern, "~/") {
		return fmt.Errorf("%q is no place: expected a path from / or ~/, or names below the workspace", pattern)
	}
	if strings.Contains(pattern, "\\") {
		return fmt.Errorf("%q is no place: write / between names, also on Windows", pattern)
	}
	if slices.Contains(strings.Split(pattern, "/"), "..") {
		return fmt.Errorf("%q is no place: .. has no meaning in it", pattern)
	}
	if _, err := path.Match(pattern, ""); err != nil {
		return fmt.Errorf("%q is no place: %w", pattern, err)
	}
	return nil
}

// newPlaces resolves patterns for a home folder. An anchored one that leads through
// a link counts under both names.
func newPlaces(r resolver, home string, patterns []string) places {
	var ps places
	for _, pattern := range patterns {
		p := place{pattern: pattern, path: pattern}
		if rest, ok := strings.CutPrefix(pattern, "~/"); ok {
			p.path = filepath.ToSlash(home) + "/" + rest
		}
		p.anchored = filepath.IsAbs(filepath.FromSlash(p.path)) || strings.HasPrefix(p.path, "/")
		p.names = fold(p.path)
		ps = append(ps, p)
		if real := filepath.ToSlash(r.resolve(filepath.FromSlash(p.path))); p.anchored && real != p.path {
			ps = append(ps, place{pattern: pattern, path: real, names: fold(real), anchored: true})
		}
	}
	return ps
}

// spot is one file as patterns see it: names that were folded.
type spot struct {
	whole []string // where it is, without links
	named []string // how it was called, links and all
	below []string // what of it counts for patterns that are not anchored
}

func newSpot(at workspace.Place, named string) spot {
	s := spot{whole: fold(at.Path), named: fold(named)}
	s.below = s.whole
	if at.Root != "" {
		// What stands above the workspace does not count, but for its own name.
		s.below = fold(filepath.Base(at.Root) + "/" + at.Rel)
	}
	return s
}

// match returns the pattern that covers a file, "" when none does.
func (ps places) match(s spot) string {
	for _, p := range ps {
		if p.anchored && (startsWith(s.whole, p.names) || startsWith(s.named, p.names)) || !p.anchored && p.inside(s.below) {
			return p.pattern
		}
	}
	return ""
}

func (p place) inside(names []string) bool {
	for i := range names {
		if startsWith(names[i:], p.names) {
			return true
		}
	}
	return false
}

// existsBelow returns what there is of the anchored places strictly below a folder.
func (ps places) existsBelow(s spot, except func(path string) bool) string {
	for _, p := range ps {
		if !p.anchored || len(p.names) <= len(s.whole) || !startsWith(s.whole, p.names[:len(s.whole)]) {
			continue
		}
		found, _ := filepath.Glob(filepath.FromSlash(p.path)) // the pattern was checked
		if slices.ContainsFunc(found, func(path string) bool { return startsWith(fold(path), s.whole) && !except(path) }) {
			return p.pattern
		}
	}
	return ""
}

// standsIn returns the first of the places that there is in a folder itself; further down nobody looks. A pattern of
// several names counts where the folder is the beginning of it. It is "" for a file.
func (ps places) standsIn(path string, s spot) string {
	if info, err := os.Lstat(path); err != nil || !info.IsDir() {
		return ""
	}
	if place := ps.existsBelow(s, func(string) bool { return false }); place != "" {
		return place
	}
	for _, p := range ps {
		if p.anchored {
			continue
		}
		for n := range p.names {
			if n > len(s.below) || !startsWith(s.below[len(s.below)-n:], p.names[:n]) {
				continue
			}
			rest := strings.Join(strings.FieldsFunc(p.path, func(r rune) bool { return r == '/' })[n:], "/")
			if found, _ := filepath.Glob(escaped(path) + "/" + rest); len(found) > 0 { // the pattern was checked
				return p.pattern
			}
		}
	}
	return ""
}

// escaped is a pattern for one path.
func escaped(path string) string {
	return strings.NewReplacer(`[`, `[[]`, `*`, `[*]`, `?`, `[?]`).Replace(path)
}

func startsWith(names, pattern []string) bool {
	if len(names) < len(pattern) {
		return false
	}
	for i, want := range pattern {
		if names[i] == want {
			continue
		}
		if ok, err := path.Match(want, names[i]); err != nil || !ok {
			return false
		}
	}
	return true
}

// fold splits a path into names that are equal when some file system takes them for
// one file: the case, the Unicode form, characters without a width (HFS+) and
// trailing dots, blanks and streams (Windows) do not count. A name that is folded too
// far is asked about once more than needed.
func fold(p string) []string {
	names := strings.FieldsFunc(p, func(r rune) bool { return r == '/' || r == filepath.Separator })
	names = slices.DeleteFunc(names, func(name string) bool { return name == "." })
	for i, name := range names {
		name = strings.Map(visible, name)
		if os.PathSeparator == '\\' && i > 0 {
			name, _, _ = strings.Cut(name, ":")
		}
		if trimmed := strings.TrimRight(name, " ."); trimmed != "" {
			name = trimmed
		}
		names[i] = strings.ToLower(canon.Decompose(name))
	}
	return names
}

// visible drops the characters that HFS+ ignores in names.
func visible(r rune) rune {
	switch {
	case r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x206a && r <= 0x206f, r == 0xfeff:
		return -1
	}
	return r
}
