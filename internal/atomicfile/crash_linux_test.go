package atomicfile_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dsh-harness/dsh/internal/atomicfile"
	"github.com/dsh-harness/dsh/internal/need"
)

const crashTarget = "ATOMICFILE_CRASH_TARGET"

var (
	oldContent = bytes.Repeat([]byte("old\n"), 1000)
	newContent = bytes.Repeat([]byte("new content\n"), 1000)
)

// TestTrust_L15 kills a writer at each system call that a write makes and looks at what
// is left: the old content or the new one, and the new one only once it was synced.
func TestTrust_L15_crash_at_each_step(t *testing.T) {
	strace := need.Program(t, "strace", "strace")
	count := 0
	for _, c := range []struct {
		call string
		left string // which content must be there
	}{
		{"fchmod", "old"},
		{"fsync:when=1", "old"},
		{"renameat", "old"},
		{"fsync:when=2", "new"},
	} {
		path := filepath.Join(t.TempDir(), "index.json")
		if err := os.WriteFile(path, oldContent, 0o600); err != nil {
			t.Fatal(err)
		}
		name, when, _ := strings.Cut(c.call, ":")
		inject := name + ":signal=KILL"
		if when != "" {
			inject += ":" + when
		}
		cmd := exec.CommandContext(t.Context(), strace, "-f", "-qq", "-o", os.DevNull, "-e", "trace="+name, "-e", "inject="+inject,
			os.Args[0], "-test.run=^TestWriteForCrash$")
		cmd.Env = append(os.Environ(), crashTarget+"="+path)
		out, err := cmd.CombinedOutput()
		if err == nil {
			t.Errorf("%s: the writer was not killed: %s", c.call, out)
			continue
		}
		if bytes.Contains(out, []byte("ptrace")) {
			need.Missing(t, "this machine does not allow tracing: %s", out)
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		want := oldContent
		if c.left == "new" {
			want = newContent
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes are left, want the %s content", c.call, len(got), c.left)
		}
		count++
	}
	fmt.Printf("TestTrust_L15: %d crashes\n", count)
}

// TestWriteForCrash is the writer that the test above kills.
func TestWriteForCrash(t *testing.T) {
	path := os.Getenv(crashTarget)
	if path == "" {
		t.Skip("only as the child of TestTrust_L15")
	}
	if err := atomicfile.Write(path, newContent, 0o600); err != nil {
		t.Fatal(err)
	}
}
