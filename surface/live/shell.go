package live

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/dsh-harness/dsh/internal/uuid7"
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/protocol"
	"github.com/dsh-harness/dsh/workspace"
)

const (
	// shellTime bounds a command that a person typed.
	shellTime = 30 * time.Minute
	// maxShellOutput bounds what is kept of its output, from the end, in bytes.
	maxShellOutput = 32 << 10
)

// Shell runs a command line that the person typed, in the session's folder. Nobody is asked about it, since a person wrote it, but it is
// confined as the agent's commands are. Where there is no sandbox nothing confines it, as an agent's command that a person allows there. Its output comes live to the watches, as that of the call "shell-…", and is told to the model with
// the next prompt. Cancelling ctx ends the command.
func (s *Session) Shell(ctx context.Context, p protocol.ShellParams) (protocol.ShellResult, error) {
	if strings.TrimSpace(p.Command) == "" {
		return protocol.ShellResult{}, errors.New("run a command: it is empty")
	}
	f, err := s.awake(ctx)
	if err != nil {
		return protocol.ShellResult{}, err
	}
	w := f.agent.Workspace()
	if w == nil {
		return protocol.ShellResult{}, errors.New("run a command: the session has no folder")
	}
	id := "shell-" + uuid7.New()
	f.beginOutput(id)
	defer f.endOutput(id)
	var kept []byte
	cut := false
	c := workspace.Command{
		Merged: true, Timeout: shellTime,
		Output: func(b []byte, _ bool) {
			text := strings.ToValidUTF8(string(b), "\uFFFD")
			f.output(id, text)
			kept = append(kept, text...)
			if over := len(kept) - maxShellOutput; over > 0 {
				kept = append(kept[:0], kept[over:]...)
				cut = true
			}
		},
	}
	var ended workspace.Result
	for _, shell := range []string{"bash", "sh"} {
		c.Args = []string{shell, "-c", p.Command}
		if ended, err = w.Exec().Run(ctx, c); !errors.Is(err, exec.ErrNotFound) {
			break
		}
	}
	if err != nil {
		return protocol.ShellResult{}, fmt.Errorf("run %q: %w", p.Command, err)
	}
	result := protocol.ShellResult{Output: strings.ToValidUTF8(string(kept), ""), Code: ended.Code, Signal: ended.Signal, Cut: cut}
	if r, ok := policy.Redaction.Current(f.entry.hub.scope); ok {
		result.Output = r.Redact(result.Output)
	}
	told := fmt.Sprintf("The user ran this command:\n\n$ %s\n%s\n[exit code %d]", p.Command, strings.TrimRight(result.Output, "\n"), result.Code)
	m := llm.UserText(told)
	m.Source = llm.Source{Kind: "user", Form: "shell"}
	return result, f.agent.Inject(context.WithoutCancel(ctx), m)
}
