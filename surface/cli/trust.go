package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dsh-harness/dsh"
	"github.com/dsh-harness/dsh/config"
	"github.com/dsh-harness/dsh/internal/spelling"
	"github.com/dsh-harness/dsh/policy/trust"
)

// projectFile is the layer that a folder brings along.
const projectFile = ".dsh/cordis.yml"

// bring adds to o what the folder brings along and a person trusts, and says on standard error what is left out. It runs
// before anything of the composition, starts nothing, and writes nothing into the folder.
func (c *composition) bring(p *program, state string, o *dsh.Options, patched bool) error {
	ctx := context.Background() // bounded by the size of what is read, and by the wait for the lock of the list
	f, err := trust.Scan(ctx, o.Agent.Dir)
	if err == nil && c.accept != "" {
		if err := c.accepts(f); err != nil {
			return err
		}
	}
	store := trust.NewStore(state)
	var states []trust.State
	if err == nil && len(f.Definitions) > 0 {
		states, err = store.States(f)
	}
	if err != nil {
		if !c.told {
			p.note("nothing that this folder brings along is used: %s", plain(err.Error()))
		}
		c.told = true
		return nil
	}
	asked := open(f, states, patched)
	if len(asked) > 0 && c.accept == "" && c.asks && p.canAskToTrust() {
		switch p.askToTrust(ctx, f, states) {
		case trustFolder:
			if err := store.Add(ctx, f, "dsh run"); err != nil {
				return failed(err)
			}
			asked = nil
			for i, d := range f.Definitions {
				if d.Problem == "" {
					states[i] = trust.Held
				}
			}
		case trustRun:
			c.accept = f.Hash
		case trustNot:
			c.told = true
		}
	}
	if c.accept != "" {
		o.Set = append([]string{`trust.accept=["` + c.accept + `"]`}, o.Set...)
		asked = nil
	}
	if !c.told {
		c.tell(p, f, states, asked)
	}
	c.told = true
	for i, d := range f.Definitions {
		if d.Path == projectFile && d.Problem == "" && !patched && (states[i] == trust.Held || c.accept != "") {
			o.Layers = append(o.Layers, config.Layer{
				Kind: config.Project, Path: filepath.Join(f.Dir, filepath.FromSlash(d.Path)), Text: string(d.Content),
				Root: f.Dir, Plugins: trust.ProjectPlugins(),
			})
		}
	}
	return nil
}

// accepts reports why --trust does not fit what the folder brings.
func (c *composition) accepts(f trust.Folder) error {
	if err := trust.CheckHash(c.accept); err != nil {
		return fmt.Errorf("--trust: %w", err)
	}
	switch f.Hash {
	case c.accept:
		return nil
	case "":
		return fmt.Errorf("--trust %s: this folder brings nothing that could be trusted", c.accept)
	}
	return fmt.Errorf("--trust %s: this folder brings something else, with the hash %s; see it with %s", c.accept, f.Hash, c.look())
}

// look is the command that shows what the folder brings along.
func (c *composition) look() string {
	if c.dir == "" {
		return "dsh trust"
	}
	return "dsh trust -C " + plain(shellWord(c.dir))
}

// shellWord is a word as it may be typed into a shell.
func shellWord(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./+,:@") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// open are the definitions that somebody would have to trust, each with why.
func open(f trust.Folder, states []trust.State, patched bool) []string {
	var all []string
	for i, d := range f.Definitions {
		switch states[i] {
		case trust.New, trust.Changed:
			if d.Path != projectFile || !patched {
				all = append(all, fmt.Sprintf("%s (%s)", d.Path, states[i]))
			}
		case trust.Held, trust.Unfit:
		}
	}
	return all
}

// tell says in a line what is ignored because nobody trusts it, and in one each what cannot be trusted.
func (c *composition) tell(p *program, f trust.Folder, states []trust.State, asked []string) {
	if len(asked) > 0 {
		p.note("ignored, as nobody trusts it: %s; look with %s, then use it with --trust %s", strings.Join(asked, ", "), c.look(), f.Hash)
	}
	for i, d := range f.Definitions {
		if states[i] == trust.Unfit {
			p.note("%s is ignored: %s", d.Path, plain(d.Problem))
		}
	}
}

// Answers to the question of trust.
type trustAnswer int

const (
	trustNot    trustAnswer = iota
	trustRun                // for this run
	trustFolder             // until it changes or is revoked
)

func (p *program) canAskToTrust() bool { return p.stderr.terminal && canAsk(p.stdin) }

// maxAsked is how many rows a question of trust may have: nobody reads more of them on a terminal.
const maxAsked = 200

// askToTrust shows what the folder brings along and asks once. Whatever is no clear answer trusts nothing.
func (p *program) askToTrust(ctx context.Context, f trust.Folder, states []trust.State) trustAnswer {
	d := &desk{painter: p.painter(p.stderr), in: p.stdin, lookup: p.lookup, turn: make(chan struct{}, 1)}
	shown := describeFolder(f, states, d.width()-2, d.mark)
	if len(shown) > maxAsked {
		p.note("what this folder brings along is too long to ask about, and ignored: read it with dsh trust, then trust it with dsh trust add")
		return trustNot
	}
	discardTyped(d.in)
	d.say("%s\n", d.paint(bold, "? this folder brings along what would run here"))
	for _, row := range shown {
		d.say("  %s\n", row)
	}
	line, err := d.readLine(ctx, "  trust it (t), only in this run (o), or ignore it (i)? ")
	if err != nil {
		d.say("\n")
		p.note("what this folder brings along is ignored: %s", plain(err.Error()))
		return trustNot
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "t", "trust":
		return trustFolder
	case "o", "once":
		return trustRun
	}
	return trustNot
}

// describeFolder returns all that a folder brings along, in rows that hide nothing.
func describeFolder(f trust.Folder, states []trust.State, width int, mark func(string) string) []string {
	var all []string
	for i, d := range f.Definitions {
		all = append(all, fmt.Sprintf("%s: %s (%s)", d.Path, d.Does, states[i]))
		if d.Problem != "" {
			all = append(all, spelling.Rows("it is not used: "+d.Problem, width, mark)...)
			continue
		}
		all = append(all, spelling.Rows(strings.TrimRight(string(d.Content), "\n"), width, mark)...)
		for _, script := range d.Scripts {
			all = append(all, spelling.Rows("with the file "+script, width, mark)...)
		}
	}
	if f.Hash != "" {
		all = append(all, "hash: "+f.Hash)
	}
	return all
}

func (p *program) trustCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "trust",
		Short: "Show what this folder may bring to execution; trust it, or not any more",
		Long: `Shows what this folder would bring to execution, its hash, and whether it is trusted: rows of the composition, rules, and
hooks, as files of the folder say. Nothing of it is used before somebody trusts exactly these files. A file that changes
is not trusted any more.

The exit code is 0 when all of it is trusted, or there is nothing, and 1 otherwise.`,
		Example: `  dsh trust
  dsh trust add --hash 9f86…
  dsh run --trust 9f86… "fix the failing test"`,
		Args: cobra.ArbitraryArgs,
	}
	dir := c.Flags().StringP("cd", "C", "", "show this `folder` instead of the current one")
	asJSON := c.Flags().Bool("json", false, "write JSON")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownCommand(cmd, args[0])
		}
		return p.showTrust(cmd.Context(), *dir, *asJSON)
	}
	c.AddCommand(p.trustList(), p.trustAdd(), p.trustRemove())
	return c
}

// brought is a folder in the output of commands.
type brought struct {
	Dir         string              `json:"dir"`
	Hash        string              `json:"hash,omitempty"`
	Trusted     bool                `json:"trusted"`
	Definitions []broughtDefinition `json:"definitions"`
}

type broughtDefinition struct {
	Path    string      `json:"path"`
	State   trust.State `json:"state"`
	Hash    string      `json:"hash,omitempty"`
	Scripts []string    `json:"scripts,omitempty"`
	Problem string      `json:"problem,omitempty"`
	Content string      `json:"content,omitempty"`
}

// scan looks at a folder that a command names, and at what is recorded of it.
func (p *program) scan(ctx context.Context, dir string) (trust.Folder, []trust.State, *trust.Store, error) {
	dirs, err := p.home()
	if err != nil {
		return trust.Folder{}, nil, nil, err
	}
	full, err := (&composition{dir: dir}).folder()
	if err != nil {
		return trust.Folder{}, nil, nil, err
	}
	store := trust.NewStore(dirs.State)
	f, err := trust.Scan(ctx, full)
	if err != nil {
		return f, nil, store, failed(err)
	}
	states, err := store.States(f)
	return f, states, store, failed(err)
}

func (p *program) showTrust(ctx context.Context, dir string, asJSON bool) error {
	f, states, _, err := p.scan(ctx, dir)
	if err != nil {
		return err
	}
	answer := brought{Dir: f.Dir, Hash: f.Hash, Trusted: true, Definitions: []broughtDefinition{}}
	for i, d := range f.Definitions {
		answer.Trusted = answer.Trusted && states[i] == trust.Held
		answer.Definitions = append(answer.Definitions, broughtDefinition{d.Path, states[i], d.Hash, d.Scripts, d.Problem, string(d.Content)})
	}
	err = p.print(asJSON, answer, func(w io.Writer) error {
		if len(f.Definitions) == 0 {
			_, err := fmt.Fprintln(w, "this folder brings nothing to execution")
			return err
		}
		paint, columns := p.painter(p.stdout), wide
		if file, ok := p.stdout.Writer.(*os.File); ok && p.stdout.terminal {
			columns = width(file)
		}
		for _, row := range describeFolder(f, states, columns, func(s string) string { return paint.paint(yellow, s) }) {
			if _, err := fmt.Fprintln(w, row); err != nil {
				return err
			}
		}
		last := "trusted"
		if !answer.Trusted {
			last = "not trusted: dsh trust add --hash " + f.Hash + " trusts exactly this"
		}
		if f.Hash == "" {
			last = "nothing of it can be trusted"
		}
		_, err := fmt.Fprintln(w, last)
		return err
	})
	if err == nil && !answer.Trusted {
		err = &exit{code: exitFailed}
	}
	return err
}

// wide is the width of rows that no terminal cuts.
const wide = 1 << 20

func (p *program) trustList() *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "List the folders that are trusted", Args: exactly(0)}
	asJSON := c.Flags().Bool("json", false, "write JSON")
	c.RunE = func(*cobra.Command, []string) error {
		dirs, err := p.home()
		if err != nil {
			return err
		}
		list, err := trust.NewStore(dirs.State).List()
		if err != nil {
			return failed(err)
		}
		return p.print(*asJSON, list, func(w io.Writer) error {
			if len(list) == 0 {
				_, err := fmt.Fprintln(w, "no folder is trusted")
				return err
			}
			var lines [][]string
			for _, one := range list {
				var paths []string
				var last time.Time
				for path, r := range one.Definitions {
					paths = append(paths, path)
					if r.Time.After(last) {
						last = r.Time
					}
				}
				slices.Sort(paths)
				lines = append(lines, []string{plain(one.Dir), last.Local().Format(time.DateTime), plain(strings.Join(paths, ", "))})
			}
			return table(w, lines)
		})
	}
	return c
}

// folderArgument is the one optional argument of a command.
func folderArgument(args []string) (string, error) {
	switch len(args) {
	case 0:
		return "", nil
	case 1:
		return args[0], nil
	}
	return "", fmt.Errorf("got %d folders: give one, or none for the current one", len(args))
}

func (p *program) trustAdd() *cobra.Command {
	c := &cobra.Command{
		Use:   "add [dir]",
		Short: "Trust a folder with exactly what it brings along now",
		Args:  cobra.ArbitraryArgs,
	}
	hash := c.Flags().String("hash", "", "fail unless what it brings along has this `hash`, as dsh trust prints it")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		dir, err := folderArgument(args)
		if err != nil {
			return err
		}
		if *hash != "" {
			if err := trust.CheckHash(*hash); err != nil {
				return fmt.Errorf("--hash: %w", err)
			}
		}
		f, _, store, err := p.scan(cmd.Context(), dir)
		if err != nil {
			return err
		}
		if *hash != "" && f.Hash != *hash {
			return failed(fmt.Errorf("%s brings something else, with the hash %s: nothing is trusted now", f.Dir, f.Hash))
		}
		if err := store.Add(cmd.Context(), f, "dsh trust add"); err != nil {
			return failed(err)
		}
		for _, d := range f.Definitions {
			line := "trusted: " + d.Path
			if d.Problem != "" {
				line = "not trusted: " + d.Path + ": " + d.Problem
			}
			if _, err := fmt.Fprintln(p.stdout, plain(line)); err != nil {
				return failed(err)
			}
		}
		return nil
	}
	return c
}

func (p *program) trustRemove() *cobra.Command {
	return &cobra.Command{
		Use:   "remove [dir]",
		Short: "Trust a folder no longer, which need not be there any more",
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := folderArgument(args)
			if err != nil {
				return err
			}
			full, err := filepath.Abs(dir)
			if err != nil {
				return failed(fmt.Errorf("find the folder: %w", err))
			}
			dirs, err := p.home()
			if err != nil {
				return err
			}
			removed, err := trust.NewStore(dirs.State).Remove(cmd.Context(), full)
			if err == nil && !removed {
				err = errors.New(full + " was not trusted: see dsh trust list")
			}
			return failed(err)
		},
	}
}
