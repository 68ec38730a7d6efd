package local_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/workspace"
	"github.com/dsh-harness/dsh/workspace/local"
)

// mountIn mounts target in a workspace's temporary folder and closes the workspace.
func mountIn(t *testing.T, target string) {
	var log bytes.Buffer
	tree := plugin.New(slog.New(slog.NewTextHandler(&log, nil)))
	def := local.Plugin.Definition()
	prepared, err := def.Bind(def.NewConfig())
	must(t, err)
	_, err = tree.Root().MountAll(prepared.Child("workspace"))
	must(t, err)
	var w workspace.Workspace
	_, err = tree.Root().Mount("user", []plugin.Need{workspace.Service.Required()}, func(ctx context.Context, s *plugin.Scope) (err error) {
		w, err = workspace.Service.From(s).Open(ctx, s, workspace.Options{Dir: target})
		return err
	})
	must(t, err)
	must(t, tree.Settle(t.Context()))
	point := filepath.Join(w.Temp(), "mounted here")
	must(t, os.Mkdir(point, 0o755))
	must(t, unix.Mount(target, point, "", unix.MS_BIND, ""))
	_ = tree.Close(t.Context()) // what is wrong is in the log
	t.Log(log.String())
	must(t, unix.Unmount(point, 0))
	must(t, os.RemoveAll(w.Temp()))
}
