package command

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

const (
	maxLine     = 64 << 10 // of the length of a line in bytes
	maxDepth    = 60       // of brackets in brackets
	maxBrackets = 8 << 10  // in a line, since brackets in quotes hide how deep others are
	maxCommands = 10_000   // of a line
	maxInner    = 4        // of commands that run commands
	maxWords    = 64 << 10 // of the words of all commands that are run by others
)

// Parse analyses a line for bash. The work is bounded by the length of the line, whatever is
// in it; of a line that is too long or nested too deep no command is listed, and of others
// not more than ten thousand. Such a line is Unclear.
func Parse(line string) Line {
	a := &analysis{parser: syntax.NewParser(syntax.Variant(syntax.LangBash))}
	a.parse(line)
	return a.line
}

// analysis gathers what a script holds, and the scripts in it.
type analysis struct {
	parser *syntax.Parser
	source string
	inner  int // how many commands run this script
	words  int // how many words of inner commands there were
	line   Line
}

func (a *analysis) unclear(format string, args ...any) {
	if a.line.Unclear == "" {
		a.line.Unclear = fmt.Sprintf(format, args...)
	}
}

func (a *analysis) parse(text string) {
	why, readable := strange(text)
	if why != "" {
		a.unclear("%s", why)
	}
	if !readable {
		a.line.unread = true
		return
	}
	if n := len(text) - len(strings.TrimRight(text, `\`)); n%2 == 1 {
		a.unclear("it ends in a backslash")
	}
	file, err := a.parser.Parse(strings.NewReader(text), "")
	if err != nil {
		a.unclear("it is not understood: %v", err)
		a.line.unread = true
	}
	if file == nil {
		return
	}
	before := a.source
	a.source = text
	syntax.Walk(file, a.node)
	a.source = before
}

// strange says what of a text no person would see or expect, "" when there is nothing, and
// whether its commands can be listed with bounded work.
func strange(text string) (why string, readable bool) {
	if len(text) > maxLine {
		return fmt.Sprintf("it has more than %d bytes", maxLine), false
	}
	if !utf8.ValidString(text) {
		why = "it is not valid UTF-8"
	}
	depth, ticks, brackets := 0, 0, 0
	for _, r := range text {
		switch {
		case r == 0:
			return "it holds a NUL character", false
		case r == '\n' || r == '\t':
		case r == '(' || r == '{' || r == '[':
			depth++
			brackets++
		case r == ')' || r == '}' || r == ']':
			depth = max(0, depth-1)
		case r == '`':
			ticks++
		case why != "" || r >= ' ' && r < 0x7f:
		case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Variation_Selector):
			why = fmt.Sprintf("it holds the invisible character U+%04X", r)
		case unicode.IsSpace(r) || r == 0x115f || r == 0x1160 || r == 0x3164 || r == 0xffa0 || r == 0x2800:
			why = fmt.Sprintf("it holds U+%04X, which only looks like a blank", r)
		}
		if depth > maxDepth || ticks > 2*maxDepth || brackets > maxBrackets {
			return "it is nested too deep", false
		}
	}
	return why, true
}

// text is what stands at a node.
func (a *analysis) text(n syntax.Node) string {
	from, to := n.Pos().Offset(), n.End().Offset()
	if from > to || to > uint(len(a.source)) {
		return ""
	}
	return a.source[from:to]
}

// simple is the text of a statement without what is around it: !, ; and &.
func (a *analysis) simple(s *syntax.Stmt) string {
	var from, to syntax.Pos
	if s.Cmd != nil {
		from, to = s.Cmd.Pos(), s.Cmd.End()
	}
	for _, r := range s.Redirs {
		if !from.IsValid() || from.After(r.Pos()) {
			from = r.Pos()
		}
		if end := r.End(); end.After(to) {
			to = end
		}
	}
	if !from.IsValid() || from.Offset() > to.Offset() || to.Offset() > uint(len(a.source)) {
		return ""
	}
	return a.source[from.Offset():to.Offset()]
}

// node reads one node; those below it follow.
func (a *analysis) node(n syntax.Node) bool {
	if len(a.line.Commands) >= maxCommands {
		a.unclear("it has more than %d commands", maxCommands)
		a.line.unread = true
		return false
	}
	switch n := n.(type) {
	case *syntax.Stmt:
		a.statement(n)
	case *syntax.BinaryCmd:
		a.chain(n)
		return false
	case *syntax.FuncDecl:
		a.unclear("it defines a function, which may stand for any program")
	case *syntax.CoprocClause:
		a.unclear("it starts a coprocess")
	case *syntax.LetClause, *syntax.ArithmCmd, *syntax.CStyleLoop:
		a.unclear("it calculates, which may run commands")
	case *syntax.TestClause:
		a.unclear("it has a test in [[ ]], which may run commands")
	case *syntax.TestDecl:
		a.unclear("it is no script for bash")
	case *syntax.ForClause:
		a.line.Commands = append(a.line.Commands, Command{Text: "for …", Opaque: "a loop sets a variable", Assigns: true})
	case *syntax.ParamExp:
		a.expansion(n)
	case *syntax.ArithmExp:
		if !numbersOnly(n.X) {
			a.unclear("it calculates with names, which may run commands")
		}
	case *syntax.ExtGlob:
		a.unclear("it has a pattern that not every shell knows")
	case *syntax.CmdSubst:
		if n.Backquotes && strings.Contains(a.text(n), `\`) {
			a.unclear("it has backslashes in backquotes")
		}
	}
	return true
}

// chain walks a && b && c … without a call per part.
func (a *analysis) chain(n *syntax.BinaryCmd) {
	var right []*syntax.Stmt
	for left := n.X; ; left = n.X {
		right = append(right, n.Y)
		next, more := left.Cmd.(*syntax.BinaryCmd)
		if !more {
			syntax.Walk(left, a.node)
			break
		}
		a.statement(left)
		for _, r := range left.Redirs {
			syntax.Walk(r, a.node)
		}
		n = next
	}
	for _, s := range slices.Backward(right) {
		syntax.Walk(s, a.node)
	}
}

// expansion refuses forms that evaluate what is in a variable, or set one.
func (a *analysis) expansion(p *syntax.ParamExp) {
	switch {
	case p.Excl || p.Names != 0:
		a.unclear("it expands a variable that a variable names")
	case p.Index != nil || p.Slice != nil:
		a.unclear("it calculates an index, which may run commands")
	case p.Exp != nil && (p.Exp.Op == syntax.AssignUnset || p.Exp.Op == syntax.AssignUnsetOrNull):
		a.unclear("an expansion sets a variable")
	case p.Exp != nil && p.Exp.Op == syntax.OtherParamOps:
		a.unclear("an expansion evaluates what is in a variable")
	}
}

func numbersOnly(x syntax.ArithmExpr) bool {
	only := x != nil
	if only {
		syntax.Walk(x, func(n syntax.Node) bool {
			switch n := n.(type) {
			case *syntax.Lit:
				only = only && strings.Trim(n.Value, "0123456789") == ""
			case *syntax.ParamExp, *syntax.CmdSubst, *syntax.DblQuoted, *syntax.SglQuoted, *syntax.ExtGlob, *syntax.ProcSubst:
				only = false
			}
			return only
		})
	}
	return only
}

// statement reads a command with what it is connected with. Compound ones are opaque
// when a file belongs to all of them; what is in them follows by itself.
func (a *analysis) statement(s *syntax.Stmt) {
	if s.Background || s.Coprocess || s.Disown {
		a.line.background = true
	}
	c := Command{Redirects: a.redirects(s)}
	switch cmd := s.Cmd.(type) {
	case *syntax.CallExpr:
		a.call(&c, cmd)
	case *syntax.DeclClause:
		c.Opaque, c.Assigns = "it sets variables", true
		a.declaration(cmd)
	case nil:
		c.Opaque = "it runs no program, but opens a file"
	default:
		if len(c.Redirects) == 0 {
			return
		}
		c.Opaque = "several commands are connected with a file"
	}
	c.Text = a.simple(s)
	a.line.Commands = append(a.line.Commands, c)
	if len(c.args) > 0 {
		a.inside(c.args, s, a.inner)
	}
}

// call reads a simple command.
func (a *analysis) call(c *Command, call *syntax.CallExpr) {
	c.Assigns = len(call.Assigns) > 0
	for _, w := range call.Args {
		arg := readWord(w)
		c.args = append(c.args, arg)
		if !arg.known && c.Opaque == "" {
			c.Opaque = "the shell makes something else of " + short(a.text(w))
		}
	}
	for _, assign := range call.Assigns {
		if assign.Index != nil || assign.Array != nil {
			a.unclear("it sets an array")
		}
	}
	if len(c.args) == 0 {
		c.Opaque = "it runs no program, but sets variables"
		return
	}
	c.Words = literals(c.args)
	a.builtin(c)
}

// declaration reads export, declare and the like.
func (a *analysis) declaration(d *syntax.DeclClause) {
	for _, arg := range d.Args {
		switch {
		case arg.Index != nil || arg.Array != nil:
			a.unclear("it sets an array")
		case arg.Naked && arg.Name == nil:
			if w := readWord(arg.Value); !w.known || !slices.Contains([]string{"-x", "-r", "-g", "-p", "-gx", "-rx"}, w.literal) {
				a.unclear("it declares variables that may be evaluated")
			}
		}
	}
}

// literals returns the words when all are literal.
func literals(args []word) []string {
	words := make([]string, 0, len(args))
	for _, w := range args {
		if !w.known {
			return nil
		}
		words = append(words, w.literal)
	}
	return words
}

func short(text string) string {
	if len(text) <= 60 {
		return text
	}
	cut := 60
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}

// builtin knows commands of the shell itself that change what later words mean.
func (a *analysis) builtin(c *Command) {
	program, args := c.args[0], c.args[1:]
	if !program.known {
		a.unclear("the program is not literal")
		return
	}
	switch program.literal {
	case "eval", "source", ".", "alias", "unalias", "enable", "trap", "hash", "bind", "complete", "compgen", "compopt", "fc", "let", "shopt", "set",
		"mapfile", "readarray", "getopts", "history", "unset", "disown", "suspend", "caller", "read", "wait", "declare", "typeset", "local":
		a.unclear("%s changes what commands mean, or runs others", program.literal)
	case "export", "readonly":
		c.Assigns = true
	case "printf":
		if len(args) > 0 && (!args[0].known || strings.HasPrefix(args[0].literal, "-v") || counts(args[0].literal)) {
			c.Assigns = true
			a.unclear("printf may set a variable")
		}
	case "test", "[":
		if slices.ContainsFunc(args, func(w word) bool { return !w.known && !w.glob || w.literal == "-v" || w.literal == "-R" }) {
			a.unclear("a test may evaluate the name of a variable")
		}
	}
}

// counts reports whether a format has the conversion n, by which bash sets a variable.
func counts(format string) bool {
	for {
		_, rest, found := strings.Cut(format, "%")
		if !found {
			return false
		}
		rest = strings.TrimLeft(rest, "#-+ 0123456789.*'lhjztLq")
		if strings.HasPrefix(rest, "n") {
			return true
		}
		format = strings.TrimPrefix(rest, "%")
	}
}

func (a *analysis) redirects(s *syntax.Stmt) (all []Redirect) {
	for _, r := range s.Redirs {
		if r.N != nil && strings.Trim(r.N.Value, "0123456789&") != "" {
			a.unclear("a redirection sets a variable")
		}
		w := readWord(r.Word)
		switch r.Op {
		case syntax.Hdoc, syntax.DashHdoc:
			if !plainName(unquotedName(a.text(r.Word))) {
				a.unclear("the end of a here-document is not a plain word")
			}
			if r.Hdoc != nil && slices.ContainsFunc(r.Hdoc.Parts, func(p syntax.WordPart) bool { _, plain := p.(*syntax.Lit); return !plain }) {
				a.unclear("the text of a here-document is expanded")
			}
			continue
		case syntax.WordHdoc:
			continue
		case syntax.DplIn, syntax.DplOut:
			if w.known && w.literal != "" && strings.Trim(w.literal, "0123456789-") == "" {
				continue
			}
		case syntax.RdrOut, syntax.AppOut, syntax.RdrIn, syntax.RdrInOut, syntax.RdrClob, syntax.AppClob, syntax.RdrAll, syntax.RdrAllClob, syntax.AppAll, syntax.AppAllClob:
		}
		all = append(all, Redirect{Target: w.literal, Write: r.Op != syntax.RdrIn, word: w})
	}
	return all
}

// unquotedName is the end of a here-document without its quotes, where those are simple.
func unquotedName(text string) string {
	if n := len(text); n > 2 && (text[0] == '\'' || text[0] == '"') && text[n-1] == text[0] {
		return text[1 : n-1]
	}
	return strings.TrimPrefix(text, `\`)
}

func plainName(text string) bool {
	for _, c := range []byte(text) {
		if c != '_' && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') {
			return false
		}
	}
	return text != ""
}

// inside adds what a command runs in turn; s is where it stands in the script.
func (a *analysis) inside(args []word, s *syntax.Stmt, depth int) {
	texts, commands := scripts(args, s), wrapped(args)
	if len(texts)+len(commands) == 0 {
		return
	}
	if depth >= maxInner {
		a.unclear("commands run commands too deep")
		return
	}
	for _, script := range texts {
		if !script.known {
			a.unclear("a script is not literal")
			continue
		}
		before, first := a.inner, len(a.line.Commands)
		a.inner = depth + 1
		a.parse(script.literal)
		a.inner = before
		for i := first; i < len(a.line.Commands); i++ {
			a.line.Commands[i].Inner = true
		}
	}
	for _, args := range commands {
		if a.words += len(args); a.words > maxWords {
			a.unclear("commands run too many commands")
			return
		}
		in := Command{Inner: true, args: args, Words: literals(args)}
		var text strings.Builder
		for i, w := range args {
			if i > 0 {
				text.WriteByte(' ')
			}
			if !w.known {
				in.Opaque = "the shell makes something else of a word of it"
				text.WriteString(w.path + "…")
			}
			text.WriteString(w.literal)
		}
		in.Text = text.String()
		a.builtin(&in)
		a.line.Commands = append(a.line.Commands, in)
		a.inside(args, nil, depth+1)
	}
}

// program is the name of a program without its folder.
func program(args []word) string {
	if len(args) == 0 || !args[0].known {
		return ""
	}
	return path.Base(args[0].literal)
}
