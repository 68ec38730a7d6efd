package search

import (
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// rules are the patterns of one .gitignore, the last first.
type rules []rule

type rule struct {
	pattern     string
	kind        kind
	negated     bool
	foldersOnly bool
}

// kind is how a rule's pattern is matched: most need no pattern matching.
type kind int

const (
	byName   kind = iota // the name is the pattern
	bySuffix             // the name ends with the pattern
	byGlob               // the name matches the pattern
	byPath               // the path below the file's folder matches the pattern
)

// parseIgnore reads the content of a .gitignore as git does.
func parseIgnore(content string) rules {
	var parsed rules
	for line := range strings.SplitSeq(strings.TrimPrefix(content, "\ufeff"), "\n") {
		if r, ok := parseRule(strings.TrimSuffix(line, "\r")); ok {
			parsed = append(parsed, r)
		}
	}
	for i, j := 0, len(parsed)-1; i < j; i, j = i+1, j-1 {
		parsed[i], parsed[j] = parsed[j], parsed[i]
	}
	return parsed
}

func parseRule(line string) (r rule, ok bool) {
	if strings.HasPrefix(line, "#") {
		return r, false
	}
	if line, r.negated = strings.CutPrefix(line, "!"); line == "" {
		return r, false
	}
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = line[:len(line)-1]
	}
	line, r.foldersOnly = strings.CutSuffix(line, "/")
	// A slash that is not the last ties the pattern to the file's folder.
	if strings.Contains(line, "/") {
		r.kind = byPath
		r.pattern = strings.TrimPrefix(line, "/")
		if inside, ok := strings.CutSuffix(r.pattern, "/**"); ok {
			r.pattern = inside + "/**/*" // what is in a folder, not the folder
		}
		r.pattern = translate(r.pattern)
		return r, r.pattern != ""
	}
	r.pattern = line
	switch suffix, starred := strings.CutPrefix(line, "*"); {
	case !strings.ContainsAny(line, `*?[\`):
		r.kind = byName
	case starred && !strings.ContainsAny(suffix, `*?[\`):
		r.kind, r.pattern = bySuffix, suffix
	default: // a name has no slashes, so two stars do what one does
		r.kind, r.pattern = byGlob, translate(line)
	}
	return r, line != ""
}

// translate writes git's pattern in the language of our matcher: braces are nothing
// special, and two stars are only for a whole part of the path.
func translate(pattern string) string {
	parts := strings.Split(pattern, "/")
	for i, part := range parts {
		if part == "**" {
			continue
		}
		for strings.Contains(part, "**") {
			part = strings.ReplaceAll(part, "**", "*")
		}
		parts[i] = strings.NewReplacer(`\\`, `\\`, `\{`, `\{`, `\}`, `\}`, `{`, `\{`, `}`, `\}`).Replace(part)
	}
	return strings.Join(parts, "/")
}

// match tells whether the rules decide about a path below their folder, and how.
func (rs rules) match(rel string, folder bool) (ignored, decided bool) {
	name := path.Base(rel)
	for _, r := range rs {
		if r.foldersOnly && !folder {
			continue
		}
		var hit bool
		switch r.kind {
		case byName:
			hit = name == r.pattern
		case bySuffix:
			hit = strings.HasSuffix(name, r.pattern)
		case byGlob:
			hit = doublestar.MatchUnvalidated(r.pattern, name)
		case byPath:
			hit = doublestar.MatchUnvalidated(r.pattern, rel)
		}
		if hit {
			return !r.negated, true
		}
	}
	return false, false
}

// ignores is a chain of .gitignore files from a folder up to the top of its repository.
type ignores struct {
	rules rules
	// below is what a path has to lose at its beginning, or get there, to be below the
	// folder of the rules: of the chain's links one is about the walk's root, those
	// inside have a folder to cut, those above one to add.
	cut, add string
	up       *ignores
}

// ignored tells whether a path below the walk's root is left out. Files further in decide first.
func (i *ignores) ignored(rel string, folder bool) bool {
	for ; i != nil; i = i.up {
		if ignored, decided := i.rules.match(i.add+strings.TrimPrefix(rel, i.cut), folder); decided {
			return ignored
		}
	}
	return false
}
