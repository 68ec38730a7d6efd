package permission

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/session/jsonl"
	"github.com/dsh-harness/dsh/tool"
	"github.com/dsh-harness/dsh/workspace"
	"github.com/dsh-harness/dsh/workspace/local"
)

func TestMain(m *testing.M) {
	local.Guard()
	goleak.VerifyTestMain(m)
}

// world is the plugin in a tree, with a home and a project. A stand-in for the mode asks about all that
// is not permitted, and nobody answers.
type world struct {
	t             testing.TB
	home, project string
	tree          *plugin.Tree
	scope         *plugin.Scope // a session's
	keeper        *Keeper
	workspace     workspace.Workspace
	session       *session.Session
	log           *bytes.Buffer
	trusted       map[string]string // files of the project that are trusted
}

// names of the tools of the world; each says what it touches.
func tools() []tool.Definition {
	run := func(context.Context, *tool.Call, map[string]any) (tool.Result, error) { return tool.Text(""), nil }
	define := func(name string, kind tool.AccessKind, argument string) tool.Definition {
		return tool.New(tool.Spec{Name: name, Access: func(c *tool.Call) []tool.Access {
			var in map[string]string
			_ = json.Unmarshal(c.Arguments, &in) // the tests write what can be decoded
			if kind == "" {
				return nil
			}
			return []tool.Access{{Kind: kind, Target: in[argument]}}
		}}, run)
	}
	return []tool.Definition{
		define("bash", tool.AccessExecute, "command"),
		define("read", tool.AccessRead, "file_path"), define("grep", tool.AccessRead, "path"), define("glob", tool.AccessRead, "path"),
		define("write", tool.AccessWrite, "file_path"), define("edit", tool.AccessWrite, "file_path"), define("delete", tool.AccessWrite, "file_path"),
		define("web_fetch", tool.AccessNetwork, "url"), define("mcp__server__send", "", ""), define("note", "", ""),
	}
}

type truster struct{ w *world }

func (t truster) Trusted(_ context.Context, dir, path string) ([]byte, error) {
	content, ok := t.w.trusted[path]
	if !ok || dir != t.w.project {
		return nil, nil
	}
	return []byte(content), nil
}

// newWorld is a world whose rows are configured with c. State is kept in state, "" for a fresh one.
func newWorld(t testing.TB, c Config) *world { return openWorld(t, t.TempDir(), "", c) }

// openWorld is a world in the folder base; a session of that id goes on.
func openWorld(t testing.TB, base, resume string, c Config) *world {
	t.Helper()
	base, err := filepath.EvalSymlinks(base)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, home: filepath.Join(base, "home"), project: filepath.Join(base, "home", "project"), log: &bytes.Buffer{}, trusted: map[string]string{}}
	for _, dir := range []string{w.project + "/src", filepath.Join(base, "outside")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HOME", w.home)
	t.Setenv("USERPROFILE", w.home)
	t.Setenv("DSH_HOME", filepath.Join(base, "dsh"))
	w.tree = plugin.New(slog.New(slog.NewTextHandler(&locked{w: w.log}, nil)))
	closed := sync.OnceFunc(func() {
		if err := w.tree.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	t.Cleanup(closed)
	prepared, err := Plugin.Definition().Bind(&c)
	if err != nil {
		t.Fatal(err)
	}
	workspaces, err := local.Plugin.Definition().Bind(local.Plugin.Definition().NewConfig())
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.tree.Root().MountAll(
		plugin.Child{Name: "trust", Start: func(_ context.Context, s *plugin.Scope) error { return policy.Trust.Provide(s, truster{w}) }},
		plugin.Child{Name: "session-jsonl", Start: func(ctx context.Context, s *plugin.Scope) error {
			return jsonl.Plugin.Start(ctx, s, jsonl.Config{Dir: filepath.Join(base, "sessions")})
		}},
		plugin.Child{Name: "sessions", Needs: session.StorePlugin.Needs, Start: func(ctx context.Context, s *plugin.Scope) error {
			return session.StorePlugin.Start(ctx, s, struct{}{})
		}},
		plugin.Child{Name: "tools", Start: func(_ context.Context, s *plugin.Scope) error {
			for _, d := range tools() {
				if _, err := tool.Tools.Add(s, d.Name(), d); err != nil {
					return err
				}
			}
			return nil
		}},
		prepared.Child("permissions"),
		workspaces.Child("workspace"),
		plugin.Child{Name: "mode", Start: func(_ context.Context, s *plugin.Scope) error {
			return registered(tool.PreExecute.On(s, func(ctx context.Context, p *tool.Pending, next plugin.Next[*tool.Pending, tool.Verdict]) (tool.Verdict, error) {
				if o, ok := p.Permitted(); ok {
					p.Raise(tool.Allow, o.By, o.Reason)
				} else {
					p.Raise(tool.Ask, "mode ask", "it is not permitted")
				}
				return next(ctx, p)
			}, plugin.At(tool.Decide)))
		}},
		plugin.Child{
			Name:  "test",
			Needs: []plugin.Need{session.Service.Required(), session.PersistenceService.Required(), policy.Rules.Required(), workspace.Service.Required()},
			Start: func(ctx context.Context, s *plugin.Scope) (err error) {
				w.scope, w.keeper = s, policy.Rules.From(s).(*Keeper)
				if w.workspace, err = workspace.Service.From(s).Open(ctx, s, workspace.Options{Dir: w.project}); err != nil {
					return err
				}
				return w.openSession(ctx, resume)
			},
		},
	)
	if err == nil {
		err = w.tree.Settle(context.Background())
	}
	if err == nil && w.keeper == nil {
		t.Fatalf("the test did not start: %+v", w.tree.Dump())
	}
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) openSession(ctx context.Context, resume string) (err error) {
	store := session.Service.From(w.scope)
	if resume != "" {
		w.session, err = store.Restore(ctx, resume, session.RestoreOptions{})
	} else {
		w.session, err = store.Prepare(ctx, session.PrepareOptions{Cwd: w.project})
	}
	if err != nil {
		return err
	}
	_, err = store.Enter(w.session)
	return err
}

// locked is a writer for many goroutines.
type locked struct {
	mu sync.Mutex
	w  *bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// put writes a file in the project.
func (w *world) put(name, content string) {
	w.t.Helper()
	path := filepath.Join(w.project, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// call is a call of a tool with one argument.
func (w *world) call(name, argument, value string) *tool.Call {
	arguments, err := json.Marshal(map[string]string{argument: value})
	if err != nil {
		w.t.Fatal(err)
	}
	return &tool.Call{ID: "c1_1_0", Name: name, Arguments: arguments, Workspace: w.workspace, Session: w.session}
}

// pending decides about a call.
func (w *world) pending(c *tool.Call) *tool.Pending {
	w.t.Helper()
	d, ok := tool.Tools.Get(w.scope, c.Name)
	if !ok {
		w.t.Fatalf("there is no tool %s", c.Name)
	}
	p := &tool.Pending{Call: c, Definition: d}
	v, err := tool.PreExecute.Run(context.Background(), w.scope, p, func(_ context.Context, p *tool.Pending) (tool.Verdict, error) { return p.Verdict, nil })
	if err != nil {
		w.t.Fatal(err)
	}
	p.Verdict = v
	return p
}

// bash decides about a command.
func (w *world) bash(line string) tool.Decision {
	w.t.Helper()
	return w.pending(w.call("bash", "command", line)).Verdict.Decision
}

// decisions compares what is decided about commands.
func (w *world) decisions(want map[string]tool.Decision) {
	w.t.Helper()
	for line, want := range want {
		p := w.pending(w.call("bash", "command", line))
		if p.Verdict.Decision != want {
			w.t.Errorf("%.200q: %s by %s: %s; want %s", line, p.Verdict.Decision, p.Verdict.By, p.Verdict.Reason, want)
		}
		if strings.Contains(p.Verdict.Reason, "\n") && !strings.Contains(line, "\n") || p.Verdict.Reason == "" {
			w.t.Errorf("%.200q: the reason is %q", line, p.Verdict.Reason)
		}
	}
}

func jsonOf(v any) (string, error) {
	text, err := json.Marshal(v)
	return string(text), err
}
