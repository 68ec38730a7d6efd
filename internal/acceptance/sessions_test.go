//go:build unix

package acceptance

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dsh-harness/dsh/internal/testllm"
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/session/sessiontest"
)

// stored puts a log of these events into the place, as the session s, and returns its path.
func (p *place) stored(events ...session.Event) string {
	p.t.Helper()
	h := sessiontest.Header("s")
	h.Cwd = p.work
	content := append(h.Line(), '\n')
	for _, e := range events {
		content = append(append(content, e.Line()...), '\n')
	}
	path := filepath.Join(p.home, "dsh", "state", "sessions", "s", "log.jsonl")
	check(p.t, os.MkdirAll(filepath.Dir(path), 0o700))
	check(p.t, os.WriteFile(path, content, 0o600))
	return path
}

func TestCase_o_ses_01_ATornTailAtAnyByte(t *testing.T) {
	p := newPlace(t)
	p.srv.Script(testllm.Text("one"), testllm.Text("two"))
	p.ok(p.run("--session-id", "s", "first"), "one")
	path := p.logs()[0]
	whole, err := os.ReadFile(path)
	check(t, err)
	last := bytes.LastIndexByte(whole[:len(whole)-1], '\n') + 1
	step := max((len(whole)-1-last)/full(4, 100), 1)
	for cut := last + 1; cut < len(whole); cut += step {
		check(t, os.WriteFile(path, whole[:cut], 0o600))
		p.srv.Play(testllm.Case{Turns: []testllm.Turn{testllm.Text("two")}})
		o := p.run("-r", "s", "second")
		p.ok(o, "two")
		if !strings.Contains(o.Stderr, fmt.Sprintf("%d bytes", cut-last)) || !strings.Contains(o.Stderr, "cut off") {
			t.Errorf("cut at byte %d: nobody was told: %q", cut, o.Stderr)
		}
		after, err := os.ReadFile(path)
		check(t, err)
		if !bytes.HasPrefix(after, whole[:last]) {
			t.Errorf("cut at byte %d: complete events are gone", cut)
		}
		if o := p.dsh("sessions", "verify", "s"); o.Code != 0 {
			t.Errorf("cut at byte %d: verify: exit %d: %s%s", cut, o.Code, o.Stdout, o.Stderr)
		}
	}
}

func TestCase_o_ses_03_ANewerBuildsEvents(t *testing.T) {
	turn := sessiontest.Events(t, 0, append(sessiontest.Turn(1), session.Draft{Type: "future/info", Data: map[string]int{"x": 1}})...)
	p := newPlace(t)
	p.stored(turn...)
	p.srv.Script(testllm.Text("fine"))
	p.ok(p.run("-r", "s", "-m", "deepseek/deepseek-v4-flash", "go on"), "fine")

	p = &place{t: t, home: filepath.Join(p.home, "2"), work: p.work, srv: p.srv}
	required := sessiontest.Events(t, int64(len(turn)), session.Draft{Type: "future/required"})[0]
	path := p.stored(append(turn, session.Event{Seq: required.Seq, Time: required.Time, Type: required.Type, Data: required.Data})...)
	before, err := os.ReadFile(path)
	check(t, err)
	o := p.run("-r", "s", "go on")
	for _, word := range []string{"future/required", fmt.Sprint("event ", required.Seq), path, "newer version"} {
		if !strings.Contains(o.Stderr, word) {
			t.Errorf("stderr does not tell %q: %s", word, o.Stderr)
		}
	}
	if o.Code != 2 || strings.Count(o.Stderr, "\n") != 1 {
		t.Errorf("exit %d: %s", o.Code, o.Stderr)
	}
	if o := p.dsh("sessions", "list"); o.Code != 0 || !strings.Contains(o.Stdout, "s") {
		t.Errorf("list: exit %d: %s", o.Code, o.Stdout)
	}
	if o := p.dsh("sessions", "show", "s"); !strings.Contains(o.Stdout, "main.go") {
		t.Errorf("show: exit %d: %s%s", o.Code, o.Stdout, o.Stderr)
	}
	after, err := os.ReadFile(path)
	check(t, err)
	if !bytes.Equal(after, before) {
		t.Error("the log was rewritten")
	}
}

func TestCase_o_ses_06_ALargeRecord(t *testing.T) {
	p := newPlace(t)
	turn := sessiontest.Turn(1)
	turn[6].Data = session.ToolResultData{Turn: 1, Step: 1, CallID: "c1_1_1", Content: []llm.Block{llm.Text(strings.Repeat("0123456789abcdef", 12_000_000/16))}}
	for i := range 2500 {
		id := fmt.Sprint(i)
		turn = append(turn, session.Draft{Type: session.InboxQueued, Data: session.InboxData{ID: id, Message: llm.UserText("progress")}},
			session.Draft{Type: session.InboxCleared, Data: session.InboxClearedData{IDs: []string{id}}})
	}
	p.stored(sessiontest.Events(t, 0, turn...)...)
	answer := make(chan struct{})
	ok := testllm.Text("ok")
	ok.Wait = answer
	p.srv.Script(ok)
	begun := time.Now()
	l := p.start("-r", "s", "-m", "deepseek/deepseek-v4-flash", "go on")
	l.event("step/start")
	resumed := time.Since(begun)
	check(t, p.srv.Await(t.Context(), 1))
	peak := peakMemory(t, l.cmd.Process.Pid)
	close(answer)
	if code := l.wait(); code != 0 {
		t.Errorf("exit %d: %s", code, l.stderr.String())
	}
	t.Logf("resumed after %v; peak memory %d MB", resumed, peak>>20)
	if resumed > 2*time.Second || peak > 300<<20 {
		t.Error("resuming is too slow or too large")
	}
}

// peakMemory is what a process that runs has used at most, in bytes, or 0 where nobody tells. (What its
// parent is told when it has ended includes the parent's own at the time of the fork.)
func peakMemory(t *testing.T, pid int) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	n, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	check(t, err)
	return n << 10
}
