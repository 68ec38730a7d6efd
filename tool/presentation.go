package tool

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Kind says what a call is about, so that surfaces can mark it. The values are those of the
// Agent Client Protocol.
type Kind string

const (
	KindRead    Kind = "read"
	KindEdit    Kind = "edit"
	KindDelete  Kind = "delete"
	KindMove    Kind = "move"
	KindSearch  Kind = "search"
	KindExecute Kind = "execute"
	KindThink   Kind = "think"
	KindFetch   Kind = "fetch"
	KindOther   Kind = "other"
)

// Presentation says how surfaces show a call. It is made from the arguments alone, so a call looks the
// same while it runs and when its session is read years later.
type Presentation struct {
	Kind Kind `json:"kind"`
	// Title is one line: what is done, on what.
	Title string `json:"title"`
	// Locations are the files that the call is about.
	Locations []Location `json:"locations,omitempty"`
	// Diffs are what the arguments say about changes of files.
	Diffs []Diff `json:"diffs,omitempty"`
	// Terminal says that the output is that of a command.
	Terminal bool `json:"terminal,omitempty"`
}

// Location is a place in a file.
type Location struct {
	Path string `json:"path"`           // as the model gave it
	Line int    `json:"line,omitempty"` // from 1; 0 is no line in particular
}

// Diff is a change of one file. Old and New may be the changed part of it alone.
type Diff struct {
	Path string  `json:"path"`
	Old  *string `json:"old"` // nil when the file is new, or what was there is not known
	New  string  `json:"new"`
	Line int     `json:"line,omitempty"` // where Old stands in the file, from 1; 0 when unknown
}

// Change is what became of a file: the meta of the [Result] of a call that changed one.
type Change struct {
	Path    string `json:"path"` // as the model named it
	Created bool   `json:"created,omitempty"`
	Added   int    `json:"added"`   // lines
	Removed int    `json:"removed"` // lines
	// Diff is a unified diff with three lines of context. It is empty for a new
	// file, which is all in the call's arguments, and for one that is too large.
	Diff string `json:"diff,omitempty"`
	// Cut tells that Diff is only the beginning.
	Cut bool `json:"cut,omitempty"`
}

// ChangeOf reads the meta of a result; ok is false when it is about something else.
func ChangeOf(meta json.RawMessage) (c Change, ok bool) {
	var members struct {
		Path           *string `json:"path"`
		Added, Removed *int
	}
	if len(meta) == 0 || json.Unmarshal(meta, &members) != nil || members.Path == nil || members.Added == nil || members.Removed == nil {
		return Change{}, false
	}
	return c, json.Unmarshal(meta, &c) == nil
}

// Diffs returns the places of the file that changed, with what stands around them, first to last.
func (c Change) Diffs() []Diff {
	var all []Diff
	var old, now strings.Builder
	line, open := 0, false
	closeHunk := func() {
		if open {
			before := old.String()
			all = append(all, Diff{Path: c.Path, Old: &before, New: now.String(), Line: line})
		}
		old.Reset()
		now.Reset()
	}
	last := byte(0)
	for text := range strings.Lines(c.Diff) {
		if after, ok := strings.CutPrefix(text, "@@ -"); ok {
			closeHunk()
			number, _, _ := strings.Cut(after, " ")
			number, _, _ = strings.Cut(number, ",")
			line, _ = strconv.Atoi(number) // a diff of ours has a number here
			open = true
			continue
		}
		if !open {
			continue // the names
		}
		switch text[0] {
		case ' ':
			old.WriteString(text[1:])
			now.WriteString(text[1:])
		case '-':
			old.WriteString(text[1:])
		case '+':
			now.WriteString(text[1:])
		case '\\': // the line before has no end
			if last != '+' {
				trimEnd(&old)
			}
			if last != '-' {
				trimEnd(&now)
			}
		}
		last = text[0]
	}
	closeHunk()
	return all
}

// trimEnd drops the last line feed of what was built.
func trimEnd(b *strings.Builder) {
	text := strings.TrimSuffix(b.String(), "\n")
	b.Reset()
	b.WriteString(text)
}

// Present says how a call with these arguments is shown. Arguments that are not valid, and tools that say
// nothing about it, get the tool's name and what the arguments begin with. It never fails.
func (d Definition) Present(arguments json.RawMessage) Presentation {
	var p Presentation
	if d.definition != nil && d.spec.Present != nil && json.Valid(arguments) {
		p = d.spec.Present(arguments)
	}
	if p.Kind == "" {
		p.Kind = KindOther
	}
	if p.Title == "" {
		p.Title = PlainTitle(d.Name(), arguments)
	}
	return p
}

// longestTitle is how much of a call without a presentation of its own is shown, in bytes.
const longestTitle = 200

// PlainTitle is the title of a call whose tool is not known here.
func PlainTitle(name string, arguments json.RawMessage) string {
	text := strings.Join(strings.Fields(string(arguments)), " ")
	if text == "{}" {
		text = ""
	}
	if len(text) > longestTitle {
		cut := longestTitle
		for !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = text[:cut] + "..."
	}
	return strings.TrimSpace(name + " " + text)
}
