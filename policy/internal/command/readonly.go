package command

import (
	_ "embed"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
)

//go:embed readonly.txt
var readonlyText string

// reader is a program that only reads when it is given these flags and no others.
type reader struct {
	short    string          // flags without a value
	valued   string          // flags with a value
	long     map[string]rune // ' ' without a value, '=' with one, '?' with or without
	number   bool            // a number is a flag
	operands int             // how many there may be, -1 for any
}

// readers is the table, by the names of a line. It is read when it is first needed.
var readers = sync.OnceValue(func() map[string]*reader {
	all := map[string]*reader{}
	for line := range strings.Lines(readonlyText) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		names, flags, _ := strings.Cut(line, " :")
		all[strings.TrimSpace(names)] = newReader(strings.Fields(flags))
	}
	return all
})

func newReader(flags []string) *reader {
	r := &reader{long: map[string]rune{}, operands: -1}
	for _, f := range flags {
		switch {
		case f == "none":
			r.operands = 0
		case strings.HasPrefix(f, "max="):
			r.operands, _ = strconv.Atoi(f[4:]) // the table is tested
		case f == "-#":
			r.number = true
		case strings.HasPrefix(f, "--"):
			kind := ' '
			if last := f[len(f)-1]; last == '=' || last == '?' {
				kind, f = rune(last), f[:len(f)-1]
			}
			r.long[f] = kind
		case strings.HasSuffix(f, "="):
			r.valued += f[1 : len(f)-1]
		case len(f) > 2 && oneDash(f[1:]):
			r.long[f] = ' '
		default:
			r.short += f[1:]
		}
	}
	return r
}

// oneDash names the flags of Go's programs, which have one dash and many letters.
func oneDash(flag string) bool {
	switch flag {
	case "json", "deps", "test":
		return true
	}
	return false
}

// ReadOnly reports whether it is proven that the line only reads, and otherwise what is not. The proof is about
// programs as they are shipped: a repository's configuration can make git run others, and a PATH can hold
// anything, so that a proven line is to be confined all the same.
func (l Line) ReadOnly() (proven bool, why string) {
	switch {
	case l.Unclear != "":
		return false, l.Unclear
	case l.background:
		return false, "a command goes on in the background"
	case len(l.Commands) == 0:
		return false, "there is no command"
	}
	for i := range l.Commands {
		if why := l.Commands[i].changes(); why != "" {
			return false, why
		}
	}
	return true, ""
}

// changes says why it is not proven that a command only reads.
func (c *Command) changes() string {
	switch {
	case c.Assigns:
		return short(c.Text) + " assigns variables"
	case c.Words == nil:
		return c.Opaque
	}
	for _, r := range c.Redirects {
		switch {
		case r.Target == "":
			return "it opens a file whose name is not known: " + short(c.Text)
		case r.Write && r.Target != "/dev/null":
			return "it writes to a file: " + short(c.Text)
		case strings.HasPrefix(r.Target, "/dev/tcp/") || strings.HasPrefix(r.Target, "/dev/udp/"):
			return "it connects to the network: " + short(c.Text)
		}
	}
	for _, w := range c.Words {
		// Readers of less care than bash's take the quotes of such a word for its end.
		if strings.ContainsAny(w, `"'`) && strings.ContainsAny(w, ";|&`\n") {
			return "a word has quotes and operators in it: " + short(w)
		}
	}
	return provenReading(c.Words)
}

func provenReading(words []string) string {
	if strings.Contains(words[0], "/") && path.Dir(words[0]) != "/bin" && path.Dir(words[0]) != "/usr/bin" {
		return words[0] + " is not a program of the system"
	}
	words = slices.Clone(words)
	words[0] = path.Base(words[0])
	for n := min(3, len(words)); n > 0; n-- {
		names := strings.Join(words[:n], " ")
		if r, ok := readers()[names]; ok {
			return r.check(names, words[n:])
		}
	}
	if words[0] == "find" {
		return findReads(words[1:])
	}
	return words[0] + " is not known to only read"
}

// check goes through the words behind the names.
func (r *reader) check(names string, words []string) string {
	operands, onlyOperands := 0, false
	if strings.HasPrefix(names, "git ") && slices.ContainsFunc(words, func(w string) bool { return strings.Contains(w, "%G") || strings.Contains(w, "%(signature") }) {
		return names + " would run a program that verifies signatures"
	}
	if names == "echo" || names == "printf" || names == "test" || names == "[" || names == "expr" || names == "true" || names == "false" || names == "sleep" {
		return "" // whatever their words are; what assigns was found before
	}
	for i := 0; i < len(words); i++ {
		w := words[i]
		switch {
		case onlyOperands || w == "-" || !strings.HasPrefix(w, "-"):
			operands++
			if operands > 0 && names == "date" && !strings.HasPrefix(w, "+") {
				return "date may set the clock"
			}
		case w == "--":
			onlyOperands = true
		case r.number && strings.Trim(w[1:], "0123456789") == "":
		case r.longFlag(w):
			if kind, has := r.long[flagName(w)]; kind == '=' && has && !strings.Contains(w, "=") {
				i++ // its value
				if i >= len(words) {
					return fmt.Sprintf("%s %s has no value", names, w)
				}
			}
		case strings.HasPrefix(w, "--"):
			return fmt.Sprintf("%s with %s is not known to only read", names, short(w))
		default:
			takesNext, ok := r.cluster(w[1:])
			if !ok {
				return fmt.Sprintf("%s with %s is not known to only read", names, short(w))
			}
			if takesNext {
				i++
				if i >= len(words) {
					return fmt.Sprintf("%s %s has no value", names, w)
				}
			}
		}
	}
	if r.operands >= 0 && operands > r.operands {
		return fmt.Sprintf("%s with %d operands is not known to only read", names, operands)
	}
	return ""
}

func flagName(w string) string {
	name, _, _ := strings.Cut(w, "=")
	return name
}

func (r *reader) longFlag(w string) bool {
	kind, ok := r.long[flagName(w)]
	return ok && (kind != ' ' || !strings.Contains(w, "="))
}

// cluster reads short flags that stand together; the value of the last may be attached or follow.
func (r *reader) cluster(flags string) (takesNext, ok bool) {
	for i := range len(flags) {
		switch f := flags[i]; {
		case strings.IndexByte(r.valued, f) >= 0:
			return i == len(flags)-1, true
		case strings.IndexByte(r.short, f) < 0:
			return false, false
		}
	}
	return false, true
}

// findReads knows the tests and actions of find that change nothing. Each is a word of its own.
func findReads(words []string) string {
	for i := 0; i < len(words); i++ {
		w := words[i]
		if !strings.HasPrefix(w, "-") {
			continue // a folder, a value, or an operator
		}
		switch w {
		case "-H", "-L", "-P", "-print", "-print0", "-ls", "-prune", "-quit", "-not", "-a", "-and", "-o", "-or", "-depth", "-d", "-mount", "-xdev",
			"-empty", "-readable", "-writable", "-executable", "-true", "-false", "-daystart", "-follow", "-nouser", "-nogroup", "-ignore_readdir_race", "-noleaf":
		case "-name", "-iname", "-path", "-ipath", "-wholename", "-regex", "-iregex", "-regextype", "-type", "-xtype", "-maxdepth", "-mindepth", "-size",
			"-mtime", "-atime", "-ctime", "-mmin", "-amin", "-cmin", "-newer", "-anewer", "-cnewer", "-user", "-group", "-uid", "-gid", "-perm", "-links", "-inum",
			"-samefile", "-lname", "-ilname", "-fstype", "-printf", "-used":
			i++ // its value, which may begin with a dash
		default:
			return "find with " + short(w) + " is not known to only read"
		}
	}
	return ""
}
