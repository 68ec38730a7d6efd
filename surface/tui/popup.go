package tui

import (
	"context"
	"slices"
	"strings"

	"github.com/dsh-harness/dsh/internal/cells"
	"github.com/dsh-harness/dsh/protocol"
	"github.com/dsh-harness/dsh/surface/client"
)

// popup is a list to choose from.
type popup struct {
	items  []item
	at     int
	picker bool // it was asked for, and not brought up by what is typed
}

// item is something that can be chosen.
type item struct {
	label, note string
	choose      func(u *ui)
	// complete puts it into the prompt without sending it; nil when choosing is all that there is to do.
	complete func(u *ui)
}

func (p *popup) move(by int) { p.at = (p.at + by + len(p.items)) % len(p.items) }

func (p *popup) lines(width int) []cells.Line {
	from := min(max(p.at-popupLines/2, 0), max(len(p.items)-popupLines, 0))
	wide := 0
	for _, i := range p.items {
		wide = max(wide, cells.Width(i.label))
	}
	wide = min(wide, max(width/2, 12))
	var all []cells.Line
	for n := from; n < min(from+popupLines, len(p.items)); n++ {
		i := p.items[n]
		style, mark := cells.Style{}, "  "
		if n == p.at {
			style, mark = cells.Style{Bold: true, Fg: cells.Cyan}, "> "
		}
		line := cells.Styled(mark+i.label, style).Fit(wide + 2)
		if i.note != "" && width > 50 {
			line = line.Add(strings.Repeat(" ", max(wide+2-line.Width(), 0)+2)+i.note, cells.Style{Dim: true})
		}
		all = append(all, line.Fit(width))
	}
	return all
}

// own are the commands of the interface itself.
func own() []struct {
	name, arguments, doc string
	run                  func(u *ui, arguments string)
} {
	return []struct {
		name, arguments, doc string
		run                  func(u *ui, arguments string)
	}{
		{"new", "", "Begin another session", func(u *ui, _ string) { u.switchTo("") }},
		{"sessions", "[words]", "Go on with another session of this folder", (*ui).pickSession},
		{"rewind", "", "Take the conversation back to before a prompt", func(u *ui, _ string) { u.pickTurn() }},
		{"fork", "", "Go on with a copy of this session", (*ui).fork},
		{"timeline", "", "Show turns, steps and calls with their time, tokens and bytes", func(u *ui, _ string) { u.timeline() }},
		{"calls", "", "Open one of the calls that have ended", func(u *ui, _ string) { u.pickCall() }},
		{"transcript", "", "Show the whole session in PAGER: full screen, with search", func(u *ui, _ string) { u.transcript() }},
		{"panels", "", "Show what else is known of the session", func(u *ui, _ string) { u.showPanels() }},
		{"help", "", "Show keys and commands", func(u *ui, _ string) { u.help() }},
		{"quit", "", "Leave", func(u *ui, _ string) { u.left = true }},
	}
}

// complete looks for what could stand where the cursor is.
func (u *ui) complete() {
	if u.popup != nil && u.popup.picker {
		return
	}
	u.popup = nil
	u.asked++
	text := u.prompt.text[:u.prompt.at]
	if u.session == "" || u.denying {
		return
	}
	if strings.HasPrefix(text, "/") && !strings.Contains(text, "\n") {
		name, arguments, more := strings.Cut(text[1:], " ")
		if more {
			u.completeArguments(name, arguments)
		} else if u.prompt.at == len(u.prompt.text) {
			u.completeCommand(name)
		}
		return
	}
	word := text[strings.LastIndexAny(text, " \n\t")+1:]
	if query, ok := strings.CutPrefix(word, "@"); ok {
		u.completeFile(query)
	}
}

func (u *ui) completeCommand(prefix string) {
	var items []item
	add := func(name, arguments, doc string) {
		if !strings.HasPrefix(name, prefix) {
			return
		}
		put := func(u *ui) {
			text := "/" + name
			if arguments != "" {
				text += " "
			}
			u.prompt.set(text)
			u.complete()
		}
		items = append(items, item{label: "/" + name + " " + arguments, note: doc, complete: put, choose: func(u *ui) {
			if strings.HasPrefix(arguments, "[") || arguments == "" {
				u.prompt.set("/" + name)
				u.send(false)
			} else {
				put(u)
			}
		}})
	}
	for _, c := range u.commands {
		add(c.Name, c.Arguments, c.Doc)
	}
	for _, c := range own() {
		add(c.name, c.arguments, c.doc)
	}
	if len(items) > 0 {
		u.popup = &popup{items: items}
	}
}

// offer shows items that were asked for, unless something else was typed meanwhile.
func (u *ui) offer(asked int, items []item) {
	if asked == u.asked && len(items) > 0 {
		u.popup = &popup{items: items}
	}
}

func (u *ui) completeArguments(name, prefix string) {
	i := slices.IndexFunc(u.commands, func(c protocol.Command) bool { return c.Name == name && c.Completes })
	if i < 0 {
		return
	}
	asked := u.asked
	u.task(func(ctx context.Context) func() {
		r, err := client.Ask[protocol.CompleteResult](ctx, u.c, protocol.MethodComplete, protocol.CompleteParams{SessionID: u.session, Name: name, Prefix: prefix})
		if err != nil {
			return nil // completing is a help, and no more
		}
		return func() {
			var items []item
			for _, v := range r.Values {
				items = append(items, item{label: v,
					complete: func(u *ui) { u.prompt.set("/" + name + " " + v) },
					choose: func(u *ui) {
						u.prompt.set("/" + name + " " + v)
						u.send(false)
					},
				})
			}
			u.offer(asked, items)
		}
	})
}

func (u *ui) completeFile(query string) {
	asked := u.asked
	u.task(func(ctx context.Context) func() {
		r, err := client.Ask[protocol.FilesResult](ctx, u.c, protocol.MethodFiles, protocol.FilesParams{SessionID: u.session, Query: query, Limit: 50})
		if err != nil {
			return nil
		}
		return func() {
			var items []item
			for _, path := range r.Paths {
				put := func(u *ui) {
					start := u.prompt.at - len(query)
					end := " "
					if strings.HasSuffix(path, "/") {
						end = ""
					}
					u.prompt.text = u.prompt.text[:start] + path + end + u.prompt.text[u.prompt.at:]
					u.prompt.at = start + len(path) + len(end)
					u.complete()
				}
				items = append(items, item{label: path, choose: put, complete: put})
			}
			u.offer(asked, items)
		}
	})
}
