package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/dsh-harness/dsh"
	"github.com/dsh-harness/dsh/agent"
	"github.com/dsh-harness/dsh/config"
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/session"
)

// The formats of standard output.
const (
	formatText   = "text"        // the last answer and a line feed
	formatJSON   = "json"        // one object
	formatStream = "stream-json" // each durable event as its line in the log, then that object
)

func formats() []string { return []string{formatText, formatJSON, formatStream} }

// output is what one task writes.
type output struct {
	*program
	format   string
	progress *progress // nil when nobody watches
	told     bool      // the result was written

	mu      sync.Mutex
	broken  error       // standard output is gone
	cancel  func(error) // ends the turn when it is
	failure string      // why the last request failed, when no other has gone well since
}

func (p *program) output(t *task) *output {
	o := &output{program: p, format: t.format}
	if t.format == formatText && p.stderr.terminal || t.verbose {
		o.progress = p.newProgress(p.stderr)
		o.progress.reason = t.verbose
	}
	return o
}

// listen hears what the agent does.
func (o *output) listen(h *dsh.Harness, a *dsh.AgentOptions) error {
	if o.progress != nil {
		a.OnEvent = o.progress.event
		if err := o.progress.listen(h.Scope()); err != nil {
			return err
		}
	}
	watch := a.OnEvent
	a.OnEvent = func(e session.Event) {
		if o.format == formatStream {
			o.event(e)
		}
		o.follow(e)
		if watch != nil {
			watch(e)
		}
	}
	return nil
}

// follow keeps why requests fail, and says so to who sees nothing else of the work.
func (o *output) follow(e session.Event) {
	failure := ""
	switch e.Type {
	case session.Retry:
		var d session.RetryData
		if json.Unmarshal(e.Data, &d) != nil {
			return
		}
		failure = oneLine(d.Failure.Message, 300)
		if o.progress == nil && o.format == formatText {
			o.note("%s; trying again in %v", failure, delay(d))
		}
	case session.AssistantMessage:
	default:
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failure = failure
}

// event writes an event as it stands in the log.
func (o *output) event(e session.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.broken != nil {
		return
	}
	if _, o.broken = o.stdout.Write(slices.Concat(e.Line(), []byte("\n"))); o.broken != nil {
		o.cancel(agent.CauseUser) // nobody reads what this is done for
	}
}

// finish writes the result, and returns what the process ends with.
func (o *output) finish(r dsh.Result, err error, interrupted int, a dsh.AgentOptions) error {
	code, reason := verdict(r, err)
	if interrupted != 0 {
		code = interrupted
	}
	o.told = true
	if o.progress != nil && o.progress.end(r.Text) && o.format == formatText && o.stdout.terminal && o.stderr.terminal {
		r.Text = "" // the one terminal shows it already
	}
	if err := o.write(r); err != nil {
		return &exit{max(code, exitFailed), fmt.Errorf("write to standard output: %w", err)}
	}
	if o.format == formatText {
		o.advise(r, a)
	}
	if code == exitOK {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if code == exitLimit && o.failure != "" {
		reason = fmt.Errorf("%w; the last request had failed: %s", reason, o.failure)
	}
	return &exit{code, reason}
}

// verdict is the exit code that a result stands for, and what to say about it.
func verdict(r dsh.Result, err error) (int, error) {
	switch r.Reason {
	case session.Completed:
		if err != nil {
			return exitFailed, err
		}
	case session.Budget, session.MaxTokens:
		return exitLimit, err
	case session.Failed, session.Blocked, session.Aborted, session.Disposed, session.Interrupted:
		if r.Error != nil && unsent(r) {
			return exitUsage, err
		}
		return exitFailed, err
	default:
		return exitFailed, err
	}
	var waiting []string
	advice := "allow more with --permission-mode"
	for _, d := range r.Denied {
		if d.Unanswered {
			waiting = append(waiting, d.Tool+" ("+d.CallID+")")
			if d.Reason != "" && !strings.Contains(d.Reason, "--permission-mode") {
				advice = oneLine(d.Reason, 300) // no mode allows it, and this says what to do
			}
		}
	}
	if len(waiting) > 0 {
		return exitUnanswered, fmt.Errorf("nobody could approve %s: %s", strings.Join(waiting, ", "), advice)
	}
	return exitOK, nil
}

// unsent says whether a turn failed before anything was sent, for want of configuration.
func unsent(r dsh.Result) bool {
	switch llm.Code(r.Error.Code) {
	case llm.CodeMissingKey, llm.CodeUnknownModel, llm.CodeUnknownProvider, llm.CodeUnsupported:
		return r.Usage.Total() == 0 && r.Steps <= 1 && r.Error.Status == 0
	case llm.CodeAuth, llm.CodeQuota, llm.CodeRateLimit, llm.CodeServer, llm.CodeTimeout, llm.CodeTransport, llm.CodeStreamClosed,
		llm.CodeMalformed, llm.CodeEmpty, llm.CodeContextOverflow, llm.CodeInvalidRequest, llm.CodeRefusal, llm.CodeAborted,
		llm.CodeReplayMismatch, llm.CodeUnknown:
	}
	return false
}

// write writes the result in its format.
func (o *output) write(r dsh.Result) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.broken != nil {
		return o.broken
	}
	if o.format != formatText {
		line, err := r.MarshalJSON() // json.Marshal would escape what it holds
		if err == nil {
			_, err = o.stdout.Write(append(line, '\n'))
		}
		return err
	}
	switch r.Reason {
	case session.Completed, session.MaxTokens, session.Budget, session.Blocked:
	case session.Failed, session.Aborted, session.Disposed, session.Interrupted:
		return nil // what the model said before is no answer
	}
	text := r.Text
	if o.stdout.terminal {
		text = plain(text)
	}
	if text == "" {
		return nil
	}
	_, err := fmt.Fprintln(o.stdout, strings.TrimRight(text, "\n"))
	return err
}

// advise tells a person how to go on.
func (o *output) advise(r dsh.Result, a dsh.AgentOptions) {
	if o.stderr.terminal && !a.Ephemeral && r.Reason != "" {
		o.note("go on with: dsh -r %s \"…\"", r.SessionID)
	}
}

// settle gives programs that read JSON an object also when no turn began.
func (o *output) settle(err error) error {
	if err == nil || o.told || o.format == formatText {
		return err
	}
	r := dsh.Result{Reason: session.Failed, Error: &session.ErrorData{Code: code(err), Message: err.Error()}}
	return errors.Join(err, o.write(r))
}

// code classifies an error for programs.
func code(err error) string {
	var failure *llm.Error
	var wrong config.Errors
	var locked *session.LockedError
	var coded *exit
	switch {
	case errors.As(err, &failure):
		return string(failure.Code)
	case errors.As(err, &wrong):
		return "config"
	case errors.As(err, &locked):
		return "locked"
	case errors.As(err, &coded) && coded.code == exitFailed:
		return "failed"
	}
	return "usage"
}

// reported is what became of the rows that a reload touched, for people.
func reported(r plugin.Report) (lines []string) {
	for _, row := range r.Rows {
		switch row.Outcome {
		case plugin.RowKept, plugin.RowDisabled:
		case plugin.RowStarted, plugin.RowRestarted, plugin.RowReconfigured, plugin.RowStopped, plugin.RowPending, plugin.RowFailed:
			lines = append(lines, row.String())
		}
	}
	return lines
}
