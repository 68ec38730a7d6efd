// Package cli is the command line of dsh: it reads arguments, drives agents through package
// dsh, and shows what the log and the composition say. A program of its own with further
// plugins is a main function that calls [Main] with a longer list:
//
//	func main() {
//		dsh.Guard()
//		os.Exit(cli.Main(append(std.Plugins(), weather.Plugin.Definition())))
//	}
//
// Main is called once, by main, and owns the process's arguments, standard streams and signals.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dsh-harness/dsh/internal/nearest"
	"github.com/dsh-harness/dsh/plugin"
)

// Main runs the command that the arguments of the process name, and returns its exit code. Rows of
// the configuration may name plugins.
func Main(plugins []plugin.Definition) int {
	// A harness lives on a few megabytes: collecting them at every doubling costs a step more
	// than it saves. See docs/performance.md.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	p := &program{
		plugins: plugins,
		stdin:   os.Stdin,
		stdout:  stream{os.Stdout, isTerminal(os.Stdout)},
		stderr:  stream{os.Stderr, isTerminal(os.Stderr)},
		lookup:  os.LookupEnv,
	}
	return p.run(context.Background(), os.Args[1:])
}

// gcPercent is how far the heap grows before it is collected, for programs whose user has not set GOGC.
const gcPercent = 200

// program is what a command works with.
type program struct {
	plugins []plugin.Definition
	stdin   *os.File
	stdout  stream
	stderr  stream
	lookup  func(name string) (string, bool)
}

// stream is one of the standard streams.
type stream struct {
	io.Writer
	terminal bool
}

// Exit codes. Where several apply, the one that comes first in this list counts; an interrupted
// run has 128 and the signal's number.
const (
	exitOK         = 0
	exitUsage      = 2 // flag, configuration, missing key: nothing was sent
	exitFailed     = 1 // the turn, or the command, ended with an error
	exitLimit      = 4 // a budget or limit ended the turn
	exitUnanswered = 3 // something needed an approval and nobody could give it
)

// exit is an error that says which code the process ends with.
type exit struct {
	code int
	err  error // nil when all was said
}

func (e *exit) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exit) Unwrap() error { return e.err }

// failed marks an error that is not the user's.
func failed(err error) error {
	if err == nil {
		return nil
	}
	return &exit{exitFailed, err}
}

// run executes one command line. An error that does not say otherwise is wrong use.
func (p *program) run(ctx context.Context, args []string) int {
	root := p.root()
	root.SetArgs(arguments(args))
	root.SetIn(p.stdin)
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	p.complain(err)
	coded := &exit{code: exitUsage}
	errors.As(err, &coded)
	return coded.code
}

// arguments lets "dsh -p", "dsh -c" and "dsh -r" stand for "dsh run" with that flag, in any place
// among the flags before the prompt.
func arguments(args []string) []string {
	if len(args) == 0 || !strings.HasPrefix(args[0], "-") {
		return args
	}
	for _, arg := range args {
		word, _, _ := strings.Cut(arg, "=")
		switch {
		case arg == "--":
			return args
		case slices.Contains([]string{"--print", "--continue", "--resume"}, word), len(arg) > 1 && arg[0] == '-' && strings.IndexByte("pcr", arg[1]) >= 0:
			return append([]string{"run"}, args...)
		}
	}
	return args
}

// complain writes an error to standard error: a line for each thing that is wrong.
func (p *program) complain(err error) {
	for line := range strings.Lines(plain(err.Error())) {
		if line = strings.TrimRight(line, "\n"); line != "" {
			p.note("%s", line)
		}
	}
}

// note writes one line for a person to standard error.
func (p *program) note(format string, args ...any) {
	// Nobody is left to tell that standard error is gone.
	_, _ = fmt.Fprintf(p.stderr, "dsh: "+format+"\n", args...)
}

// The groups of commands in the help.
const (
	groupWork     = "work"
	groupSessions = "sessions"
	groupSetup    = "setup"
)

// root builds the tree of commands.
func (p *program) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "dsh",
		Short: "An agent harness in which everything is a plugin",
		Long: `dsh gives a task to a language model that can read, change and test files in a folder.

  dsh                             open the terminal interface in this folder
  dsh demo                        see a whole run, without a key and without a network
  dsh run "fix the failing test"  give a task to an agent in this folder
  dsh -c "now add one for 0"      go on with the last session of this folder`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
	}
	version := root.Flags().Bool("version", false, "print the version")
	interactive := &interfacing{}
	interactive.register(root)
	root.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case *version:
			return p.printVersion(false)
		case len(args) > 0:
			return unknownCommand(cmd, args[0])
		}
		if p.atTerminal() {
			return p.show(cmd.Context(), interactive)
		}
		cmd.SetOut(p.stderr)
		if err := cmd.Help(); err != nil {
			return failed(err)
		}
		return &exit{exitUsage, errors.New("this is no terminal: give a command")}
	}
	root.AddGroup(
		&cobra.Group{ID: groupWork, Title: "Work:"},
		&cobra.Group{ID: groupSessions, Title: "Sessions:"},
		&cobra.Group{ID: groupSetup, Title: "Setup:"},
	)
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add(groupWork, p.runCommand(), p.resumeCommand(), p.attachCommand(), p.acpCommand(), p.serveCommand(), p.demoCommand())
	add(groupSessions, p.sessionsCommand())
	add(groupSetup, p.configCommand(), p.pluginsCommand(), p.toolsCommand(), p.modelsCommand(), p.policyCommand(), p.trustCommand(), p.trashCommand(), p.doctorCommand())
	add(groupSetup, p.versionCommand())
	root.AddCommand(p.environmentCommand())
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return flagError(cmd, err) })
	root.SetHelpCommand(p.helpCommand(root))
	root.SetHelpCommandGroupID(groupSetup)
	root.SetCompletionCommandGroupID(groupSetup)
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	return root
}

// group is a command that only holds others.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: cobra.ArbitraryArgs}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownCommand(cmd, args[0])
		}
		return failed(cmd.Help())
	}
	c.AddCommand(commands...)
	return c
}

// unknownCommand says which command was meant, as far as one can tell.
func unknownCommand(parent *cobra.Command, word string) error {
	var known []string
	for _, c := range parent.Commands() {
		if !c.Hidden {
			known = append(known, c.Name())
		}
	}
	what := fmt.Sprintf("unknown command %q for %q", plain(word), parent.CommandPath())
	if near := nearest.Name(word, known); near != "" {
		return fmt.Errorf("%s: did you mean %q?", what, parent.CommandPath()+" "+near)
	}
	if !parent.HasParent() && strings.ContainsAny(word, " \t\n") {
		return fmt.Errorf("%s: a task is given with \"dsh run\"", what)
	}
	return fmt.Errorf("%s: expected one of %s", what, strings.Join(known, ", "))
}

// flagError says which flag was meant, as far as one can tell.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	if short := unknown.GetSpecifiedShortnames(); short != "" {
		return fmt.Errorf("unknown flag -%s for %q: see %q", plain(unknown.GetSpecifiedName()), cmd.CommandPath(), cmd.CommandPath()+" --help")
	}
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, f.Name)
		}
	})
	what := fmt.Sprintf("unknown flag --%s for %q", plain(unknown.GetSpecifiedName()), cmd.CommandPath())
	if near := nearest.Name(unknown.GetSpecifiedName(), known); near != "" {
		return fmt.Errorf("%s: did you mean --%s?", what, near)
	}
	return fmt.Errorf("%s: see %q", what, cmd.CommandPath()+" --help")
}

// exactly demands n arguments.
func exactly(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == n {
			return nil
		}
		return fmt.Errorf("%q got %d arguments instead of %d: %s", cmd.CommandPath(), len(args), n, cmd.UseLine())
	}
}
