package cli_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dsh-harness/dsh/internal/testllm"

	// The binary is built from these: what the go command remembers of these tests is not good
	// any more when they change.
	_ "github.com/dsh-harness/dsh/std"
	_ "github.com/dsh-harness/dsh/surface/cli"
)

// The tests of this package are about the assembled binary, which is built once for them.
var binary string

func TestMain(m *testing.M) {
	os.Exit(withBinary(m))
}

func withBinary(m *testing.M) int {
	dir, err := os.MkdirTemp("", "dsh-cli-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "dsh")
	if runtime.GOOS == "windows" {
		binary += ".exe"
	}
	build := exec.Command("go", "build", "-o", binary, "github.com/dsh-harness/dsh/cmd/dsh")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the binary: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// box is a home and a folder to run dsh in, with a model server.
type box struct {
	t    *testing.T
	llm  *testllm.Server
	home string
	dir  string
	env  map[string]string
}

func newBox(t *testing.T) *box {
	t.Helper()
	root := t.TempDir()
	b := &box{t: t, llm: testllm.New(t), home: filepath.Join(root, "home"), dir: filepath.Join(root, "project")}
	temp := filepath.Join(root, "tmp") // a killed run leaves something there
	for _, dir := range []string{b.dir, temp} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	b.env = map[string]string{
		"PATH": os.Getenv("PATH"), "HOME": b.home, "DSH_HOME": b.home, "TMPDIR": temp,
		"DEEPSEEK_API_KEY": "sk-test", "DEEPSEEK_BASE_URL": b.llm.URL,
	}
	return b
}

// outcome is how a command ended.
type outcome struct {
	code           int
	stdout, stderr string
}

// command prepares a run of the binary, bounded in time.
func (b *box) command(args ...string) (*exec.Cmd, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) } // a run that hangs shows where
	cmd.WaitDelay = 2 * time.Second
	cmd.Dir = b.dir
	for name, value := range b.env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	return cmd, cancel
}

// run runs the binary to its end with an empty standard input.
func (b *box) run(args ...string) outcome {
	b.t.Helper()
	return b.pipe("", args...)
}

// pipe runs the binary with a text on a pipe.
func (b *box) pipe(stdin string, args ...string) outcome {
	b.t.Helper()
	cmd, cancel := b.command(args...)
	defer cancel()
	if stdin != "" {
		cmd.Stdin = strings.NewReader(stdin)
	}
	return b.finish(cmd)
}

func (b *box) finish(cmd *exec.Cmd) outcome {
	b.t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	return b.outcome(cmd, err, &stdout, &stderr)
}

func (b *box) outcome(cmd *exec.Cmd, err error, stdout, stderr *bytes.Buffer) outcome {
	b.t.Helper()
	var exited *exec.ExitError
	if err != nil && !errors.As(err, &exited) {
		b.t.Fatalf("run %v: %v", cmd.Args, err)
	}
	o := outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
	if strings.Contains(o.stderr, "goroutine ") || strings.Contains(o.stderr, "panic:") {
		b.t.Errorf("%v printed a stack:\n%s", cmd.Args, o.stderr)
	}
	return o
}

// want checks how a command ended.
func (o outcome) want(t *testing.T, code int, stdout string, stderr ...string) {
	t.Helper()
	if o.code != code {
		t.Errorf("exit %d, want %d; stderr:\n%s", o.code, code, o.stderr)
	}
	if o.stdout != stdout {
		t.Errorf("stdout %q, want %q", o.stdout, stdout)
	}
	if len(stderr) == 0 && o.stderr != "" {
		t.Errorf("stderr is not empty: %s", o.stderr)
	}
	for _, part := range stderr {
		if !strings.Contains(o.stderr, part) {
			t.Errorf("stderr lacks %q:\n%s", part, o.stderr)
		}
	}
}

// write writes a file of the project and returns its path.
func (b *box) write(name, text string) string {
	b.t.Helper()
	path := filepath.Join(b.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		b.t.Fatal(err)
	}
	return path
}

// lastUser is the text of the last user message of the last request.
func (b *box) lastUser() string {
	b.t.Helper()
	requests := b.llm.Requests()
	if len(requests) == 0 {
		b.t.Fatal("nothing was sent")
	}
	messages := requests[len(requests)-1].Chat.Messages
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role == "user" {
			return messages[i].Text()
		}
	}
	b.t.Fatal("no user message was sent")
	return ""
}

// await waits until that many requests have arrived.
func (b *box) await(n int) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 20*time.Second)
	defer cancel()
	if err := b.llm.Await(ctx, n); err != nil {
		b.t.Fatal(err)
	}
}

// sent fails the test unless that many requests were made.
func (b *box) sent(n int) {
	b.t.Helper()
	if got := len(b.llm.Requests()); got != n {
		b.t.Errorf("%d requests were sent, want %d", got, n)
	}
}
