package permission

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/dsh-harness/dsh/policy/internal/command"
)

// forbids reports whether a rule that denies or asks is about c. It rather takes too much:
// a program counts wherever it lies, options may stand between the words of the rule, and
// of a command whose words are not known any text that holds them all is enough.
func (r *rule) forbids(c *command.Command) bool {
	switch r.spec {
	case all:
		return true
	case exactly, prefix, pattern:
	case lines, paths, hosts:
		return false
	}
	if c.Words == nil {
		return r.mentioned(tokens(c.Text))
	}
	return len(c.Words) > 0 && r.heads(c.Words)
}

// heads reports whether words begin with those of the rule, but for options and what may be
// the argument of one.
func (r *rule) heads(words []string) bool {
	if !r.matchWord(0, words[0]) && !r.matchWord(0, base(words[0])) {
		return false
	}
	// at[n] tells that the first n words of the rule may have been found so far.
	at := make([]bool, len(r.words)+1)
	at[1] = true
	r.leap(at)
	option := false // the word before is an option, so that this one may be its argument
	for _, w := range words[1:] {
		if at[len(r.words)] {
			return true
		}
		skipped, any := option || strings.HasPrefix(w, "-"), false
		for n := len(r.words); n > 0; n-- {
			at[n] = at[n] && (skipped || r.isGap(n)) || n > 1 && at[n-1] && !r.isGap(n-1) && r.matchWord(n-1, w)
			any = any || at[n]
		}
		if !any {
			return false
		}
		r.leap(at)
		option = strings.HasPrefix(w, "-") && !strings.Contains(w, "=")
	}
	return at[len(r.words)]
}

// isGap reports whether word n of the rule is a * that stands for any number of words.
func (r *rule) isGap(n int) bool { return r.spec == pattern && n < len(r.words) && r.words[n] == "*" }

// leap lets each gap stand for no word.
func (r *rule) leap(at []bool) {
	for n := 1; n < len(r.words); n++ {
		at[n+1] = at[n+1] || at[n] && r.isGap(n)
	}
}

// matchWord compares a word with word n of the rule.
func (r *rule) matchWord(n int, w string) bool {
	if r.spec == pattern {
		return glob(r.words[n], w)
	}
	return r.words[n] == w
}

// mentioned reports whether all literal words of the rule are among the tokens of a text.
func (r *rule) mentioned(in map[string]bool) bool {
	if r.spec == all {
		return true
	}
	for _, w := range r.words {
		if r.spec == pattern && strings.ContainsAny(w, "*?") {
			found := false
			for t := range in {
				found = found || glob(w, t)
			}
			if !found {
				return false
			}
			continue
		}
		for t := range tokens(w) {
			if !in[t] {
				return false
			}
		}
	}
	return true
}

// tokens are the words of a text, and the last names of the paths among them, however they
// are quoted and whatever stands between them.
func tokens(text string) map[string]bool {
	found := map[string]bool{}
	text = strings.NewReplacer(`"`, "", `'`, "", "\\\n", "", `\`, "").Replace(text)
	for word := range strings.FieldsFuncSeq(text, separates) {
		if !found[word] {
			found[word], found[base(word)] = true, true
		}
	}
	return found
}

func separates(c rune) bool {
	switch c {
	case ';', '&', '|', '<', '>', '(', ')', '{', '}', '$', '`', '=', ',', '!':
		return true
	}
	return c <= ' '
}

func base(word string) string { return word[strings.LastIndexByte(word, '/')+1:] }

// glob matches a word with a pattern in which * stands for any characters and ? for one, in
// a time that grows with the product of their lengths.
func glob(pattern, word string) bool {
	p, w, star, from := 0, 0, -1, 0
	for w < len(word) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, w
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == word[w]):
			p++
			w++
		case star >= 0:
			from++
			p, w = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// allows reports whether a rule that allows covers c, a command whose words are known.
func (r *rule) allows(c *command.Command) bool {
	switch r.spec {
	case exactly:
		return slices.Equal(r.words, c.Words)
	case prefix:
		return len(c.Words) >= len(r.words) && slices.Equal(r.words, c.Words[:len(r.words)]) &&
			beyond(c.Words, len(r.words)) == "" && (r.dir == "" || r.binds(c.Words[len(r.words):]))
	case all, pattern, lines, paths, hosts:
	}
	return false
}

// binds reports whether args are what the wildcard of a rule stands for that holds in one
// folder: no options, and no paths that lead out of it.
func (r *rule) binds(args []string) bool {
	for _, arg := range args {
		slashed := filepath.ToSlash(arg)
		if strings.HasPrefix(arg, "-") || strings.HasPrefix(arg, "~") || slices.Contains(strings.Split(slashed, "/"), "..") || strings.Contains(arg, "=") {
			return false
		}
		if (filepath.IsAbs(arg) || strings.HasPrefix(slashed, "/")) && !strings.HasPrefix(filepath.ToSlash(filepath.Clean(arg))+"/", filepath.ToSlash(r.dir)+"/") {
			return false
		}
	}
	return true
}

// surroundings is what patterns of paths are relative to.
type surroundings struct {
	dir  string // the session's folder
	home string
}

// spots are the absolute, slash-separated ways to name one file: as it was called, and
// without links.
type spots []string

// spot makes target absolute without looking at a file.
func (s surroundings) spot(target string) string {
	target = filepath.ToSlash(target)
	if rest, ok := strings.CutPrefix(target, "~"); ok && (rest == "" || rest[0] == '/') {
		target = filepath.ToSlash(s.home) + rest
	}
	if !filepath.IsAbs(filepath.FromSlash(target)) {
		target = filepath.ToSlash(s.dir) + "/" + target
	}
	return filepath.ToSlash(filepath.Clean(filepath.FromSlash(target)))
}

// globs returns the absolute patterns that p stands for.
func (p *pathPattern) globs(s surroundings) []string {
	folder := escape(filepath.ToSlash(s.dir))
	switch p.from {
	case fromFolder:
		return []string{below(folder, p.pattern)}
	case anyDepth:
		return []string{below(folder, "**/"+p.pattern)}
	case fromHome:
		return []string{below(escape(filepath.ToSlash(s.home)), p.pattern)}
	case fromRoot:
		return []string{below("", p.pattern)}
	case fromEither:
		return []string{below("", p.pattern), below(folder, p.pattern)}
	}
	return nil
}

// below returns the pattern of what lies in a folder.
func below(dir, pattern string) string {
	if pattern == "." {
		return cmp.Or(dir, "/")
	}
	return strings.TrimSuffix(dir, "/") + "/" + pattern
}

// escape makes a path a pattern of just itself.
func escape(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "{", `\{`).Replace(path)
}

// unescape is the opposite of [escape].
func unescape(pattern string) string {
	return strings.NewReplacer(`\\`, `\`, `\`, "").Replace(pattern)
}

// within reports whether every spot matches the pattern itself.
func (p *pathPattern) within(at spots, s surroundings) bool {
	for _, spot := range at {
		if !slices.ContainsFunc(p.globs(s), func(glob string) bool { return matchPath(glob, spot) }) {
			return false
		}
	}
	return len(at) > 0
}

// reach is all that a pattern of paths touches: what matches it, and what lies below that.
// Case does not count.
type reach struct {
	globs   []string
	literal string // when the pattern holds no wildcard and begins in one place
}

func (p *pathPattern) reach(s surroundings) reach {
	globs := p.globs(s)
	if p.literal && len(globs) == 1 && p.from != anyDepth {
		return reach{literal: strings.ToLower(unescape(globs[0]))}
	}
	for i, glob := range globs {
		globs[i] = strings.ToLower(glob)
	}
	return reach{globs: globs}
}

func (r reach) touches(at spots) bool {
	for _, spot := range at {
		spot = strings.ToLower(spot)
		if r.literal != "" && (spot == r.literal || strings.HasPrefix(spot, strings.TrimSuffix(r.literal, "/")+"/")) {
			return true
		}
		for _, glob := range r.globs {
			if matchPath(glob, spot) || matchPath(glob+"/**", spot) {
				return true
			}
		}
	}
	return false
}

func matchPath(glob, path string) bool {
	ok, err := doublestar.Match(glob, path)
	return ok && err == nil // it was checked when the rule was read
}

// reaches reports whether a host is what the rule names.
func (r *rule) reaches(target string) bool {
	if r.spec == all {
		return true
	}
	host := hostOf(target)
	if suffix, ok := strings.CutPrefix(r.host, "*"); ok {
		return strings.HasSuffix(host, suffix) && len(host) > len(suffix)
	}
	return host == r.host
}

// hostOf returns the host of host, host:port or a URL.
func hostOf(target string) string {
	if _, rest, ok := strings.Cut(target, "://"); ok {
		target = rest
	}
	if i := strings.IndexAny(target, "/?#"); i >= 0 {
		target = target[:i]
	}
	target = target[strings.LastIndexByte(target, '@')+1:]
	if i := strings.LastIndexByte(target, ':'); i >= 0 && !strings.HasSuffix(target, "]") && strings.Count(target, ":") == 1 {
		target = target[:i]
	}
	return normalHost(target)
}
