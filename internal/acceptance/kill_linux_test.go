package acceptance

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dsh-harness/dsh/internal/testllm"
)

// work is a turn with two tools that change files, a command, and text.
func work() testllm.Case {
	return testllm.Case{Turns: []testllm.Turn{
		testllm.Answer{Reasoning: "first a file", Calls: []testllm.Call{
			{Name: "write", Arguments: `{"file_path":"a.txt","content":"a\n"}`},
			{Name: "write", Arguments: `{"file_path":"b.txt","content":"b\n"}`},
		}}.Turn(),
		testllm.Calls(testllm.Call{Name: "bash", Arguments: `{"command":"echo ran >> count"}`}),
		testllm.Calls(testllm.Call{Name: "read", Arguments: `{"file_path":"a.txt"}`}, testllm.Call{Name: "read", Arguments: `{"file_path":"b.txt"}`}),
		testllm.Text(strings.Repeat("done ", 500)),
	}}
}

// TestTrust_L04 kills the whole harness somewhere in a turn. Whatever it was doing, what it had told is in the
// log, the session opens, the next request is one that a strict provider takes, and no command ran twice.
func TestTrust_L04_RandomKillsInAScriptedTurn(t *testing.T) {
	p := newPlace(t)
	p.srv.Play(work())
	begun := time.Now()
	p.start("go").wait()
	span := time.Since(begun)
	rounds := full(25, 200)
	var midway, began atomic.Int64
	t.Run("rounds", func(t *testing.T) {
		for n := range rounds {
			t.Run(strconv.Itoa(n), func(t *testing.T) {
				p := newPlace(t)
				p.srv.Play(work())
				after := time.Duration(rand.Int64N(int64(span)))
				l := p.start("go")
				select {
				case <-l.done:
				case <-time.After(after): // the fault itself, not a wait for something
				}
				_ = l.cmd.Process.Kill() // it may have ended by itself
				if l.wait() == -1 {
					midway.Add(1)
				}
				p.resumesAfterKill(l, &began)
				if t.Failed() {
					t.Logf("killed %v after its start", after)
				}
			})
		}
	})
	t.Logf("%d kills in a run of about %v: %d midway, %d with a session to go on with", rounds, span, midway.Load(), began.Load())
	if int(midway.Load()) < rounds/4 {
		t.Errorf("only %d of %d kills struck midway", midway.Load(), rounds)
	}
}

func (p *place) resumesAfterKill(l *live, began *atomic.Int64) {
	t := p.t
	t.Helper()
	// The last request of the one that was killed may still arrive.
	p.srv.Play(testllm.Case{Turns: []testllm.Turn{testllm.Text("resumed")}, RepeatLast: true})
	if len(p.logs()) == 0 {
		for i, e := range l.events {
			if e.Seq != nil {
				t.Errorf("there is no session, and dsh told %s", l.lines[i])
			}
		}
		p.ok(p.run("go on"), "resumed")
	} else {
		began.Add(1)
		stored := p.types()
		for i, e := range l.events {
			if e.Seq != nil && (int(*e.Seq) >= len(stored) || stored[*e.Seq] != e.Type) {
				t.Errorf("event %d was told and is not in the log: %s", *e.Seq, l.lines[i])
			}
		}
		p.ok(p.run("-c", "go on"), "resumed")
	}
	asked := 0
	for _, r := range p.srv.Requests() {
		if m := r.Chat.Messages; len(m) > 0 && strings.Contains(m[len(m)-1].Text(), "go on") {
			asked++
		}
	}
	if asked != 1 {
		t.Errorf("going on made %d requests, want one", asked)
	}
	if o := p.dsh("sessions", "verify"); o.Code != 0 {
		t.Errorf("verify: exit %d: %s%s", o.Code, o.Stdout, o.Stderr)
	}
	if count, err := os.ReadFile(filepath.Join(p.work, "count")); err == nil && !strings.HasPrefix("ran\n", string(count)) {
		t.Errorf("the command ran again: %q", count)
	}
	if end := p.lastEnd(); end.Data.Reason != "completed" {
		t.Errorf("the last turn ended %q", end.Data.Reason)
	}
}

// processes are those whose command line holds mark.
func processes(t *testing.T, mark string) (all []int) {
	t.Helper()
	found, err := filepath.Glob("/proc/[0-9]*/cmdline")
	check(t, err)
	for _, name := range found {
		line, err := os.ReadFile(name)
		if err != nil || !bytes.Contains(line, []byte(mark)) {
			continue // it has ended meanwhile
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		check(t, err)
		if pid != os.Getpid() {
			all = append(all, pid)
		}
	}
	return all
}

// watch returns a function that waits until all of them have ended, until the time given.
func watch(t *testing.T, pids []int) (gone func(until time.Time) error) {
	t.Helper()
	fds := map[int]int{}
	for _, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		if errors.Is(err, unix.ESRCH) {
			continue
		}
		check(t, err)
		fds[pid] = fd
		t.Cleanup(func() { check(t, unix.Close(fd)) })
	}
	return func(until time.Time) error {
		for pid, fd := range fds {
			for {
				left := max(time.Until(until).Milliseconds(), 0)
				n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left))
				if errors.Is(err, unix.EINTR) {
					continue
				}
				if err != nil {
					return err
				}
				if n == 0 {
					return fmt.Errorf("process %d still runs", pid)
				}
				break
			}
		}
		return nil
	}
}

// stubborn is a command that hears no signal, with a child that left its group and one in the background.
// It tells through the pipe when all three run.
func stubborn(mark, pipe string) string {
	return fmt.Sprintf(`trap '' TERM INT HUP; setsid sh -c 'trap "" TERM INT HUP; : %[1]s; while :; do sleep 1; done' & `+
		`nohup sh -c ': %[1]s; while :; do sleep 1; done' >/dev/null 2>&1 & echo up > %[2]s; : %[1]s; while :; do sleep 1; done`, mark, pipe)
}

// TestTrust_T03: a kill of the harness takes its commands with it, those that left their group too.
func TestTrust_T03_AKillOfTheHarnessEndsItsCommands(t *testing.T) {
	for n := range full(2, 20) {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			p := newPlace(t)
			told := p.pipe("up")
			mark := fmt.Sprintf("dsh-mark-%d", rand.Int64())
			p.srv.Script(testllm.Calls(bash(stubborn(mark, "up"))))
			l := p.start("go")
			told()
			pids := processes(t, mark)
			if len(pids) < 3 {
				t.Fatalf("%d processes of the command run, want three or more", len(pids))
			}
			gone := watch(t, pids)
			code, _ := l.signal(syscall.SIGKILL)
			if code != -1 {
				t.Errorf("exit %d", code)
			}
			if err := gone(time.Now().Add(time.Second)); err != nil {
				t.Error(err)
			}
			if left := processes(t, mark); len(left) > 0 {
				t.Errorf("%v are left", left)
			}
		})
	}
}
