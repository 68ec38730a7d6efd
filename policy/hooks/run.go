package hooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dsh-harness/dsh/internal/uuid7"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/workspace"
)

// Event types of the audit: each run of a hook has one [Invoked] and, when it has ended, one [Resulted].
const (
	Invoked  = "hook/invoked"
	Resulted = "hook/result"
)

// InvokedData is the data of [Invoked].
type InvokedData struct {
	ID      string `json:"id"` // of the run
	Event   string `json:"event"`
	Command string `json:"command"` // at most 500 bytes of it
	File    string `json:"file"`
	CallID  string `json:"callId,omitempty"`
}

// ResultData is the data of [Resulted].
type ResultData struct {
	ID         string `json:"id"`
	Event      string `json:"event"`
	Command    string `json:"command"`
	Decision   string `json:"decision,omitempty"` // allow, ask or deny
	Reason     string `json:"reason,omitempty"`
	ExitCode   int    `json:"exitCode"` // -1 when a signal ended it, or it did not start
	Stderr     string `json:"stderr,omitempty"`
	DurationMS int64  `json:"durationMs"`
	TimedOut   bool   `json:"timedOut,omitempty"`
	// Error says why the hook failed; OnFailure what became of that.
	Error     string `json:"error,omitempty"`
	OnFailure string `json:"onFailure,omitempty"`
	Message   string `json:"message,omitempty"` // for the person
}

const (
	// maxOutput bounds what a hook may write to its standard output: more is a failure, since what would be cut off might forbid.
	maxOutput = 1 << 20
	maxStderr = 16 << 10
	// maxLogged is how many bytes of a text the log has.
	maxLogged = 500
	// grace is what a hook has between being asked to end and being killed.
	grace = time.Second
)

// occasion is what hooks are run for.
type occasion struct {
	state     *state
	workspace workspace.Workspace
	event     event
	callID    string
	subjects  []string // by which matchers choose; none for all
	turn      int      // 0 between turns
	model     string
	add       func(style Style, told map[string]any) // puts in what the event tells
	limit     time.Duration                          // bounds each hook, 0 for its own timeout only
}

// hooks returns the hooks to be run.
func (o *occasion) hooks(ctx context.Context) []*hook {
	return o.state.matching(ctx, o.dir(), o.event, o.subjects...)
}

// dir returns the folder of the session, "" when it has none.
func (o *occasion) dir() string {
	if o.workspace == nil {
		return ""
	}
	return o.workspace.Dir()
}

// run runs one hook, and keeps what became of it in the log.
func (o *occasion) run(ctx context.Context, k *hook) outcome {
	if k.broken != nil {
		return outcome{decision: deny, reasons: []string{fmt.Sprintf("a hook file that must hold cannot be used: %v", k.broken)}}
	}
	if k.background {
		err := o.state.h.scope.Go("hook "+head(k.command), func(life context.Context) error {
			_ = o.ask(life, k) // it is in the log; nobody waits for it
			return nil
		})
		if err != nil {
			o.state.h.scope.Log().Warn("a hook is not run", "command", head(k.command), "err", err)
		}
		return outcome{}
	}
	return o.ask(ctx, k)
}

// ask runs a hook to its end.
func (o *occasion) ask(ctx context.Context, k *hook) outcome {
	log := o.state.h.scope.Log()
	id, err := o.invoked(k)
	if err != nil {
		log.Warn("a hook is not in the log", "event", string(o.event), "command", head(k.command), "err", err)
	}
	ended := o.execute(ctx, k)
	out, err := ended.outcome(o.event)
	data := ResultData{
		ID: id, Event: string(o.event), Command: head(k.command), ExitCode: ended.result.Code, Stderr: head(string(ended.stderr)),
		DurationMS: ended.result.Duration.Milliseconds(), TimedOut: ended.result.TimedOut,
	}
	if err != nil {
		data.Error, data.OnFailure = head(err.Error()), string(k.onFailure)
		log.Warn("a hook failed", "event", string(o.event), "command", head(k.command), "err", err, "on_failure", string(k.onFailure))
		if k.onFailure == blockOnFailure && out.decision != deny && o.event != stop {
			out = outcome{decision: deny, reasons: []string{fmt.Sprintf("the hook %q failed, and must not: %v", head(k.command), err)}}
		}
	} else if out.noise {
		log.Warn("a hook wrote more than its answer", "event", string(o.event), "command", head(k.command))
	}
	data.Decision, data.Reason, data.Message = out.decision.String(), head(out.reason("")), head(strings.Join(out.messages, "\n"))
	for _, m := range out.messages {
		log.Warn("a hook says", "event", string(o.event), "message", m)
	}
	if err := o.state.append(Resulted, data); err != nil {
		log.Warn("the end of a hook is not in the log", "event", string(o.event), "command", head(k.command), "err", err)
	}
	return out
}

// payload is what a hook reads.
func (o *occasion) payload(style Style) map[string]any {
	told := map[string]any{"session_id": "", "cwd": o.dir(), "hook_event_name": o.event, "permission_mode": "default"}
	if o.state.session != nil {
		told["session_id"] = o.state.session.ID()
		if modes, ok := policy.ModeService.Current(o.state.h.scope); ok {
			told["permission_mode"] = foreignMode(modes.Mode(o.state.session))
		}
	}
	// Commands cannot read the log, so there is nothing to name.
	switch style {
	case Claude:
		told["transcript_path"] = ""
	case Codex:
		told["transcript_path"], told["model"] = nil, o.model
		if o.turn > 0 {
			told["turn_id"] = strconv.Itoa(o.turn)
		}
	}
	o.add(style, told)
	return told
}

// invoked logs the start of a hook, and names the run.
func (o *occasion) invoked(k *hook) (id string, err error) {
	if o.state.session == nil {
		return "", nil
	}
	id = uuid7.New()
	return id, o.state.append(Invoked, InvokedData{ID: id, Event: string(o.event), Command: head(k.command), File: k.file, CallID: o.callID})
}

func (st *state) append(kind string, data any) error {
	if st.session == nil {
		return nil
	}
	_, err := st.session.Append(session.Draft{Type: kind, Data: data})
	return err
}

// ending is how a hook ended.
type ending struct {
	result         workspace.Result
	stdout, stderr []byte
	overflow       bool
	err            error
}

// execute runs the command of a hook.
func (o *occasion) execute(ctx context.Context, k *hook) ending {
	e := ending{result: workspace.Result{Code: -1}}
	if o.workspace == nil {
		e.err = errors.New("the agent has no folder to run it in")
		return e
	}
	stdin, err := json.Marshal(o.payload(k.style))
	if err != nil {
		e.err = fmt.Errorf("encode what it is told: %w", err)
		return e
	}
	if k.style == Claude {
		stdin = append(stdin, '\n')
	}
	timeout := k.timeout
	if o.limit > 0 {
		timeout = min(timeout, o.limit)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if k.unconfined {
		ctx = context.WithValue(ctx, unconfinedKey{}, k.file)
	}
	e.result, e.err = o.workspace.Exec().Run(ctx, workspace.Command{
		Args: k.line(o.workspace.Dir()), Env: []string{"CLAUDE_PROJECT_DIR=" + o.workspace.Dir()}, Stdin: stdin, Timeout: timeout, Grace: grace,
		Output: func(p []byte, stderr bool) {
			switch {
			case stderr:
				e.stderr = append(e.stderr, p[:min(len(p), maxStderr-len(e.stderr))]...)
			case len(e.stdout)+len(p) > maxOutput:
				e.overflow = true
				cancel()
			default:
				e.stdout = append(e.stdout, p...)
			}
		},
	})
	if e.err != nil {
		e.result.Code = -1
	}
	return e
}

// line returns the program and its arguments: a shell without anybody's profile, unless the hook names a program.
func (k *hook) line(dir string) []string {
	if k.args == nil {
		if _, err := exec.LookPath("bash"); err == nil {
			return []string{"bash", "--noprofile", "--norc", "-c", k.command}
		}
		return []string{"sh", "-c", k.command}
	}
	line := append([]string{k.command}, k.args...)
	for i := range line {
		line[i] = strings.ReplaceAll(line[i], "${CLAUDE_PROJECT_DIR}", dir)
	}
	return line
}

// outcome says what a hook meant by how it ended. A block that it wrote holds also when it failed.
func (e *ending) outcome(on event) (outcome, error) {
	switch {
	case e.overflow:
		return outcome{}, fmt.Errorf("it wrote more than %d bytes", maxOutput)
	case e.err != nil:
		return outcome{}, fmt.Errorf("it did not run: %w", e.err)
	case e.result.TimedOut:
		return e.blocked(on), fmt.Errorf("it took longer than its timeout and was ended after %v", e.result.Duration.Round(10*time.Millisecond))
	case e.result.Canceled:
		return outcome{}, errors.New("it was cancelled")
	case e.result.Signal != "":
		return e.blocked(on), fmt.Errorf("%s ended it", e.result.Signal)
	case e.result.Code == 2:
		if on == sessionStart || on == sessionEnd {
			return outcome{}, fmt.Errorf("it ended with 2, and %s cannot be blocked", on)
		}
		o := outcome{decision: deny}
		if text := strings.TrimSpace(strings.ToValidUTF8(string(e.stderr), "\ufffd")); text != "" {
			o.reasons = []string{text}
		}
		return o, nil
	case e.result.Code != 0:
		return e.blocked(on), fmt.Errorf("it ended with %d", e.result.Code)
	}
	return understand(on, e.stdout)
}

// blocked returns the block that a hook wrote before it failed, if it did.
func (e *ending) blocked(on event) outcome {
	if o, err := understand(on, e.stdout); err == nil && o.decision == deny {
		return outcome{decision: deny, reasons: o.reasons}
	}
	return outcome{}
}

// head returns the beginning of a text for the log.
func head(text string) string {
	text = strings.ToValidUTF8(text, "\ufffd")
	if len(text) <= maxLogged {
		return text
	}
	end := maxLogged - len("…")
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

type unconfinedKey struct{}

// unconfine lets a hook run without a sandbox whose file, the person's own, says so.
func unconfine(ctx context.Context, c *workspace.Confinement, next plugin.Next[*workspace.Confinement, *workspace.Confinement]) (*workspace.Confinement, error) {
	if file, ok := ctx.Value(unconfinedKey{}).(string); ok {
		c.Unconfined = "a hook in " + file
	}
	return next(ctx, c)
}
