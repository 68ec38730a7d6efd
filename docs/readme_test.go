package docs

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/dsh-harness/dsh/internal/testllm"
)

// TestReadmeCommandsWork runs the README's shell blocks as one script, in an empty home. What differs from a newcomer's machine: the
// repository is here already, the modules are fetched, and the model behind the key is a server of this test.
func TestReadmeCommandsWork(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the README shows commands of a POSIX shell")
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := read("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	script := []string{"set -e"}
	blocks, _ := readme.fences()
	for _, b := range blocks {
		if b.info == "sh" {
			script = append(script, b.text...)
		}
	}
	replace(t, script, "git clone https://github.com/dsh-harness/dsh && cd dsh", "cd "+root)
	replace(t, script, "make check", "grep -q '^make check$' "+root+"/.ci/run && make -C "+root+" -n check >/dev/null")

	srv := testllm.New(t)
	srv.Script(testllm.Text("The first answer."), testllm.Text("The second answer."), testllm.Text("The third answer."))
	home := t.TempDir()
	project := filepath.Join(home, "your", "project")
	write(t, filepath.Join(project, "code.txt"), "one\n")
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = project
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	write(t, filepath.Join(project, "code.txt"), "one\ntwo\n")

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // it may have to compile
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", strings.Join(script, "\n"))
	cmd.Env = []string{
		"HOME=" + home, "PATH=" + filepath.Join(home, "bin") + string(filepath.ListSeparator) + os.Getenv("PATH"), "GOBIN=" + filepath.Join(home, "bin"),
		"DEEPSEEK_BASE_URL=" + srv.URL, "CGO_ENABLED=0",
	}
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOFLAGS", "GOPROXY", "GOTOOLCHAIN"} {
		value, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Env = append(cmd.Env, name+"="+strings.TrimSpace(string(value)))
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &stdout, &stderr, time.Second
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, &stdout, &stderr)
	}
	if !strings.Contains(stdout.String(), "All tests pass now.") {
		t.Errorf("the demo does not mend the project:\n%s", &stdout)
	}
	if want := "The first answer.\nThe second answer.\nThe third answer.\n"; !strings.HasSuffix(stdout.String(), want) {
		t.Errorf("the runs print\n%s\nwant the answers at the end", &stdout)
	}
	// The second run goes on with the first, the third is about the difference.
	for i, want := range []string{"", "The first answer.", "+two"} {
		if requests := srv.Requests(); len(requests) != 3 || !strings.Contains(string(requests[i].Body), want) {
			t.Fatalf("request %d of %d does not hold %q", i+1, len(requests), want)
		}
	}
}

// replace changes one line of a script, which must be there.
func replace(t *testing.T, script []string, line, by string) {
	t.Helper()
	for i := range script {
		if script[i] == line {
			script[i] = by
			return
		}
	}
	t.Fatalf("README.md does not show %q", line)
}
