package permission

import (
	"errors"
	"fmt"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/dsh-harness/dsh/tool"
)

// maxRule bounds the text of a rule in bytes.
const maxRule = 4096

// rule is one rule. It never changes.
type rule struct {
	text   string
	effect tool.Decision // Allow, Ask or Deny
	source string        // where it was written, for people
	dir    string        // the folder that an allowing rule holds in, "" for any

	// The rule is about accesses of a kind, or, when kind is "", about calls of a tool.
	kind tool.AccessKind
	// tool, when not empty, restricts it to calls of the tool of that name; with family
	// set it is about all tools whose names begin so.
	tool   string
	family bool

	// What of that it is about, all of it when spec is [all].
	spec  spec
	words []string    // of commands and prefix
	line  string      // of lines
	path  pathPattern // of paths
	host  string      // of hosts: a name, or *. and one
}

// spec tells what stands in the parentheses of a rule.
type spec int

const (
	all     spec = iota
	exactly      // a command with these words and no others; unless it allows, others may follow
	prefix       // a command that begins with these words
	pattern      // as prefix, with * in any place; never allows
	lines        // a whole line with several commands; always allows
	paths
	hosts
)

// by is how the rule signs a decision.
func (r *rule) by() string { return "rule " + r.text }

// parseRule reads a rule in the notation that is described at [Plugin].
func parseRule(text string, effect tool.Decision) (*rule, error) {
	r, err := parse(text, effect)
	if err != nil {
		return nil, fmt.Errorf("rule %.200q: %w", text, err)
	}
	return r, nil
}

func parse(text string, effect tool.Decision) (*rule, error) {
	text = strings.TrimSpace(text)
	if len(text) > maxRule {
		return nil, fmt.Errorf("it has %d bytes, more than %d", len(text), maxRule)
	}
	name, inside, has := strings.Cut(text, "(")
	if err := checkName(name); err != nil {
		return nil, err
	}
	if has {
		var closed bool
		if inside, closed = strings.CutSuffix(inside, ")"); !closed {
			return nil, errors.New("the parenthesis has no end")
		}
		if inside = strings.TrimSpace(inside); inside == "" {
			return nil, fmt.Errorf("nothing stands in the parentheses: write %s for all of it", name)
		}
	}
	r := &rule{text: text, effect: effect}
	r.about(name)
	if !has || inside == "*" {
		return r, nil
	}
	switch r.kind {
	case tool.AccessExecute:
		return r, r.parseCommand(inside)
	case tool.AccessRead, tool.AccessWrite:
		r.spec = paths
		var err error
		r.path, err = parsePath(inside, effect)
		return r, err
	case tool.AccessNetwork:
		r.spec = hosts
		var err error
		r.host, err = parseDomain(inside)
		return r, err
	}
	return nil, fmt.Errorf("rules about %s name the tool alone, without parentheses", name)
}

func checkName(name string) error {
	for i := range len(name) {
		c := name[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-':
		case c == '*' && i == len(name)-1 && strings.HasPrefix(name, "mcp__") && strings.HasSuffix(name, "__*"):
		default:
			return fmt.Errorf("%q is no name of a tool: a rule is Tool or Tool(what), such as Bash(git status)", name)
		}
	}
	if name == "" || name == "mcp__" {
		return errors.New("it names no tool: a rule is Tool or Tool(what), such as Bash(git status)")
	}
	return nil
}

// about takes the name that a rule begins with: one of the field's, or of a tool of ours.
func (r *rule) about(name string) {
	switch name {
	case "Bash", "bash":
		r.kind = tool.AccessExecute
	case "Read":
		r.kind = tool.AccessRead
	case "Edit", "MultiEdit", "NotebookEdit":
		r.kind = tool.AccessWrite
	case "Write":
		// Whoever forbids writing a file does not want it edited either.
		if r.kind = tool.AccessWrite; r.effect == tool.Allow {
			r.tool = "write"
		}
	case "WebFetch":
		r.kind = tool.AccessNetwork
	case "read", "glob", "grep":
		r.kind, r.tool = tool.AccessRead, name
	case "Glob", "Grep":
		r.kind, r.tool = tool.AccessRead, strings.ToLower(name)
	case "LS":
		r.kind, r.tool = tool.AccessRead, "glob"
	case "write", "edit", "delete":
		r.kind, r.tool = tool.AccessWrite, name
	default:
		r.tool = strings.TrimSuffix(name, "*")
		if server, ok := strings.CutPrefix(name, "mcp__"); ok && (r.tool != name || !strings.Contains(server, "__")) {
			r.family = true
			r.tool = strings.TrimSuffix(r.tool, "__") + "__"
		}
	}
}

// known reports whether the rule's tool needs not be there to be right.
func (r *rule) known() bool { return r.kind != "" || strings.HasPrefix(r.tool, "mcp__") }

// aliases are the names that rules know beside those of tools.
func aliases() []string {
	return []string{"Bash", "Read", "Edit", "Write", "WebFetch", "Glob", "Grep", "LS", "MultiEdit", "NotebookEdit"}
}

// parseCommand reads what stands in the parentheses of a rule about commands.
func (r *rule) parseCommand(text string) error {
	base, more := strings.CutSuffix(text, ":*")
	if !more {
		base, more = strings.CutSuffix(text, " *")
	}
	r.spec = exactly
	if more {
		r.spec = prefix
	}
	words, err := split(base)
	switch {
	case err == nil && strings.Contains(words[0], "="):
		return errors.New("an assignment in front of a command is never part of a rule")
	case err == nil:
		r.words = words
		return nil
	case r.effect == tool.Allow:
		return r.parseAllowed(base, more, err)
	case strings.TrimSpace(base) == "":
		return err
	case errors.Is(err, errOperator):
		return fmt.Errorf("a rule that denies or asks is about one simple command: %w", err)
	}
	if strings.ContainsAny(base, "'\"\\$`") {
		return err
	}
	r.spec, r.words = pattern, strings.Fields(base)
	if strings.Trim(r.words[0], "*?[") == "" {
		return errors.New("it begins with a *: write Bash to name all commands")
	}
	return nil
}

// parseAllowed reads the forms that only a rule which allows may have: a line of several
// commands, and a * that is glued to a word, which stands for a wildcard of whole words.
func (r *rule) parseAllowed(base string, more bool, err error) error {
	if errors.Is(err, errOperator) {
		if more {
			return errors.New("a wildcard stands behind one simple command: operators and redirections are never part of it")
		}
		r.spec, r.line = lines, base
		return nil
	}
	glued, ok := strings.CutSuffix(base, "*")
	if !ok || more {
		return err
	}
	words, wrong := split(glued)
	if wrong != nil {
		return err
	}
	r.spec, r.words = prefix, words
	return nil
}

// pathPattern is a pattern of paths.
type pathPattern struct {
	from    origin
	pattern string // slash-separated, below from
	literal bool   // it holds no wildcard
}

// origin is where a pattern of paths begins.
type origin int

const (
	fromFolder origin = iota // the session's folder
	anyDepth                 // any folder in it
	fromHome
	fromRoot
	fromEither // the root, or the session's folder
)

// parsePath reads a pattern of paths. A rule that does not allow is taken to mean more
// where people use more than one notation.
func parsePath(text string, effect tool.Decision) (pathPattern, error) {
	p := pathPattern{pattern: text}
	switch {
	case strings.HasPrefix(text, "//"):
		p.from, p.pattern = fromRoot, text[2:]
	case strings.HasPrefix(text, "~/"):
		p.from, p.pattern = fromHome, text[2:]
	case text == "~":
		p.from, p.pattern = fromHome, "."
	case strings.HasPrefix(text, "~"):
		return p, fmt.Errorf("%q: only one's own home folder has a short name, ~/", text)
	case strings.HasPrefix(text, "/"):
		if p.pattern = text[1:]; effect != tool.Allow {
			p.from = fromEither
		}
	case strings.HasPrefix(text, "./"):
		p.pattern = text[2:]
	case !strings.Contains(text, "/") && effect != tool.Allow && text != "." && text != "..":
		p.from = anyDepth
	}
	if strings.HasSuffix(p.pattern, "/") {
		p.pattern += "**"
	}
	switch {
	case p.pattern == "":
		p.pattern = "."
	case strings.Count(p.pattern, "*") > 32:
		return p, errors.New("it holds more than 32 wildcards")
	case !doublestar.ValidatePattern(p.pattern):
		return p, fmt.Errorf("%q is no pattern of paths", text)
	}
	for part := range strings.SplitSeq(p.pattern, "/") {
		if part == ".." {
			return p, errors.New(".. is not part of a pattern: write the path that is meant")
		}
	}
	p.literal = !strings.ContainsAny(p.pattern, `*?[{\`)
	return p, nil
}

// parseDomain reads domain:example.com or domain:*.example.com.
func parseDomain(text string) (string, error) {
	domain, ok := strings.CutPrefix(text, "domain:")
	if !ok {
		return "", fmt.Errorf("%q: hosts are named by domain:example.com or domain:*.example.com", text)
	}
	name := normalHost(domain)
	rest := strings.TrimPrefix(name, "*.")
	if len(rest) == 0 || len(rest) > 253 {
		return "", fmt.Errorf("%q is no domain", domain)
	}
	for label := range strings.SplitSeq(rest, ".") {
		if !isLabel(label) {
			return "", fmt.Errorf("%q is no domain: a domain is letters, digits, - and dots, and *. may stand in front", domain)
		}
	}
	return name, nil
}

func isLabel(label string) bool {
	if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
		return false
	}
	for i := range len(label) {
		c := label[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// normalHost spells a host as it is compared: in lower case, without one dot at the end.
func normalHost(host string) string {
	lower := []byte(host)
	for i, c := range lower {
		if c >= 'A' && c <= 'Z' {
			lower[i] = c + 'a' - 'A'
		}
	}
	return strings.TrimSuffix(string(lower), ".")
}
