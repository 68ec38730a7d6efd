package mode

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/session/jsonl"
	"github.com/dsh-harness/dsh/tool"
	"github.com/dsh-harness/dsh/workspace"
)

// office is the plugin beside a store of sessions.
type office struct {
	scope *plugin.Scope
	store session.Store
	modes policy.Switch
}

func newOffice(t *testing.T, dir string, c Config) *office {
	t.Helper()
	o := &office{}
	tree := plugin.New(nil)
	t.Cleanup(func() {
		if err := tree.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	_, err := tree.Root().MountAll(
		plugin.Child{Name: "session-jsonl", Start: func(ctx context.Context, s *plugin.Scope) error {
			return jsonl.Plugin.Start(ctx, s, jsonl.Config{Dir: dir})
		}},
		plugin.Child{Name: "sessions", Needs: session.StorePlugin.Needs, Start: func(ctx context.Context, s *plugin.Scope) error {
			return session.StorePlugin.Start(ctx, s, struct{}{})
		}},
		plugin.Child{Name: "permission-mode", Needs: Plugin.Needs, Start: func(ctx context.Context, s *plugin.Scope) error {
			return Plugin.Start(ctx, s, c)
		}},
		plugin.Child{
			Name: "surface", Needs: []plugin.Need{session.Service.Required(), policy.ModeService.Required()},
			Start: func(_ context.Context, s *plugin.Scope) error {
				o.scope, o.store, o.modes = s, session.Service.From(s), policy.ModeService.From(s)
				return nil
			},
		},
	)
	if err == nil {
		err = tree.Settle(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func (o *office) open(t *testing.T, dir, resume string) *session.Session {
	t.Helper()
	var s *session.Session
	var err error
	if resume == "" {
		s, err = o.store.Prepare(t.Context(), session.PrepareOptions{Cwd: dir})
	} else {
		s, err = o.store.Restore(t.Context(), resume, session.RestoreOptions{})
	}
	if err == nil {
		_, err = o.store.Enter(s)
	}
	if err == nil && resume == "" {
		_, err = s.Append(session.Draft{Type: session.TurnStart, Data: session.TurnStartData{Turn: 1}})
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A switch in mid-turn is logged and counts from the next call on: the call that was decided on before keeps
// its mode, with its sandbox. The session keeps its mode when it is resumed, and other sessions theirs.
func TestTrust_P12_ASwitchCountsFromTheNextCall(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	o := newOffice(t, dir, Config{Mode: policy.WorkspaceWrite})
	s, other := o.open(t, dir, ""), o.open(t, dir, "")
	work := tool.New(tool.Spec{Name: "work", Access: func(*tool.Call) []tool.Access {
		return []tool.Access{{Kind: tool.AccessExecute, Target: "make"}}
	}}, func(ctx context.Context, _ *tool.Call, _ struct{}) (tool.Result, error) {
		c, err := workspace.Confining.Run(ctx, o.scope, &workspace.Confinement{Session: s.ID(), Write: w.workspace.Roots()}, same)
		if err != nil {
			return tool.Result{}, err
		}
		return tool.Text(c.Unconfined), nil
	})
	decide := func() *tool.Prepared {
		c := w.call(workspace.SandboxFull)
		c.Session, c.Arguments = s, json.RawMessage(`{}`)
		p := &tool.Pending{Call: c, Definition: work}
		if _, err := tool.PreExecute.Run(t.Context(), o.scope, p, func(context.Context, *tool.Pending) (tool.Verdict, error) { return p.Verdict, nil }); err != nil {
			t.Fatal(err)
		}
		return &tool.Prepared{Call: c, Definition: work, Verdict: p.Verdict, Opinions: p.Opinions(), Digest: p.DecidedOn()}
	}
	run := func(p *tool.Prepared) string {
		result, err := tool.Execution.Run(t.Context(), o.scope, p, func(ctx context.Context, p *tool.Prepared) (tool.Result, error) {
			return p.Definition.Run(ctx, p.Call)
		})
		if err != nil || result.IsError {
			t.Fatal(result, err)
		}
		return result.Content[0].Text
	}
	before := decide()
	if err := o.modes.SwitchMode(s, policy.FullAccess, "test"); err != nil {
		t.Fatal(err)
	}
	if got := run(before); before.Verdict.Decision != tool.Confined || got != "" {
		t.Errorf("the call before the switch was decided as %v and ran as %q, want in the sandbox", before.Verdict.Decision, got)
	}
	after := decide()
	if got := run(after); after.Verdict.Decision != tool.Allow || got != "mode full-access" {
		t.Errorf("the call after the switch was decided as %v and ran as %q, want outside of the sandbox", after.Verdict.Decision, got)
	}
	if m := o.modes.Mode(other); m != policy.WorkspaceWrite {
		t.Errorf("another session is in mode %s", m)
	}
	if err := o.modes.SwitchMode(s, "yolo", "test"); err == nil || !strings.Contains(err.Error(), "unknown permission mode") {
		t.Errorf("switching to no mode: %v", err)
	}
	if err := o.modes.SwitchMode(s, policy.Plan, "another"); err != nil {
		t.Fatal(err)
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	var logged []string
	for e, err := range s.Events(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == policy.ModeSwitched {
			logged = append(logged, string(e.Data))
		}
	}
	if got, want := strings.Join(logged, " "), `{"mode":"full-access","by":"test"} {"mode":"plan","by":"another"}`; got != want {
		t.Errorf("the log says %s, want %s", got, want)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}

	again := newOffice(t, dir, Config{Mode: policy.WorkspaceWrite})
	if m := again.modes.Mode(again.open(t, dir, s.ID())); m != policy.Plan {
		t.Errorf("resumed, the session is in mode %s, want plan", m)
	}
}

func same(_ context.Context, c *workspace.Confinement) (*workspace.Confinement, error) { return c, nil }
