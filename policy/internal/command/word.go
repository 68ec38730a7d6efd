package command

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// word is a word of a command.
type word struct {
	literal string // what it is without quotes, if known
	known   bool
	// path is what it is as a path, as far as that is known: it may begin with ~ or $PWD, which
	// stand for the folders, and where glob is set * ? [ stand for other characters.
	path string
	glob bool
	open bool // more follows behind path
}

func literalWord(text string) word { return word{literal: text, known: true, path: text} }

// readWord says what is known of a word.
func readWord(w *syntax.Word) word {
	if w == nil {
		return word{open: true}
	}
	if len(w.Parts) == 1 {
		if lit, ok := w.Parts[0].(*syntax.Lit); ok && !strings.ContainsAny(lit.Value, "\\*?[{~$") {
			return literalWord(lit.Value)
		}
	}
	r := reading{out: word{known: true}}
	for i, part := range w.Parts {
		r.part(part, i == 0)
	}
	if r.braces && r.text.String() != "{}" {
		r.out.known = false
	}
	r.out.path = r.path.String()
	if r.out.known {
		r.out.literal = r.text.String()
	}
	return r.out
}

type reading struct {
	out        word
	text, path strings.Builder
	braces     bool // there is a { without quotes: the shell may make several words
}

// add is text that stands for itself.
func (r *reading) add(text string) {
	r.text.WriteString(text)
	if !r.out.open {
		if r.path.Len() == 0 && (strings.HasPrefix(text, "~") || strings.HasPrefix(text, "$")) {
			r.path.WriteString("./")
		}
		r.path.WriteString(text)
	}
}

func (r *reading) unknown() { r.out.known, r.out.open = false, true }

func (r *reading) part(part syntax.WordPart, first bool) {
	switch part := part.(type) {
	case *syntax.Lit:
		r.unquoted(part.Value, first)
	case *syntax.SglQuoted:
		if part.Dollar && strings.Contains(part.Value, `\`) {
			r.unknown()
		}
		r.add(part.Value)
	case *syntax.DblQuoted:
		if part.Dollar {
			r.unknown() // it is translated
		}
		for _, inner := range part.Parts {
			switch inner := inner.(type) {
			case *syntax.Lit:
				r.add(inQuotes(inner.Value))
			case *syntax.ParamExp:
				r.variable(inner)
			default:
				r.unknown()
			}
		}
	case *syntax.ParamExp:
		r.variable(part)
	default:
		r.unknown()
	}
}

// variable fills in the only variables whose values are known.
func (r *reading) variable(p *syntax.ParamExp) {
	plain := p.Param != nil && !p.Excl && !p.Length && !p.Width && p.Index == nil && p.Slice == nil && p.Repl == nil && p.Exp == nil && p.Names == 0
	begins := r.path.Len() == 0 && !r.out.open
	r.out.known = false
	switch {
	case plain && begins && p.Param.Value == "HOME":
		r.path.WriteString("~")
	case plain && begins && p.Param.Value == "PWD":
		r.path.WriteString("$PWD")
	default:
		r.out.open = true
	}
}

// unquoted reads a part without quotes.
func (r *reading) unquoted(value string, first bool) {
	if first && strings.HasPrefix(value, "~") || strings.Contains(value, "=~") || strings.Contains(value, ":~") {
		r.out.known = false
	}
	for i := 0; i < len(value); i++ {
		switch c := value[i]; c {
		case '\\':
			if i++; i < len(value) && value[i] != '\n' {
				r.add(value[i : i+1])
			}
			continue
		case '~':
			if first && i == 0 {
				r.text.WriteByte(c)
				r.path.WriteByte(c)
				continue
			}
		case '*', '?', '[':
			if value != "[" {
				r.out.known, r.out.glob = false, true
			}
		case '{':
			r.braces = true
			if !strings.HasPrefix(value[i:], "{}") {
				r.unknown()
			}
		}
		r.add(value[i : i+1])
	}
}

func inQuotes(value string) string {
	if !strings.Contains(value, `\`) {
		return value
	}
	var b strings.Builder
	for i := 0; i < len(value); i++ {
		if value[i] == '\\' && i+1 < len(value) && strings.IndexByte("$`\"\\\n", value[i+1]) >= 0 {
			if i++; value[i] == '\n' {
				continue
			}
		}
		b.WriteByte(value[i])
	}
	return b.String()
}
