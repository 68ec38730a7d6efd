package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/dsh-harness/dsh"
	"github.com/dsh-harness/dsh/agent"
	"github.com/dsh-harness/dsh/internal/running"
)

// Exit codes of an interrupted run.
const (
	exitInterrupted = 128 + 2  // SIGINT
	exitTerminated  = 128 + 15 // SIGTERM
)

const (
	// patience is how long an interrupted run may take to close its turn.
	patience = 4800 * time.Millisecond
	// impatience is how long it may then take for all else.
	impatience = 500 * time.Millisecond
)

// interruptible has SIGINT and SIGTERM call cancel: with the first the turn is aborted
// by the user, with the second the agent is disposed. A second signal, or patience running
// out, ends the process at once. interrupted returns the exit code that the signal stands for, or 0.
func (p *program) interruptible(h *dsh.Harness, cancel func(error)) (interrupted func() int, err error) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	// Without a channel for it, a reader that has gone away would end the process in mid-turn.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	var code atomic.Int32
	err = h.Scope().Go("signals", func(life context.Context) error {
		defer signal.Stop(signals)
		select {
		case s := <-signals:
			cause := agent.CauseUser
			code.Store(exitInterrupted)
			if s == syscall.SIGTERM {
				cause = agent.CauseDisposed
				code.Store(exitTerminated)
			}
			cancel(cause)
		case <-life.Done():
			return nil
		}
		select {
		case <-signals:
		case <-time.After(patience):
			p.note("the turn did not end in time; it is closed when the session is resumed")
		case <-life.Done():
			return nil
		}
		os.Exit(int(code.Load()))
		return nil
	})
	return func() int { return int(code.Load()) }, err
}

// reloadable makes the process known, and has it answer "dsh config reload". Until then a hang-up ends it, as usual.
func (p *program) reloadable(h *dsh.Harness, process running.Process) error {
	dirs, err := p.home()
	if err != nil {
		return err
	}
	hangups := make(chan os.Signal, 1)
	return h.Scope().Go("reload", func(ctx context.Context) error {
		notifyHangup(hangups)
		defer signal.Stop(hangups)
		process.PID, process.Started = os.Getpid(), time.Now()
		e, err := running.Register(ctx, runningDir(dirs.State), process)
		if errors.Is(err, running.ErrUnsupported) || ctx.Err() != nil {
			return nil
		}
		if err != nil {
			p.note("dsh config reload will not find this process: %v", err)
			return nil
		}
		defer e.Remove()
		for {
			select {
			case <-hangups:
			case <-ctx.Done():
				return nil
			}
			report, err := h.Reload(ctx)
			if err != nil {
				p.complain(err)
			}
			if err := e.Answer(reported(report), err); err != nil {
				p.note("answer a request to reload: %v", err)
			}
		}
	})
}

// runningDir is where processes make themselves known.
func runningDir(state string) string { return filepath.Join(state, "running") }
