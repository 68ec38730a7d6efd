package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"github.com/spf13/cobra"

	"github.com/dsh-harness/dsh"
	"github.com/dsh-harness/dsh/internal/demo"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/session"
)

func (p *program) demoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "demo [folder]",
		Short: "See a whole run, without a key and without a network",
		Long: `Copies a small project with failing tests into the folder, or into a temporary one, and lets an agent mend it. The
model's answers are scripted; the loop, the tools, the commands and the log are real. It needs no program but sh.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("%q got %d folders: %s", cmd.CommandPath(), len(args), cmd.UseLine())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return p.demo(cmd.Context(), args) },
	}
}

// demo copies the project, lets the agent work on it, and tells what was seen.
func (p *program) demo(ctx context.Context, args []string) (err error) {
	dir := strings.Join(args, "")
	if dir == "" {
		if dir, err = os.MkdirTemp("", "dsh-demo-"); err != nil {
			return failed(fmt.Errorf("make a folder for the demo: %w", err))
		}
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return failed(err)
	}
	if err := demo.Copy(dir); err != nil {
		return err
	}
	show := p.newProgress(p.stdout) // here what happens is the output
	show.output = 12
	show.line(show.paint(bold, "A small project with failing tests was copied to "+dir))
	show.line("A scripted model answers, so that no key is needed. All else is real: the loop, the tools, the commands, the log.")
	show.line("The commands run without a question, because they are the project's own, in this copy.")
	show.line("\n" + show.paint(green, "> "+demo.Prompt) + "\n")

	h, err := p.start(ctx, dsh.Options{Profile: "demo", Plugins: p.plugins, Lookup: p.lookup})
	if err != nil {
		return err
	}
	defer func() {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), plugin.CleanupTimeout)
		defer cancel()
		err = errors.Join(err, failed(h.Close(bounded)))
	}()
	if err := show.listen(h.Scope()); err != nil {
		return failed(err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	interrupted, err := p.interruptible(h, cancel)
	if err != nil {
		return failed(err)
	}
	a, err := h.Open(ctx, dsh.AgentOptions{Dir: dir, OnEvent: show.event})
	if err != nil {
		return failed(err)
	}
	result, err := a.Ask(ctx, demo.Prompt)
	show.end("")
	if code := interrupted(); code != 0 {
		return &exit{code, err}
	}
	if err != nil {
		return failed(err)
	}
	return failed(p.epilogue(show, dir, result))
}

// epilogue tells what was seen, and what to type next.
func (p *program) epilogue(show *progress, dir string, r dsh.Result) error {
	if r.Reason != session.Completed {
		return fmt.Errorf("the demo ended with %s", r.Reason)
	}
	changes, err := demo.Changes(dir)
	if err != nil {
		return fmt.Errorf("look at what the agent has changed: %w", err)
	}
	show.line("\n" + show.paint(bold, fmt.Sprintf("What you saw: %d steps in %.1f s. What it changed:", r.Steps, r.Duration.Seconds())))
	for _, c := range changes {
		for line := range strings.Lines(udiff.Unified("a/"+c.Name, "b/"+c.Name, c.Before, c.Now)) {
			line = strings.TrimRight(line, "\n")
			switch {
			case strings.HasPrefix(line, "+"):
				line = show.paint(green, line)
			case strings.HasPrefix(line, "-"):
				line = show.paint(red, line)
			}
			show.line("  " + line)
		}
	}
	name := self()
	show.line("\n" + show.paint(bold, "Look at it:"))
	show.line(fmt.Sprintf("  %s sessions show %s   what was said and done, from the log", name, r.SessionID))
	show.line(fmt.Sprintf("  %s sessions verify %s", name, r.SessionID))
	show.line(fmt.Sprintf("  (cd %s && sh test.sh)", dir))
	show.line("\n" + show.paint(bold, "Then give it a key and a task of yours, in a folder of yours:"))
	show.line("  export DEEPSEEK_API_KEY=…   from https://platform.deepseek.com/api_keys")
	show.line(fmt.Sprintf("  %s doctor", name))
	show.line(fmt.Sprintf("  %s run \"What does this project do, and how is it tested?\"", name))
	return nil
}

// self is what to type to run this program again from here.
func self() string {
	name := filepath.Base(os.Args[0])
	path, err := os.Executable()
	if err != nil {
		return name
	}
	if found, err := exec.LookPath(name); err == nil && same(found, path) {
		return name
	}
	switch {
	case strings.Contains(path, string(filepath.Separator)+"go-build"):
		return "go run ./cmd/dsh" // the executable is gone when it has ended
	case strings.HasPrefix(os.Args[0], "."+string(filepath.Separator)):
		return os.Args[0]
	}
	return path
}

func same(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}
