// Package commands brings the slash commands that every session has: /model, /effort, /mode, /rename and /status. It is the plugin
// "commands", without configuration:
//
//	# cordis.yml
//	- {id: commands, plugin: commands}
//
// They work on what any surface shows them for: the terminal interface, an editor, a program. Commands may run on any goroutine, several at
// once.
package commands

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dsh-harness/dsh/agent"
	"github.com/dsh-harness/dsh/internal/nearest"
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/protocol"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/view"
)

// Plugin adds the commands to [agent.Commands].
var Plugin = plugin.Plugin[struct{}]{
	Name:  "commands",
	Doc:   "The slash commands that every session has.",
	Needs: []plugin.Need{llm.Service.Optional(), policy.ModeService.Optional(), session.Service.Optional()},
	Start: func(_ context.Context, s *plugin.Scope, _ struct{}) error {
		c := &commands{scope: s}
		for _, one := range []struct {
			name string
			agent.Command
		}{
			{"model", agent.Command{Doc: "Choose the model", Arguments: "[provider/model]", Complete: c.completeModel, Run: c.model}},
			{"effort", agent.Command{Doc: "Choose how much the model thinks", Arguments: "[effort]", Complete: c.completeEffort, Run: c.effort}},
			{"mode", agent.Command{Doc: "Choose what may happen without asking", Arguments: "[mode]", Complete: c.completeMode, Run: c.mode}},
			{"rename", agent.Command{Doc: "Give the session a title", Arguments: "title", Run: c.rename}},
			{"status", agent.Command{Doc: "Show what the session does and has used", Run: c.status}},
		} {
			if _, err := agent.Commands.Add(s, one.name, one.Command); err != nil {
				return err
			}
		}
		return nil
	},
}

type commands struct{ scope *plugin.Scope }

func (c *commands) runtime() (llm.Runtime, error) {
	runtime, ok := llm.Service.Current(c.scope)
	if !ok {
		return nil, errors.New("no row provides \"llm\"")
	}
	return runtime, nil
}

// chosen returns the model that the next request goes to.
func (c *commands) chosen(a agent.Agent) (llm.Model, error) {
	runtime, err := c.runtime()
	if err != nil {
		return llm.Model{}, err
	}
	return runtime.Resolve(a.Scope(), a.Selection().Model)
}

func (c *commands) completeModel(_ context.Context, a agent.Agent, prefix string) []string {
	runtime, err := c.runtime()
	if err != nil {
		return nil
	}
	var refs []string
	for _, m := range runtime.Models(a.Scope()) {
		refs = append(refs, m.Ref())
	}
	return beginning(refs, prefix)
}

func (c *commands) model(_ context.Context, a agent.Agent, arguments string) (agent.CommandResult, error) {
	runtime, err := c.runtime()
	if err != nil {
		return agent.CommandResult{}, err
	}
	if arguments == "" {
		now, err := c.chosen(a)
		if err != nil {
			return agent.CommandResult{}, err
		}
		var b strings.Builder
		for _, m := range runtime.Models(a.Scope()) {
			item(&b, m.Ref(), m.Ref() == now.Ref())
		}
		return agent.CommandResult{Text: b.String()}, nil
	}
	m, err := runtime.Resolve(a.Scope(), arguments)
	if err != nil {
		return agent.CommandResult{}, err
	}
	chosen := agent.Selection{Model: m.Ref()}
	text := "The model is " + m.Ref() + " from the next request on."
	if !slices.ContainsFunc(runtime.Models(a.Scope()), func(known llm.Model) bool { return known.Ref() == m.Ref() }) {
		text += " It is not among the models that are listed."
	}
	if effort := a.Selection().Effort; effort != "" && m.CheckEffort(effort) != nil {
		chosen.Effort = m.DefaultEffort
		if chosen.Effort == "" {
			return agent.CommandResult{}, fmt.Errorf("%s has no effort %q: choose one of %s with /effort first", m.Ref(), effort, strings.Join(m.Efforts, ", "))
		}
		text += " It has no effort " + effort + ", so the effort is " + chosen.Effort + "."
	}
	a.SetSelection(chosen)
	return agent.CommandResult{Text: text}, nil
}

func (c *commands) completeEffort(_ context.Context, a agent.Agent, prefix string) []string {
	m, err := c.chosen(a)
	if err != nil {
		return nil
	}
	return beginning(m.Efforts, prefix)
}

func (c *commands) effort(_ context.Context, a agent.Agent, arguments string) (agent.CommandResult, error) {
	m, err := c.chosen(a)
	if err != nil {
		return agent.CommandResult{}, err
	}
	if arguments == "" {
		if len(m.Efforts) == 0 {
			return agent.CommandResult{Text: "It is not known which efforts " + m.Ref() + " has."}, nil
		}
		now := a.Selection().Effort
		if now == "" {
			now = m.DefaultEffort
		}
		var b strings.Builder
		for _, e := range m.Efforts {
			item(&b, e, e == now)
		}
		return agent.CommandResult{Text: b.String()}, nil
	}
	if err := m.CheckEffort(arguments); err != nil {
		return agent.CommandResult{}, err
	}
	a.SetSelection(agent.Selection{Effort: arguments})
	return agent.CommandResult{Text: "The effort is " + arguments + " from the next request on."}, nil
}

func (c *commands) completeMode(_ context.Context, _ agent.Agent, prefix string) []string {
	return beginning(modes(), prefix)
}

func modes() []string {
	var names []string
	for _, m := range policy.Modes() {
		names = append(names, string(m))
	}
	return names
}

func (c *commands) mode(_ context.Context, a agent.Agent, arguments string) (agent.CommandResult, error) {
	modesOf, ok := policy.ModeService.Current(c.scope)
	if !ok {
		return agent.CommandResult{}, errors.New("no row provides \"permission-mode\"")
	}
	if arguments == "" {
		now := modesOf.Mode(a.Session())
		var b strings.Builder
		for _, m := range policy.Modes() {
			item(&b, string(m), m == now)
		}
		return agent.CommandResult{Text: b.String()}, nil
	}
	m, err := policy.ParseMode(arguments)
	if err != nil {
		if near := nearest.Name(arguments, modes()); near != "" {
			err = fmt.Errorf("%w; did you mean %s?", err, near)
		}
		return agent.CommandResult{}, err
	}
	if err := modesOf.SwitchMode(a.Session(), m, "/mode"); err != nil {
		return agent.CommandResult{}, err
	}
	return agent.CommandResult{Text: "The mode is " + string(m) + " from the next call on."}, nil
}

func (c *commands) rename(ctx context.Context, a agent.Agent, arguments string) (agent.CommandResult, error) {
	title := strings.Join(strings.Fields(arguments), " ")
	if title == "" {
		return agent.CommandResult{}, errors.New("rename: say the title, such as /rename the parser's tests")
	}
	store, ok := session.Service.Current(c.scope)
	if !ok {
		return agent.CommandResult{}, errors.New("no row provides \"sessions\"")
	}
	if err := store.Update(ctx, a.Session().ID(), session.MetaData{Title: &title}); err != nil {
		return agent.CommandResult{}, fmt.Errorf("rename: %w", err)
	}
	return agent.CommandResult{Text: "The session is called " + title + "."}, nil
}

// status shows every projection that has a panel.
func (c *commands) status(ctx context.Context, a agent.Agent, _ string) (agent.CommandResult, error) {
	s := a.Session()
	var folds []view.Fold
	var shown []view.Projection
	for _, p := range view.Projections.Visible(a.Scope()) {
		if p.Panel != nil {
			shown = append(shown, p)
			folds = append(folds, p.New(a.Scope()))
		}
	}
	for e, err := range s.Events(ctx, 0) {
		if err != nil {
			return agent.CommandResult{}, fmt.Errorf("read the session: %w", err)
		}
		for _, f := range folds {
			f.Apply(e)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "**Session** %s, %s\n", s.ID(), a.Status())
	for i, p := range shown {
		write(&b, p.Panel(folds[i].Value()))
	}
	return agent.CommandResult{Text: b.String()}, nil
}

// write writes a panel as Markdown.
func write(b *strings.Builder, p protocol.Panel) {
	fmt.Fprintf(b, "\n**%s**\n\n", p.Title)
	for _, line := range p.Lines {
		fmt.Fprintf(b, "%s- %s", strings.Repeat("  ", line.Depth), line.Text)
		if line.Note != "" {
			fmt.Fprintf(b, ": %s", line.Note)
		}
		b.WriteByte('\n')
	}
}

// item is a line of a list of what can be chosen.
func item(b *strings.Builder, name string, now bool) {
	fmt.Fprintf(b, "- %s", name)
	if now {
		b.WriteString(" (now)")
	}
	b.WriteByte('\n')
}

func beginning(all []string, prefix string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return !strings.HasPrefix(s, prefix) })
}
