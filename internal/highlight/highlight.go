// Package highlight tells the comments, strings, numbers and keywords of source code apart, a line at a time. It is made to read code, not to check it:
// what it does not know is plain.
//
// A [Lexer] is a value: a copy goes on by itself. One goroutine uses it at a time.
package highlight

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Kind says what a piece is.
type Kind uint8

// The kinds; the zero value is plain.
const (
	Plain Kind = iota
	Comment
	String
	Number
	Keyword
	Added   // a line of a diff
	Removed // a line of a diff
)

// Piece is a part of a line.
type Piece struct {
	Text string
	Kind Kind
}

// language is how a family of languages is written.
type language struct {
	names    string   // by which it is known, between blanks
	line     []string // begin a comment to the end of the line
	block    []string // pairs that enclose a comment of several lines
	quotes   []string // enclose a string; of several lines when of more than one character, or a back quote
	noEscape string   // quotes in which a backslash is nothing special
	keywords string   // between blanks
	anyCase  bool     // keywords in either case
	apart    bool     // a comment begins a word: $# and a#b have none
	chars    bool     // ' encloses one character, and else begins the name of a lifetime
}

// languages are those that are known. The list is short enough to be looked through for each block of code.
func languages() []language {
	c := language{line: []string{"//"}, block: []string{"/*", "*/"}, quotes: []string{`"`, `'`, "`"}, noEscape: "`"}
	with := func(l language, names, keywords string) language {
		l.names, l.keywords = " "+names+" ", " "+keywords+" "
		return l
	}
	hash := language{line: []string{"#"}, quotes: []string{`"`, `'`}}
	apart, rust := hash, c
	apart.apart, rust.chars = true, true
	return []language{
		with(c, "go golang", "break case chan const continue default defer else fallthrough for func go goto if import interface map package range return select struct switch type var nil true false iota any error string int bool byte rune"),
		with(c, "js javascript jsx ts typescript tsx mjs", "async await break case catch class const continue debugger default delete do else enum export extends false finally for from function if implements import in instanceof interface let new null of private protected public readonly return static super switch this throw true try type typeof undefined var void while with yield"),
		with(rust, "rust rs", "as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut pub ref return self Self static struct super trait true type unsafe use where while Some None Ok Err"),
		with(c, "c cpp c++ h hpp cc objc", "auto bool break case catch char class const constexpr continue default delete do double else enum explicit extern false float for friend goto if inline int long namespace new nullptr operator override private protected public return short signed sizeof static struct switch template this throw true try typedef typename union unsigned using virtual void volatile while"),
		with(c, "java kotlin kt scala dart groovy", "abstract as break case catch class const continue data default do else enum extends false final finally for fun if implements import in instanceof interface is new null object open override package private protected public return sealed static super suspend switch this throw throws true try val var void when while with yield int long boolean double"),
		with(c, "cs csharp swift php zig", "abstract actor async await base bool break case catch class comptime const continue default defer do echo else enum extension extends false final fn foreach for func function guard if implements import in init inout int interface internal is let namespace new nil null override private protocol protected pub public return sealed self static string struct super switch this throw throws true try using var void where while"),
		with(language{line: []string{"#"}, quotes: []string{`"""`, `'''`, `"`, `'`}}, "python py", "and as assert async await break class continue def del elif else except False finally for from global if import in is lambda match None nonlocal not or pass raise return self True try while with yield"),
		with(hash, "ruby rb elixir ex exs crystal", "alias and begin break case class def defmodule do else elsif end ensure false fn for if in module next nil not or raise redo require rescue retry return self super then true unless until when while yield"),
		with(language{line: []string{"#"}, quotes: []string{`"`, `'`}, noEscape: `'`, apart: true}, "sh bash shell zsh console fish", "case do done elif else esac export fi for function if in local return set then until while echo cd exit"),
		with(language{line: []string{"--"}, block: []string{"/*", "*/"}, quotes: []string{`'`, `"`}, anyCase: true}, "sql postgres mysql sqlite", "add all alter and as asc begin between by case check column commit constraint create default delete desc distinct drop else end exists foreign from group having if in index inner insert into is join key left like limit not null on or order outer primary references returning right rollback select set table then union unique update values view when where with"),
		with(apart, "yaml yml toml ini conf dockerfile makefile make hcl terraform tf nix", "true false null yes no on off FROM RUN COPY ADD ENV ARG WORKDIR USER CMD ENTRYPOINT EXPOSE VOLUME AS"),
		with(language{quotes: []string{`"`}}, "json json5 jsonc", "true false null"),
		with(language{line: []string{"--"}, block: []string{"--[[", "]]"}, quotes: []string{`"`, `'`}}, "lua", "and break do else elseif end false for function if in local nil not or repeat return then true until while"),
		with(language{line: []string{"--"}, block: []string{"{-", "-}"}, quotes: []string{`"`}}, "haskell hs elm", "case class data deriving do else if import in infix instance let module newtype of then type where"),
		with(language{block: []string{"/*", "*/"}, quotes: []string{`"`, `'`}}, "css scss less", "important media import keyframes from to"),
		with(language{block: []string{"<!--", "-->"}, quotes: []string{`"`, `'`}}, "html xml svg vue", ""),
	}
}

// Lexer reads code, line by line. The zero value knows numbers and no more.
type Lexer struct {
	l    language
	diff bool
	open string // what ends the comment or string that goes on
	kind Kind   // of what goes on
}

// New returns a lexer for the language that a fence names, the zero Lexer when it is not known.
func New(name string) Lexer {
	name, _, _ = strings.Cut(strings.ToLower(strings.TrimSpace(name)), " ")
	if name == "diff" || name == "patch" {
		return Lexer{diff: true}
	}
	if name != "" {
		for _, l := range languages() {
			if strings.Contains(l.names, " "+name+" ") {
				return Lexer{l: l}
			}
		}
	}
	return Lexer{}
}

// Line reads the next line. Its pieces are the line.
func (x *Lexer) Line(s string) []Piece {
	if x.diff {
		switch {
		case strings.HasPrefix(s, "+"):
			return []Piece{{s, Added}}
		case strings.HasPrefix(s, "-"):
			return []Piece{{s, Removed}}
		case strings.HasPrefix(s, "@@"):
			return []Piece{{s, Keyword}}
		}
		return []Piece{{s, Plain}}
	}
	var all []Piece
	whole := s
	add := func(n int, k Kind) {
		if last := len(all) - 1; last >= 0 && all[last].Kind == k {
			all[last].Text += s[:n]
		} else if n > 0 {
			all = append(all, Piece{s[:n], k})
		}
		s = s[n:]
	}
	for s != "" {
		if x.open != "" {
			n := x.end(s)
			if n < 0 {
				add(len(s), x.kind)
				break
			}
			k := x.kind
			x.open = ""
			add(n, k)
			continue
		}
		begins := !x.l.apart || len(s) == len(whole) || strings.ContainsRune(" \t;&|()", rune(whole[len(whole)-len(s)-1]))
		if begins && slices.ContainsFunc(x.l.line, func(c string) bool { return strings.HasPrefix(s, c) && !x.opens(s) }) {
			add(len(s), Comment)
			break
		}
		if x.opens(s) {
			x.open, x.kind = x.l.block[1], Comment
			add(len(x.l.block[0]), Comment)
			continue
		}
		if q := x.quote(s); q != "" {
			x.open, x.kind = q, String
			add(len(q), String)
			continue
		}
		n := word(s)
		switch {
		case n == 0:
			_, n = utf8.DecodeRuneInString(s)
			add(n, Plain)
		case s[0] >= '0' && s[0] <= '9':
			add(n, Number)
		case x.keyword(s[:n]):
			add(n, Keyword)
		default:
			add(n, Plain)
		}
	}
	if x.kind == String && len(x.open) == 1 && x.open != "`" {
		x.open = "" // a string of one line whose end is missing
	}
	return all
}

func (x *Lexer) opens(s string) bool {
	return len(x.l.block) == 2 && strings.HasPrefix(s, x.l.block[0])
}

func (x *Lexer) quote(s string) string {
	if x.l.chars && strings.HasPrefix(s, "'") && !strings.HasPrefix(s, `'\`) {
		if _, n := utf8.DecodeRuneInString(s[1:]); !strings.HasPrefix(s[1+n:], "'") {
			return ""
		}
	}
	for _, q := range x.l.quotes {
		if strings.HasPrefix(s, q) {
			return q
		}
	}
	return ""
}

// end is how much of s belongs to what goes on, its end included; -1 when it has no end there.
func (x *Lexer) end(s string) int {
	for i := 0; i < len(s); i++ {
		switch {
		case strings.HasPrefix(s[i:], x.open):
			return i + len(x.open)
		case s[i] == '\\' && x.kind == String && !strings.Contains(x.l.noEscape, x.open):
			i++
		}
	}
	return -1
}

// word is the length of the name or number at the start of s.
func word(s string) int {
	n := strings.IndexFunc(s, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	if n < 0 {
		return len(s)
	}
	return n
}

func (x *Lexer) keyword(w string) bool {
	if x.l.anyCase {
		w = strings.ToLower(w)
	}
	return strings.Contains(x.l.keywords, " "+w+" ")
}
