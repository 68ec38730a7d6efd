// Package shell gives the model a shell: the tool bash. Its plugin adds it to [tool.Tools].
//
// Every call is a new shell that a workspace runs and ends. The model gets plain text:
// what programs write for terminals is taken out, progress that overwrites itself shows
// its last state. Output of any length costs bounded memory: its two ends are kept, and
// the raw bytes go to a file in the session's folder spill, or in the workspace's
// temporary folder when nothing keeps the session.
//
// The tool may be used by many agents at once.
package shell

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/tool"
	"github.com/dsh-harness/dsh/workspace"
)

// Config is the configuration of [Plugin].
type Config struct {
	TimeoutMS    int `json:"timeoutMs" doc:"After how many milliseconds a command is ended, when the call does not say."`
	MaxTimeoutMS int `json:"maxTimeoutMs" doc:"The longest time that a call may ask for, in milliseconds."`
	GraceMS      int `json:"graceMs" doc:"How many milliseconds a command has between being asked to end and being killed."`
	OutputBytes  int `json:"outputBytes" doc:"How many bytes of output the model gets: a third from its beginning, the rest from its end."`
	SpillBytes   int `json:"spillBytes" doc:"How many bytes of longer output are kept in a file."`
}

const leastTimeout = 1000 // in ms; what is less was meant in seconds

// Validate refuses limits that no command could keep.
func (c Config) Validate() error {
	switch {
	case c.TimeoutMS < leastTimeout:
		return fmt.Errorf("timeoutMs is %d: it must be at least %d", c.TimeoutMS, leastTimeout)
	case c.MaxTimeoutMS < c.TimeoutMS:
		return fmt.Errorf("maxTimeoutMs is %d: it must be at least timeoutMs, which is %d", c.MaxTimeoutMS, c.TimeoutMS)
	case c.GraceMS < 1:
		return fmt.Errorf("graceMs is %d: it must be at least 1", c.GraceMS)
	case c.OutputBytes < 1000:
		return fmt.Errorf("outputBytes is %d: it must be at least 1000", c.OutputBytes)
	case c.SpillBytes < 0:
		return fmt.Errorf("spillBytes is %d: it cannot be negative", c.SpillBytes)
	}
	return nil
}

// Plugin adds the tool bash.
//
//	# cordis.yml
//	- id: shell
//	  plugin: tools-shell
//	  config:
//	    timeoutMs: 120000
//	    maxTimeoutMs: 600000
//	    graceMs: 2000
//	    outputBytes: 30000
//	    spillBytes: 67108864
var Plugin = plugin.Plugin[Config]{
	Name: "tools-shell",
	Doc:  "The tool bash: commands with bounded time and output, of which nothing is left running.",
	Default: func() Config {
		return Config{TimeoutMS: 120_000, MaxTimeoutMS: 600_000, GraceMS: 2000, OutputBytes: 30_000, SpillBytes: 64 << 20}
	},
	Needs: []plugin.Need{policy.Redaction.Optional()},
	Start: func(_ context.Context, s *plugin.Scope, config Config) error {
		return tool.Add(s, (&shell{config: config, scope: s}).tool())
	},
}

//go:embed bash.md
var doc string

type input struct {
	Command     string `json:"command"`
	Description string `json:"description,omitempty" doc:"What it is for, in a few words."`
	Timeout     int    `json:"timeout,omitempty" doc:"In milliseconds, e.g. 300000."`
	Workdir     string `json:"workdir,omitempty" doc:"Another folder to run in, relative or absolute."`
}

type shell struct {
	config Config
	scope  *plugin.Scope
	// plain is set where there is no bash, so that sh has to do.
	plain atomic.Bool
}

func (sh *shell) tool() tool.Definition {
	longest := time.Duration(sh.config.MaxTimeoutMS+sh.config.GraceMS) * time.Millisecond
	return tool.New(tool.Spec{
		Name:        "bash",
		Description: strings.TrimSpace(doc) + fmt.Sprintf(" A command may take %d s, or up to %d s with timeout.", sh.config.TimeoutMS/1000, sh.config.MaxTimeoutMS/1000),
		Effect:      session.EffectUnknown,
		Timeout:     longest + 15*time.Second, // the workspace ends the command before
		Present:     present,
		Access: func(c *tool.Call) []tool.Access {
			var in input
			_ = json.Unmarshal(c.Arguments, &in) // valid arguments decode
			return []tool.Access{{Kind: tool.AccessExecute, Target: in.Command}}
		},
	}, sh.run)
}

// Outcome is what bash tells surfaces about a command, as the meta of its result. The
// facts are independent of each other.
type Outcome struct {
	ExitCode   int    `json:"exitCode"` // -1 when a signal ended the shell
	Signal     string `json:"signal,omitempty"`
	TimedOut   bool   `json:"timedOut,omitempty"`
	Canceled   bool   `json:"canceled,omitempty"`
	Leftover   int    `json:"leftover,omitempty"` // processes that were ended with the shell
	DurationMS int64  `json:"durationMs"`
	Bytes      int64  `json:"bytes"`           // that the command wrote
	Spill      string `json:"spill,omitempty"` // the file with the raw output, but for secrets

	Sandbox workspace.SandboxLevel `json:"sandbox,omitempty"`
	Refused []workspace.Refusal    `json:"refused,omitempty"` // by the sandbox
	Limit   string                 `json:"limit,omitempty"`   // that ended something
}

// redactor returns who keeps secrets from files, nil when nobody does.
func (sh *shell) redactor() policy.Redactor {
	r, _ := policy.Redaction.Current(sh.scope)
	return r
}

// codeNoFolder tells that the folder to run in does not exist.
const codeNoFolder = "no-folder"

func (sh *shell) run(ctx context.Context, c *tool.Call, in input) (tool.Result, error) {
	if c.Workspace == nil {
		return tool.Result{}, errors.New("bash: this agent has no workspace")
	}
	if strings.TrimSpace(in.Command) == "" {
		return tool.Failure(tool.CodeInvalidArgs, "command is empty"), nil
	}
	timeout := in.Timeout
	switch {
	case timeout == 0:
		timeout = sh.config.TimeoutMS
	case timeout < leastTimeout:
		return tool.Failure(tool.CodeInvalidArgs, fmt.Sprintf("timeout is in milliseconds: %d is less than the least, %d", timeout, leastTimeout)), nil
	}
	timeout = min(timeout, sh.config.MaxTimeoutMS)
	third := sh.config.OutputBytes / 3
	out := &output{
		ends:  ends{headMax: third, tailMax: sh.config.OutputBytes - third},
		spill: spill{call: c, limit: int64(sh.config.SpillBytes), redactor: sh.redactor()},
		live:  live{send: c.Progress},
	}
	ended, err := sh.start(ctx, c.Workspace.Exec(), workspace.Command{
		Dir:     in.Workdir,
		Merged:  true,
		Output:  func(p []byte, _ bool) { out.write(p) },
		Timeout: time.Duration(timeout) * time.Millisecond,
		Grace:   time.Duration(sh.config.GraceMS) * time.Millisecond,
	}, in.Command)
	text, file := out.close()
	if err != nil {
		if out.bytes == 0 {
			text = ""
		}
		return failed(err, text), nil
	}
	result := tool.Text(text + facts(ended, timeout))
	result.Refused = ended.Refused
	result.Meta = Outcome{
		ExitCode: ended.Code, Signal: ended.Signal, TimedOut: ended.TimedOut, Canceled: ended.Canceled, Leftover: ended.Leftover,
		DurationMS: ended.Duration.Milliseconds(), Bytes: out.bytes, Spill: file,
		Sandbox: ended.Sandbox, Refused: ended.Refused, Limit: ended.Limit,
	}
	if ended.Canceled {
		result.IsError = true
		result.Error = &session.ToolErrorData{Name: "ToolError", Code: tool.CodeAborted}
	}
	return result, nil
}

// start runs the script in bash, or in sh where there is none.
func (sh *shell) start(ctx context.Context, on workspace.Exec, c workspace.Command, script string) (workspace.Result, error) {
	if !sh.plain.Load() {
		c.Args = []string{"bash", "-c", script}
		result, err := on.Run(ctx, c)
		if !errors.Is(err, exec.ErrNotFound) {
			return result, err
		}
		sh.plain.Store(true)
	}
	c.Args = []string{"sh", "-c", script}
	return on.Run(ctx, c)
}

// failed is the result of a command that did not run, or not under control.
func failed(err error, text string) tool.Result {
	code := tool.CodeFailed
	if errors.Is(err, workspace.ErrNoFolder) {
		code = codeNoFolder
	}
	result := tool.Failure(code, err.Error())
	if text != "" {
		result.Content = append([]llm.Block{llm.Text(text)}, result.Content...)
	}
	return result
}

// facts tells how the command ended, one fact a line.
func facts(r workspace.Result, timeout int) string {
	var lines []string
	add := func(format string, a ...any) { lines = append(lines, "["+fmt.Sprintf(format, a...)+"]") }
	if r.TimedOut {
		add("timed out after %g s and was ended, with everything that it started; a longer timeout can be asked for", float64(timeout)/1000)
	}
	if r.Canceled {
		add("canceled, and ended with everything that it started")
	}
	if r.Leftover > 0 && !r.TimedOut && !r.Canceled {
		add("%d of its processes still ran at its end and were ended", r.Leftover)
	}
	if r.Limit != "" {
		add("a limit of the sandbox was reached: %s", r.Limit)
	}
	for _, refused := range r.Refused {
		switch refused.Kind {
		case workspace.RefusedNetwork:
			add("the sandbox let it not reach %s: %s", refused.Target, refused.Rule)
		case workspace.RefusedWrite:
			add("the sandbox let it not write %s", refused.Target)
		}
	}
	if r.Sandbox == workspace.SandboxPartial {
		add("it ran in a partial sandbox, without any network")
	}
	if r.Signal != "" {
		add("ended by %s, as exit code %d", r.Signal, 128+signalNumber(r.Signal))
	} else {
		add("exit code %d", r.Code)
	}
	return strings.Join(lines, "\n")
}
