package acceptance

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/dsh-harness/dsh/internal/need"
	"github.com/dsh-harness/dsh/internal/testllm"
)

func TestBadInput_AFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		need.Missing(t, "this test mounts a small file system: run it as root")
	}
	p := newPlace(t)
	small := filepath.Join(p.home, "dsh")
	check(t, os.Mkdir(small, 0o700))
	if err := syscall.Mount("tmpfs", small, "tmpfs", 0, "size=64k"); err != nil {
		need.Missing(t, "this machine mounts nothing: %v", err)
	}
	t.Cleanup(func() { check(t, syscall.Unmount(small, 0)) })
	check(t, os.MkdirAll(filepath.Join(small, "state"), 0o700))
	check(t, os.WriteFile(filepath.Join(small, "state", "ballast"), make([]byte, 44<<10), 0o600))
	p.srv.Script(testllm.Text(strings.Repeat("long ", 6000)))
	o := p.run("hi")
	if o.Code != 1 || !strings.Contains(o.Stderr, "no space left") || strings.Contains(o.Stderr, "goroutine") {
		t.Errorf("exit %d: %.600s", o.Code, o.Stderr)
	}
	check(t, os.Remove(filepath.Join(small, "state", "ballast")))
	p.srv.Script(testllm.Text("resumed"), testllm.Text("resumed"))
	if o := p.run("-c", "go on"); o.Code != 0 {
		t.Errorf("after space was freed: exit %d: %.600s", o.Code, o.Stderr)
	}
}
