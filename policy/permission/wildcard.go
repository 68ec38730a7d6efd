package permission

import "strings"

// beyond returns the first of words, from word n on, that a wildcard does not stand for: one
// that makes a well-known program run another, or write a file, though its name does not tell.
// A long option counts in each of its abbreviations. It is no sandbox: what is not well known passes.
func beyond(words []string, n int) string {
	for _, w := range words[n:] {
		// Text that would be commands, if one quote less were understood.
		if strings.Contains(w, `"`) && strings.ContainsAny(w, ";&|<>`$\n") {
			return w
		}
	}
	var g guarded
	switch base(words[0]) {
	case "git":
		return beyondGit(words, n)
	case "env", "sudo", "doas":
		// A variable that is set in front of a command is never part of a wildcard, and neither is another folder.
		for _, w := range words[n:] {
			if strings.Contains(w, "=") {
				return w
			}
		}
		g.long, g.short = "split-string chdir", "SCD"
	case "xargs", "parallel":
		return words[0] // it adds words that nobody knows yet
	case "find":
		g.words = "-exec -execdir -ok -okdir -delete -fprint -fprint0 -fprintf -fls"
	case "fd", "fdfind":
		g.long, g.short = "exec exec-batch", "xX"
	case "rg":
		g.long = "pre hostname-bin"
	case "sort":
		g.long, g.short = "output compress-program", "o"
	case "go":
		g.goFlags = "exec toolexec vettool overlay modfile ldflags gccgoflags C w"
	case "tar":
		g.long, g.short = "to-command use-compress-program info-script new-volume-script checkpoint-action rsh-command rmt-command", "IF"
		if n == 1 && len(words) > 1 && strings.ContainsAny(words[1], g.short) && !strings.HasPrefix(words[1], "--") {
			return words[1] // its oldest options have no dash
		}
	case "man":
		g.long, g.short = "pager html preprocessor", "PHp"
	case "zip":
		g.long, g.short = "test unzip-command", "T"
	case "rsync":
		g.long, g.short = "rsh rsync-path", "e"
	case "ssh", "scp", "sftp":
		g.short = "oFS"
	case "split":
		g.long = "filter"
	default:
		return ""
	}
	return g.first(words[n:])
}

// guarded are options of a program, each list separated by spaces.
type guarded struct {
	words   string // as they stand
	long    string // without their two dashes
	short   string // letters
	goFlags string // without dashes, of which one or two are right
}

// first returns the first of args that is guarded.
func (g guarded) first(args []string) string {
	for _, arg := range args {
		name, dashed := strings.CutPrefix(arg, "-")
		if !dashed {
			continue
		}
		name, double := strings.CutPrefix(name, "-")
		name, _, _ = strings.Cut(name, "=")
		switch {
		case name == "":
		case has(g.words, func(w string) bool { return w == arg }),
			has(g.goFlags, func(w string) bool { return w == name }),
			double && has(g.long, func(w string) bool { return strings.HasPrefix(w, name) }),
			!double && strings.ContainsAny(name, g.short):
			return arg
		}
	}
	return ""
}

func has(list string, is func(word string) bool) bool {
	for word := range strings.FieldsSeq(list) {
		if is(word) {
			return true
		}
	}
	return false
}

// beyondGit is [beyond] for git: options in front of the subcommand, which may set any
// configuration, and subcommands that are there to run programs have to be named by the rule.
func beyondGit(words []string, n int) string {
	at := 1
	for at < len(words) && strings.HasPrefix(words[at], "-") {
		if at >= n && words[at] != "--no-pager" && words[at] != "--no-optional-locks" {
			return words[at]
		}
		at++
	}
	if at >= len(words) {
		return ""
	}
	g := guarded{long: "output output-directory ext-diff textconv open-files-in-pager upload-pack receive-pack exec extcmd config template"}
	switch words[at] {
	case "config", "filter-branch", "daemon", "instaweb", "send-email", "difftool", "mergetool", "hook", "upload-pack", "receive-pack", "credential":
		if at >= n {
			return words[at]
		}
	case "bisect", "submodule":
		g.words = "run foreach"
	case "commit", "tag", "merge", "stash":
		return ""
	case "grep":
		g.short = "O"
	case "clone", "fetch", "ls-remote", "pull":
		g.short = "uc"
	case "rebase":
		g.short = "x"
	case "format-patch", "archive":
		g.short = "o"
	}
	args := words[max(n, at+1):]
	for _, arg := range args {
		// The remote ext::program runs that program.
		if helper, _, ok := strings.Cut(arg, "::"); ok && !strings.ContainsAny(helper, "/:") || has(g.words, func(w string) bool { return w == arg }) {
			return arg
		}
	}
	return g.first(args)
}
