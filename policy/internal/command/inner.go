package command

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// isShell reports whether a program runs scripts that it is given with -c or to read.
func isShell(name string) bool {
	switch name {
	case "sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "rbash", "fish", "busybox":
		return true
	}
	return false
}

// scripts returns the texts that a command gives to a shell.
func scripts(args []word, s *syntax.Stmt) (all []word) {
	rest := args[1:]
	switch name := program(args); name {
	case "eval":
		words := literals(rest)
		if words == nil {
			return []word{{}}
		}
		return []word{literalWord(strings.Join(words, " "))}
	case "trap":
		return rest[:min(1, len(rest))]
	case "su", "script", "flock", "runuser", "watch", "env":
		for i, w := range rest {
			if !w.known {
				continue
			}
			flag, value, attached := strings.Cut(w.literal, "=")
			switch {
			case name != "env" && attached && len(flag) > 2 && strings.HasPrefix("--command", flag), name == "env" && attached && len(flag) > 3 && strings.HasPrefix("--split-string", flag):
				all = append(all, literalWord(value))
			case name != "env" && (flag == "-c" || flag == "--command" || flag == "--session-command"), name == "env" && (flag == "-S" || flag == "--split-string"):
				all = append(all, rest[min(i+1, len(rest)):min(i+2, len(rest))]...)
			case name == "env" && len(flag) > 2 && strings.HasPrefix(flag, "-S"):
				all = append(all, literalWord(w.literal[2:]))
			}
		}
	default:
		if !isShell(name) {
			return nil
		}
		for i, w := range rest {
			if w.known && len(w.literal) > 1 && w.literal[0] == '-' && w.literal[1] != '-' && strings.Contains(w.literal, "c") {
				if operand := slices.IndexFunc(rest[i+1:], func(w word) bool {
					return !w.known || !strings.HasPrefix(w.literal, "-") && !strings.HasPrefix(w.literal, "+")
				}); operand >= 0 {
					all = append(all, rest[i+1+operand])
				}
				break
			}
		}
		all = append(all, hereDocuments(s)...)
	}
	return all
}

// hereDocuments returns the texts that a statement reads.
func hereDocuments(s *syntax.Stmt) (all []word) {
	if s == nil {
		return nil
	}
	for _, r := range s.Redirs {
		switch {
		case r.Op == syntax.WordHdoc:
			all = append(all, readWord(r.Word))
		case r.Hdoc != nil:
			var text strings.Builder
			known := true
			for _, p := range r.Hdoc.Parts {
				lit, plain := p.(*syntax.Lit)
				known = known && plain
				if plain {
					text.WriteString(lit.Value)
				}
			}
			all = append(all, word{literal: text.String(), known: known})
		}
	}
	return all
}

// wrapped returns the commands that a command runs, as far as they are words of it.
func wrapped(args []word) (all [][]word) {
	rest := args[min(1, len(args)):]
	switch name := program(args); name {
	case "sudo", "doas":
		return one(skip(rest, "ugpCrtThDRU"))
	case "env":
		rest = skip(rest, "uCS")
		for len(rest) > 0 && rest[0].known && strings.Contains(rest[0].literal, "=") {
			rest = rest[1:]
		}
		return one(rest)
	case "command":
		if len(rest) > 0 && rest[0].known && (rest[0].literal == "-v" || rest[0].literal == "-V") {
			return nil // it only looks for them
		}
		return one(skip(rest, ""))
	case "nice", "ionice", "chrt", "taskset", "stdbuf", "setsid", "nohup", "exec", "builtin", "time", "unbuffer", "caffeinate", "setarch", "proxychains", "faketime", "dbus-run-session":
		rest = skip(rest, "nacpioeft")
		if name == "taskset" || name == "chrt" || name == "faketime" {
			rest = rest[min(1, len(rest)):]
		}
		return one(rest)
	case "timeout":
		rest = skip(rest, "ks")
		return one(rest[min(1, len(rest)):])
	case "xargs", "parallel":
		return one(skip(rest, "IiLnPsEdaj"))
	case "strace", "ltrace", "perf", "valgrind", "gdb":
		return one(skip(rest, "eopsSuEabPXO"))
	case "unshare", "chroot", "nsenter", "firejail", "bwrap", "systemd-run", "pkexec", "runuser", "flock", "watch", "entr":
		rest = skip(rest, "ugtSGrRnwEcd")
		if name == "chroot" || name == "flock" {
			rest = rest[min(1, len(rest)):]
		}
		return one(rest)
	case "busybox", "toybox":
		return one(rest)
	case "ssh":
		rest = skip(rest, "BbcDEeFIiJLlmOopQRSWw")
		return one(rest[min(1, len(rest)):])
	case "npx", "pnpx", "bunx":
		return one(skip(rest, "pc"))
	case "find", "fd", "fdfind":
		return afterEach(rest, []string{"-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch"})
	case "git":
		for i, w := range rest {
			if w.known && w.literal == "run" && i > 0 && rest[i-1].known && rest[i-1].literal == "bisect" {
				return one(rest[i+1:])
			}
		}
	}
	return nil
}

func one(args []word) [][]word {
	if len(args) == 0 {
		return nil
	}
	return [][]word{args}
}

// skip drops the flags at the beginning; withValue lists the short ones that take the next word.
func skip(args []word, withValue string) []word {
	for len(args) > 0 && args[0].known && strings.HasPrefix(args[0].literal, "-") {
		flag := args[0].literal
		args = args[1:]
		if flag == "--" {
			break
		}
		if len(flag) == 2 && strings.Contains(withValue, flag[1:]) && len(args) > 0 {
			args = args[1:]
		}
	}
	return args
}

// afterEach returns what stands between each of the flags and its end.
func afterEach(args []word, flags []string) (all [][]word) {
	for len(args) > 0 {
		w := args[0]
		args = args[1:]
		if !w.known || !slices.Contains(flags, w.literal) {
			continue
		}
		end := slices.IndexFunc(args, func(w word) bool { return w.known && (w.literal == ";" || w.literal == "+") })
		if end < 0 {
			end = len(args)
		}
		all = append(all, one(args[:end])...)
		args = args[end:]
	}
	return all
}
