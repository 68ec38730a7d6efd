package local_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dsh-harness/dsh/internal/need"
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

// TestTrust_T13_NothingMountedIsDeleted runs again in user and mount namespaces of its own, where it may mount and
// where what it mounts ends with it.
func TestTrust_T13_NothingMountedIsDeleted(t *testing.T) {
	if os.Getenv("DSH_TEST_MOUNTS") == "" {
		exe, err := os.Executable()
		must(t, err)
		cmd := exec.Command(exe, "-test.run=^TestTrust_T13_NothingMountedIsDeleted$", "-test.v")
		cmd.Env = append(os.Environ(), "DSH_TEST_MOUNTS=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		}
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			need.Missing(t, "user namespaces are refused here: %v", err)
		}
		if err != nil || !bytes.Contains(out, []byte("--- PASS")) {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	must(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	w, dir, _, _ := deleting(t)
	target := realDir(t)
	must(t, os.WriteFile(filepath.Join(target, "f"), []byte("mine"), 0o600))
	point := filepath.Join(dir, "a", "b", "mounted here")
	must(t, os.MkdirAll(point, 0o755))
	must(t, unix.Mount(target, point, "", unix.MS_BIND, ""))
	defer func() { must(t, unix.Unmount(point, unix.MNT_DETACH)) }()
	for _, name := range []string{"a", "a/b", "a/b/mounted here"} {
		if _, err := w.FS().Delete(name); !errors.Is(err, workspace.ErrKept) {
			t.Errorf("Delete(%q) = %v, want ErrKept", name, err)
		}
	}
	if b, err := os.ReadFile(filepath.Join(target, "f")); err != nil || string(b) != "mine" {
		t.Errorf("what was mounted is %q, %v", b, err)
	}
}
