package search

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
)

// compiled is a regular expression that is matched against single lines.
type compiled struct {
	re *regexp.Regexp
	// rust is the same in the language of rg.
	rust string
}

// compile reads a pattern as a model writes it. Its errors say where it is wrong and what
// could be done.
func compile(pattern string, literal, ignoreCase bool) (compiled, error) {
	expr := pattern
	if literal {
		expr = regexp.QuoteMeta(pattern)
	}
	flags := syntax.Perl &^ syntax.OneLine // ^ and $ are the ends of lines
	if ignoreCase {
		flags |= syntax.FoldCase
	}
	tree, err := syntax.Parse(expr, flags)
	if err != nil {
		return compiled{}, explain(pattern, err)
	}
	if spansLines(tree) {
		return compiled{}, fmt.Errorf("the pattern holds a line feed, but each line is searched by itself: search for one of the lines")
	}
	perLine(tree)
	re, err := regexp.Compile(tree.String())
	if err != nil {
		return compiled{}, explain(pattern, err)
	}
	return compiled{re, rust(tree.String())}, nil
}

func explain(pattern string, err error) error {
	where := ""
	e, ok := err.(*syntax.Error)
	if ok {
		if i := strings.Index(pattern, e.Expr); i >= 0 && e.Expr != "" {
			where = fmt.Sprintf(" at character %d, %q", len([]rune(pattern[:i]))+1, e.Expr)
		}
		err = fmt.Errorf("%s", e.Code)
	}
	hint := "set literal to search for the text as it is"
	for _, look := range []string{"(?=", "(?!", "(?<=", "(?<!"} {
		if strings.Contains(pattern, look) {
			hint = "looking ahead or behind is not supported: search for less and choose from the lines that are found"
		}
	}
	return fmt.Errorf("the pattern is not a valid regular expression: %w%s; %s", err, where, hint)
}

// spansLines tells whether the tree asks for a line feed by name.
func spansLines(re *syntax.Regexp) bool {
	if re.Op == syntax.OpLiteral {
		for _, r := range re.Rune {
			if r == '\n' {
				return true
			}
		}
	}
	for _, sub := range re.Sub {
		if spansLines(sub) {
			return true
		}
	}
	return false
}

// perLine makes the ends of the text the ends of a line, which they are for us.
func perLine(re *syntax.Regexp) {
	switch re.Op {
	case syntax.OpBeginText:
		re.Op = syntax.OpBeginLine
	case syntax.OpEndText:
		re.Op, re.Flags = syntax.OpEndLine, re.Flags&^syntax.WasDollar
	}
	for _, sub := range re.Sub {
		perLine(sub)
	}
}

// rust rewrites what means something else to rg: its \b knows all letters, ours ASCII,
// its lines end with CR where ours do with CR LF, and its first line begins with a mark
// that we leave out.
func rust(expr string) string {
	var out strings.Builder
	class := false
	for i := 0; i < len(expr); i++ {
		switch c := expr[i]; {
		case c == '\\' && i+1 < len(expr):
			i++
			if expr[i] == 'b' || expr[i] == 'B' {
				fmt.Fprintf(&out, `(?-u:\%c)`, expr[i])
			} else {
				out.WriteString(expr[i-1 : i+1])
			}
		case c == '$' && !class:
			out.WriteString(`\r?$`)
		case c == '^' && !class:
			out.WriteString(`^\x{FEFF}?`)
		default:
			class = c == '[' || class && c != ']'
			out.WriteByte(c)
		}
	}
	return out.String()
}
