package permission

import (
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dsh-harness/dsh/policy/internal/command"
	"github.com/dsh-harness/dsh/tool"
	"github.com/dsh-harness/dsh/workspace"
)

// suggest returns rules that would allow the call, narrowest first.
func (s *subject) suggest(refused []workspace.Refusal) []string {
	if len(refused) > 0 {
		return suggestHosts(refused)
	}
	if len(s.touches) != 1 {
		if len(s.touches) == 0 && checkName(s.call.Name) == nil {
			return []string{s.call.Name}
		}
		return nil
	}
	var found []string
	switch t := &s.touches[0]; t.Kind {
	case tool.AccessExecute:
		found = suggestCommands(t)
	case tool.AccessRead:
		found = s.suggestFile("Read", t)
	case tool.AccessWrite:
		found = s.suggestFile("Edit", t)
	case tool.AccessNetwork:
		found = []string{"WebFetch(domain:" + hostOf(t.Target) + ")"}
	}
	return slices.DeleteFunc(found, func(text string) bool { return !s.allowedBy(text) })
}

// allowedBy reports whether a rule, remembered in the call's folder, would allow the call.
func (s *subject) allowedBy(text string) bool {
	r, err := parseRule(text, tool.Allow)
	if err != nil {
		return false
	}
	r.dir = s.around.dir
	permit, _ := s.permit(ruleset{allow: []*rule{r}})
	return permit != nil
}

// suggestHosts returns rules for hosts. What lies in a private network takes more than its name, which no rule can say.
func suggestHosts(refused []workspace.Refusal) []string {
	var found []string
	for _, r := range refused {
		host := hostOf(r.Target)
		if at, err := netip.ParseAddr(host); err == nil && (!at.IsGlobalUnicast() || at.IsPrivate()) || host == "localhost" {
			continue
		}
		text := "WebFetch(domain:" + host + ")"
		if _, err := parseRule(text, tool.Allow); r.Kind == workspace.RefusedNetwork && err == nil && !slices.Contains(found, text) {
			found = append(found, text)
		}
	}
	return found
}

func (s *subject) suggestFile(name string, t *touch) []string {
	rel, err := filepath.Rel(s.around.dir, filepath.FromSlash(t.real))
	if t.real == "" || err != nil || s.around.dir == "" {
		return nil
	}
	rel = filepath.ToSlash(rel)
	if rel == ".." || strings.HasPrefix(rel, "../") {
		return []string{name + "(/" + escape(t.real) + ")"}
	}
	found := []string{name + "(./" + escape(rel) + ")"}
	if i := strings.LastIndexByte(rel, '/'); i > 0 {
		found = append(found, name+"(./"+escape(rel[:i])+"/**)")
	}
	return found
}

// suggestCommands returns the command word for word, and, where only what it works on could
// differ without harm, its beginning.
func suggestCommands(t *touch) []string {
	if t.line.Unclear != "" || slices.ContainsFunc(t.line.Commands, func(c command.Command) bool { return uncovered(&c) != "" }) {
		return nil
	}
	outer := slices.DeleteFunc(slices.Clone(t.line.Commands), func(c command.Command) bool { return c.Inner })
	if len(outer) != 1 {
		if slices.ContainsFunc(t.line.Commands, runsInput) {
			return nil
		}
		return []string{"Bash(" + strings.TrimSpace(t.Target) + ")"}
	}
	words := outer[0].Words
	found := []string{"Bash(" + join(words) + ")"}
	if n := stem(words); n > 0 && !slices.ContainsFunc(t.line.Commands, func(c command.Command) bool { return c.Inner }) {
		found = append(found, "Bash("+join(words[:n])+":*)")
	}
	return found
}

// runsInput reports whether a command in a pipeline may run what comes in, which no rule can bind.
func runsInput(c command.Command) bool {
	if len(c.Words) == 0 {
		return true
	}
	switch strings.TrimRight(base(c.Words[0]), "0123456789.") {
	case "sh", "bash", "dash", "zsh", "ksh", "fish", "busybox", "python", "node", "deno", "bun", "ruby", "perl", "php", "lua", "xargs", "parallel", "sudo", "env", "ssh", "":
		return true
	}
	return false
}

// stem returns how many words tell a command apart when only what it works on may differ: its
// program, subcommand and options. It is 0 for all but well-known subcommands, which
// work on the folder with a tool chain that is the same for all operands.
func stem(words []string) int {
	if len(words) < 2 {
		return 0
	}
	n := 2
	switch words[0] {
	case "go":
		if !slices.Contains([]string{"build", "test", "vet", "fmt", "list", "doc"}, words[1]) {
			return 0
		}
	case "git":
		if !slices.Contains([]string{"add", "commit", "status", "diff", "log", "show", "stash", "restore", "switch"}, words[1]) {
			return 0
		}
	case "npm", "pnpm", "yarn":
		switch {
		case words[1] == "test" || words[1] == "ci":
		case words[1] == "run" && len(words) > 2:
			n = 3
		default:
			return 0
		}
	case "cargo":
		if !slices.Contains([]string{"build", "test", "check", "clippy", "fmt", "doc"}, words[1]) {
			return 0
		}
	default:
		return 0
	}
	for i := n; i < len(words); i++ {
		if strings.HasPrefix(words[i], "-") {
			// The word behind an option may be its value.
			n = min(i+2, len(words))
			if strings.Contains(words[i], "=") {
				n = i + 1
			}
		}
	}
	if beyond(words, 1) != "" {
		return 0
	}
	return n
}
