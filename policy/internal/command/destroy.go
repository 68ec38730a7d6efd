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
	d := destruction{s: s, dir: s.Dir}
	for _, c := range l.Commands {
		if d.command(c); d.maybe != "" {
			return d.maybe + ": " + short(c.Text)
		}
	}
	return ""
}

// destruction goes through the commands of a line.
type destruction struct {
	s     Surroundings
	dir   string // where the line is by now, "" when that is not known
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
		} else if slices.ContainsFunc(args, func(w word) bool { return w.path != "" && strings.Contains(strings.ReplaceAll(w.path, "**", ""), "*") }) {
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
	o := operandWords(args)
	switch {
	case len(o) == 0:
		d.dir = d.s.Home
	case o[0].literal == "-":
		d.dir = ""
	default:
		d.dir, _ = d.resolve(o[0].path)
	}
}

func (d *destruction) all(args []word, what string) {
	for _, w := range operandWords(args) {
		switch target, ok := d.resolve(w.path); {
		case !ok:
			if d.maybe == "" {
				d.maybe = what + " something that is not literal"
			}
		case d.kept(target) != "":
			d.sure = what + " " + d.kept(target)
		}
	}
	if len(operandWords(args)) == 0 && d.maybe == "" {
		d.maybe = what + " what it is given later"
	}
}

func (d *destruction) sureOnly(args []word, what string) {
	for _, w := range operandWords(args) {
		if target, ok := d.resolve(w.path); ok && d.kept(target) != "" {
			d.sure = what + " " + d.kept(target)
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

// resolve makes a path absolute and clean. Wildcards stay, doubled where they stand for themselves.
func (d *destruction) resolve(p string) (target string, ok bool) {
	switch {
	case p == "":
		return "", false
	case p == "~" || strings.HasPrefix(p, "~/"):
		if d.s.Home == "" {
			return "", false
		}
		p = d.s.Home + p[1:]
	case strings.HasPrefix(p, "~"): // somebody else's home
		p = "/home/" + p[1:]
	case strings.HasPrefix(p, "$PWD"):
		p = d.dir + p[len("$PWD"):]
	}
	if !strings.HasPrefix(p, "/") {
		if d.dir == "" {
			return "", false
		}
		p = d.dir + "/" + p
	}
	return path.Clean(p), true
}

// kept names what is at or below a target that is never deleted, "" when nothing is.
func (d *destruction) kept(target string) string {
	whole := target
	if dir, last := path.Split(target); isAllOf(last) { // x/* is all of x
		whole = path.Clean(dir)
	}
	for _, root := range d.s.Roots {
		if holds(whole, root) {
			return "a folder of the session"
		}
	}
	switch {
	case whole == "/" || strings.Count(target, "/") == 1 && strings.ContainsAny(strings.NewReplacer("**", "", "??", "", "[[", "").Replace(target), "*?["):
		return "the root of the file system"
	case d.s.Home != "" && holds(whole, d.s.Home):
		return "the home folder"
	case d.s.Dir != "" && len(d.s.Roots) == 0 && holds(whole, d.s.Dir):
		return "the folder of the session"
	case isSystem(whole):
		return whole + ", a folder of the system"
	}
	return ""
}

// isAllOf reports whether a pattern stands for everything in a folder.
func isAllOf(pattern string) bool {
	switch pattern {
	case "*", ".*", "{*,.*}", ".[!.]*", "?*", "*.*", ".??*":
		return true
	}
	return false
}

// holds reports whether path is target or lies below it; target may have wildcards.
func holds(target, inside string) bool {
	if target == inside || strings.HasPrefix(inside, strings.TrimSuffix(target, "/")+"/") {
		return true
	}
	if !strings.ContainsAny(target, "*?[") {
		return false
	}
	names, parts := strings.Split(inside, "/"), strings.Split(target, "/")
	if len(parts) > len(names) {
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
	for i, w := range args {
		if w.known && w.literal == "-delete" {
			return true
		}
		if w.known && (strings.HasPrefix(w.literal, "-exec") || strings.HasPrefix(w.literal, "-ok") || w.literal == "-x" || w.literal == "-X") && i+1 < len(args) {
			for _, inner := range args[i+1:] {
				switch path.Base(inner.literal) {
				case "rm", "shred", "unlink", "rmdir":
					return true
				}
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

// narrows reports whether a find deletes only what has a name or a kind.
func narrows(args []word) bool {
	return slices.ContainsFunc(args, func(w word) bool {
		switch w.literal {
		case "-name", "-iname", "-path", "-ipath", "-regex", "-iregex", "-type", "-empty", "-mtime", "-mmin", "-size", "-newer", "-e":
			return true
		}
		return false
	})
}
