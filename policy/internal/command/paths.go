package command

import (
	"path"
	"slices"
	"strings"
)

const (
	maxParts = 16  // of one word that may name files
	maxDir   = 256 // of the length of a folder that cd has changed to
)

// Paths returns every word of the line, and every part of a word behind = @ : or a comma, that could name a file, for the places
// that nobody touches. There are more of them than files: a program knows best. Those from the home folder begin with ~. What
// is relative is also given as seen from the folders that cd changes to.
func (l Line) Paths() []string {
	all := gathered{}
	for _, c := range l.Commands {
		for i, w := range c.args {
			if i > 0 || strings.Contains(w.literal, "/") {
				all.add(w.names()...)
			}
		}
		for _, r := range c.Redirects {
			all.add(r.word.names()...)
		}
		all.follow(c)
	}
	return all.paths
}

// gathered is a list of paths without doubles.
type gathered struct {
	paths []string
	known map[string]bool
	dir   string // what cd has changed to, "" when nothing or not known
}

func (g *gathered) add(paths ...string) {
	for _, p := range paths {
		g.one(p)
		if g.dir != "" && p != "" && p[0] != '/' && p[0] != '~' {
			g.one(path.Join(g.dir, p))
		}
	}
}

func (g *gathered) one(p string) {
	if p == "" || g.known[p] {
		return
	}
	if g.known == nil {
		g.known = map[string]bool{}
	}
	g.known[p] = true
	g.paths = append(g.paths, p)
}

// follow knows where the line is behind a command.
func (g *gathered) follow(c Command) {
	if name := program(c.args); name != "cd" && name != "pushd" {
		return
	}
	to := "~"
	if operands := operandWords(c.args[1:]); len(operands) > 0 {
		to = operands[0].filled()
	}
	switch {
	case to == "" || to == "-":
		g.dir = ""
	case to[0] == '/' || to[0] == '~' || g.dir == "":
		g.dir = to
	default:
		g.dir = path.Join(g.dir, to)
	}
	if len(g.dir) > maxDir {
		g.dir = ""
	}
}

// names lists what a word may name: itself, and what follows = @ : , or a short flag.
func (w word) names() (all []string) {
	p := w.filled()
	if p == "" {
		return nil
	}
	if !strings.HasPrefix(p, "-") {
		all = append(all, p)
	} else if len(p) > 2 && p[1] != '-' {
		all = append(all, p[2:])
	}
	for rest := p; len(all) < maxParts; {
		i := strings.IndexAny(rest, "=@:,")
		if i < 0 || i+1 >= len(rest) {
			break
		}
		rest = rest[i+1:]
		all = append(all, rest)
	}
	return all
}

// filled is the path of a word as tools spell one, as far as it is known.
func (w word) filled() string {
	if w.known {
		return w.literal
	}
	p := w.path
	if rest, ok := strings.CutPrefix(p, "$PWD"); ok {
		p = "." + rest
	}
	return p
}

// Writes returns the literal paths that the line writes, makes or removes, by redirection or by programs that are known to.
// Like those of [Line.Paths], they begin with ~ for the home folder, and follow cd.
func (l Line) Writes() []string {
	all := gathered{known: map[string]bool{"/dev/null": true}}
	for _, c := range l.Commands {
		for _, r := range c.Redirects {
			if r.Write {
				all.add(r.word.filled())
			}
		}
		all.add(written(c.args)...)
		all.follow(c)
	}
	return all.paths
}

// written lists what a program writes, by its words.
func written(args []word) (paths []string) {
	operands, flags := split(args[min(1, len(args)):])
	value := func(names ...string) {
		for _, f := range flags {
			if slices.Contains(names, f.name) {
				paths = append(paths, f.value)
			}
		}
	}
	switch name := program(args); name {
	case "rm", "rmdir", "unlink", "mv", "touch", "mkdir", "mkfifo", "truncate", "shred", "tee", "rsync", "rename", "split", "csplit", "patch":
		paths = operands
		value("-t", "--target-directory")
	case "cp", "ln", "install", "scp":
		if len(operands) > 0 {
			last := operands[len(operands)-1]
			paths = append(paths, last)
			for _, from := range operands[:len(operands)-1] {
				paths = append(paths, strings.TrimSuffix(last, "/")+"/"+path.Base(from))
			}
			if len(operands) == 1 {
				paths = append(paths, path.Base(last)) // ln -s target
			}
		}
		value("-t", "--target-directory")
	case "chmod", "chown", "chgrp", "chattr", "setfacl":
		paths = operands[min(1, len(operands)):]
	case "sed", "perl", "ruby":
		if slices.ContainsFunc(flags, func(f flag) bool {
			return strings.HasPrefix(f.name, "-i") || f.name == "--in-place" || name != "sed" && strings.Contains(f.name, "i")
		}) {
			paths = operands
		}
	case "dd":
		for _, o := range operands {
			if to, ok := strings.CutPrefix(o, "of="); ok {
				paths = append(paths, to)
			}
		}
	case "sort", "gcc", "cc", "clang", "go", "curl":
		value("-o", "--output")
	case "wget":
		value("-O", "-P", "--output-document", "--directory-prefix")
	case "tar":
		value("-C", "--directory", "-f", "--file")
	case "unzip":
		value("-d")
	case "git":
		paths = gitWrites(operands)
	}
	return paths
}

// gitWrites knows the commands of git that write what git obeys.
func gitWrites(operands []string) []string {
	if len(operands) == 0 {
		return nil
	}
	switch operands[0] {
	case "config":
		if len(operands) > 2 && operands[1] != "get" && operands[1] != "list" || len(operands) == 2 && operands[1] == "edit" {
			return []string{".git/config"}
		}
	case "remote":
		if len(operands) > 1 && operands[1] != "show" && operands[1] != "get-url" {
			return []string{".git/config"}
		}
	case "submodule":
		if len(operands) > 1 && operands[1] != "status" && operands[1] != "summary" {
			return []string{".gitmodules", ".git/config"}
		}
	case "rm", "mv", "restore", "checkout":
		return operands[1:]
	}
	return nil
}

// flag is a flag of a program with the value that is attached to it or follows it.
type flag struct{ name, value string }

// split tells operands from flags. The word behind a flag counts as its value and as an operand, as only the program knows.
func split(args []word) (operands []string, flags []flag) {
	only := false
	for i, w := range args {
		text := w.filled()
		switch {
		case text == "":
		case only || !strings.HasPrefix(text, "-") || text == "-":
			operands = append(operands, text)
		case text == "--":
			only = true
		case strings.HasPrefix(text, "--"):
			name, value, ok := strings.Cut(text, "=")
			if !ok && i+1 < len(args) {
				value = args[i+1].filled()
			}
			flags = append(flags, flag{name, value})
		default:
			value := text[min(2, len(text)):]
			if value == "" && i+1 < len(args) {
				value = args[i+1].filled()
			}
			flags = append(flags, flag{text[:2], value}, flag{name: text})
		}
	}
	return operands, flags
}
