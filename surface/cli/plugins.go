package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dsh-harness/dsh"
	"github.com/dsh-harness/dsh/config"
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/tool"
)

// startedCommand builds a command that looks at a started composition.
func (p *program) startedCommand(c *cobra.Command, run func(ctx context.Context, h *dsh.Harness, asJSON bool) error) *cobra.Command {
	composition := &composition{}
	composition.register(c.Flags())
	asJSON := c.Flags().Bool("json", false, "write JSON")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		return p.within(cmd.Context(), composition, func(ctx context.Context, h *dsh.Harness) error { return run(ctx, h, *asJSON) })
	}
	return c
}

func (p *program) pluginsCommand() *cobra.Command {
	return group("plugins", "Show what is mounted, and what could be", p.pluginsList(), p.pluginsShow())
}

// mounted is a row and how it fares.
type mounted struct {
	composedRow
	State    string   `json:"state"`
	Error    string   `json:"error,omitempty"`
	Waits    []string `json:"waits,omitempty"`
	Provides []string `json:"provides,omitempty"`
}

func (p *program) pluginsList() *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "List the rows of the composition and how each fares", Args: exactly(0)}
	return p.startedCommand(c, func(_ context.Context, h *dsh.Harness, asJSON bool) error {
		states := map[string]plugin.Dump{}
		for _, d := range h.Dump() {
			states[d.Name] = d
		}
		all, rows := []mounted{}, [][]string{{"ROW", "PLUGIN", "STATE", "FROM", ""}}
		for _, r := range rowsOf(h.Composition()) {
			m := mounted{composedRow: r, State: "disabled"}
			if d, ok := states[r.ID]; ok {
				m.State, m.Error, m.Waits, m.Provides = d.State.String(), d.Error, d.Waits, d.Provides
			}
			all = append(all, m)
			rows = append(rows, []string{m.ID, m.Plugin, m.State, m.Layer, m.about()})
		}
		return p.print(asJSON, all, func(w io.Writer) error { return table(w, rows) })
	})
}

// about says in a few words what a row waits for, failed with, or provides.
func (m mounted) about() string {
	var about []string
	if m.Required {
		about = append(about, "required")
	}
	if len(m.Waits) > 0 {
		about = append(about, "waits for "+strings.Join(m.Waits, ", "))
	}
	if len(m.Provides) > 0 {
		about = append(about, "provides "+strings.Join(m.Provides, ", "))
	}
	if m.Error != "" {
		about = append(about, oneLine(m.Error, 100))
	}
	return strings.Join(about, "; ")
}

func (p *program) pluginsShow() *cobra.Command {
	return &cobra.Command{
		Use:   "show <plugin>",
		Short: "Show what a plugin does, needs and can be configured with",
		Args:  exactly(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return p.pluginNames(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			for _, d := range p.plugins {
				if d.Name() == args[0] {
					return p.print(false, nil, func(w io.Writer) error {
						_, page, _ := strings.Cut(config.Markdown([]plugin.Definition{d}), "\n## ")
						_, err := io.WriteString(w, page)
						return err
					})
				}
			}
			return oneOf("plugin", args[0], p.pluginNames())
		},
	}
}

func (p *program) pluginNames() []string {
	var names []string
	for _, d := range p.plugins {
		names = append(names, d.Name())
	}
	return names
}

// offered is a tool as commands show it.
type offered struct {
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Effect      session.Effect `json:"effect"`
	Parallel    bool           `json:"parallel"`
	Schema      any            `json:"schema"`
}

func (p *program) toolsCommand() *cobra.Command {
	c := &cobra.Command{Use: "tools", Short: "List the tools that an agent has here", Args: exactly(0)}
	return p.startedCommand(c, func(_ context.Context, h *dsh.Harness, asJSON bool) error {
		all, rows := []offered{}, [][]string{}
		for name, d := range tool.Tools.Visible(h.Scope()) {
			all = append(all, offered{name, d.Description(), d.Effect(), d.Parallel(), d.Schema()})
			rows = append(rows, []string{name, string(d.Effect()), oneLine(firstSentence(d.Description()), 100)})
		}
		return p.print(asJSON, all, func(w io.Writer) error { return table(w, rows) })
	})
}

func firstSentence(s string) string {
	for i := range s {
		if strings.HasPrefix(s[i:], ". ") && !strings.HasSuffix(s[:i], "e.g") && !strings.HasSuffix(s[:i], "i.e") {
			return s[:i+1]
		}
	}
	return s
}

// model is a model as commands show it.
type model struct {
	llm.Model
	Default bool   `json:"default,omitempty"`
	Missing string `json:"missing,omitempty"` // why it cannot be asked
}

func (p *program) modelsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "models",
		Short: "List the models that can be asked here",
		Long:  "Lists the models that the configured providers are known to have, the default first. Others can be named as provider/model, too.",
		Args:  exactly(0),
	}
	return p.startedCommand(c, func(_ context.Context, h *dsh.Harness, asJSON bool) error {
		all, err := models(h)
		if err != nil {
			return err
		}
		return p.print(asJSON, all, func(w io.Writer) error {
			rows := [][]string{{"MODEL", "WINDOW", "EFFORTS", "PRICE IN/OUT", ""}}
			for _, m := range all {
				note := ""
				if m.Default {
					note = "default"
				}
				if m.Missing != "" {
					note = strings.TrimPrefix(note+"; ", "; ") + oneLine(m.Missing, 100)
				}
				rows = append(rows, []string{m.Ref(), window(m.Window), orElse(strings.Join(m.Efforts, " "), "-"), price(m.Price), note})
			}
			return table(w, rows)
		})
	})
}

func models(h *dsh.Harness) ([]model, error) {
	runtime, ok := llm.Service.Current(h.Scope())
	if !ok {
		return nil, fmt.Errorf("list models: no row provides %q", "llm")
	}
	missing := map[string]string{}
	for name, provider := range llm.Providers.Visible(h.Scope()) {
		if provider.Ready != nil {
			if err := provider.Ready(); err != nil {
				missing[name] = err.Error()
			}
		}
	}
	all := []model{}
	for i, m := range runtime.Models(h.Scope()) {
		all = append(all, model{Model: m, Default: i == 0, Missing: missing[m.Provider]})
	}
	return all, nil
}

func window(tokens int64) string {
	if tokens == 0 {
		return "-"
	}
	return fmt.Sprintf("%dk", tokens/1000)
}

func price(p llm.Price) string {
	if p == (llm.Price{}) {
		return "-"
	}
	return fmt.Sprintf("$%g/$%g", p.Input, p.Output)
}
