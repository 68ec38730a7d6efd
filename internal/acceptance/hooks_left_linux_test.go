package acceptance

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dsh-harness/dsh/internal/testllm"
)

// TestCase_o_hk_03_NothingIsLeftOfAHook: a hook that hangs, with a child in the background and one in another session, is ended at its limit, as seen from
// outside of its sandbox; in full-access, too, where it has none.
func TestCase_o_hk_03_NothingIsLeftOfAHook(t *testing.T) {
	for i, mode := range []string{"workspace-write", "full-access"} {
		t.Run(mode, func(t *testing.T) {
			p := newPlace(t)
			config := filepath.Join(p.home, "dsh", "config")
			check(t, os.MkdirAll(config, 0o700))
			mark := fmt.Sprintf("%d.%d", 3000+i, os.Getpid())
			check(t, os.WriteFile(filepath.Join(config, "hooks.json"), []byte(fmt.Sprintf(`{"hooks":{"PreToolUse":[{"hooks":[{"type":"command","timeout":2,
				"command":"touch begun; sleep %[1]s & setsid sleep %[1]s & trap '' TERM; sleep %[1]s; sleep %[1]s"}]}]}}`, mark)), 0o600))
			p.srv.Script(testllm.Calls(shell("one", "touch ran")), testllm.Text("done"))
			o := p.dsh("run", "--permission-mode", mode, "-v", "hi")
			if o.Stdout != "done\n" || o.Took < 2*time.Second || o.Took > 8*time.Second || !p.has("begun") || !p.has("ran") || !strings.Contains(o.Stderr, "a hook failed") {
				t.Errorf("exit %d after %v: %s", o.Code, o.Took, o.Stderr)
			}
			all, err := filepath.Glob("/proc/[0-9]*/cmdline")
			check(t, err)
			for _, path := range all {
				if text, err := os.ReadFile(path); err == nil && strings.Contains(string(text), mark) {
					t.Errorf("%s: %q is alive", path, text)
				}
			}
		})
	}
}
