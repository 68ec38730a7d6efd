package command

import (
	"path"
	"slices"
	"strings"
)

// Destroys says why the line would delete or ruin what is never deleted in one go: the root of the file system, a
// folder of the system, the home folder, a root of the workspace, what holds one of them, or a disk. "" when it
// is not seen to. Deleting things inside a root stays possible.
func (l Line) Destroys(s Surroundings) (why string) {
	d := destruction{s: s, dir: s.Dir}
	for _, c := range l.Commands {
		if d.command(c); d.sure != "" {
			return d.sure + ": " + short(c.Text)
		}
	}
	return ""
}

// MayDestroy says why the line could do so: it deletes whole folders, and which is not literal. "" otherwise.
func (l Line) MayDestroy(s Surroundings) (why string) {
	if l.unread {
		return "what it deletes is not known: " + l.Unclear
	}
	d := destruction{s: s, dir: s.Dir}
	for _, c := range l.Commands {
		if d.command(c); d.maybe != "" {
			return d.maybe + ": " + short(c.Text)
		}
	}
	return ""
}

// maxLeft bounds how many folders of a line are remembered.
const maxLeft = 16

// destruction goes through the commands of a line.
type destruction struct {
	s     Surroundings
	dir   string   // where the line is by now, "" when that is not known
	left  []string // where it was before, and still is if a cd failed or was in a subshell
	sure  string
	maybe string
}

func (d *destruction) command(c Command) {
	for _, r := range c.Redirects {
		if r.Write && isDisk(r.word.filled()) {
			d.sure = "it writes to a disk"
		}
	}
	if len(c.args) == 0 {
		return
	}
	args := c.args[1:]
	switch name := program(c.args); name {
	case "cd", "pushd":
		d.change(args)
	case "popd":
		d.dir = ""
	case "rm", "shred", "srm", "wipe", "trash", "rimraf", "del":
		d.disks(args)
		if hasFlag(args, "rR", "--recursive") || name != "rm" {
			d.all(args, "it deletes")
		} else if slices.ContainsFunc(args, func(w word) bool { return w.glob }) {
			d.sureOnly(args, "it deletes all files of")
		}
	case "rmdir", "unlink":
		d.sureOnly(args, "it deletes")
	case "find", "fd", "fdfind":
		if where := folders(args); deletes(args) && len(where) > 0 {
			d.all(where, "it deletes what it finds in")
		}
	case "mv":
		if n := len(operandWords(args)); n > 1 {
			d.sureOnly(operandWords(args)[:n-1], "it moves away")
		}
	case "chmod", "chown", "chgrp", "setfacl", "chattr":
		if hasFlag(args, "R", "--recursive") {
			d.sureOnly(operandWords(args)[min(1, len(operandWords(args))):], "it changes the rights of all in")
		}
	case "truncate", "tee", "cp", "install", "wipefs", "blkdiscard", "sgdisk", "sfdisk", "fdisk", "parted", "mkswap", "cryptsetup", "badblocks", "hdparm", "dd", "mkfs":
		d.disks(args)
	case "rsync":
		if hasFlag(args, "", "--delete") || slices.ContainsFunc(args, func(w word) bool { return strings.HasPrefix(w.literal, "--delete") }) {
			if o := operandWords(args); len(o) > 0 {
				d.sureOnly(o[len(o)-1:], "it deletes what is extra in")
			}
		}
	default:
		if strings.HasPrefix(name, "mkfs") || strings.HasPrefix(name, "mke2fs") {
			d.disks(args)
		}
	}
}

// change follows cd as far as it is literal.
func (d *destruction) change(args []word) {
	if d.dir != "" && len(d.left) < maxLeft && !slices.Contains(d.left, d.dir) {
		d.left = append(d.left, d.dir)
	}
	o := operandWords(args)
	switch {
	case len(o) == 0:
		d.dir = d.s.Home
	case o[0].literal == "-" || o[0].open || o[0].glob:
		d.dir = ""
	default:
		d.dir, _ = resolve(o[0].path, d.dir, d.s.Home)
	}
	if len(d.dir) > maxDir {
		d.dir = ""
	}
}

func (d *destruction) all(args []word, what string) {
	operands := operandWords(args)
	for _, w := range operands {
		kept := d.kept(w, d.dir)
		switch {
		case kept != "" && !w.open:
			d.sure = what + " " + kept
		case d.maybe != "":
		case w.path == "" && w.open || kept != "":
			d.maybe = what + " something that is not literal"
		case d.dir == "" && isAllOf(w) || slices.ContainsFunc(d.left, func(dir string) bool { return d.kept(w, dir) != "" }):
			d.maybe = what + " all of the folder that it happens to be in"
		}
	}
	if len(operands) == 0 && d.maybe == "" {
		d.maybe = what + " what it is given later"
	}
}

func (d *destruction) sureOnly(args []word, what string) {
	for _, w := range operandWords(args) {
		if kept := d.kept(w, d.dir); kept != "" && !w.open {
			d.sure = what + " " + kept
		}
	}
}

func (d *destruction) disks(args []word) {
	for _, w := range args {
		text := w.filled()
		if isDisk(text) || isDisk(strings.TrimPrefix(text, "of=")) {
			d.sure = "it writes to a disk"
		}
	}
}

func isDisk(p string) bool {
	name, ok := strings.CutPrefix(path.Clean("/"+p), "/dev/")
	if !ok || !strings.HasPrefix(p, "/") {
		return false
	}
	for _, prefix := range []string{"sd", "hd", "vd", "xvd", "nvme", "mmcblk", "disk", "rdisk", "dm-", "mapper/", "md", "loop", "mem", "kmem", "port"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// resolve makes a path absolute and clean; ok is false when the folder that it is relative to is not known.
func resolve(p, dir, home string) (target string, ok bool) {
	rest, inHome := strings.CutPrefix(p, "~")
	switch {
	case p == "":
		return "", false
	case inHome && (rest == "" || rest[0] == '/'):
		if home == "" {
			return "", false
		}
		return path.Clean(home + rest), true
	case inHome: // somebody else's
		return path.Clean("/home/" + rest), true
	case strings.HasPrefix(p, "/"):
		return path.Clean(p), true
	case dir == "":
		return "", false
	}
	if rest, ok := strings.CutPrefix(p, "$PWD"); ok {
		return path.Clean(dir + rest), true
	}
	return path.Clean(dir + "/" + p), true
}

// kept names what is never deleted and is at or below the target of a word in a folder, "" when nothing is.
func (d *destruction) kept(w word, dir string) string {
	whole, ok := resolve(w.path, dir, d.s.Home)
	if !ok {
		return ""
	}
	if w.glob && isEverything(path.Base(whole)) { // x/* is all of x
		whole = path.Dir(whole)
	}
	switch {
	case whole == "/":
		return "the root of the file system"
	case d.s.Home != "" && holds(whole, d.s.Home, w.glob):
		return "the home folder"
	case slices.ContainsFunc(d.s.Roots, func(root string) bool { return holds(whole, root, w.glob) }):
		return "a folder of the session"
	case d.s.Dir != "" && len(d.s.Roots) == 0 && holds(whole, d.s.Dir, w.glob):
		return "the folder of the session"
	case isSystem(whole) || w.glob && path.Dir(whole) == "/" && whole != "/tmp" && strings.ContainsAny(whole, "*?["):
		return whole + ", of the system"
	}
	return ""
}

// isAllOf reports whether a word stands for the working folder or everything in it.
func isAllOf(w word) bool {
	p := path.Clean(w.path)
	return p == "." || p == ".." || strings.HasPrefix(p, "../") || w.glob && isEverything(p)
}

// isEverything reports whether a pattern stands for everything in a folder.
func isEverything(pattern string) bool {
	switch pattern {
	case "*", "**", ".*", ".[!.]*", ".[^.]*", "?*", "*.*", ".??*":
		return true
	}
	return false
}

// holds reports whether inside is target or lies below it.
func holds(target, inside string, glob bool) bool {
	if target == inside || strings.HasPrefix(inside, strings.TrimSuffix(target, "/")+"/") {
		return true
	}
	names, parts := strings.Split(inside, "/"), strings.Split(target, "/")
	if !glob || len(parts) > len(names) {
		return false
	}
	for i, pattern := range parts {
		if ok, err := path.Match(pattern, names[i]); err != nil || !ok {
			return false
		}
	}
	return true
}

func isSystem(p string) bool {
	if strings.Count(p, "/") != 1 {
		return p == "/usr/bin" || p == "/usr/lib" || p == "/usr/local" || p == "/var/lib" || p == "/Library/Application Support"
	}
	switch p {
	case "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib32", "/lib64", "/mnt", "/media", "/opt", "/proc", "/root", "/run", "/sbin", "/srv", "/sys", "/usr", "/var",
		"/Applications", "/Library", "/System", "/Users", "/Volumes", "/private", "/cores", "/nix", "/snap":
		return true
	}
	return false
}

func hasFlag(args []word, short, long string) bool {
	for _, w := range args {
		switch {
		case !w.known:
		case w.literal == "--":
			return false
		case strings.HasPrefix(w.literal, "--"):
			// An abbreviation is a flag, too.
			if len(w.literal) > 3 && strings.HasPrefix(long, w.literal) {
				return true
			}
		case strings.HasPrefix(w.literal, "-") && strings.ContainsAny(w.literal[1:], short) && short != "":
			return true
		}
	}
	return false
}

// operandWords leaves out what are flags.
func operandWords(args []word) (operands []word) {
	only := false
	for _, w := range args {
		switch {
		case !only && w.known && w.literal == "--":
			only = true
		case !only && w.known && strings.HasPrefix(w.literal, "-") && w.literal != "-":
		default:
			operands = append(operands, w)
		}
	}
	return operands
}

// deletes reports whether a find removes what it finds.
func deletes(args []word) bool {
	runs := false
	for _, w := range args {
		switch {
		case !w.known:
		case w.literal == "-delete":
			return true
		case strings.HasPrefix(w.literal, "-exec"), strings.HasPrefix(w.literal, "-ok"), strings.HasPrefix(w.literal, "--exec"), w.literal == "-x", w.literal == "-X":
			runs = true
		case runs:
			switch path.Base(w.literal) {
			case "rm", "shred", "unlink", "rmdir":
				return true
			}
		}
	}
	return false
}

// folders are what a find begins with. Without any it is the working folder; with a test, only what matches is found.
func folders(args []word) (dirs []word) {
	for _, w := range args {
		if w.known && (strings.HasPrefix(w.literal, "-") && !isFindOption(w.literal) || w.literal == "(" || w.literal == "!") {
			break
		}
		if !w.known || !strings.HasPrefix(w.literal, "-") {
			dirs = append(dirs, w)
		}
	}
	if narrows(args) {
		// Only what is outside of the roots counts then.
		return slices.DeleteFunc(dirs, func(w word) bool {
			return w.path == "" || !strings.HasPrefix(w.path, "/") && !strings.HasPrefix(w.path, "~")
		})
	}
	if len(dirs) == 0 {
		dirs = []word{literalWord(".")}
	}
	return dirs
}

func isFindOption(flag string) bool { return flag == "-H" || flag == "-L" || flag == "-P" }

// narrows reports whether a find deletes only some of what it finds.
func narrows(args []word) bool {
	return slices.ContainsFunc(args, func(w word) bool {
		switch w.literal {
		case "-name", "-iname", "-path", "-ipath", "-regex", "-iregex", "-empty", "-mtime", "-mmin", "-size", "-newer", "-e":
			return true
		}
		return false
	})
}
