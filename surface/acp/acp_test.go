package acp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/dsh-harness/dsh"
	"github.com/dsh-harness/dsh/internal/jsonrpc"
	"github.com/dsh-harness/dsh/internal/testllm"
	"github.com/dsh-harness/dsh/protocol"
	"github.com/dsh-harness/dsh/session/trajectory"
	"github.com/dsh-harness/dsh/surface/acp"
	"github.com/dsh-harness/dsh/surface/live/livetest"
)

func TestMain(m *testing.M) {
	dsh.Guard()
	goleak.VerifyTestMain(m)
}

// editor is a client of a test. What it is sent stands in notes, in order.
type editor struct {
	t    *testing.T
	conn *jsonrpc.Conn
	dir  string

	mu    sync.Mutex
	notes []note
	came  chan struct{} // closed when the next note comes
	// permit answers session/request_permission; nil cancels.
	permit func(ctx context.Context, p protocol.RequestPermissionParams) (string, error)
	served chan struct{}
}

type note struct {
	method string
	params json.RawMessage
	update protocol.UpdateParams
}

func connect(t *testing.T, w *livetest.World, ask *protocol.Ask, o acp.Options) *editor {
	t.Helper()
	theirs, ours := jsonrpc.Pipe()
	o.Hub, o.Version = w.Hub, "test"
	e := &editor{t: t, dir: w.Dir, came: make(chan struct{}), served: make(chan struct{})}
	e.conn = jsonrpc.New(ours, jsonrpc.Options{Handler: e.handle})
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() {
		defer close(e.served)
		if err := acp.Serve(ctx, theirs, o); err != nil && ctx.Err() == nil {
			t.Errorf("Serve: %v", err)
		}
	})
	all.Go(func() { _ = e.conn.Serve(ctx) })
	t.Cleanup(func() {
		_ = e.conn.Close()
		cancel()
		all.Wait()
	})
	p := protocol.InitializeParams{ProtocolVersion: 1, ClientInfo: &protocol.Implementation{Name: "editor", Version: "1"}}
	if ask != nil {
		raw, err := json.Marshal(ask)
		if err != nil {
			t.Fatal(err)
		}
		p.ClientCapabilities.Meta = protocol.Meta{"dsh": raw}
	}
	var r protocol.InitializeResult
	e.call(protocol.MethodInitialize, p, &r)
	if r.ProtocolVersion != 1 || !r.AgentCapabilities.LoadSession {
		t.Fatalf("initialize: %+v", r)
	}
	return e
}

func (e *editor) handle(_ context.Context, m jsonrpc.Incoming) jsonrpc.Reply {
	if !m.Notification {
		if m.Method != protocol.MethodRequestPermission {
			return jsonrpc.Fail(jsonrpc.NoMethod(m.Method))
		}
		var p protocol.RequestPermissionParams
		if err := m.Decode(&p); err != nil {
			return jsonrpc.Fail(err)
		}
		e.add(note{method: m.Method, params: m.Params})
		return jsonrpc.Later(func(ctx context.Context) (any, error) {
			if e.permit == nil {
				return protocol.RequestPermissionResult{Outcome: protocol.PermissionOutcome{Outcome: "cancelled"}}, nil
			}
			option, err := e.permit(ctx, p)
			return protocol.RequestPermissionResult{Outcome: protocol.PermissionOutcome{Outcome: "selected", OptionID: option}}, err
		})
	}
	n := note{method: m.Method, params: m.Params}
	if m.Method == protocol.NoteUpdate {
		if err := json.Unmarshal(m.Params, &n.update); err != nil {
			e.t.Errorf("%s: %v", m.Params, err)
		}
	}
	e.add(n)
	return jsonrpc.Reply{}
}

func (e *editor) add(n note) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.notes = append(e.notes, n)
	close(e.came)
	e.came = make(chan struct{})
}

func (e *editor) ctx() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 20*time.Second)
}

func (e *editor) call(method string, params, result any) {
	e.t.Helper()
	if err := e.try(method, params, result); err != nil {
		e.t.Fatalf("%s: %v", method, err)
	}
}

func (e *editor) try(method string, params, result any) error {
	ctx, cancel := e.ctx()
	defer cancel()
	return e.conn.Call(ctx, method, params, result)
}

func (e *editor) open() protocol.OpenResult {
	e.t.Helper()
	var r protocol.OpenResult
	e.call(protocol.MethodSessionNew, protocol.OpenParams{Cwd: e.dir, MCPServers: []protocol.MCPServer{}}, &r)
	return r
}

func (e *editor) prompt(id, text string) (protocol.PromptResult, error) {
	var r protocol.PromptResult
	err := e.try(protocol.MethodSessionPrompt, protocol.PromptParams{SessionID: id, Prompt: []protocol.ContentBlock{protocol.Text(text)}}, &r)
	return r, err
}

// await waits for a note.
func (e *editor) await(what string, is func(note) bool) note {
	e.t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		e.mu.Lock()
		var found note
		i := slices.IndexFunc(e.notes, is)
		if i >= 0 {
			found = e.notes[i]
		}
		came := e.came
		e.mu.Unlock()
		if i >= 0 {
			return found
		}
		select {
		case <-came:
		case <-deadline:
			e.t.Fatalf("%s never came; there are:\n%s", what, e.story())
		}
	}
}

// story is what came, one line each.
func (e *editor) story() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var b strings.Builder
	for _, n := range e.notes {
		switch body := n.update.Update.Body.(type) {
		case protocol.Chunk:
			fmt.Fprintf(&b, "%s %q\n", n.update.Update.Kind, body.Content.Text)
		case protocol.ToolCall:
			fmt.Fprintf(&b, "%s %s %q %s %s %d\n", n.update.Update.Kind, body.ToolCallID, body.Title, body.Kind, body.Status, len(body.Content))
		default:
			if n.method == protocol.NoteUpdate {
				fmt.Fprintln(&b, n.update.Update.Kind)
			} else {
				fmt.Fprintln(&b, n.method)
			}
		}
	}
	return b.String()
}

// said joins the chunks of a kind.
func (e *editor) said(kind protocol.UpdateKind) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var b strings.Builder
	for _, n := range e.notes {
		if c, ok := n.update.Update.Body.(protocol.Chunk); ok && n.update.Update.Kind == kind {
			b.WriteString(c.Content.Text)
		}
	}
	return b.String()
}

func write(name, content string) testllm.Turn {
	arguments, _ := json.Marshal(map[string]string{"file_path": name, "content": content})
	return testllm.Calls(testllm.Call{ID: "p1", Name: "write", Arguments: string(arguments)})
}

func TestAPromptIsAnswered(t *testing.T) {
	w := livetest.New(t, livetest.Options{})
	w.Model.Script(testllm.Text("Hello, you."))
	e := connect(t, w, nil, acp.Options{})
	s := e.open()
	if s.Modes == nil || s.Modes.CurrentModeID != "ask" || len(s.Modes.AvailableModes) != 5 || len(s.ConfigOptions) != 3 {
		t.Errorf("a new session is %+v", s)
	}
	r, err := e.prompt(s.SessionID, "hi")
	if err != nil || r.StopReason != protocol.StopEndTurn {
		t.Fatalf("%+v, %v", r, err)
	}
	if got := e.said(protocol.AgentMessageChunk); got != "Hello, you." {
		t.Errorf("the answer was %q", got)
	}
	if got := e.said(protocol.UserMessageChunk); got != "" {
		t.Errorf("it is told its own prompt: %q", got)
	}
	for _, kind := range []protocol.UpdateKind{protocol.CommandsUpdate, protocol.UsageUpdate} {
		e.await(string(kind), func(n note) bool { return n.update.Update.Kind == kind })
	}
}

func TestThoughtsAreTold(t *testing.T) {
	w := livetest.New(t, livetest.Options{})
	w.Model.Script(testllm.Answer{Reasoning: "Let me see.", Text: "Four."}.Turn())
	e := connect(t, w, nil, acp.Options{})
	if _, err := e.prompt(e.open().SessionID, "2+2"); err != nil {
		t.Fatal(err)
	}
	if got := e.said(protocol.AgentThoughtChunk); got != "Let me see." {
		t.Errorf("the thought was %q", got)
	}
}

// TestCase_o_acp_02: a client knows the call before it is asked about it, and learns how it ended.
func TestCase_o_acp_02(t *testing.T) {
	w := livetest.New(t, livetest.Options{})
	w.Model.Script(write("a.txt", "one\n"), testllm.Text("I may not."))
	e := connect(t, w, nil, acp.Options{})
	e.permit = func(_ context.Context, p protocol.RequestPermissionParams) (string, error) { return "reject", nil }
	if r, err := e.prompt(e.open().SessionID, "write it"); err != nil || r.StopReason != protocol.StopEndTurn {
		t.Fatalf("%+v, %v", r, err)
	}
	e.mu.Lock()
	var order []string
	for _, n := range e.notes {
		switch c, ok := n.update.Update.Body.(protocol.ToolCall); {
		case ok:
			order = append(order, fmt.Sprint(n.update.Update.Kind, " ", c.ToolCallID, " ", c.Status))
			if n.update.Update.Kind == protocol.ToolCallNew && (c.Title == "" || len(c.RawInput) == 0 || c.Kind != "edit" || len(c.Locations) != 1 || !filepath.IsAbs(c.Locations[0].Path)) {
				t.Errorf("the call is %+v", c)
			}
		case n.method == protocol.MethodRequestPermission:
			var p protocol.RequestPermissionParams
			if err := json.Unmarshal(n.params, &p); err != nil || len(p.Options) < 2 {
				t.Errorf("%s, %v", n.params, err)
			}
			order = append(order, "ask "+p.ToolCall.ToolCallID)
		}
	}
	e.mu.Unlock()
	want := []string{"tool_call c1_1_0 pending", "ask c1_1_0", "tool_call_update c1_1_0 failed"}
	if !slices.Equal(order, want) {
		t.Errorf("the order is %q, want %q", order, want)
	}
	if _, err := os.Stat(filepath.Join(w.Dir, "a.txt")); err == nil {
		t.Error("it was written")
	}
}

func TestAnAnswerIsRemembered(t *testing.T) {
	w := livetest.New(t, livetest.Options{})
	w.Model.Script(write("a.txt", "one\n"), write("b.txt", "two\n"), testllm.Text("done"))
	e := connect(t, w, nil, acp.Options{})
	asked := 0
	e.permit = func(_ context.Context, p protocol.RequestPermissionParams) (string, error) {
		asked++
		broadest := ""
		for _, o := range p.Options {
			if o.Kind == "allow_always" && strings.HasPrefix(o.OptionID, "allow-always") {
				broadest = o.OptionID
			}
		}
		return broadest, nil
	}
	if _, err := e.prompt(e.open().SessionID, "write them"); err != nil {
		t.Fatal(err)
	}
	if asked == 0 || asked > 2 {
		t.Errorf("asked %d times", asked)
	}
	done := e.await("the end of the call", func(n note) bool {
		c, ok := n.update.Update.Body.(protocol.ToolCall)
		return ok && c.Status == protocol.ToolCompleted
	})
	if c := done.update.Update.Body.(protocol.ToolCall); len(c.Content) != 1 || c.Content[0].Type != "diff" || c.Content[0].Path != filepath.Join(w.Dir, "a.txt") || *c.Content[0].NewText != "one\n" {
		t.Errorf("the end of the call is %+v", c)
	}
}

// TestCase_o_acp_01: a cancellation while a question stands.
func TestCase_o_acp_01(t *testing.T) {
	for name, answers := range map[string]bool{"the client answers cancelled": true, "the client never answers": false} {
		t.Run(name, func(t *testing.T) {
			w := livetest.New(t, livetest.Options{})
			w.Model.Script(write("a.txt", "one"), testllm.Text("And now?"))
			e := connect(t, w, nil, acp.Options{})
			e.permit = func(ctx context.Context, _ protocol.RequestPermissionParams) (string, error) {
				<-ctx.Done()
				if answers {
					return "", errors.New("cancelled")
				}
				time.Sleep(300 * time.Millisecond)
				return "allow", nil // late
			}
			id := e.open().SessionID
			type outcome struct {
				r   protocol.PromptResult
				err error
			}
			ended := make(chan outcome, 1)
			go func() {
				r, err := e.prompt(id, "write it")
				ended <- outcome{r, err}
			}()
			e.await("the question", func(n note) bool { return n.method == protocol.MethodRequestPermission })
			began := time.Now()
			if err := e.conn.Notify(t.Context(), protocol.NoteCancel, protocol.SessionParams{SessionID: id}); err != nil {
				t.Fatal(err)
			}
			got := <-ended
			if got.err != nil || got.r.StopReason != protocol.StopCancelled {
				t.Errorf("the prompt ended with %+v, %v", got.r, got.err)
			}
			if took := time.Since(began); took > 5*time.Second { // the case says 1 s, on a machine that does nothing else
				t.Errorf("it took %v", took)
			}
			e.await("the end of the call", func(n note) bool {
				c, ok := n.update.Update.Body.(protocol.ToolCall)
				return ok && c.Status == protocol.ToolFailed
			})
			if r, err := e.prompt(id, "go on"); err != nil || r.StopReason != protocol.StopEndTurn {
				t.Errorf("the next prompt: %+v, %v", r, err)
			}
			if _, err := os.Stat(filepath.Join(w.Dir, "a.txt")); err == nil {
				t.Error("it was written")
			}
		})
	}
}

func TestCancelAtAnyMoment(t *testing.T) {
	w := livetest.New(t, livetest.Options{})
	for range 40 {
		w.Model.Script(testllm.Text("one"))
	}
	e := connect(t, w, nil, acp.Options{})
	id := e.open().SessionID
	for i := range 20 {
		ended := make(chan error, 1)
		go func() {
			r, err := e.prompt(id, "hi")
			if err == nil && r.StopReason != protocol.StopCancelled && r.StopReason != protocol.StopEndTurn {
				err = fmt.Errorf("stop reason %s", r.StopReason)
			}
			ended <- err
		}()
		time.Sleep(time.Duration(i) * time.Millisecond)
		if err := e.conn.Notify(t.Context(), protocol.NoteCancel, protocol.SessionParams{SessionID: id}); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
	if r, err := e.prompt(id, "last"); err != nil || r.StopReason != protocol.StopEndTurn {
		t.Errorf("the prompt after them: %+v, %v", r, err)
	}
}

func TestLoadTellsWhatWasAndResumeDoesNot(t *testing.T) {
	w := livetest.New(t, livetest.Options{Mode: "workspace-write"})
	w.Model.Script(write("a.txt", "one\n"), testllm.Text("Done."), testllm.Text("Again."), testllm.Text("More."))
	e := connect(t, w, nil, acp.Options{})
	id := e.open().SessionID
	if _, err := e.prompt(id, "write it"); err != nil {
		t.Fatal(err)
	}
	again := connect(t, w, nil, acp.Options{})
	again.call(protocol.MethodSessionLoad, protocol.OpenParams{SessionID: id, Cwd: w.Dir, MCPServers: []protocol.MCPServer{}}, &protocol.OpenResult{})
	got := again.story()
	want := `session_info_update
user_message_chunk "write it"
tool_call c1_1_0 "Write a.txt" edit pending 1
tool_call_update c1_1_0 ""  completed 1
agent_message_chunk "Done."
`
	if !strings.HasPrefix(got, want) {
		t.Errorf("what was is told as\n%s\nwant\n%s", got, want)
	}
	if r, err := again.prompt(id, "again"); err != nil || r.StopReason != protocol.StopEndTurn {
		t.Errorf("%+v, %v", r, err)
	}
	e.await("what the other client said", func(n note) bool {
		c, ok := n.update.Update.Body.(protocol.Chunk)
		return ok && n.update.Update.Kind == protocol.UserMessageChunk && c.Content.Text == "again"
	})
	third := connect(t, w, nil, acp.Options{})
	third.call(protocol.MethodSessionResume, protocol.OpenParams{SessionID: id, Cwd: w.Dir, MCPServers: []protocol.MCPServer{}}, &protocol.OpenResult{})
	if _, err := third.prompt(id, "more"); err != nil {
		t.Fatal(err)
	}
	if got := third.said(protocol.UserMessageChunk) + third.said(protocol.AgentMessageChunk); got != "More." {
		t.Errorf("after a resume it is told %q", got)
	}
	var list protocol.ListResult
	third.call(protocol.MethodSessionList, protocol.ListParams{Cwd: &w.Dir}, &list)
	if len(list.Sessions) != 1 || list.Sessions[0].SessionID != id || list.Sessions[0].UpdatedAt == "" {
		t.Errorf("the list is %+v", list)
	}
}

func TestTwoClientsAreAskedAndTheFirstAnswerCounts(t *testing.T) {
	w := livetest.New(t, livetest.Options{})
	w.Model.Script(write("a.txt", "one"), testllm.Text("done"))
	e := connect(t, w, nil, acp.Options{})
	id := e.open().SessionID
	other := connect(t, w, nil, acp.Options{})
	other.call(protocol.MethodSessionResume, protocol.OpenParams{SessionID: id, Cwd: w.Dir, MCPServers: []protocol.MCPServer{}}, &protocol.OpenResult{})
	withdrawn := make(chan error, 1)
	other.permit = func(ctx context.Context, _ protocol.RequestPermissionParams) (string, error) {
		<-ctx.Done()
		withdrawn <- context.Cause(ctx)
		return "", context.Cause(ctx)
	}
	e.permit = func(context.Context, protocol.RequestPermissionParams) (string, error) {
		other.await("the question", func(n note) bool { return n.method == protocol.MethodRequestPermission })
		return "allow", nil
	}
	if _, err := e.prompt(id, "write it"); err != nil {
		t.Fatal(err)
	}
	if err := <-withdrawn; !errors.Is(err, jsonrpc.ErrCancelled) {
		t.Errorf("the other's question ended with %v", err)
	}
	if _, err := os.Stat(filepath.Join(w.Dir, "a.txt")); err != nil {
		t.Error(err)
	}
}

func TestModesModelsAndEffortsAreOptions(t *testing.T) {
	w := livetest.New(t, livetest.Options{})
	w.Model.Script(testllm.Text("one"))
	e := connect(t, w, nil, acp.Options{})
	id := e.open().SessionID
	other := connect(t, w, nil, acp.Options{})
	other.call(protocol.MethodSessionResume, protocol.OpenParams{SessionID: id, Cwd: w.Dir, MCPServers: []protocol.MCPServer{}}, &protocol.OpenResult{})
	e.call(protocol.MethodSessionSetMode, protocol.SetModeParams{SessionID: id, ModeID: "plan"}, nil)
	other.await("the mode", func(n note) bool {
		m, ok := n.update.Update.Body.(protocol.CurrentMode)
		return ok && m.CurrentModeID == "plan"
	})
	choose := func(option, value string) (protocol.SetConfigOptionResult, error) {
		var r protocol.SetConfigOptionResult
		raw, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		err = e.try(protocol.MethodSetConfigOption, protocol.SetConfigOptionParams{SessionID: id, ConfigID: option, Value: raw}, &r)
		return r, err
	}
	if r, err := choose("effort", "high"); err != nil || r.ConfigOptions[2].CurrentValue != "high" {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := choose("effort", "extreme"); err == nil || !strings.Contains(err.Error(), "high") {
		t.Errorf("an effort that there is not: %v", err)
	}
	if r, err := choose("model", "scripted/small"); err != nil || len(r.ConfigOptions) != 2 || r.ConfigOptions[1].CurrentValue != "scripted/small" {
		t.Errorf("%+v, %v", r, err)
	}
	other.await("the options", func(n note) bool {
		o, ok := n.update.Update.Body.(protocol.ConfigOptions)
		return ok && len(o.ConfigOptions) == 2
	})
	if _, err := choose("modle", "x"); err == nil {
		t.Error("an option that there is not")
	}
	if err := e.try(protocol.MethodSessionSetMode, protocol.SetModeParams{SessionID: id, ModeID: "plam"}, nil); err == nil || !strings.Contains(err.Error(), "plan") {
		t.Errorf("a mode that there is not: %v", err)
	}
	if _, err := e.prompt(id, "hi"); err != nil {
		t.Fatal(err)
	}
	if got := string(w.Model.Requests()[0].Body); !strings.Contains(got, `"model":"small"`) {
		t.Errorf("the request went to another model: %.200s", got)
	}
}

func TestPromptsHoldFiles(t *testing.T) {
	w := livetest.New(t, livetest.Options{})
	w.Model.Script(testllm.Text("one"))
	e := connect(t, w, nil, acp.Options{})
	id := e.open().SessionID
	file := "package main\n"
	p := protocol.PromptParams{SessionID: id, Prompt: []protocol.ContentBlock{
		protocol.Text("see"),
		{Type: "resource", Resource: &protocol.Resource{URI: "file:///src/main.go", Text: &file}},
		{Type: "resource_link", URI: "file:///src/a%20b.go", Name: "a b.go"},
	}}
	e.call(protocol.MethodSessionPrompt, p, &protocol.PromptResult{})
	body := string(w.Model.Requests()[0].Body)
	for _, part := range []string{`<file path=\"/src/main.go\">\npackage main\n</file>`, `@/src/a b.go`} {
		if !strings.Contains(body, part) {
			t.Errorf("the model was not sent %s", part)
		}
	}
	for _, wrong := range [][]protocol.ContentBlock{{}, {{Type: "audio", Data: "AA=="}}, {{Type: "image", Data: "AA=="}}, {{Type: "poem"}}, {{Type: "resource"}}} {
		var refused *jsonrpc.Error
		if err := e.try(protocol.MethodSessionPrompt, protocol.PromptParams{SessionID: id, Prompt: wrong}, nil); !errors.As(err, &refused) || refused.Code != jsonrpc.CodeParams {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	w := livetest.New(t, livetest.Options{})
	e := connect(t, w, nil, acp.Options{})
	for _, c := range []struct {
		method string
		params any
		code   int
		text   string
	}{
		{"session/promt", nil, jsonrpc.CodeNoMethod, "session/prompt"},
		{protocol.MethodSessionPrompt, 3, jsonrpc.CodeParams, "not understood"},
		{protocol.MethodSessionPrompt, protocol.PromptParams{SessionID: "x", Prompt: []protocol.ContentBlock{protocol.Text("hi")}}, protocol.CodeNotFound, "session/load"},
		{protocol.MethodSessionLoad, protocol.OpenParams{SessionID: "019362a0-0000-7000-8000-000000000000", Cwd: w.Dir}, protocol.CodeNotFound, ""},
		{protocol.MethodSessionNew, protocol.OpenParams{Cwd: "relative"}, jsonrpc.CodeParams, "absolute"},
		{protocol.MethodSessionNew, protocol.OpenParams{Cwd: "/no/such/folder"}, jsonrpc.CodeParams, "/no/such/folder"},
		{protocol.MethodAuthenticate, protocol.AuthenticateParams{MethodID: "x"}, jsonrpc.CodeParams, "environment"},
		{protocol.MethodUnwatch, protocol.UnwatchParams{Watch: "w9"}, jsonrpc.CodeParams, "w9"},
		{protocol.MethodSessionList, protocol.ListParams{Cursor: new(string)}, jsonrpc.CodeParams, "cursor"},
	} {
		var refused *jsonrpc.Error
		err := e.try(c.method, c.params, nil)
		if !errors.As(err, &refused) || refused.Code != c.code || !strings.Contains(refused.Message, c.text) || strings.Contains(refused.Message, "\n") {
			t.Errorf("%s %+v: %v (%+v)", c.method, c.params, err, refused)
		}
	}
}

func TestAFailedTurnIsAnError(t *testing.T) {
	w := livetest.New(t, livetest.Options{})
	w.Model.Script(testllm.Fail(500, "the model is down"))
	e := connect(t, w, nil, acp.Options{})
	_, err := e.prompt(e.open().SessionID, "hi")
	var refused *jsonrpc.Error
	if !errors.As(err, &refused) || !strings.Contains(refused.Message, "the model is down") {
		t.Errorf("%v", err)
	}
}

// TestTheTrajectoryGoesDownToTheBytes compares what the log says was sent with what the model's server got.
func TestTheTrajectoryGoesDownToTheBytes(t *testing.T) {
	w := livetest.New(t, livetest.Options{Mode: "workspace-write"})
	w.Model.Script(write("a.txt", "one\n"), testllm.Text("Done."), testllm.Text("Again."))
	e := connect(t, w, nil, acp.Options{})
	id := e.open().SessionID
	for _, text := range []string{"write it", "again"} {
		if _, err := e.prompt(id, text); err != nil {
			t.Fatal(err)
		}
	}
	var r protocol.TrajectoryResult
	e.call(protocol.MethodTrajectory, protocol.SessionParams{SessionID: id}, &r)
	var got trajectory.Trajectory
	if err := json.Unmarshal(r.Trajectory, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Turns) != 2 || len(got.Turns[0].Steps) != 2 || got.Turns[0].Prompt != "write it" || got.Turns[0].Steps[0].Calls[0].Name != "write" || got.Turns[1].Steps[0].Text != "Again." {
		t.Errorf("the trajectory is %+v", got)
	}
	for i, at := range [][2]int{{1, 1}, {1, 2}, {2, 1}} {
		var body protocol.RequestBytesResult
		e.call(protocol.MethodRequestBytes, protocol.RequestBytesParams{SessionID: id, Turn: at[0], Step: at[1]}, &body)
		if sent := string(w.Model.Requests()[i].Body); !body.Exact || body.Body != sent {
			t.Errorf("step %v: exact %v\nlog  %s\nsent %s", at, body.Exact, body.Body, sent)
		}
	}
	if err := e.try(protocol.MethodRequestBytes, protocol.RequestBytesParams{SessionID: id, Turn: 9, Step: 1}, nil); err == nil || !strings.Contains(err.Error(), "turn 9") {
		t.Errorf("a request that there was not: %v", err)
	}
}

func TestPromptsQueue(t *testing.T) {
	w := livetest.New(t, livetest.Options{})
	hold := make(chan struct{})
	first := testllm.Text("one")
	first.Wait = hold
	w.Model.Script(first, testllm.Text("two"))
	e := connect(t, w, nil, acp.Options{})
	id := e.open().SessionID
	ended := make(chan string, 2)
	go func() {
		_, err := e.prompt(id, "first")
		ended <- fmt.Sprint("first ", err)
	}()
	for len(w.Model.Requests()) == 0 {
		time.Sleep(time.Millisecond)
	}
	go func() {
		_, err := e.prompt(id, "second")
		ended <- fmt.Sprint("second ", err)
	}()
	var in protocol.InboxResult
	for len(in.Pending) == 0 {
		e.call(protocol.MethodInbox, protocol.InboxParams{SessionID: id}, &in)
	}
	close(hold)
	if a, b := <-ended, <-ended; a != "first <nil>" || b != "second <nil>" {
		t.Errorf("they ended as %q, %q", a, b)
	}
}

// TestS27_TheBridgeOwnsTheTeardown: an editor that goes away takes its agents with it, through their handles.
func TestS27_TheBridgeOwnsTheTeardown(t *testing.T) {
	w := livetest.New(t, livetest.Options{Mode: "full-access", Park: time.Millisecond})
	w.Model.Script(testllm.Calls(testllm.Call{ID: "p1", Name: "bash", Arguments: `{"command":"echo $$ > pid; sleep 600"}`}))
	e := connect(t, w, nil, acp.Options{EndTurns: true})
	id := e.open().SessionID
	go func() { _, _ = e.prompt(id, "wait") }()
	pid := ""
	for deadline := time.Now().Add(20 * time.Second); pid == ""; time.Sleep(5 * time.Millisecond) {
		raw, _ := os.ReadFile(filepath.Join(w.Dir, "pid"))
		pid = strings.TrimSpace(string(raw))
		if time.Now().After(deadline) {
			t.Fatal("the command did not start")
		}
	}
	_ = e.conn.Close()
	select {
	case <-e.served:
	case <-time.After(20 * time.Second):
		t.Fatal("Serve does not return")
	}
	for deadline := time.Now().Add(20 * time.Second); w.Hub.Stats().Live > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("its agent is still there")
		}
	}
	if _, ok := agents(w)[id]; ok {
		t.Error("the registry still knows the agent")
	}
	if command, err := os.ReadFile("/proc/" + pid + "/cmdline"); err == nil && strings.Contains(string(command), "sleep") {
		t.Errorf("its command still runs: %q", command)
	}
	var out protocol.ExportResult
	connect(t, w, nil, acp.Options{}).call(protocol.MethodExport, protocol.ExportParams{SessionID: id, Format: "jsonl"}, &out)
	if !strings.Contains(out.Text, `"turn/end"`) || !strings.Contains(out.Text, `"aborted"`) {
		t.Error("the turn was not closed")
	}
}

func TestWatch(t *testing.T) {
	w := livetest.New(t, livetest.Options{})
	w.Model.Script(write("a.txt", "one"), testllm.Text("done"))
	e := connect(t, w, &protocol.Ask{Questions: true, Quiet: true, Name: "terminal"}, acp.Options{})
	id := e.open().SessionID
	var r protocol.WatchResult
	e.call(protocol.MethodWatch, protocol.WatchParams{SessionID: id}, &r)
	var d protocol.DeliverResult
	e.call(protocol.MethodEnqueue, protocol.DeliverParams{SessionID: id, Prompt: []protocol.ContentBlock{protocol.Text("write it")}}, &d)
	asked := e.await("the question", func(n note) bool { return n.method == protocol.NoteAsked })
	var q protocol.Question
	if err := json.Unmarshal(asked.params, &q); err != nil || q.Tool != "write" || len(q.View) == 0 || len(q.Rules) == 0 {
		t.Fatalf("%s, %v", asked.params, err)
	}
	var a protocol.AnswerResult
	e.call(protocol.MethodAnswer, protocol.AnswerParams{SessionID: id, ID: q.ID, Allow: true}, &a)
	if !a.Accepted {
		t.Error("the answer was not accepted")
	}
	e.await("who answered", func(n note) bool {
		return n.method == protocol.NoteAnswered && strings.Contains(string(n.params), `"by":"terminal"`) && strings.Contains(string(n.params), "allowed")
	})
	e.await("the end", func(n note) bool {
		return n.method == protocol.NoteEvent && strings.Contains(string(n.params), `"turn/end"`)
	})
	e.await("the text", func(n note) bool {
		// Its message tells it, when that was there first.
		return (n.method == protocol.NoteDelta || n.method == protocol.NoteEvent) && strings.Contains(string(n.params), `"done"`)
	})
	e.await("the state", func(n note) bool {
		return n.method == protocol.NoteProjected && strings.Contains(string(n.params), `"requests":2`)
	})
	if strings.Contains(e.story(), protocol.NoteUpdate) || strings.Contains(e.story(), "agent_message_chunk") {
		t.Errorf("a quiet client is told\n%s", e.story())
	}
	next := int64(0)
	e.mu.Lock()
	for _, n := range e.notes {
		var note protocol.EventNote
		var line struct{ Seq int64 }
		if n.method == protocol.NoteEvent {
			if err := errors.Join(json.Unmarshal(n.params, &note), json.Unmarshal(note.Line, &line)); err != nil || line.Seq != next {
				t.Errorf("event %d in the place of %d, %v", line.Seq, next, err)
			}
			next++
		}
	}
	e.mu.Unlock()
	var page protocol.EventsResult
	e.call(protocol.MethodEvents, protocol.EventsParams{SessionID: id, From: -2, Raw: true}, &page)
	if len(page.Lines) != 2 || page.Next != page.DurableSeq || page.Next != next {
		t.Errorf("the last page is %+v", page)
	}
	e.call(protocol.MethodUnwatch, protocol.UnwatchParams{Watch: r.Watch}, nil)
}

func TestEveryMethodIsInTheTable(t *testing.T) {
	known := map[string]bool{}
	for _, m := range acp.Methods() {
		if known[m.Name] || m.Doc == "" {
			t.Errorf("%s is twice in the table, or has no words", m.Name)
		}
		known[m.Name] = true
	}
	source, err := os.ReadFile("../../protocol/extension.go")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(source)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "= \"")
		if ok && strings.HasPrefix(name, "Method") && !known[strings.Trim(value, "\" ")] {
			t.Errorf("%s is no method", value)
		}
	}
}
