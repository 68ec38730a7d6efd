package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/dsh-harness/dsh/config"
	"github.com/dsh-harness/dsh/internal/running"
)

// reloadWait bounds the wait for the processes that were asked to reload.
const reloadWait = 30 * time.Second

func (p *program) configCommand() *cobra.Command {
	return group("config", "Show, check and reload what is composed here",
		p.configShow(), p.configCheck(), p.configSchema(), p.configReload(), p.configPath())
}

// composeCommand builds a command that looks at a composition without starting it.
func (p *program) composeCommand(c *cobra.Command, run func(c *composition) error) *cobra.Command {
	composition := &composition{}
	composition.register(c.Flags())
	c.RunE = func(*cobra.Command, []string) error { return run(composition) }
	return c
}

func (p *program) configShow() *cobra.Command {
	c := &cobra.Command{
		Use:   "show",
		Short: "Print the composition, with the layer that each value comes from",
		Long:  "Prints the composition as a cordis.yml, with the layer that each value comes from. What ${env:…} and ${file:…} stand for is not shown.",
		Args:  exactly(0),
	}
	asJSON := c.Flags().Bool("json", false, "write the rows, without their values, as JSON")
	return p.composeCommand(c, func(c *composition) error {
		_, composed, err := c.compose(p)
		if err != nil {
			return err
		}
		return p.print(*asJSON, rowsOf(composed), func(w io.Writer) error {
			text, err := composed.Show()
			if err == nil {
				_, err = io.WriteString(w, text)
			}
			return err
		})
	})
}

// composedRow is a row in the output of commands.
type composedRow struct {
	ID       string `json:"id"`
	Plugin   string `json:"plugin"`
	Layer    string `json:"layer"`
	At       string `json:"at"`
	Required bool   `json:"required,omitempty"`
	Disabled bool   `json:"disabled,omitempty"`
}

func rowsOf(c *config.Composition) []composedRow {
	rows := []composedRow{}
	for _, r := range c.Rows() {
		rows = append(rows, composedRow{r.ID, r.Plugin, r.Layer, r.At.String(), r.Required, r.Disabled})
	}
	return rows
}

func (p *program) configCheck() *cobra.Command {
	c := &cobra.Command{Use: "check", Short: "Check the configuration without starting anything", Args: exactly(0)}
	asJSON := c.Flags().Bool("json", false, "write JSON")
	return p.composeCommand(c, func(c *composition) error {
		o, err := c.options(p)
		if err != nil {
			return err
		}
		configuration, err := o.Configuration()
		if err != nil {
			return err
		}
		composed, err := config.Check(configuration)
		var wrong config.Errors
		if err != nil && (!errors.As(err, &wrong) || !*asJSON) {
			return err
		}
		type problem struct {
			At     string `json:"at"`
			Detail string `json:"detail"`
		}
		answer := struct {
			Rows     int       `json:"rows"`
			Layers   []string  `json:"layers"`
			Problems []problem `json:"problems"`
		}{Layers: []string{}, Problems: []problem{}}
		for _, e := range wrong {
			answer.Problems = append(answer.Problems, problem{e.At.String(), e.Detail})
		}
		if composed != nil {
			answer.Rows = len(composed.Rows())
			for _, l := range composed.Layers() {
				answer.Layers = append(answer.Layers, l.String())
			}
		}
		err = p.print(*asJSON, answer, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "the configuration is right: %d rows from %d layers\n", answer.Rows, len(answer.Layers))
			return err
		})
		if len(wrong) > 0 {
			return &exit{code: exitUsage}
		}
		return err
	})
}

func (p *program) configSchema() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of cordis.yml, for editors",
		Args:  exactly(0),
		RunE: func(*cobra.Command, []string) error {
			text, err := json.MarshalIndent(config.Schema(p.plugins), "", "  ")
			if err == nil {
				_, err = fmt.Fprintf(p.stdout, "%s\n", text)
			}
			return failed(err)
		},
	}
}

func (p *program) configPath() *cobra.Command {
	c := &cobra.Command{Use: "path", Short: "Print where files are read from and kept", Args: exactly(0)}
	asJSON := c.Flags().Bool("json", false, "write JSON")
	return p.composeCommand(c, func(c *composition) error {
		dirs, err := p.home()
		if err != nil {
			return err
		}
		dir, err := c.folder()
		if err != nil {
			return err
		}
		paths := []struct{ name, path string }{
			{"config", filepath.Join(dirs.Config, "cordis.yml")},
			{"project", filepath.Join(dir, filepath.FromSlash(projectFile))},
			{"state", dirs.State},
			{"sessions", filepath.Join(dirs.State, "sessions")},
			{"cache", dirs.Cache},
		}
		answer, rows := map[string]string{}, [][]string{}
		for _, e := range paths {
			answer[e.name] = e.path
			note := ""
			if _, err := os.Stat(e.path); err != nil {
				note = "(not there)"
			}
			rows = append(rows, []string{e.name, e.path, note})
		}
		return p.print(*asJSON, answer, func(w io.Writer) error { return table(w, rows) })
	})
}

// reloaded is what a process answered.
type reloaded struct {
	running.Process
	running.Answer
}

func (p *program) configReload() *cobra.Command {
	c := &cobra.Command{
		Use:   "reload [pid...]",
		Short: "Have running processes read the configuration again",
		Long: `Has running processes of this user, all or those named, read their configuration again, as SIGHUP does.
A process applies the change as a transaction: a configuration that is wrong changes nothing, and what it answers is printed.`,
		Args: cobra.ArbitraryArgs,
	}
	asJSON := c.Flags().Bool("json", false, "write JSON")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		dirs, err := p.home()
		if err != nil {
			return err
		}
		live, err := running.List(runningDir(dirs.State))
		if err != nil {
			return failed(err)
		}
		chosen, err := choose(live, args)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeoutCause(cmd.Context(), reloadWait, fmt.Errorf("no answer within %v", reloadWait))
		defer cancel()
		answers, refused := []reloaded{}, 0
		for _, process := range chosen {
			a, err := running.Reload(ctx, runningDir(dirs.State), process)
			if err != nil {
				a.Error = err.Error()
			}
			if a.Error != "" {
				refused++
			}
			answers = append(answers, reloaded{process, a})
		}
		err = p.print(*asJSON, answers, func(w io.Writer) error { return writeAnswers(w, answers) })
		if err == nil && refused > 0 {
			err = failed(fmt.Errorf("%d of %d processes go on with what they had", refused, len(answers)))
		}
		return err
	}
	return c
}

// choose returns the processes with these numbers, or all.
func choose(live []running.Process, pids []string) ([]running.Process, error) {
	if len(live) == 0 {
		return nil, failed(errors.New("no process is running: the next one reads the configuration when it starts"))
	}
	if len(pids) == 0 {
		return live, nil
	}
	var chosen []running.Process
	for _, pid := range pids {
		found := false
		for _, process := range live {
			if fmt.Sprint(process.PID) == pid {
				chosen, found = append(chosen, process), true
			}
		}
		if !found {
			return nil, fmt.Errorf("no running process has the number %s: %v", plain(pid), live)
		}
	}
	return chosen, nil
}

func writeAnswers(w io.Writer, answers []reloaded) error {
	for _, a := range answers {
		lines := []string{fmt.Sprintf("%v: reloaded", a.Process)}
		switch {
		case a.Error != "":
			lines = []string{fmt.Sprintf("%v: nothing changed: %s", a.Process, a.Error)}
		case len(a.Rows) == 0:
			lines[0] += ", nothing was different"
		}
		for _, row := range a.Rows {
			lines = append(lines, "  "+row)
		}
		for _, line := range lines {
			if _, err := fmt.Fprintln(w, plain(line)); err != nil {
				return err
			}
		}
	}
	return nil
}
