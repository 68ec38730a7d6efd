//go:build unix

package acceptance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dsh-harness/dsh/internal/testllm"
)

// patience is how long a test waits for what must happen.
const patience = 30 * time.Second

// live is a dsh that runs.
type live struct {
	t      *testing.T
	cmd    *exec.Cmd
	stderr bytes.Buffer
	done   chan struct{} // closed when it has ended

	mu      sync.Mutex
	events  []event
	lines   []string
	arrived chan struct{} // closed and replaced at each event
	ended   time.Time
	err     error
}

// start begins a run that tells its events. It is killed with the test.
func (p *place) start(args ...string) *live {
	p.t.Helper()
	args = append([]string{"run", "--permission-mode", "full-access", "--output-format", "stream-json"}, args...)
	return p.startWith(nil, args...)
}

func (p *place) startWith(stdin io.Reader, args ...string) *live {
	p.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l := &live{t: p.t, cmd: p.command(ctx, args...), done: make(chan struct{}), arrived: make(chan struct{})}
	l.cmd.Stdin, l.cmd.Stderr = stdin, &l.stderr
	out, err := l.cmd.StdoutPipe()
	check(p.t, err)
	check(p.t, l.cmd.Start())
	go l.follow(out)
	p.t.Cleanup(func() {
		cancel()
		<-l.done
	})
	return l
}

func (l *live) follow(out io.Reader) {
	defer close(l.done)
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil { // half a line is no event
			break
		}
		var e event
		if json.Unmarshal(line, &e) != nil {
			continue
		}
		l.mu.Lock()
		l.events, l.lines = append(l.events, e), append(l.lines, string(line))
		close(l.arrived)
		l.arrived = make(chan struct{})
		l.mu.Unlock()
	}
	err := l.cmd.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended, l.err = time.Now(), err
}

// event returns once the run has told an event of that type.
func (l *live) event(kind string) {
	l.t.Helper()
	late := time.After(patience)
	for {
		l.mu.Lock()
		arrived := l.arrived
		for _, e := range l.events {
			if e.Type == kind {
				l.mu.Unlock()
				return
			}
		}
		l.mu.Unlock()
		select {
		case <-arrived:
		case <-l.done:
			l.t.Fatalf("dsh ended without %s; stderr: %s", kind, l.stderr.String())
		case <-late:
			l.t.Fatalf("no %s came", kind)
		}
	}
}

// signal sends a signal and returns how long dsh took to end after it, with its exit code.
func (l *live) signal(s syscall.Signal) (code int, took time.Duration) {
	l.t.Helper()
	sent := time.Now()
	check(l.t, l.cmd.Process.Signal(s))
	code = l.wait()
	return code, l.ended.Sub(sent)
}

// wait returns the exit code, -1 when a signal ended it.
func (l *live) wait() int {
	l.t.Helper()
	select {
	case <-l.done:
	case <-time.After(patience):
		l.t.Fatalf("dsh does not end; stderr: %s", l.stderr.String())
	}
	var exit *exec.ExitError
	if errors.As(l.err, &exit) {
		return exit.ExitCode()
	}
	check(l.t, l.err)
	return 0
}

// pipe is a named pipe in the working folder, through which a command tells that it runs.
func (p *place) pipe(name string) (told func()) {
	p.t.Helper()
	path := filepath.Join(p.work, name)
	check(p.t, syscall.Mkfifo(path, 0o600))
	f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NONBLOCK, 0)
	check(p.t, err)
	p.t.Cleanup(func() { check(p.t, f.Close()) })
	return func() {
		p.t.Helper()
		check(p.t, f.SetReadDeadline(time.Now().Add(patience)))
		if _, err := f.Read(make([]byte, 64)); err != nil {
			p.t.Fatalf("the command did not begin: %v", err)
		}
	}
}

// types are the types of the events of the one session's log.
func (p *place) types() (all []string) {
	p.t.Helper()
	for line := range strings.Lines(p.log()) {
		var e event
		check(p.t, json.Unmarshal([]byte(line), &e))
		all = append(all, e.Type)
	}
	return all[1:] // behind the header
}

// bash is a call that runs a command.
func bash(command string) testllm.Call {
	return testllm.Call{Name: "bash", Arguments: fmt.Sprintf(`{"command":%s}`, strconv.Quote(command))}
}

// full is the larger count when DSH_TEST_FULL is set.
func full(quick, all int) int {
	if os.Getenv("DSH_TEST_FULL") != "" {
		return all
	}
	return quick
}
