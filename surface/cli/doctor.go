package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/dsh-harness/dsh"
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/workspace"
)

const (
	// probeWait bounds the request that finds out whether the model answers.
	probeWait = 20 * time.Second
	// lowDisk is the free space in bytes below which a session may not fit any more.
	lowDisk = 100 << 20
)

// finding is what doctor found out about one thing.
type finding struct {
	Check  string `json:"check"`
	OK     bool   `json:"ok"`
	Note   bool   `json:"note,omitempty"` // nothing is wrong, but there is something to know
	Detail string `json:"detail"`
	Advice string `json:"advice,omitempty"` // what to do
}

func (p *program) doctorCommand() *cobra.Command {
	composition := &composition{}
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Find out what works here and what does not, and what to do",
		Long: `Checks the configuration, the plugins, the folders and the disk, the key, the model, and how commands are confined.
To find out whether the model answers it sends one short request, which costs a few tokens; --offline leaves that out.`,
		Args: exactly(0),
	}
	composition.register(c.Flags())
	asJSON := c.Flags().Bool("json", false, "write JSON")
	offline := c.Flags().Bool("offline", false, "send nothing")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		findings := p.examine(cmd.Context(), composition, *offline)
		bad := 0
		for _, f := range findings {
			if !f.OK {
				bad++
			}
		}
		err := p.print(*asJSON, findings, func(w io.Writer) error { return p.writeFindings(w, findings) })
		if err == nil && bad > 0 {
			err = failed(fmt.Errorf("%d of %d checks found something to do", bad, len(findings)))
		}
		return err
	}
	return c
}

func (p *program) writeFindings(w io.Writer, findings []finding) error {
	paint := p.painter(p.stdout).paint
	for _, f := range findings {
		mark := paint(green, "ok  ")
		switch {
		case !f.OK:
			mark = paint(red, "BAD ")
		case f.Note:
			mark = paint(yellow, "note")
		}
		if _, err := fmt.Fprintf(w, "%s %-14s %s\n", mark, f.Check, oneLine(f.Detail, 300)); err != nil {
			return err
		}
		if f.Advice != "" {
			if _, err := fmt.Fprintf(w, "     %-14s %s\n", "", f.Advice); err != nil {
				return err
			}
		}
	}
	return nil
}

// examine checks one thing after the other. What cannot be checked because of an earlier finding is left out.
func (p *program) examine(ctx context.Context, c *composition, offline bool) []finding {
	var all []finding
	add := func(check string, err error, detail, advice string) bool {
		f := finding{Check: check, OK: err == nil, Detail: detail}
		if err != nil {
			f.Detail, f.Advice = err.Error(), advice
		}
		all = append(all, f)
		return err == nil
	}
	note := func(check, detail, advice string) {
		all = append(all, finding{Check: check, OK: true, Note: true, Detail: detail, Advice: advice})
	}
	dirs, err := p.home()
	if !add("folders", err, fmt.Sprintf("config %s, state %s", dirs.Config, dirs.State), "") {
		return all
	}
	add("state folder", writable(dirs.State), "can be written", "sessions cannot be kept: mend the folder, or name another with DSH_STATE")
	free, err := freeSpace(existing(dirs.State))
	if err == nil && free < lowDisk {
		err = fmt.Errorf("only %d MB are free in %s", free>>20, dirs.State)
	}
	if !errors.Is(err, errors.ErrUnsupported) {
		add("disk", err, fmt.Sprintf("%d MB are free", free>>20), "make room: a log that cannot be written ends its turn")
	}
	o, composed, err := c.compose(p)
	if err == nil {
		add("configuration", nil, fmt.Sprintf("%d rows from %d layers", len(composed.Rows()), len(composed.Layers())), "")
	} else {
		add("configuration", err, "", "mend the file, then look with dsh config check")
		return all
	}
	h, err := dsh.New(ctx, o)
	if err != nil {
		add("plugins", err, "", "look with dsh config check, and with dsh plugins list")
		return all
	}
	defer func() {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), plugin.CleanupTimeout)
		defer cancel()
		if err := h.Close(bounded); err != nil {
			p.complain(err)
		}
	}()
	running := 0
	for _, row := range h.Started().Rows {
		switch row.Outcome {
		case plugin.RowFailed, plugin.RowPending:
			add("plugins", errors.New(row.String()), "", "look with dsh plugins show "+row.Plugin)
		case plugin.RowStarted, plugin.RowKept, plugin.RowRestarted, plugin.RowReconfigured:
			running++
		case plugin.RowStopped, plugin.RowDisabled:
		}
	}
	add("plugins", nil, fmt.Sprintf("%d run", running), "")
	p.examineSessions(ctx, h, add)
	p.examineSandbox(ctx, h, o.Agent.Dir, add, note)
	p.examineModel(ctx, h, offline, add)
	terminal := "standard output is a terminal"
	if !p.stdout.terminal {
		terminal = "standard output is no terminal: no colours, no progress"
	}
	add("terminal", nil, terminal, "")
	return all
}

type adder = func(check string, err error, detail, advice string) bool

func (p *program) examineSessions(ctx context.Context, h *dsh.Harness, add adder) {
	store, err := storageOf(h)
	if err != nil {
		add("sessions", err, "", "")
		return
	}
	count := 0
	var damaged error
	for info, err := range store.kept.List(ctx, session.Filter{IncludeArchived: true, IncludeSubagents: true}) {
		if err == nil {
			err = info.Err
		}
		if err != nil {
			damaged = errors.Join(damaged, err)
		}
		count++
	}
	add("sessions", damaged, fmt.Sprintf("%d are stored", count), "look with dsh sessions verify")
}

func (p *program) examineSandbox(ctx context.Context, h *dsh.Harness, dir string, add adder, note func(check, detail, advice string)) {
	provider, ok := workspace.Service.Current(h.Scope())
	if !ok {
		add("commands", errors.New(`no row provides "workspace": agents have neither files nor commands`), "", "add the row workspace-local")
		return
	}
	w, err := provider.Open(ctx, h.Scope(), workspace.Options{Dir: dir})
	if err != nil {
		add("commands", err, "", "")
		return
	}
	_, err = w.Exec().Run(ctx, workspace.Command{Args: []string{"sh", "-c", ":"}, Timeout: 10 * time.Second})
	switch level, why := w.Sandbox(); {
	case err != nil:
		add("commands", err, "", "")
	case level == workspace.SandboxNone:
		note("commands", "nothing confines commands here: "+why, unconfinedAdvice)
	case level == workspace.SandboxPartial:
		note("commands", "commands are confined in part only: "+why, unconfinedAdvice)
	default:
		add("commands", nil, "commands run in a sandbox: they write in the folder alone, see no keys, and reach no host that no rule allows", "")
	}
}

// unconfinedAdvice says what follows where no full sandbox is.
const unconfinedAdvice = "each command that no rule allows is asked about at a terminal, and denied where nobody is"

func (p *program) examineModel(ctx context.Context, h *dsh.Harness, offline bool, add adder) {
	runtime, ok := llm.Service.Current(h.Scope())
	if !ok {
		add("model", errors.New(`no row provides "llm"`), "", "add the row llm")
		return
	}
	m, err := runtime.Resolve(h.Scope(), p.get("DSH_MODEL"))
	if err != nil {
		add("model", err, "", "see dsh models")
		return
	}
	if provider, ok := llm.Providers.Get(h.Scope(), m.Provider); ok && provider.Ready != nil {
		if !add("key", provider.Ready(), "there is one for "+m.Provider, "") {
			return
		}
	}
	if offline {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, probeWait)
	defer cancel()
	began := time.Now()
	hello := llm.UserText("Say ok.")
	request := &llm.Request{
		Header:  &llm.Header{Provider: m.Provider, Model: m.ID, Params: llm.Params{MaxTokens: 16}},
		History: llm.NewHistory(&hello),
		Purpose: "doctor",
	}
	for _, err = range runtime.Stream(ctx, h.Scope(), request) {
		if err != nil {
			break
		}
	}
	add("model", err, fmt.Sprintf("%s answered in %v", m.Ref(), time.Since(began).Round(time.Millisecond)), "")
}

// existing is the nearest folder above path, or path itself, that is there.
func existing(path string) string {
	for {
		if _, err := os.Stat(path); err == nil || filepath.Dir(path) == path {
			return path
		}
		path = filepath.Dir(path)
	}
}

// writable makes sure that files can be made in dir, which may have to be made itself.
func writable(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".doctor-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}
