package tui

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/dsh-harness/dsh/internal/cells"
	"github.com/dsh-harness/dsh/internal/screen"
	"github.com/dsh-harness/dsh/protocol"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/session/trajectory"
	"github.com/dsh-harness/dsh/surface/client"
	"github.com/dsh-harness/dsh/tool"
)

// pick shows a list to choose from.
func (u *ui) pick(items []item, none string) {
	if len(items) == 0 {
		u.message = none
		return
	}
	u.asked++
	u.popup = &popup{items: items, picker: true}
}

// switchTo goes on with another session; "" is a new one.
func (u *ui) switchTo(id string) {
	if err := u.open(id); err != nil {
		u.problem(err)
	}
}

func (u *ui) pickSession(words string) {
	p := protocol.SearchParams{Query: words, Cwd: u.o.Dir, Limit: 200}
	ask(u, protocol.MethodSessionsSearch, p, func(r protocol.SearchResult) {
		var items []item
		for _, s := range r.Sessions {
			if s.SessionID == u.session {
				continue
			}
			name := s.Title
			if name == "" {
				name = s.Prompt
			}
			note := s.UpdatedAt
			if s.Status != "stored" && s.Status != "idle" {
				note += " " + s.Status
			}
			items = append(items, item{label: firstLine(name), note: note, choose: func(u *ui) { u.switchTo(s.SessionID) }})
		}
		u.pick(items, "there is no other session in this folder")
	})
}

func (u *ui) fork(string) {
	ask(u, protocol.MethodFork, protocol.ForkParams{SessionID: u.session}, func(r protocol.ForkResult) { u.switchTo(r.SessionID) })
}

// pickTurn takes the conversation back to before a prompt, which comes back to be changed.
func (u *ui) pickTurn() {
	var items []item
	for _, t := range slices.Backward(u.turns) {
		if t.prompt == "" {
			continue
		}
		items = append(items, item{label: firstLine(t.prompt), note: "back to before this", choose: func(u *ui) {
			ask(u, protocol.MethodRewind, protocol.RewindParams{SessionID: u.session, To: t.before}, func(struct{}) {
				if u.prompt.text == "" {
					u.prompt.set(t.prompt)
				}
			})
		}})
	}
	u.pick(items, "there was no prompt yet")
}

func (u *ui) pickHistory() {
	var items []item
	seen := map[string]bool{}
	for _, text := range slices.Backward(u.history) {
		if seen[text] || !strings.Contains(strings.ToLower(text), strings.ToLower(u.prompt.text)) {
			continue
		}
		seen[text] = true
		put := func(u *ui) { u.prompt.set(text) }
		items = append(items, item{label: firstLine(text), choose: put, complete: put})
	}
	u.pick(items, "no earlier prompt has these words")
}

// transcript shows the whole session in a pager: full screen, with search, and with all that calls were given and gave.
func (u *ui) transcript() {
	id, width := u.session, u.width()
	u.tasks.Go(func() { // a long session takes longer than a call may
		lines, err := u.wholeSession(id, width)
		then := func() {
			if err == nil {
				err = u.page(lines)
			}
			if err != nil {
				u.problem(fmt.Errorf("show the transcript: %w", err))
			}
		}
		select {
		case u.results <- then:
		case <-u.ctx.Done():
		}
	})
}

// wholeSession draws a session from its log.
func (u *ui) wholeSession(id string, width int) ([]cells.Line, error) {
	v := &ui{o: u.o, s: screen.New(io.Discard, screen.Options{Width: width, Height: 1000}), whole: true}
	v.o.Reader = false
	v.reset(id)
	for from := int64(0); ; {
		r, err := client.Ask[protocol.EventsResult](u.ctx, u.c, protocol.MethodEvents, protocol.EventsParams{SessionID: id, From: from})
		if err != nil {
			return nil, err
		}
		for _, e := range r.Events {
			event, err := session.ParseEnvelope(e.Line)
			if err != nil {
				return nil, err
			}
			var view tool.Presentation
			if len(e.View) > 0 {
				if err := json.Unmarshal(e.View, &view); err != nil {
					return nil, err
				}
			}
			v.event(event, view)
		}
		if r.Next >= r.DurableSeq || r.Next == from {
			return v.finished, nil
		}
		from = r.Next
	}
}

// page shows lines in the person's pager.
func (u *ui) page(lines []cells.Line) (err error) {
	f, err := os.CreateTemp("", "dsh-transcript-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
	w := bufio.NewWriter(f)
	for _, l := range lines {
		_, _ = w.WriteString(l.ANSI(u.o.Color) + "\n") // Flush tells
	}
	if err := errors.Join(w.Flush(), f.Close()); err != nil {
		return err
	}
	pager := u.o.Getenv("PAGER")
	if pager == "" {
		pager = "less"
	}
	words := strings.Fields(pager)
	return u.outside(func() error {
		c := exec.CommandContext(u.ctx, words[0], append(words[1:], f.Name())...)
		c.Stdin, c.Stdout, c.Stderr = u.o.In, u.o.Out, u.o.Out
		c.Env = append(os.Environ(), "LESS=-R +G")
		return c.Run()
	})
}

// pickCall opens a call that has ended.
func (u *ui) pickCall() {
	var items []item
	for _, c := range slices.Backward(u.over) {
		note := "done"
		if c.failed {
			note = "failed"
		}
		items = append(items, item{label: c.view.Title, note: note, choose: func(u *ui) { u.opened(c) }})
	}
	u.pick(items, "no call has ended yet")
}

// timeline prints what happened when.
func (u *ui) timeline() {
	ask(u, protocol.MethodTrajectory, protocol.SessionParams{SessionID: u.session}, func(r protocol.TrajectoryResult) {
		var t trajectory.Trajectory
		if err := json.Unmarshal(r.Trajectory, &t); err != nil {
			u.problem(err)
			return
		}
		u.print(nil)
		for _, row := range trajectory.Rows(t) {
			style := cells.Style{}
			switch {
			case row.Bad:
				style.Fg = cells.Red
			case row.Kind == trajectory.RowTurn:
				style.Bold = true
			case row.Kind == trajectory.RowAsked:
				style.Fg = cells.Yellow
			case row.Kind == trajectory.RowCall:
				style.Fg = cells.Cyan
			case row.Kind == trajectory.RowModel:
			}
			room := u.width() - cells.Width(row.Note) - 1
			line := append(cells.Styled(strings.Repeat("  ", row.Depth)+row.Name+" ", style), cells.Plain(row.Text)...).Fit(room)
			line = append(line, cells.Plain(strings.Repeat(" ", max(room-line.Width(), 0)+1))...)
			u.print(line.Add(row.Note, cells.Style{Dim: true}))
		}
		u.print(cells.Styled(fmt.Sprintf("(the bytes of a request: dsh sessions show %s --request 1.1)", u.session), cells.Style{Dim: true}))
	})
}

// showPanels prints what projections show.
func (u *ui) showPanels() {
	for _, p := range u.panels {
		if p.Panel == nil {
			continue
		}
		u.print(nil, cells.Styled(p.Panel.Title, cells.Style{Bold: true}))
		for _, l := range p.Panel.Lines {
			line := cells.Plain(strings.Repeat("  ", l.Depth+1) + l.Text)
			if l.Note != "" {
				line = line.Add("  "+l.Note, cells.Style{Dim: true})
			}
			u.print(line.Fit(u.width()))
		}
	}
	u.print(nil)
}

// help prints keys and commands.
func (u *ui) help() {
	row := func(name, what string) {
		u.print(append(cells.Styled(fmt.Sprintf("  %-32s ", name), cells.Style{Fg: cells.Cyan}), cells.Plain(what)...).Fit(u.width()))
	}
	u.print(nil, cells.Styled("Keys", cells.Style{Bold: true}))
	for _, a := range actions() {
		var keys []string
		for key, other := range u.bound {
			if other.Name == a.Name {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		if len(keys) > 0 {
			row(strings.Join(keys, ", "), a.Doc)
		}
	}
	u.print(nil, cells.Styled("Commands", cells.Style{Bold: true}))
	for _, c := range u.commands {
		row(strings.TrimSpace("/"+c.Name+" "+c.Arguments), c.Doc)
	}
	for _, c := range own() {
		row(strings.TrimSpace("/"+c.name+" "+c.arguments), c.doc)
	}
	row("!command", "Run a command; the model is told with the next prompt")
	row("@file", "Name a file")
	u.print(nil)
}
