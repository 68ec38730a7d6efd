package acceptance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/dsh-harness/dsh/internal/testllm"
)

// held is an answer that begins with these events and then stays silent on an open connection.
func held(deltas ...string) testllm.Turn {
	var b strings.Builder
	for _, d := range deltas {
		fmt.Fprintf(&b, "data: {\"choices\":[{\"index\":0,\"delta\":%s}]}\n\n", d)
	}
	turn := testllm.Stream(b.String())
	turn.End = testllm.Hold
	return turn
}

// TestTrust_A13 sends SIGTERM in each state that a run can be in: dsh is gone within 5 s with 143, and so are its
// commands; the log's last turn is closed, and the session goes on with a request that a strict provider takes.
func TestTrust_A13_ShutdownInEachState(t *testing.T) {
	long := strings.Repeat("x", 20<<10) // enough for the log to take it while it streams
	never := make(chan struct{})
	silent := testllm.Text("never")
	silent.Wait = never
	pings := testllm.Stream("")
	pings.End = testllm.Ping
	flood := testllm.Stream("")
	for range 100_000 {
		flood.Packets = append(flood.Packets, []byte(`data: {"choices":[{"index":0,"delta":{"content":"`+long[:1000]+"\"}}]}\n\n"))
	}
	flood.Pause, flood.End = time.Millisecond, testllm.Hold
	slow := testllm.Fail(429, "slow down")
	slow.Header["Retry-After"] = "30"

	atRequest := func(n int) func(p *place, l *live) {
		return func(p *place, _ *live) { check(p.t, p.srv.Await(p.t.Context(), n)) }
	}
	atEvent := func(kind string) func(*place, *live) { return func(_ *place, l *live) { l.event(kind) } }
	atCommand := func(p *place, l *live) { l.event("tool/call") } // and its pipe, see below
	for _, s := range []struct {
		name    string
		script  []testllm.Turn
		ready   func(p *place, l *live)
		command bool // wait for the command
	}{
		{"the provider says nothing", []testllm.Turn{silent}, atRequest(1), false},
		{"the provider only pings", []testllm.Turn{pings}, atRequest(1), false},
		{"text streams", []testllm.Turn{held(`{"content":"` + long + `"}`)}, atEvent("assistant/chunk"), false},
		{"reasoning streams", []testllm.Turn{held(`{"reasoning_content":"` + long + `"}`)}, atEvent("assistant/chunk"), false},
		{"half a call has streamed", []testllm.Turn{held(`{"content":"`+long+`"}`, `{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"bash","arguments":"{\"comm"}}]}`)}, atEvent("assistant/chunk"), false},
		{"text floods", []testllm.Turn{flood}, atEvent("assistant/chunk"), false},
		{"a retry is due in 30 s", []testllm.Turn{slow}, atEvent("llm/retry"), false},
		{"the second request is under way", []testllm.Turn{testllm.Calls(bash("true")), silent}, atRequest(2), false},
		{"a command runs", []testllm.Turn{testllm.Calls(bash("COMMAND"))}, atCommand, true},
		{"a command runs and others wait", []testllm.Turn{testllm.Calls(bash("COMMAND"), bash("touch second"))}, atCommand, true},
		{"a resumed session asks", nil, nil, false},
		{"the prompt is being read", nil, nil, false},
	} {
		t.Run(s.name, func(t *testing.T) {
			p := newPlace(t)
			mark := fmt.Sprintf("dsh-mark-%d", rand.Int64())
			told := p.pipe("up")
			for _, turn := range s.script {
				turn.Packets = slices.Clone(turn.Packets) // tests that run at the same time share it
				for i, packet := range turn.Packets {
					turn.Packets[i] = []byte(strings.Replace(string(packet), "COMMAND", jsonInside(stubborn(mark, "up")), 1))
				}
				p.srv.Script(turn)
			}
			var l *live
			stored := true
			switch s.name {
			case "the prompt is being read":
				in, w, err := os.Pipe()
				check(t, err)
				t.Cleanup(func() { check(t, errors.Join(in.Close(), w.Close())) })
				l, stored = p.startWith(in, "run", "--output-format", "stream-json"), false
				_, err = w.Write(make([]byte, 64<<10+1)) // more than a pipe holds: it returns once dsh reads
				check(t, err)
			case "a resumed session asks":
				p.srv.Script(testllm.Text("one"), silent)
				p.ok(p.run("one"), "one")
				l = p.start("-c", "two")
				check(t, p.srv.Await(t.Context(), 2))
			default:
				l = p.start("go")
				s.ready(p, l)
			}
			if s.command {
				told()
			}
			gone := watch(t, processes(t, mark))
			code, took := l.signal(syscall.SIGTERM)
			if code == -1 && !stored {
				code = 143 // there was nothing to close, so the signal itself ended it; shells call that 143 too
			}
			if code != 143 || took > 5*time.Second {
				t.Errorf("exit %d after %v, want 143 within 5 s: %s", code, took, l.stderr.String())
			}
			check(t, gone(time.Now().Add(100*time.Millisecond)))
			if left := processes(t, mark); len(left) > 0 {
				t.Errorf("processes %v are left", left)
			}
			if strings.Contains(l.stderr.String(), "goroutine") {
				t.Errorf("stderr holds a stack: %s", l.stderr.String())
			}
			if !stored {
				if n := len(p.logs()); n != 0 {
					t.Errorf("%d sessions are stored", n)
				}
				return
			}
			types := p.types()
			end := p.lastEnd()
			if types[len(types)-1] != "turn/end" || end.Data.Reason != "disposed" {
				t.Errorf("the log ends with %s, the turn %+v", types[len(types)-1], end.Data)
			}
			p.srv.Play(testllm.Case{Turns: []testllm.Turn{testllm.Text("resumed")}})
			p.ok(p.run("-c", "go on"), "resumed")
			if p.has("second") {
				t.Error("a call that had not begun ran")
			}
		})
	}
}

// jsonInside is s as it stands inside a JSON string that is inside a JSON string.
func jsonInside(s string) string {
	return strings.NewReplacer(`\`, `\\\\`, `"`, `\\\"`, "\n", `\\n`).Replace(s)
}

// TestTrust_A01 sends SIGINT or SIGTERM somewhere in a turn. A run that was interrupted says so and has closed
// its turn; the session goes on with a request that a strict provider takes.
func TestTrust_A01_SignalsAtRandom(t *testing.T) {
	p := newPlace(t)
	p.srv.Play(work())
	begun := time.Now()
	p.start("go").wait()
	span := time.Since(begun)
	rounds := full(16, 200)
	var struck atomic.Int64
	t.Run("rounds", func(t *testing.T) {
		for n := range rounds {
			t.Run(strconv.Itoa(n), func(t *testing.T) {
				p := newPlace(t)
				p.srv.Play(work())
				signal, want := syscall.SIGINT, 130
				if n%2 == 1 {
					signal, want = syscall.SIGTERM, 143
				}
				after := time.Duration(rand.Int64N(int64(span)))
				l := p.start("go")
				select {
				case <-l.done:
				case <-time.After(after): // the fault itself, not a wait for something
				}
				_ = l.cmd.Process.Signal(signal) // it may have ended by itself
				sent := time.Now()
				code := l.wait()
				if took := l.ended.Sub(sent); took > 5*time.Second {
					t.Errorf("it took %v", took)
				}
				switch code {
				case want:
					struck.Add(1)
				case 0, -1: // it was done, or had not begun: then the signal itself ends it
				default:
					t.Errorf("exit %d: %s", code, l.stderr.String())
				}
				if len(p.logs()) > 0 && code != -1 {
					types := p.types()
					if last := slices.Index(types, "turn/start"); last >= 0 && !slices.Contains(types[last:], "turn/end") {
						t.Errorf("exit %d, and the turn is open: %q", code, types)
					}
				}
				var began atomic.Int64
				p.resumesAfterKill(l, &began)
				if t.Failed() {
					t.Logf("signal %v %v after the start", signal, after)
				}
			})
		}
	})
	t.Logf("%d signals in a run of about %v: %d interrupted it", rounds, span, struck.Load())
	if int(struck.Load()) < rounds/5 {
		t.Errorf("only %d of %d signals struck", struck.Load(), rounds)
	}
}

// TestCase_o_acp_04_TheReaderClosesEarly: a pipe that ends after the first line, a closed output, a full disk.
func TestCase_o_acp_04_TheReaderClosesEarly(t *testing.T) {
	for name, c := range map[string]struct {
		shell string
		fails bool
	}{
		"head":   {"%s run --output-format stream-json hello | head -1; exit ${PIPESTATUS[0]}", true},
		"closed": {"%s run hello >&-", false}, // the Go runtime opens /dev/null in its place
		"full":   {"%s run hello > /dev/full", true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			turn := testllm.Text(strings.Repeat("a line of an answer\n", 200))
			turn.Pause = time.Millisecond
			p.srv.Tolerate()
			p.srv.Script(turn)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			cmd := p.command(ctx)
			cmd.Path, cmd.Args = "/bin/bash", []string{"bash", "-c", fmt.Sprintf(c.shell, binary)}
			out, err := cmd.CombinedOutput()
			if (err != nil) != c.fails || ctx.Err() != nil {
				t.Errorf("it ends with %v\n%s", err, out)
			}
			if strings.Contains(string(out), "panic") || strings.Contains(string(out), "goroutine ") {
				t.Errorf("a trace is printed:\n%s", out)
			}
			ids := p.dsh("sessions", "list", "--json")
			var all []struct{ ID string }
			check(t, json.Unmarshal([]byte(ids.Stdout), &all))
			if len(all) != 1 || p.dsh("sessions", "verify", all[0].ID).Code != 0 {
				t.Errorf("the session is not whole: %s", ids.Stdout)
			}
		})
	}
}
