package mode

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/session/jsonl"
	"github.com/dsh-harness/dsh/tool"
	"github.com/dsh-harness/dsh/workspace"
)

// kept is a session that is kept in the folder dir.
func kept(t *testing.T, dir string) *session.Session {
	t.Helper()
	tree := plugin.New(nil)
	t.Cleanup(func() {
		if err := tree.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	var s *session.Session
	_, err := tree.Root().MountAll(
		plugin.Child{Name: "session-jsonl", Start: func(ctx context.Context, s *plugin.Scope) error {
			return jsonl.Plugin.Start(ctx, s, jsonl.Config{Dir: dir})
		}},
		plugin.Child{Name: "sessions", Needs: session.StorePlugin.Needs, Start: func(ctx context.Context, s *plugin.Scope) error {
			return session.StorePlugin.Start(ctx, s, struct{}{})
		}},
		plugin.Child{
			Name: "test", Needs: []plugin.Need{session.Service.Required(), session.PersistenceService.Required()},
			Start: func(ctx context.Context, scope *plugin.Scope) (err error) {
				store := session.Service.From(scope)
				if s, err = store.Prepare(ctx, session.PrepareOptions{Cwd: dir}); err != nil {
					return err
				}
				if _, err = store.Enter(s); err != nil {
					return err
				}
				if _, err = s.Append(session.Draft{Type: session.TurnStart, Data: session.TurnStartData{Turn: 1}}); err != nil {
					return err
				}
				return s.Flush(ctx)
			},
		},
	)
	if err == nil {
		err = tree.Settle(context.Background())
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Sessions are private wherever they are kept, but for what a call of the same
// session left there to be read.
func TestASessionReadsOnlyItsOwnSpill(t *testing.T) {
	w := newWorld(t)
	r := newRules(w.home, w.dirs, Config{})
	for _, dir := range []string{filepath.Join(w.dirs.State, "sessions"), filepath.Join(w.outside, "sessions")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		c := w.call(workspace.SandboxNone)
		c.Session = kept(t, dir)
		for _, one := range []struct {
			kind   tool.AccessKind
			target string
			want   tool.Decision
		}{
			{tool.AccessRead, filepath.Join(c.Session.Dir(), "spill", "c1_1_0-bash.txt"), tool.Allow},
			{tool.AccessWrite, filepath.Join(c.Session.Dir(), "spill", "c1_1_0-bash.txt"), tool.Deny},
			{tool.AccessRead, filepath.Join(c.Session.Dir(), "log.jsonl"), tool.Deny},
			{tool.AccessRead, filepath.Join(dir, "another", "spill", "c1_1_0-bash.txt"), tool.Deny},
			{tool.AccessRead, filepath.Join(c.Session.Dir(), "spill", "..", "log.jsonl"), tool.Deny},
		} {
			if d, reason := judged(r, policy.FullAccess, c, tool.Access{Kind: one.kind, Target: one.target}); d != one.want {
				t.Errorf("%s %s: got %v (%s), want %v", one.kind, one.target, d, reason, one.want)
			}
		}
	}
}
