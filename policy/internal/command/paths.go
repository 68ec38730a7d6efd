package command

import (
	"path"
	"slices"
	"strings"
)

// Paths returns every word of the line, and every part of a word behind =, that could name a file, for the places that
// nobody touches. There are more of them than files: a program knows best. Those from the home folder begin with ~.
func (l Line) Paths() (all []string) {
	add := func(w word) {
		for _, p := range w.names() {
			if !slices.Contains(all, p) {
				all = append(all, p)
			}
		}
	}
	for _, c := range l.Commands {
		for i, w := range c.args {
			if i > 0 || strings.Contains(w.literal, "/") {
				add(w)
			}
		}
		for _, r := range c.Redirects {
			add(r.word)
		}
	}
	return all
}

// names lists what a word may name: itself, and what follows = or @ or a short flag.
func (w word) names() (all []string) {
	p := w.filled()
	if p == "" {
		return nil
	}
	if strings.HasPrefix(p, "-") {
		if len(p) > 2 && p[1] != '-' {
			all = append(all, p[2:])
		}
	} else {
		all = append(all, p)
	}
	for rest := p; ; {
		i := strings.IndexAny(rest, "=@:,")
		if i < 0 || i+1 >= len(rest) {
			return all
		}
		rest = rest[i+1:]
		all = append(all, rest)
	}
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

// Writes returns the literal paths that the line writes, makes or removes, by redirection or by programs
// that are known to.
func (l Line) Writes() (all []string) {
	add := func(paths ...string) {
		for _, p := range paths {
			if p != "" && p != "/dev/null" && !slices.Contains(all, p) {
				all = append(all, p)
			}
		}
	}
	for _, c := range l.Commands {
		for _, r := range c.Redirects {
			if r.Write {
				add(r.word.filled())
			}
		}
		add(written(c.args)...)
	}
	return all
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
