//go:build unix

package shell_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/session/jsonl"
	"github.com/dsh-harness/dsh/tool"
	"github.com/dsh-harness/dsh/tools/shell"
)

// Long output of a session that is kept is kept with it.
func TestSpillInTheSessionsFolder(t *testing.T) {
	t.Parallel()
	b := newBash(t)
	tree := plugin.New(slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		if err := tree.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	logs := jsonl.Plugin
	state := t.TempDir()
	logs.Default = func() jsonl.Config { return jsonl.Config{Dir: state} }
	var children []plugin.Child
	for _, def := range []plugin.Definition{logs.Definition(), session.StorePlugin.Definition()} {
		prepared, err := def.Bind(def.NewConfig())
		if err != nil {
			t.Fatal(err)
		}
		children = append(children, prepared.Child(def.Name()))
	}
	if _, err := tree.Root().MountAll(children...); err != nil {
		t.Fatal(err)
	}
	var s *session.Session
	_, err := tree.Root().Mount("test", []plugin.Need{session.PersistenceService.Required(), session.Service.Required()}, func(ctx context.Context, scope *plugin.Scope) error {
		store := session.Service.From(scope)
		var err error
		if s, err = store.Prepare(ctx, session.PrepareOptions{Cwd: b.w.Dir()}); err != nil {
			return err
		}
		leave, err := store.Enter(s)
		if err != nil {
			return err
		}
		_, err = scope.Defer("session", leave)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := tree.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The log is durable before a body runs.
	if _, err := s.Append(session.Draft{Type: session.TurnStart, Data: session.TurnStartData{Turn: 1}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	body, err := b.tool.Bind(&tool.Call{ID: "c1_1_0", Name: "bash", Arguments: json.RawMessage(`{"command":"seq 100000"}`), Session: s, Workspace: b.w, Progress: func(string) {}})
	if err != nil {
		t.Fatal(err)
	}
	result, err := body(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	file := result.Meta.(shell.Outcome).Spill
	if filepath.Dir(file) != filepath.Join(s.Dir(), "spill") {
		t.Errorf("kept in %s, not in %s", file, s.Dir())
	}
	if info, err := os.Stat(filepath.Dir(file)); err != nil || info.Mode() != os.ModeDir|0o700 {
		t.Errorf("its folder: %v, %v", info, err)
	}
}
