package tui

import (
	"fmt"
	"strings"
	"time"

	"github.com/dsh-harness/dsh/internal/cells"
	"github.com/dsh-harness/dsh/internal/screen"
)

const (
	liveText   = 10 // lines of an unfinished line of the answer
	liveOutput = 3  // lines of the output of a call that runs
	liveQueue  = 3
	popupLines = 8
)

// region is what stands below the history: what is under way, the prompt, and the line of status.
func (u *ui) region() ([]cells.Line, *screen.Position) {
	width := u.width()
	dim := cells.Style{Dim: true}
	var all []cells.Line
	if !u.o.Reader {
		all = u.underway(width)
	}
	if len(all) > 0 || !u.spaced {
		all = append(all, nil)
	}
	for i, p := range u.pending {
		if i == liveQueue {
			all = append(all, cells.Styled(fmt.Sprintf("  and %d more", len(u.pending)-i), dim))
			break
		}
		how := "queued: "
		if p.Steering {
			how = "joins: "
		}
		all = append(all, cells.Styled("  "+how+firstLine(p.Text), dim))
	}
	mark := "> "
	switch {
	case u.denying:
		mark = "why not? "
	case len(u.questions) > 0:
		all = append(all, u.choices()...)
	}
	if u.popup != nil {
		all = append(all, u.popup.lines(width)...)
	}
	if strings.HasPrefix(u.prompt.text, "!") && mark == "> " {
		mark = "! "
	}
	lines, row, column := u.prompt.lines(width, max(u.s.Height()/3, 3), mark)
	cursor := &screen.Position{Row: len(all) + row, Column: column}
	all = append(all, lines...)
	return append(all, u.status(width)), cursor
}

// underway is what is not finished.
func (u *ui) underway(width int) []cells.Line {
	dim := cells.Style{Dim: true}
	var all []cells.Line
	if open := u.answer.open(width); len(open) > 0 {
		all = append(all, open[max(0, len(open)-liveText):]...)
	}
	now := time.Now()
	for _, id := range u.order {
		c := u.calls[id]
		if c == nil {
			continue
		}
		line := append(cells.Styled("* ", cells.Style{Fg: cells.Yellow}), cells.Plain(c.view.Title)...)
		if took := now.Sub(c.began); took >= time.Second && len(u.questions) == 0 {
			line = line.Add("  "+elapsed(took.Truncate(time.Second)), dim)
		}
		all = append(all, line.Fit(width))
		if c.output != "" {
			lines := strings.Split(strings.TrimRight(c.output, "\n"), "\n")
			for _, l := range lines[max(0, len(lines)-liveOutput):] {
				all = append(all, cells.Styled("    "+l, dim).Fit(width))
			}
		}
	}
	switch {
	case u.thought.Len() > 0:
		text := u.thought.String()
		if len(text) > 400 {
			text = strings.ToValidUTF8(text[len(text)-400:], "")
		}
		text = strings.Join(strings.Fields(text), " ")
		line := cells.Styled("thinking ", cells.Style{Dim: true, Italic: true})
		if room := width - line.Width() - 1; room > 10 {
			for cells.Width(text) > room {
				text = text[len(text)/8+1:]
				text = strings.ToValidUTF8(text, "")
			}
			line = line.Add(text, dim)
		}
		all = append(all, line.Fit(width))
	case u.running && len(u.order) == 0 && u.answer.rest == "":
		line := cells.Styled("* working", cells.Style{Fg: cells.Yellow})
		if !u.since.IsZero() {
			line = line.Add("  "+elapsed(now.Sub(u.since).Truncate(time.Second)), dim)
		}
		all = append(all, line.Add("  (esc interrupts)", dim).Fit(width))
	}
	return all
}

// choices are the answers to the question that stands.
func (u *ui) choices() []cells.Line {
	q := u.questions[0]
	key := func(k, what string) cells.Line {
		return append(cells.Styled("  "+k+"  ", cells.Style{Fg: cells.Yellow, Bold: true}), cells.Plain(what)...)
	}
	all := []cells.Line{key("y", "allow once")}
	if len(q.Rules) > 0 {
		all = append(all, key("s", "allow "+q.Rules[0]+" in this session"), key("a", "always allow "+q.Rules[0]+" in this folder"))
	}
	all = append(all, key("n", "deny"), key("r", "deny, and say why"))
	if n := len(u.questions); n > 1 {
		all = append(all, cells.Styled(fmt.Sprintf("  %d more questions wait", n-1), cells.Style{Dim: true}))
	}
	for i := range all {
		all[i] = all[i].Fit(u.width())
	}
	return all
}

// status is the last line: where one is, and what is used.
func (u *ui) status(width int) cells.Line {
	if u.message != "" {
		return cells.Styled(u.message, cells.Style{Fg: cells.Yellow}).Fit(width)
	}
	parts := []string{}
	if u.session == "" {
		parts = append(parts, "starting")
	}
	for _, p := range []string{u.mode, u.model, u.effort} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	for _, p := range u.panels {
		if p.Panel != nil && p.Panel.Status != "" {
			parts = append(parts, p.Panel.Status)
		}
	}
	if u.title != "" {
		parts = append(parts, u.title)
	}
	return cells.Styled(strings.Join(parts, " | "), cells.Style{Dim: true}).Fit(width)
}

func firstLine(s string) string {
	line, rest, _ := strings.Cut(s, "\n")
	if rest != "" {
		line += " ..."
	}
	return line
}
