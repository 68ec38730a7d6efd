//go:build unix

package acceptance

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dsh-harness/dsh/internal/testllm"
)

// holders lists the files below a folder that hold a text, but for those named in except.
func holders(t *testing.T, dir string, texts []string, except ...string) (found []string) {
	t.Helper()
	check(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		for _, e := range except {
			if path == e {
				return nil
			}
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for i, text := range texts {
			if bytes.Contains(content, []byte(text)) {
				found = append(found, fmt.Sprintf("%s holds secret %d", path, i))
			}
		}
		return nil
	}))
	return found
}

// TestTrust_N08_NoKeyIsLeftBehind: the keys of the harness and of the project are in the prompt, in files that tools read, in
// output that is too large, and in what the server says; then the harness is killed. Nothing that it leaves has them,
// nor did the model get them.
func TestTrust_N08_NoKeyIsLeftBehind(t *testing.T) {
	p := newPlace(t)
	key, token := "sk-canary-A1b2C3d4E5f6G7h8I9j0K1l2M3n4", "ghp_"+strings.Repeat("Zx9", 12)
	password := "Tr0ub4dor&3\"quoted\\"
	secrets := []string{key, token, password}
	p.file(".env", "KEY="+key+"\nTOKEN="+token+"\n")
	p.file("config.json", fmt.Sprintf(`{"password":%q}`, password))
	logFile := filepath.Join(p.home, "diagnostics.jsonl")
	start := func(ctx context.Context, args ...string) outcome {
		c := p.command(ctx, append([]string{"run", "-v", "--log-file", logFile, "--permission-mode", "full-access"}, args...)...)
		c.Env = append(c.Env, "DEEPSEEK_API_KEY="+key, "DB_PASSWORD="+password, "TOKEN_OF_CI="+token)
		return p.finish(ctx, c, c.Run)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p.srv.Script(
		testllm.Calls(
			testllm.Call{ID: "a", Name: "read", Arguments: `{"file_path":".env"}`},
			testllm.Call{ID: "b", Name: "bash", Arguments: `{"command":"cat .env config.json; seq 30000; cat .env; echo $DB_PASSWORD"}`},
			testllm.Call{ID: "c", Name: "grep", Arguments: `{"pattern":"TOKEN"}`},
		),
		testllm.Text("done"),
		testllm.Fail(401, "the key "+key+" is wrong"),
	)
	if o := start(ctx, "--session-id", "secrets", "my token is "+token+", use it"); o.Code != 0 || strings.Contains(o.Stderr, key) {
		t.Fatalf("exit %d: %s", o.Code, o.Stderr)
	}
	if o := start(ctx, "-r", "secrets", "again"); o.Code != 1 || strings.Contains(o.Stderr+o.Stdout, key) {
		t.Errorf("a refused key: exit %d, %s", o.Code, o.Stderr)
	}

	// A third run is killed in the middle.
	hold := testllm.Text("never")
	hold.End = testllm.Hold
	p.srv.Script(testllm.Calls(testllm.Call{ID: "d", Name: "bash", Arguments: `{"command":"cat .env; seq 30000"}`}), hold)
	before := len(p.srv.Requests())
	c := p.command(ctx, "run", "--permission-mode", "full-access", "-r", "secrets", token)
	c.Env = append(c.Env, "DEEPSEEK_API_KEY="+key, "TOKEN_OF_CI="+token)
	check(t, c.Start())
	check(t, p.srv.Await(ctx, before+2))
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", c.Process.Pid))
	check(t, err)
	check(t, c.Process.Kill())
	_ = c.Wait() // it was killed
	if bytes.Contains(cmdline, []byte(key)) {
		t.Error("the key is in the command line")
	}

	for _, found := range holders(t, filepath.Dir(p.home), secrets, filepath.Join(p.work, ".env"), filepath.Join(p.work, "config.json")) {
		t.Error(found)
	}
	marks := 0
	for i, r := range p.srv.Requests() {
		for n, s := range secrets {
			if bytes.Contains(r.Body, []byte(s)) || bytes.Contains(r.Body, []byte(strings.ReplaceAll(strings.ReplaceAll(s, `\`, `\\`), `"`, `\"`))) {
				t.Errorf("request %d sends secret %d", i, n)
			}
		}
		marks += bytes.Count(r.Body, []byte("‹secret:"))
	}
	if marks < 10 {
		t.Errorf("only %d marks were sent: did the tools run?", marks)
	}
}
