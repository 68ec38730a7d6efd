package local_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dsh-harness/dsh/workspace"
)

func TestConfined(t *testing.T) {
	w, dir, home, _ := deleting(t)
	level, why := w.Sandbox()
	t.Log(level, why)
	if level != workspace.SandboxFull {
		t.Fatalf("level %s: %s", level, why)
	}
	must(t, os.MkdirAll(filepath.Join(dir, ".git", "hooks"), 0o755))
	out, result := sh(t, w, `id -u; pwd; echo hi > a; cat a; echo x > `+home+`/b; echo x > .git/hooks/pre-commit; echo $TMPDIR; touch $TMPDIR/t && echo temp; ps ax 2>/dev/null | wc -l; ls /dev; cat /proc/self/status | grep -E 'Cap|NoNew|Seccomp'`, workspace.Command{Timeout: 20 * time.Second})
	t.Logf("%s\n%+v", out, result)
	if strings.Contains(out, "x") == false {
		t.Log("")
	}
}
