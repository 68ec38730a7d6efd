// Package workspacetest is the contract suite of providers of workspaces, and opens
// workspaces for the tests of what uses them. Only tests import it.
package workspacetest

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/workspace"
)

// Open mounts provider with its default config and opens a workspace. Both are
// closed when t ends. Without o.Dir the workspace is in a folder made for t.
func Open(t testing.TB, provider plugin.Definition, o workspace.Options) workspace.Workspace {
	t.Helper()
	w, _ := OpenScope(t, provider, o)
	return w
}

// OpenScope is [Open] that also returns a function which closes the workspace early.
func OpenScope(t testing.TB, provider plugin.Definition, o workspace.Options) (w workspace.Workspace, closeNow func()) {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	tree := plugin.New(slog.New(slog.DiscardHandler))
	closeNow = func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := tree.Close(ctx); err != nil {
			t.Errorf("close the workspace: %v", err)
		}
	}
	t.Cleanup(closeNow)
	prepared, err := provider.Bind(provider.NewConfig())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tree.Root().MountAll(prepared.Child("workspace")); err != nil {
		t.Fatal(err)
	}
	user, err := tree.Root().Mount("user", []plugin.Need{workspace.Service.Required()}, func(ctx context.Context, s *plugin.Scope) (err error) {
		w, err = workspace.Service.From(s).Open(ctx, s, o)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := tree.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st, err := user.State(); st != plugin.Active {
		t.Fatalf("open the workspace: %v: %v", st, err)
	}
	return w, closeNow
}

// real is dir without links: a temporary folder may be behind one.
func real(t testing.TB, dir string) string {
	t.Helper()
	path, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
