package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dsh-harness/dsh"
	"github.com/dsh-harness/dsh/internal/running"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/session"
)

// task holds the flags of run and resume.
type task struct {
	composition
	ruleFlags
	agent dsh.AgentOptions

	file     string
	goOn     bool
	resume   string
	fork     bool
	mode     string
	addDirs  []string
	format   string
	verbose  bool
	noAsk    bool
	print    bool // no interface, also where there is no prompt
	logFile  string
	resuming bool // the command is resume, so the last session is meant without an id
}

func (t *task) register(flags *pflag.FlagSet) {
	t.composition.register(flags)
	t.ruleFlags.register(flags)
	flags.StringVarP(&t.file, "file", "f", "", "read the prompt, or more of it, from this `file`; - is standard input")
	flags.StringVarP(&t.agent.Model, "model", "m", "", "`provider/model` to ask, see dsh models (DSH_MODEL)")
	flags.StringVar(&t.agent.Effort, "effort", "", "reasoning `effort`, one of those that the model offers")
	flags.Int64Var(&t.agent.MaxTokens, "max-tokens", 0, "ceiling of one answer in `tokens`")
	flags.IntVar(&t.agent.MaxSteps, "max-steps", 0, "end the turn after this `number` of steps")
	flags.DurationVar(&t.agent.Timeout, "timeout", 0, "end the turn after this `time`, such as 90s or 10m")
	flags.StringVar(&t.mode, "permission-mode", "", "what the agent may do without asking: `mode` is "+strings.Join(modes(), ", ")+" (DSH_PERMISSION_MODE)")
	flags.StringArrayVar(&t.addDirs, "add-dir", nil, "let the agent write in this `folder` too; may be repeated")
	flags.StringVar(&t.accept, "trust", "", "use what the folder brings along if it has exactly this `hash`, see dsh trust")
	flags.BoolVar(&t.noAsk, "no-ask", false, "ask nobody, also at a terminal: what would have to be asked about is denied")
	flags.StringVar(&t.agent.SystemPrompt, "system-prompt", "", "use this `text` in place of the base of the system prompt")
	flags.StringVar(&t.agent.SystemAppend, "append-system-prompt", "", "add this `text` to the end of the system prompt")
	flags.StringVar(&t.agent.SessionID, "session-id", "", "`id` of the new session")
	flags.BoolVar(&t.fork, "fork", false, "go on with a copy of the session, and leave it as it is")
	flags.StringVar(&t.format, "output-format", formatText, "`format` of standard output: "+strings.Join(formats(), ", "))
	flags.BoolVarP(&t.verbose, "verbose", "v", false, "tell on standard error what happens")
	flags.StringVar(&t.logFile, "log-file", "", "append diagnostics to this `file`, as JSON lines")
}

func modes() []string {
	var all []string
	for _, m := range policy.Modes() {
		all = append(all, string(m))
	}
	return all
}

func (p *program) runCommand() *cobra.Command {
	t := &task{}
	c := &cobra.Command{
		Use:   "run [flags] [prompt...]",
		Short: "Give a task to an agent, and print its answer",
		Long: `Gives a task to an agent in this folder and prints its last answer. "dsh -p" is the same.

The prompt is the arguments, then --file, then standard input, with an empty line between them. Beside a prompt a
pipe on standard input counts if its first byte or its end comes within 300 ms, and a file always.

At a terminal you are asked about what the mode and your rules leave open. Elsewhere, and with --no-ask, such a call is denied, the agent is told, and
dsh ends with 3.

Exit codes: 0 completed; 1 the turn ended with an error; 2 wrong use, nothing was sent; 3 something needed an approval
that nobody could give; 4 a budget or limit ended the turn; 130 and 143 interrupted by SIGINT and SIGTERM.`,
		Example: `  dsh run "fix the failing test"
  git diff | dsh -p "review this change"
  dsh -c "and now add a test for it"
  dsh run --output-format json --max-steps 20 --file task.md`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return p.work(cmd.Context(), t, args) },
	}
	t.register(c.Flags())
	c.Flags().BoolVarP(&t.goOn, "continue", "c", false, "go on with the last session of this folder")
	c.Flags().StringVarP(&t.resume, "resume", "r", "", "go on with the session of this `id`, or of an id that begins so")
	c.Flags().BoolVar(&t.agent.Ephemeral, "no-session", false, "keep the session in memory only")
	c.Flags().BoolVarP(&t.print, "print", "p", false, "what run does anyway; so that \"dsh -p\" can be said")
	_ = c.Flags().MarkHidden("print") // the flag is there: it was made in the line above
	return c
}

func (p *program) resumeCommand() *cobra.Command {
	t := &task{resuming: true}
	c := &cobra.Command{
		Use:   "resume [flags] [id [prompt...]]",
		Short: "Go on with a session",
		Long: `Goes on with the session of that id, or of an id that begins so; without an id, with the last session of this folder.
The prompt is what follows the id, --file, or standard input, as with "dsh run".`,
		Example: `  dsh resume 0193c5 "now the other file"
  echo "try again" | dsh resume`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				t.resume, args = args[0], args[1:]
			}
			t.goOn = t.resume == ""
			return p.work(cmd.Context(), t, args)
		},
	}
	t.register(c.Flags())
	return c
}

// check finds contradictions before anything happens.
func (t *task) check() error {
	going := t.goOn || t.resume != ""
	switch {
	case t.goOn && t.resume != "":
		return errors.New("--continue and --resume exclude each other: the one means the last session, the other names one")
	case t.fork && !going:
		return errors.New("--fork goes with --continue or --resume: it says to work on a copy of that session")
	case t.agent.Ephemeral && going:
		return errors.New("--no-session starts a session that is not kept, so it cannot go on with one")
	case t.agent.SessionID != "" && going && !t.fork:
		return errors.New("--session-id names a new session; to go on with a session under another id, add --fork")
	case t.agent.MaxSteps < 0 || t.agent.MaxTokens < 0 || t.agent.Timeout < 0:
		return errors.New("--max-steps, --max-tokens and --timeout must be above 0")
	}
	if t.agent.SessionID != "" {
		if err := session.ValidID(t.agent.SessionID); err != nil {
			return fmt.Errorf("--session-id: %w", err)
		}
	}
	if t.mode != "" {
		return oneOf("permission mode", t.mode, modes())
	}
	return nil
}

// options are those of the composition, with what the flags of the task say.
func (t *task) options(p *program) (dsh.Options, error) {
	t.asks = !t.noAsk
	o, err := t.composition.options(p)
	if err != nil {
		return o, err
	}
	dir := o.Agent.Dir
	if t.agent.AddDirs, err = folders(t.addDirs); err != nil {
		return o, err
	}
	o.Agent = t.agent
	o.Agent.Dir = dir
	if o.Agent.Model == "" && t.resume == "" && !t.goOn {
		o.Agent.Model = p.get("DSH_MODEL")
	}
	if t.mode != "" {
		o.Set = append([]string{"permission-mode.mode=" + t.mode}, o.Set...)
	}
	o.Set = append(o.Set, t.ruleFlags.sets()...)
	return o, nil
}

// work gives a prompt to an agent.
func (p *program) work(ctx context.Context, t *task, args []string) (err error) {
	if err := oneOf("output format", t.format, formats()); err != nil {
		return err
	}
	out := p.output(t)
	defer func() { err = out.settle(err) }()
	if err := t.check(); err != nil {
		return err
	}
	if t.talks(p, args) {
		return p.show(ctx, t.interfacing())
	}
	prompt, err := p.prompt(args, t.file)
	if err != nil {
		return err
	}
	o, err := t.options(p)
	if err != nil {
		return err
	}
	logger, closeLog, err := p.logger(t.verbose, t.logFile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, failed(closeLog())) }()
	o.Logger = logger
	h, err := p.start(ctx, o)
	if err != nil {
		return err
	}
	interrupted := func() int { return 0 }
	defer func() {
		wait := plugin.CleanupTimeout
		if interrupted() != 0 {
			wait = impatience // the turn is closed; nothing else is worth a wait now
		}
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), wait)
		defer cancel()
		err = errors.Join(err, failed(h.Close(bounded)))
	}()
	if err := t.choose(ctx, h, &o.Agent); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out.cancel = cancel
	if err := out.listen(h, &o.Agent); err != nil {
		return failed(err)
	}
	if interrupted, err = p.interruptible(h, cancel); err != nil {
		return failed(err)
	}
	if !t.noAsk {
		if err := p.ask(h, out.progress); err != nil {
			return failed(err)
		}
	}
	a, err := h.Open(ctx, o.Agent)
	if code := interrupted(); err != nil && code != 0 {
		return &exit{code, err}
	}
	if err != nil {
		return opening(err, o.Agent)
	}
	p.tellRecovery(a.Session().Recovery())
	if t.mode != "" && o.Agent.Resume != "" {
		if err := switchMode(ctx, h, a.Session(), policy.Mode(t.mode)); err != nil {
			return failed(err)
		}
	}
	if err := p.reloadable(h, running.Process{Dir: o.Agent.Dir, Session: a.Session().ID()}); err != nil {
		return failed(err)
	}
	result, err := a.Ask(ctx, prompt)
	return out.finish(result, err, interrupted(), o.Agent)
}

// switchMode has a resumed session go on in a mode, whatever it was switched to before.
func switchMode(ctx context.Context, h *dsh.Harness, s *session.Session, mode policy.Mode) error {
	var switched error
	node, err := h.Scope().Mount("mode", []plugin.Need{policy.ModeService.Optional()}, func(_ context.Context, scope *plugin.Scope) error {
		modes, ok := policy.ModeService.Current(scope)
		if ok && modes.Mode(s) != mode {
			switched = modes.SwitchMode(s, mode, "--permission-mode")
		}
		return nil
	})
	if err == nil {
		err = node.Settle(ctx)
	}
	return errors.Join(err, switched)
}

// opening makes an error of opening a session one that tells the person what to do.
func opening(err error, o dsh.AgentOptions) error {
	var locked *session.LockedError
	var damaged *session.DamageError
	var unknown *session.UnknownTypeError
	var newer *session.VersionError
	var full *session.StorageError
	var pathErr *fs.PathError
	switch {
	case errors.Is(err, session.ErrExists):
		return fmt.Errorf("session %s exists already: leave --session-id out, or go on with that one by dsh -r %s", o.SessionID, o.SessionID)
	case errors.As(err, &locked):
		return locked
	case errors.As(err, &damaged):
		return fmt.Errorf("%w; it can still be read with dsh sessions show %s, and dsh sessions repair %s makes a copy to go on with", damaged, o.Resume, o.Resume)
	case errors.As(err, &unknown):
		return unknown
	case errors.As(err, &newer):
		return newer
	case errors.As(err, &full), errors.As(err, &pathErr) && !errors.Is(err, fs.ErrNotExist):
		return failed(err)
	}
	return err
}

// tellRecovery says what a crash had left and what was done about it.
func (p *program) tellRecovery(r session.Recovery) {
	if r.Cut > 0 {
		p.note("the last %d bytes of the log had not been written whole and were cut off", r.Cut)
	}
	if r.Copy != "" {
		p.note("the end of the log was damaged; the log as it was is kept in %s", r.Copy)
	}
	if r.Turn > 0 {
		p.note("turn %d had been cut off and was closed; %d calls of tools got a result that says so", r.Turn, r.Calls)
	}
}

// choose finds the session to go on with.
func (t *task) choose(ctx context.Context, h *dsh.Harness, o *dsh.AgentOptions) error {
	if !t.goOn && t.resume == "" {
		return nil
	}
	stored, ok := session.PersistenceService.Current(h.Scope())
	if !ok {
		return session.ErrNoPersistence
	}
	var err error
	if t.goOn {
		o.Resume, err = lastOf(ctx, stored, o.Dir)
	} else {
		o.Resume, err = idOf(ctx, stored, t.resume)
	}
	if err != nil {
		return err
	}
	// The session knows its folder; only a folder that was asked for takes its place.
	if t.dir == "" {
		o.Dir = ""
	}
	if !t.fork {
		return nil
	}
	store, ok := session.Service.Current(h.Scope())
	if !ok {
		return errors.New("fork a session: no row provides \"sessions\"")
	}
	copied, err := store.Fork(ctx, session.ForkOptions{ID: o.Resume, NewID: o.SessionID})
	if err != nil {
		return err
	}
	o.Resume, o.SessionID = copied.ID, ""
	return nil
}

// lastOf is the session of a folder that was changed last.
func lastOf(ctx context.Context, stored session.Persistence, dir string) (string, error) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", fmt.Errorf("find the sessions of %s: %w", dir, err)
	}
	for info, err := range stored.List(ctx, session.Filter{Cwd: real, Limit: 1}) {
		if err != nil {
			return "", failed(err)
		}
		return info.Header.ID, nil
	}
	return "", fmt.Errorf("no session was started in %s: begin one with dsh run, or see dsh sessions list --all", dir)
}

// idOf finds a session by its id, or by the beginning of its id if that fits only one.
func idOf(ctx context.Context, stored session.Persistence, id string) (string, error) {
	if err := session.ValidID(id); err != nil {
		return "", err
	}
	if has, err := stored.Has(ctx, id); err != nil {
		return "", failed(err)
	} else if has {
		return id, nil
	}
	var found []string
	for info, err := range stored.List(ctx, session.Filter{IncludeArchived: true, IncludeSubagents: true}) {
		if err != nil {
			return "", failed(err)
		}
		if len(id) >= 4 && strings.HasPrefix(strings.ToLower(info.Header.ID), strings.ToLower(id)) {
			found = append(found, info.Header.ID)
		}
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("session %s: %w; see dsh sessions list --all", id, session.ErrNotFound)
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("%d sessions have an id that begins with %s: give more of it, such as %s", len(found), id, found[0])
}
