package cli

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/dsh-harness/dsh"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/protocol"
	"github.com/dsh-harness/dsh/surface/acp"
	"github.com/dsh-harness/dsh/surface/live"
)

// host holds the flags of a process that keeps sessions for clients.
type host struct {
	composition
	ruleFlags
	agent   dsh.AgentOptions
	mode    string
	addDirs []string
	verbose bool
	logFile string
}

func (o *host) register(flags *pflag.FlagSet) {
	o.composition.register(flags)
	o.ruleFlags.register(flags)
	flags.StringVarP(&o.agent.Model, "model", "m", "", "`provider/model` that sessions ask which choose none, see dsh models (DSH_MODEL)")
	flags.StringVar(&o.agent.Effort, "effort", "", "reasoning `effort` of theirs, one of those that the model offers")
	flags.IntVar(&o.agent.MaxSteps, "max-steps", 0, "end a turn after this `number` of steps")
	flags.DurationVar(&o.agent.Timeout, "timeout", 0, "end a turn after this `time`, such as 90s or 10m")
	flags.StringVar(&o.mode, "permission-mode", "", "what agents may do without asking: `mode` is "+strings.Join(modes(), ", ")+" (DSH_PERMISSION_MODE)")
	flags.StringArrayVar(&o.addDirs, "add-dir", nil, "let agents write in this `folder` too; may be repeated")
	flags.StringVar(&o.accept, "trust", "", "use what the folder brings along if it has exactly this `hash`, see dsh trust")
	flags.BoolVarP(&o.verbose, "verbose", "v", false, "tell on standard error what happens")
	flags.StringVar(&o.logFile, "log-file", "", "append diagnostics to this `file`, as JSON lines")
}

// options are those of the composition, with what the flags say.
func (o *host) options(p *program) (dsh.Options, error) {
	switch {
	case o.agent.MaxSteps < 0 || o.agent.Timeout < 0:
		return dsh.Options{}, errors.New("--max-steps and --timeout must be above 0")
	case o.mode != "":
		if err := oneOf("permission mode", o.mode, modes()); err != nil {
			return dsh.Options{}, err
		}
	}
	all, err := o.composition.options(p)
	if err != nil {
		return all, err
	}
	dir := all.Agent.Dir
	if o.agent.AddDirs, err = folders(o.addDirs); err != nil {
		return all, err
	}
	all.Agent = o.agent
	all.Agent.Dir = dir
	if all.Agent.Model == "" {
		all.Agent.Model = p.get("DSH_MODEL")
	}
	if o.mode != "" {
		all.Set = append([]string{"permission-mode.mode=" + o.mode}, all.Set...)
	}
	all.Set = append(all.Set, o.ruleFlags.sets()...)
	return all, nil
}

// hosted is a composition that runs, with the sessions' hub on it.
type hosted struct {
	harness  *dsh.Harness
	hub      *live.Hub
	logger   *slog.Logger
	defaults dsh.AgentOptions // of sessions that choose nothing
}

// host runs use on a composition with a hub. Questions wait for that long for somebody to open their session. When ctx ends, or a signal
// comes, the context of use ends; what runs then is closed as an interrupted run is.
func (p *program) host(ctx context.Context, o *host, wait time.Duration, set []string, use func(ctx context.Context, h hosted) error) (err error) {
	options, err := o.options(p)
	if err != nil {
		return err
	}
	options.Set = append(options.Set, set...)
	logger, closeLog, err := p.logger(o.verbose, o.logFile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, failed(closeLog())) }()
	options.Logger = logger
	h, err := p.start(ctx, options)
	if err != nil {
		return err
	}
	interrupted := func() int { return 0 }
	var hub *live.Hub
	defer func() {
		bound := plugin.CleanupTimeout
		if interrupted() != 0 {
			bound = patience
		}
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), bound)
		defer cancel()
		if hub != nil {
			err = errors.Join(err, failed(hub.Close(bounded)))
		}
		err = errors.Join(err, failed(h.Close(bounded)))
		if code := interrupted(); code != 0 {
			err = &exit{code, err}
		}
	}()
	defaults := options.Agent
	hub, err = live.New(live.Options{Harness: h, Defaults: defaults, Wait: wait, Version: thisBuild().Version, Logger: logger})
	if err != nil {
		return failed(err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if interrupted, err = p.interruptible(h, cancel); err != nil {
		return failed(err)
	}
	err = use(ctx, hosted{h, hub, logger, defaults})
	if interrupted() != 0 {
		return nil // the code says it
	}
	return failed(err)
}

// connection is how a client is served.
func (p *program) connection(o *host, h hosted) acp.Options {
	return acp.Options{
		Hub: h.hub, Version: thisBuild().Version, Logger: h.logger,
		Doctor: func(ctx context.Context) (protocol.DoctorResult, error) {
			r := protocol.DoctorResult{Findings: []protocol.Finding{}}
			for _, f := range p.examine(ctx, &o.composition, true) {
				r.Findings = append(r.Findings, protocol.Finding{Check: f.Check, OK: f.OK, Detail: f.Detail, Advice: f.Advice})
			}
			return r, nil
		},
		Config: func(context.Context) (protocol.ConfigResult, error) {
			text, err := h.harness.Composition().Show()
			return protocol.ConfigResult{Text: text}, err
		},
	}
}
