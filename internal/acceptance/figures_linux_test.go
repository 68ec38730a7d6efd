package acceptance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/dsh-harness/dsh"
	"github.com/dsh-harness/dsh/config"
	"github.com/dsh-harness/dsh/internal/jsonrpc"
	"github.com/dsh-harness/dsh/internal/testllm"
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/protocol"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/surface/server"
)

// TestInterface_Figures measures the interface in a terminal, and prints what it saw: how soon a key is echoed while an answer streams, what it costs
// while nothing happens, how soon a long session is there. docs/performance.md has the figures. The bounds are wide: the machine does other things, too.
func TestInterface_Figures(t *testing.T) {
	if os.Getenv("DSH_TEST_FULL") == "" {
		t.Skip("it measures time: set DSH_TEST_FULL")
	}
	dir := t.TempDir()
	p := &place{t: t, home: filepath.Join(dir, "home"), work: filepath.Join(dir, "work"), srv: testllm.New(t)}
	check(t, errors.Join(os.Mkdir(p.home, 0o700), os.Mkdir(p.work, 0o700)))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()

	p.srv.Tolerate()
	s := p.face(ctx)
	s.await("| deepseek/")
	s.types("[[mock text:60000,gap:5]] 200 pieces a second\r")
	s.await("tok tok tok")
	var echoes []time.Duration
	for i := range 200 {
		key := string(rune('α' + i%17)) // no letter of a control sequence
		began := time.Now()
		s.types(key)
		s.await(key)
		echoes = append(echoes, time.Since(began))
		time.Sleep(10 * time.Millisecond)
	}
	slices.Sort(echoes)
	t.Logf("a key is echoed after %v (median), %v (99 of 100), while 200 tokens a second stream", echoes[100], echoes[198])
	if echoes[198] > 100*time.Millisecond {
		t.Error("that is too late")
	}
	s.types("\x1b")
	s.await("(interrupted)")
	time.Sleep(2 * time.Second)
	before := busy(t, s.cmd.Process.Pid)
	time.Sleep(5 * time.Second)
	t.Logf("5 s of nothing cost %v of processor time; the process has %d MB", busy(t, s.cmd.Process.Pid)-before, resident(t, s.cmd.Process.Pid)>>20)
	if resident(t, s.cmd.Process.Pid) > 40<<20 {
		t.Error("that is too much memory")
	}
	s.types("\x03\x04")
	s.end()

	id := long(t, p, 100_000)
	began := time.Now()
	s = p.face(ctx, "-r", id)
	s.await("answer 16666")
	s.await("| deepseek/")
	took := time.Since(began)
	t.Logf("a session of 100,000 events is there after %v; the process has %d MB", took, resident(t, s.cmd.Process.Pid)>>20)
	s.types("\x04")
	s.end()
}

// face starts the interface on a terminal of 100 by 40.
func (p *place) face(ctx context.Context, args ...string) *screen {
	p.t.Helper()
	tty, theirs, err := pty.Open()
	check(p.t, err)
	check(p.t, pty.Setsize(tty, &pty.Winsize{Rows: 40, Cols: 100}))
	s := &screen{t: p.t, cmd: p.command(ctx, args...), tty: tty, more: make(chan struct{}, 1), over: make(chan struct{})}
	s.cmd.Env = append(s.cmd.Env, "TERM=xterm-256color", "DSH_HOME="+filepath.Join(p.home, "dsh"))
	s.cmd.Stdin, s.cmd.Stderr, s.cmd.Stdout = theirs, theirs, theirs
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	check(p.t, s.cmd.Start())
	check(p.t, theirs.Close())
	go s.read()
	p.t.Cleanup(func() { _ = tty.Close() }) // closed already, as a rule
	return s
}

// busy is the processor time that a process has used; see proc_pid_stat(5).
func busy(t *testing.T, pid int) time.Duration {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	check(t, err)
	fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+2:]))
	user, err := strconv.Atoi(fields[11])
	check(t, err)
	system, err := strconv.Atoi(fields[12])
	check(t, err)
	return time.Duration(user+system) * 10 * time.Millisecond
}

func resident(t *testing.T, pid int) int64 {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	check(t, err)
	pages, err := strconv.ParseInt(strings.Fields(string(raw))[1], 10, 64)
	check(t, err)
	return pages * int64(os.Getpagesize())
}

// long writes a session of about so many events.
func long(t *testing.T, p *place, events int) string {
	t.Helper()
	t.Setenv("DSH_HOME", filepath.Join(p.home, "dsh"))
	a, err := dsh.Open(t.Context(), dsh.Options{
		Layers: []config.Layer{{Kind: config.Patch, Text: "- {id: x, plugin: llm-replay, config: {name: x, answers: [{text: a}]}}"}},
		Agent:  dsh.AgentOptions{Dir: p.work, Model: "x/scripted"},
	})
	check(t, err)
	s := a.Session()
	content := func(text string) []llm.Block { return []llm.Block{llm.Text(text)} }
	for turn := 1; turn <= events/6; turn++ {
		drafts := []session.Draft{
			{Type: session.TurnStart, Data: session.TurnStartData{Turn: turn}},
			{Type: session.StepStart, Data: session.StepData{Turn: turn, Step: 1}},
			{Type: session.UserMessage, Data: session.InputData{ID: fmt.Sprint("u", turn), Source: llm.Source{Kind: "user"}, Content: content(fmt.Sprint("question ", turn))}, Surface: &session.SurfaceOp{Op: session.OpAppend}},
			{Type: session.AssistantMessage, Data: session.AssistantData{Turn: turn, Step: 1, Provider: "deepseek", Model: "deepseek-v4-flash", Message: session.AssistantContent{ID: fmt.Sprint("a", turn), Content: content(fmt.Sprint("answer ", turn, ": some words of an answer, as they are."))}}, Surface: &session.SurfaceOp{Op: session.OpAppend}},
			{Type: session.StepEnd, Data: session.StepData{Turn: turn, Step: 1}},
			{Type: session.TurnEnd, Data: session.TurnEndData{Turn: turn, Reason: session.Completed}},
		}
		if _, err := s.Append(drafts...); err != nil {
			t.Fatal(err)
		}
	}
	id := s.ID()
	check(t, errors.Join(s.Flush(t.Context()), a.Close(context.WithoutCancel(t.Context()))))
	return id
}

// TestServer_Figures measures a server as a process of its own: while nothing happens, with many parked sessions, and with 1,000 clients on 100 sessions of which
// one in twenty reads nothing.
func TestServer_Figures(t *testing.T) {
	if os.Getenv("DSH_TEST_FULL") == "" {
		t.Skip("it measures memory of a whole process: set DSH_TEST_FULL")
	}
	p := newPlace(t)
	p.srv.Tolerate()
	socket, _ := p.serving("--permission-mode", "workspace-write", "--listen", "")
	first := p.connect(socket, "")
	mb := func() int64 {
		var s protocol.StatsResult
		first.call(protocol.MethodStats, nil, &s)
		return s.MemoryRSS >> 20
	}
	t.Logf("a server without sessions has %d MB", mb())
	for i := range 10_000 {
		id := p.open(first)
		first.call(protocol.MethodRename, protocol.RenameParams{SessionID: id, Title: fmt.Sprint("session ", i)}, nil)
		first.call(protocol.MethodSessionClose, protocol.SessionParams{SessionID: id}, nil)
	}
	for {
		var s protocol.StatsResult
		if first.call(protocol.MethodStats, nil, &s); s.Live == 0 {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	parked := mb()
	t.Logf("with 10,000 idle sessions it has %d MB", parked)
	if parked > 300 {
		t.Error("that is too much")
	}

	const sessions, clients, turns = 100, 1000, 10
	ids := make([]string, sessions)
	for i := range ids {
		ids[i] = p.open(first)
	}
	var mu sync.Mutex
	var lags []time.Duration
	for i := range clients {
		if i%20 == 7 {
			c, err := net.Dial("unix", socket)
			check(t, err)
			t.Cleanup(func() { _ = c.Close() })
			_, err = fmt.Fprintf(c, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":1}}\n{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"_dsh/watch\",\"params\":{\"sessionId\":%q,\"from\":0}}\n", ids[i%sessions])
			check(t, err)
			continue
		}
		s, err := server.Dial(t.Context(), socket, "")
		check(t, err)
		c := jsonrpc.New(s, jsonrpc.Options{Handler: func(_ context.Context, m jsonrpc.Incoming) jsonrpc.Reply {
			if m.Method == protocol.NoteEvent {
				var n struct{ Line struct{ Time int64 } }
				if json.Unmarshal(m.Params, &n) == nil {
					mu.Lock()
					lags = append(lags, time.Since(time.UnixMilli(n.Line.Time)))
					mu.Unlock()
				}
			}
			return jsonrpc.Reply{}
		}})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = c.Serve(context.Background())
		}()
		t.Cleanup(func() {
			_ = c.Close()
			<-ended
		})
		r := &remote{t, c}
		r.call(protocol.MethodInitialize, protocol.InitializeParams{ProtocolVersion: 1}, nil)
		r.call(protocol.MethodWatch, protocol.WatchParams{SessionID: ids[i%sessions]}, nil)
	}
	began := time.Now()
	var all sync.WaitGroup
	for _, id := range ids {
		all.Go(func() {
			for range turns {
				first.call(protocol.MethodSessionPrompt, text(id, "[[mock text:400,gap:5]] go on"), nil)
			}
		})
	}
	all.Wait()
	took := time.Since(began)
	time.Sleep(2 * time.Second)
	mu.Lock()
	slices.Sort(lags)
	t.Logf("%d clients on %d sessions: %d events in %v, an event is there after %v (median), %v (99 of 100); the server has %d MB",
		clients, sessions, len(lags), took, lags[len(lags)/2], lags[len(lags)*99/100], mb())
	mu.Unlock()
}
