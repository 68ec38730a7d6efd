package cli

import (
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dsh-harness/dsh/config"
	"github.com/dsh-harness/dsh/profiles"
)

// helpCommand shows the help of another command. Unlike cobra's own it knows when there is none.
func (p *program) helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Help about a command, or about the environment",
		Args:  cobra.ArbitraryArgs,
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			at, _, err := root.Find(args)
			if err != nil {
				at = root
			}
			var names []string
			for _, c := range at.Commands() {
				if !c.Hidden {
					names = append(names, c.Name())
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			at := root
			for _, word := range args {
				i := slices.IndexFunc(at.Commands(), func(c *cobra.Command) bool { return c.Name() == word })
				if i < 0 {
					return unknownCommand(at, word)
				}
				at = at.Commands()[i]
			}
			at.InitDefaultHelpFlag()
			return failed(at.Help())
		},
	}
}

// variable is an environment variable that is read.
type variable struct{ name, meaning string }

// variables are those that dsh itself reads, whatever is composed.
func variables() []variable {
	return []variable{
		{"DSH_HOME", "folder that holds config, state and cache; instead of the XDG folders"},
		{"DSH_CONFIG", "folder of the configuration"},
		{"DSH_STATE", "folder of the sessions, and of all else that must not be lost"},
		{"DSH_PROFILE", "the composition to start from: " + strings.Join(profiles.Names(), ", ")},
		{"DSH_MODEL", "the model to ask, as provider/model"},
		{"DSH_FULL", "the interface draws on the whole screen, if it holds anything"},
		{"DSH_SCREEN_READER", "the interface prints line by line, with words for marks, if it holds anything"},
		{"DSH_TOKEN", "token of a server that is reached by ws:// or wss://, if it is not the one here"},
		{"EDITOR", "writes prompts, unless VISUAL names another program"},
		{"PAGER", "shows the transcript; less when it is not set"},
		{"NO_COLOR", "no colours on a terminal, if it holds anything"},
		{"XDG_CONFIG_HOME, XDG_STATE_HOME, XDG_CACHE_HOME", "where the folders are without DSH_HOME"},
	}
}

// environmentCommand is a topic of the help.
func (p *program) environmentCommand() *cobra.Command {
	c := &cobra.Command{Use: "environment", Short: "The environment variables that are read"}
	c.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		if err := p.environment(cmd.OutOrStdout()); err != nil {
			p.complain(err)
		}
	})
	return c
}

// environment writes which variables are read here: by dsh, and by the rows of the composition.
func (p *program) environment(w io.Writer) error {
	rows := [][]string{}
	for _, v := range variables() {
		rows = append(rows, []string{v.name, v.meaning})
	}
	_, composed, err := (&composition{}).compose(p)
	var referred [][]string
	if err == nil {
		referred, err = referenced(composed)
	}
	rows = append(rows, referred...)
	if written := table(w, rows); written != nil {
		return written
	}
	return err
}

// referenced lists the variables that rows refer to, as ${env:NAME} or as the name of the variable that holds a key.
func referenced(c *config.Composition) ([][]string, error) {
	text, err := c.Show()
	if err != nil {
		return nil, err
	}
	var names []string
	users := map[string][]string{}
	row := ""
	use := func(name string) {
		if users[name] == nil {
			names = append(names, name)
		}
		if !slices.Contains(users[name], row) {
			users[name] = append(users[name], row)
		}
	}
	for line := range strings.Lines(text) {
		if id, ok := strings.CutPrefix(line, "- id: "); ok {
			row = strings.TrimSpace(id)
		}
		for rest := line; ; {
			_, after, found := strings.Cut(rest, "${env:")
			if !found {
				break
			}
			rest = after
			end := strings.IndexAny(after, ":}")
			if end > 0 {
				use(after[:end])
			}
		}
		if _, name, found := strings.Cut(line, "keyEnv: "); found {
			use(strings.Fields(name)[0])
		}
	}
	var rows [][]string
	for _, name := range names {
		rows = append(rows, []string{name, "read by " + strings.Join(users[name], ", ")})
	}
	return rows, nil
}
