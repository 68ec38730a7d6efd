package loop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/dsh-harness/dsh/agent"
	"github.com/dsh-harness/dsh/agent/loop"
	"github.com/dsh-harness/dsh/agent/registry"
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/llm/runtime"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/prompt/assembler"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/session/barrier"
	"github.com/dsh-harness/dsh/session/jsonl"
	toolregistry "github.com/dsh-harness/dsh/tool/registry"

	"github.com/dsh-harness/dsh/tool"
)

// world is a tree with the real services, a scripted model, and what a test adds.
type world struct {
	t     *testing.T
	tree  *plugin.Tree
	root  *plugin.Scope
	model *model
	nodes map[string]*plugin.Node
}

// part is one plugin of a world.
type part struct {
	name  string
	needs []plugin.Need
	start plugin.StartFunc
}

func of[C any](p plugin.Plugin[C]) part {
	return part{p.Name, p.Needs, func(ctx context.Context, s *plugin.Scope) error {
		var c C
		if p.Default != nil {
			c = p.Default()
		}
		return p.Start(ctx, s, c)
	}}
}

// services are the five that the loop needs, by the name of their key.
func services() map[string]part {
	return map[string]part{
		"agents":       of(registry.Plugin),
		"sessions":     of(session.StorePlugin),
		"llm":          of(runtime.Plugin),
		"tools":        of(toolregistry.Plugin),
		"systemPrompt": of(assembler.Plugin),
	}
}

func newWorld(t *testing.T, more ...part) *world {
	t.Helper()
	w := buildWorld(t, more...)
	t.Cleanup(func() { check(t, w.tree.Close(context.Background())) })
	return w
}

// newWorldOn is a world that keeps its sessions in dir.
func newWorldOn(t *testing.T, dir string, more ...part) *world {
	t.Helper()
	return newWorld(t, append([]part{keeps(dir), of(barrier.Plugin)}, more...)...)
}

// keeps is the backend that keeps sessions in dir.
func keeps(dir string) part {
	return part{"jsonl", nil, func(ctx context.Context, s *plugin.Scope) error {
		return jsonl.Plugin.Start(ctx, s, jsonl.Config{Dir: dir})
	}}
}

// buildWorld is a world that the caller closes.
func buildWorld(t *testing.T, more ...part) *world {
	t.Helper()
	w := &world{t: t, tree: plugin.New(slog.New(slog.DiscardHandler)), model: &model{}, nodes: map[string]*plugin.Node{}}
	w.root = w.tree.Root()
	for _, p := range more {
		w.mount(p.name, p)
	}
	for name, p := range services() {
		w.mount(name, p)
	}
	w.mount("model", part{"model", nil, func(_ context.Context, s *plugin.Scope) error {
		_, err := llm.Providers.Add(s, "fake", llm.Provider{
			Adapter: w.model, Models: []llm.Model{{Provider: "fake", ID: "one", Window: 1000}, {Provider: "fake", ID: "two"}},
		})
		return err
	}})
	w.mount("loop", of(loop.Plugin))
	check(t, w.tree.Settle(t.Context()))
	return w
}

func (w *world) mount(name string, p part) {
	w.t.Helper()
	n, err := w.root.Mount(name, p.needs, p.start)
	check(w.t, err)
	w.nodes[name] = n
}

// with runs f on a scope that has declared what a test looks up.
func (w *world) with(f func(s *plugin.Scope) error) {
	w.t.Helper()
	needs := []plugin.Need{agent.Service.Required(), agent.LoopService.Required(), session.Service.Required()}
	n, err := w.root.Mount("test", needs, func(_ context.Context, s *plugin.Scope) error { return f(s) })
	check(w.t, err)
	check(w.t, n.Settle(w.t.Context()))
}

// create starts an agent named "a" on the session "s".
func (w *world) create(o agent.Options) (agent.Handle, agent.Agent) {
	w.t.Helper()
	var agents agent.Registry
	w.with(func(s *plugin.Scope) error { agents = agent.Service.From(s); return nil })
	h, err := agents.Create(w.t.Context(), w.root, agent.CreateOptions{AgentID: "a", SessionID: "s", Options: o})
	check(w.t, err)
	return h, h.Agent()
}

// resume goes on with the session "s" as agent "a".
func (w *world) resume(o agent.Options) (agent.Handle, agent.Agent) {
	w.t.Helper()
	var agents agent.Registry
	w.with(func(s *plugin.Scope) error { agents = agent.Service.From(s); return nil })
	h, err := agents.Resume(w.t.Context(), w.root, agent.ResumeOptions{AgentID: "a", ResumeSessionID: "s", Options: o})
	check(w.t, err)
	return h, h.Agent()
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// trace tells the agent's log in short.
func trace(t testing.TB, s *session.Session) []string {
	t.Helper()
	var lines []string
	for e, err := range s.Events(context.Background(), 0) {
		check(t, err)
		lines = append(lines, short(e))
	}
	return lines
}

// only keeps the lines that begin with one of the prefixes.
func only(lines []string, prefixes ...string) []string {
	var kept []string
	for _, l := range lines {
		for _, p := range prefixes {
			if strings.HasPrefix(l, p) {
				kept = append(kept, l)
				break
			}
		}
	}
	return kept
}

func short(e session.Event) string {
	var d struct {
		Turn, Step int
		Reason     string
		Cause      string
		Budget     string
		Error      *struct{ Code, Message string }
		Content    []llm.Block
		Message    struct{ Content []llm.Block }
		CallID     string
		Name       string
		IDs        []string
		Model      string
		Finish     string
	}
	_ = json.Unmarshal(e.Data, &d) // what does not fit stays empty
	text := llm.PlainText(append(d.Content, d.Message.Content...))
	for _, b := range llm.ToolCalls(d.Message.Content) {
		text += " " + b.Name + "(" + b.Arguments + ")"
	}
	switch e.Type {
	case session.TurnStart:
		return fmt.Sprintf("turn/start %d", d.Turn)
	case session.TurnEnd:
		out := fmt.Sprintf("turn/end %d %s", d.Turn, d.Reason)
		if d.Cause != "" {
			out += " " + d.Cause
		}
		if d.Budget != "" {
			out += " " + d.Budget
		}
		if d.Error != nil {
			out += " " + d.Error.Code
		}
		return out
	case session.StepStart, session.StepEnd:
		return fmt.Sprintf("%s %d", e.Type, d.Step)
	case session.ToolCall:
		return "tool/call " + d.CallID + " " + d.Name
	case session.ToolResult:
		return "tool/result " + d.CallID + " " + text
	case session.RequestHeader:
		return "request/header " + d.Model
	case session.InboxCleared:
		return fmt.Sprintf("inbox/cleared %d", len(d.IDs))
	}
	return strings.Join(strings.Fields(e.Type+" "+text), " ")
}

// model is a scripted model: each request takes the next answer; a model without
// answers left says "ok".
type model struct {
	mu       sync.Mutex
	answers  []answer
	requests []request
}

// request is what the model was sent.
type request struct {
	Header   *llm.Header
	Messages []*llm.Message
}

// answer yields the chunks of one answer.
type answer func(ctx context.Context, req *llm.Request, yield func(llm.Chunk, error) bool)

func (m *model) script(answers ...answer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answers = append(m.answers, answers...)
}

func (m *model) sent() []request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.requests
}

func (m *model) Stream(ctx context.Context, req *llm.Request) llm.Stream {
	return func(yield func(llm.Chunk, error) bool) {
		m.mu.Lock()
		m.requests = append(m.requests, request{req.Header, req.History.Messages()})
		next := says("ok")
		if len(m.answers) > 0 {
			next, m.answers = m.answers[0], m.answers[1:]
		}
		m.mu.Unlock()
		next(ctx, req, yield)
	}
}

// says answers with text.
func says(text string) answer {
	return func(_ context.Context, _ *llm.Request, yield func(llm.Chunk, error) bool) {
		_ = yield(llm.Chunk{Kind: llm.ChunkDelta, Block: llm.BlockText, Text: text}, nil) &&
			yield(llm.Chunk{Kind: llm.ChunkUsage, Usage: llm.Usage{Input: 10, Output: 2}}, nil) &&
			yield(llm.Chunk{Kind: llm.ChunkFinish, Finish: llm.FinishStop}, nil)
	}
}

// calls answers with calls, each "name" or "name {arguments}".
func calls(all ...string) answer { return callsThen(llm.FinishToolCalls, all...) }

func callsThen(finish llm.Finish, all ...string) answer {
	return func(_ context.Context, _ *llm.Request, yield func(llm.Chunk, error) bool) {
		for i, c := range all {
			name, arguments, _ := strings.Cut(c, " ")
			chunk := llm.Chunk{Kind: llm.ChunkDelta, Index: i, Block: llm.BlockToolCall, ProviderID: fmt.Sprint("p", i), Name: name, Text: arguments}
			if !yield(chunk, nil) {
				return
			}
		}
		yield(llm.Chunk{Kind: llm.ChunkFinish, Finish: finish}, nil)
	}
}

// hangs streams text and then nothing until it is cancelled; begun is closed once it hangs.
func hangs(text string, begun chan<- struct{}) answer {
	return func(ctx context.Context, _ *llm.Request, yield func(llm.Chunk, error) bool) {
		if text != "" && !yield(llm.Chunk{Kind: llm.ChunkDelta, Block: llm.BlockText, Text: text}, nil) {
			return
		}
		close(begun)
		<-ctx.Done()
		yield(llm.Chunk{}, &llm.Error{Code: llm.CodeAborted, Message: "cancelled", Err: context.Cause(ctx)})
	}
}

// fails answers with an error after some text.
func fails(text string, code llm.Code) answer {
	return func(_ context.Context, _ *llm.Request, yield func(llm.Chunk, error) bool) {
		if text != "" && !yield(llm.Chunk{Kind: llm.ChunkDelta, Block: llm.BlockText, Text: text}, nil) {
			return
		}
		yield(llm.Chunk{}, &llm.Error{Code: code, Message: "scripted " + string(code)})
	}
}

// toolPart adds tools.
func toolPart(tools ...tool.Definition) part {
	return part{"test-tools", nil, func(_ context.Context, s *plugin.Scope) error { return tool.Add(s, tools...) }}
}

type nothing struct{}

// newTool is a tool without arguments.
func newTool(name string, parallel bool, run func(ctx context.Context, c *tool.Call) (tool.Result, error)) tool.Definition {
	return tool.New(tool.Spec{Name: name, Description: name, Effect: session.EffectRead, Parallel: parallel},
		func(ctx context.Context, c *tool.Call, _ nothing) (tool.Result, error) { return run(ctx, c) })
}

func echo(name string) tool.Definition {
	return newTool(name, true, func(context.Context, *tool.Call) (tool.Result, error) { return tool.Text(name + " ran"), nil })
}

// listens makes a part that registers listeners at the root.
func listens(name string, register func(s *plugin.Scope) error) part {
	return part{name, nil, func(_ context.Context, s *plugin.Scope) error { return register(s) }}
}

func first[A any](_ A, err error) error { return err }

var errBroken = errors.New("broken on purpose")

// models is the service that calls models.
func (w *world) models() (r llm.Runtime) {
	w.t.Helper()
	n, err := w.root.Mount("look", []plugin.Need{llm.Service.Required()}, func(_ context.Context, s *plugin.Scope) error {
		r = llm.Service.From(s)
		return nil
	})
	check(w.t, err)
	check(w.t, n.Settle(w.t.Context()))
	return r
}

func echoNothing(context.Context, *tool.Call) (tool.Result, error) { return tool.Result{}, nil }
