//go:build unix

package local_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dsh-harness/dsh/workspace"
	"github.com/dsh-harness/dsh/workspace/local"
	"github.com/dsh-harness/dsh/workspace/workspacetest"
)

// open opens a workspace whose commands run outside of any sandbox, as what the guardian
// does alone has to be seen alone; see sandbox_linux_test.go for the rest.
func open(t testing.TB, o workspace.Options) workspace.Workspace {
	t.Helper()
	return workspacetest.Open(t, with(free), o)
}

// sh runs a script and returns its output and how it ended.
func sh(t *testing.T, w workspace.Workspace, script string, c workspace.Command) (string, workspace.Result) {
	t.Helper()
	var out strings.Builder
	c.Args, c.Merged, c.Output = []string{"bash", "-c", script}, true, func(p []byte, _ bool) { out.Write(p) }
	result, err := w.Exec().Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), result
}

// wantDead fails when one of the processes whose ids are the lines of out is alive.
func wantDead(t *testing.T, out string) {
	t.Helper()
	for line := range strings.Lines(out) {
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			t.Fatalf("no process id: %q", line)
		}
		if alive(pid) {
			t.Errorf("process %d is alive", pid)
			_ = syscall.Kill(pid, syscall.SIGKILL) // for the sake of the machine
		}
	}
}

// alive counts a zombie as dead: it is only not waited for.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || !strings.Contains(string(stat), ") Z ")
}

func TestTrust_T01_TimeoutEndsWhatDoesNotWantToEnd(t *testing.T) {
	t.Parallel()
	w := open(t, workspace.Options{})
	for _, script := range []string{
		"trap '' TERM; echo $$; while :; do sleep 1e9; done",
		"echo $$; exec sleep 1000000000",
		"(trap '' TERM INT HUP; echo $BASHPID; while :; do sleep 1; done) & echo $$; wait",
	} {
		out, result := sh(t, w, script, workspace.Command{Timeout: 300 * time.Millisecond, Grace: 300 * time.Millisecond})
		if !result.TimedOut || result.Signal == "" || result.Code != -1 || result.Duration > 2300*time.Millisecond {
			t.Errorf("%s: %+v", script, result)
		}
		wantDead(t, out)
	}
}

func TestTrust_T02_NothingOutlivesItsCommand(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux lets a guardian find what left the process group")
	}
	w := open(t, workspace.Options{})
	for name, script := range map[string]string{
		"background":          "sleep 300 & echo $!",
		"nohup":               "nohup sleep 300 >/dev/null 2>&1 & echo $!",
		"disown":              "(sleep 300) & disown; echo $!",
		"setsid":              "setsid sleep 300 & sleep 0.1; pgrep -P $! ; echo $!",
		"double fork":         "(setsid bash -c '(sleep 300 & echo $!; sleep 300) & echo $!' & wait) ",
		"deaf daemon":         "setsid bash -c 'trap \"\" TERM HUP INT; echo $$; while :; do sleep 1; done' & sleep 0.2",
		"chain of daemons":    "setsid bash -c 'setsid bash -c \"setsid sleep 300 & echo \\$!; echo \\$\\$; sleep 300\" & echo $!; sleep 300' & sleep 0.3",
		"stopped":             "sleep 300 & kill -STOP $!; echo $!",
		"closed descriptors":  "sleep 300 <&- >&- 2>&- & echo $!",
		"other process group": "set -m; sleep 300 & echo $!",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, result := sh(t, w, script, workspace.Command{Timeout: 20 * time.Second})
			if out == "" || result.Code != 0 || result.Leftover == 0 || result.TimedOut {
				t.Errorf("%q, %+v", out, result)
			}
			wantDead(t, out)
		})
	}
}

// helper runs this test binary again as a harness that is going to be killed.
func helper(t *testing.T, args ...string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^TestHelper$", "-test.v=false")
	cmd.Env = append(os.Environ(), "DSH_TEST_HELPER="+strings.Join(args, "\n"))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it may be gone already
	return cmd, bufio.NewScanner(out)
}

// TestHelper is no test: other tests run it in a process of its own.
func TestHelper(t *testing.T) {
	dir, script, ok := strings.Cut(os.Getenv("DSH_TEST_HELPER"), "\n")
	if !ok {
		t.Skip("only in a process that a test started")
	}
	runHelper(t, dir, script)
}

// TestHelperMount is no test either: it runs where it may mount.
func TestHelperMount(t *testing.T) {
	target := os.Getenv("DSH_TEST_MOUNT")
	if target == "" {
		t.Skip("only in a process that a test started")
	}
	mountIn(t, target)
}

// runHelper is the harness of TestTrust_T03: it runs a command that never ends, and prints
// what that prints.
func runHelper(t *testing.T, dir, script string) {
	w := open(t, workspace.Options{Dir: dir})
	_, err := w.Exec().Run(context.Background(), workspace.Command{
		Args: []string{"bash", "-c", script}, Merged: true,
		Output: func(p []byte, _ bool) { _, _ = os.Stdout.Write(p) },
	})
	t.Error("the command ended:", err)
}

func TestTrust_T03_KillingTheHarnessKillsEverything(t *testing.T) {
	t.Parallel()
	const script = `trap '' TERM; echo $$; (trap '' TERM; setsid bash -c 'trap "" TERM; echo $$; while :; do sleep 0.1; done') & while :; do sleep 0.1; done`
	harness, lines := helper(t, t.TempDir(), script)
	var pids []string
	for len(pids) < 2 && lines.Scan() {
		pids = append(pids, lines.Text())
	}
	if len(pids) < 2 {
		t.Fatalf("the command did not start: %v", pids)
	}
	if err := harness.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	_ = harness.Wait() // it was killed
	for _, pid := range pids {
		n, err := strconv.Atoi(pid)
		if err != nil {
			t.Fatal(err)
		}
		if runtime.GOOS != "linux" && pid != pids[0] {
			_ = syscall.Kill(n, syscall.SIGKILL) // it left the process group
			continue
		}
		for alive(n) {
			if time.Since(killed) > 5*time.Second { // the promise is 1 s; this machine may be busy
				_ = syscall.Kill(n, syscall.SIGKILL) // for the sake of the machine
				t.Fatalf("process %d outlived the harness", n)
			}
			runtime.Gosched()
		}
	}
	t.Logf("all dead %v after the harness", time.Since(killed).Round(time.Millisecond))
}

func TestTrust_T04_AnOpenPipeDoesNotHoldUpTheEnd(t *testing.T) {
	t.Parallel()
	w := open(t, workspace.Options{})
	for _, script := range []string{
		"sleep 300 & echo done",
		"(sleep 300) & disown; echo done",
		"setsid bash -c 'trap \"\" TERM; sleep 300' & echo done",
	} {
		out, result := sh(t, w, script, workspace.Command{})
		// 500 ms are promised; a busy machine may need more.
		if out != "done\n" || result.Code != 0 || result.Leftover == 0 || result.Duration > 2500*time.Millisecond {
			t.Errorf("%s: %q, %+v", script, out, result)
		}
	}
}

// A process outside of the command's tree may hold the pipe too.
func TestTrust_T04_APipeHeldElsewhere(t *testing.T) {
	t.Parallel()
	w := open(t, workspace.Options{})
	var holder *os.File
	t.Cleanup(func() { _ = holder.Close() })
	result, err := w.Exec().Run(t.Context(), workspace.Command{
		Args: []string{"bash", "-c", "echo $$; read -r x < " + fifo(t, w.Dir())}, Merged: true,
		Output: func(p []byte, _ bool) {
			if holder != nil {
				return
			}
			var err error
			holder, err = os.OpenFile(fmt.Sprintf("/proc/%s/fd/1", strings.TrimSpace(string(p))), os.O_WRONLY, 0)
			if err != nil {
				t.Error(err)
			}
			gate, err := os.OpenFile(filepath.Join(w.Dir(), "fifo"), os.O_WRONLY, 0)
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = gate.WriteString("go\n")
			_ = gate.Close()
		},
	})
	if err != nil || result.Code != 0 || result.Duration > 3*time.Second {
		t.Errorf("%+v, %v", result, err)
	}
}

func fifo(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTrust_T07_TheFolderOfACommandIsGone(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "project")
	if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	w := open(t, workspace.Options{Dir: dir})
	if _, result := sh(t, w, "rm -rf ../sub; true", workspace.Command{Dir: "sub"}); result.Code != 0 {
		t.Errorf("%+v", result)
	}
	_, err := w.Exec().Run(t.Context(), workspace.Command{Args: []string{"true"}, Dir: "sub"})
	if !errors.Is(err, workspace.ErrNoFolder) {
		t.Errorf("a folder that is gone: %v", err)
	}
	if out, result := sh(t, w, "echo hi", workspace.Command{}); out != "hi\n" || result.Code != 0 {
		t.Errorf("the next command: %q, %+v", out, result)
	}
	// The session's folder itself, and again when somebody made it anew.
	sh(t, w, `rm -rf "$PWD"`, workspace.Command{})
	_, err = w.Exec().Run(t.Context(), workspace.Command{Args: []string{"true"}})
	if !errors.Is(err, workspace.ErrNoFolder) {
		t.Errorf("the session's folder is gone: %v", err)
	}
	if _, result := sh(t, w, "mkdir project", workspace.Command{Dir: filepath.Dir(dir)}); result.Code != 0 {
		t.Errorf("%+v", result)
	}
	if out, _ := sh(t, w, "echo hi", workspace.Command{}); out != "hi\n" {
		t.Errorf("after it was made again: %q", out)
	}
	if err := w.FS().WriteFile("f", []byte("x"), workspace.WriteOptions{}); err != nil {
		t.Error(err)
	}
	// A folder that may not be entered.
	if out, _ := sh(t, w, "mkdir closed; chmod 000 closed; echo ok", workspace.Command{}); out != "ok\n" {
		t.Errorf("%q", out)
	}
	if os.Geteuid() != 0 {
		if _, err := w.Exec().Run(t.Context(), workspace.Command{Args: []string{"true"}, Dir: "closed"}); err == nil {
			t.Error("a command ran in a folder that may not be entered")
		}
	}
	if out, _ := sh(t, w, "chmod 755 closed; echo hi", workspace.Command{}); out != "hi\n" {
		t.Errorf("the next command: %q", out)
	}
}

// inBoth runs a test in a workspace that confines commands, as far as this machine can, and in one that does not.
func inBoth(t *testing.T, test func(*testing.T, workspace.Workspace)) {
	t.Run("confined", func(t *testing.T) { test(t, workspacetest.Open(t, local.Plugin.Definition(), workspace.Options{})) })
	t.Run("free", func(t *testing.T) { test(t, open(t, workspace.Options{})) })
}

func TestTrust_T09_NoInputNoTerminal(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, w workspace.Workspace) {
		out, result := sh(t, w, `cat; read x; echo "[$x]"; (exec < /dev/tty) 2>/dev/null || echo no terminal; git --no-pager version >/dev/null; echo $PAGER $TERM`, workspace.Command{Timeout: 20 * time.Second})
		if out != "[]\nno terminal\ncat dumb\n" || result.TimedOut {
			t.Errorf("%q, %+v", out, result)
		}
	})
}

func TestTrust_T10_FactsAreSeparate(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, w workspace.Workspace) {
		for _, c := range []struct {
			script string
			want   workspace.Result
		}{
			{"exit 0", workspace.Result{}},
			{"exit 124", workspace.Result{Code: 124}},
			{"exit 125", workspace.Result{Code: 125}},
			{"exit 126", workspace.Result{Code: 126}},
			{"exit 127", workspace.Result{Code: 127}},
			{"exit 137", workspace.Result{Code: 137}},
			{"kill -TERM $$", workspace.Result{Code: -1, Signal: "SIGTERM"}},
			{"kill -SEGV $$", workspace.Result{Code: -1, Signal: "SIGSEGV"}},
			{"bash -c 'kill -9 $$'; exit $?", workspace.Result{Code: 137}},
			{"trap 'exit 0' TERM; sleep 300 & wait", workspace.Result{TimedOut: true}},
			{"trap 'exit 7' TERM; sleep 300 & wait", workspace.Result{Code: 7, TimedOut: true}},
			{"no-such-command-at-all", workspace.Result{Code: 127}},
		} {
			command := workspace.Command{Timeout: 20 * time.Second}
			if c.want.TimedOut {
				command.Timeout = 500 * time.Millisecond
			}
			_, got := sh(t, w, c.script, command)
			got.Duration, got.Leftover, got.Sandbox = 0, 0, ""
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("%s: %+v, want %+v", c.script, got, c.want)
			}
		}
	})
}

// A command that attacks its guardian gains nothing but its own end.
func TestGuardianUnderAttack(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("what a command can do to its parent differs")
	}
	w := open(t, workspace.Options{})
	out, result := sh(t, w, "for s in HUP INT QUIT TERM USR1 USR2; do kill -$s $PPID; done; sleep 0.1; echo alive; ls -l /proc/self/fd | grep -c pipe", workspace.Command{})
	if result.Code != 0 || !strings.HasPrefix(out, "alive\n") {
		t.Errorf("%q, %+v", out, result)
	}
	_, err := w.Exec().Run(t.Context(), workspace.Command{Args: []string{"bash", "-c", "kill -9 $PPID; sleep 300"}})
	if err == nil || !strings.Contains(err.Error(), "its guardian died") {
		t.Errorf("a killed guardian: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err = w.Exec().Run(ctx, workspace.Command{Args: []string{"bash", "-c", "kill -STOP $PPID; sleep 300"}, Grace: 100 * time.Millisecond})
	if err == nil || time.Since(began) > 10*time.Second {
		t.Errorf("a stopped guardian: %v", err)
	}
	out, result = sh(t, w, "trap '' INT; kill -l >/dev/null; (trap - INT TERM HUP; kill -TERM $BASHPID; echo survived)", workspace.Command{})
	if strings.Contains(out, "survived") || result.Code != 128+int(syscall.SIGTERM) {
		t.Errorf("signals that commands get are not ignored: %q, %+v", out, result)
	}
}

func TestCommandsGetOnlyTheirOwnDescriptors(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("looks into /proc")
	}
	// What the harness itself inherited, without the flag that closes it.
	leak, err := unix.Open(os.DevNull, unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(leak) }()
	w := open(t, workspace.Options{})
	out, _ := sh(t, w, "for f in /proc/$$/fd/*; do [ -e $f ] && echo ${f##*/}; done", workspace.Command{})
	for _, fd := range strings.Fields(out) {
		if !slices.Contains([]string{"0", "1", "2", "255"}, fd) { // 255 is bash's own
			t.Errorf("the command has descriptor %s", fd)
		}
	}
}

func TestTrust_N07_NoSecretsInTheEnvironment(t *testing.T) {
	secrets := []string{
		"PGPASSWORD", "DATABASE_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "GH_PAT", "GH_TOKEN", "GITHUB_TOKEN",
		"GITLAB_TOKEN", "NPM_TOKEN", "NPM_CONFIG_//r/:_authToken", "SSH_AUTH_SOCK", "SSH_ASKPASS", "DEEPSEEK_API_KEY", "OPENAI_API_KEY",
		"ANTHROPIC_API_KEY", "GEMINI_API_KEY", "AZURE_CLIENT_SECRET", "GOOGLE_APPLICATION_CREDENTIALS", "DOCKER_AUTH_CONFIG", "KUBECONFIG",
		"VAULT_TOKEN", "CONSUL_HTTP_TOKEN", "SENTRY_DSN", "SLACK_WEBHOOK", "STRIPE_KEY", "TWILIO_AUTH", "HEROKU_KEY", "CARGO_REGISTRY_TOKEN",
		"TWINE_PASSWORD", "PYPI_PASS", "MYSQL_PWD", "REDIS_URL", "MONGO_URI", "GPG_PASSPHRASE", "NETRC", "BASH_ENV", "LD_PRELOAD", "DSH_HOME", "DBUS_SESSION_BUS_ADDRESS",
	}
	for _, name := range secrets {
		if !strings.Contains(name, "LD_PRELOAD") {
			t.Setenv(name, "canary-"+name)
		}
	}
	t.Setenv("HTTPS_PROXY", "http://me:canary-proxy@proxy.example:3128")
	t.Setenv("GOPROXY", "https://proxy.example")
	w := open(t, workspace.Options{})
	out, _ := sh(t, w, "env; tr '\\0' '\\n' </proc/$PPID/environ 2>/dev/null", workspace.Command{})
	if strings.Contains(out, "canary") {
		t.Errorf("a secret is in the environment of commands:\n%s", out)
	}
	for _, want := range []string{"PATH=" + os.Getenv("PATH"), "GOPROXY=https://proxy.example", "TERM=dumb", "GIT_TERMINAL_PROMPT=0", "TMPDIR=" + w.Temp()} {
		if !slices.Contains(strings.Split(out, "\n"), want) {
			t.Errorf("%s is not in the environment of commands", want)
		}
	}
}

func TestConfiguredEnvironment(t *testing.T) {
	t.Setenv("MY_TOKEN", "wanted")
	w := workspacetest.Open(t, withEnv("MY_TOKEN", "NOT_SET"), workspace.Options{})
	if out, _ := sh(t, w, `echo "$MY_TOKEN"`, workspace.Command{}); out != "wanted\n" {
		t.Errorf("%q", out)
	}
	if err := (local.Config{Env: []string{"A=1"}}).Validate(); err == nil {
		t.Error("a value was taken for a name")
	}
}

func TestCase_o_sh_10_ValuesAreNotCode(t *testing.T) {
	t.Parallel()
	value := "{\n touch pwned\n}"
	w := open(t, workspace.Options{Env: []string{"K=" + value, `P=a'b"c`, "A%B=1", "BASH_FUNC_f%%=() { touch pwned; }", "BIG=" + strings.Repeat("x", 120_000)}})
	if out, _ := sh(t, w, "echo 0", workspace.Command{}); out != "0\n" {
		t.Errorf("%q", out)
	}
	if out, _ := sh(t, w, `printf %s "$K"`, workspace.Command{}); out != value {
		t.Errorf("%q", out)
	}
	if out, _ := sh(t, w, `export Z=1; echo ${#BIG}`, workspace.Command{}); out != "120000\n" {
		t.Errorf("%q", out)
	}
	if out, _ := sh(t, w, "echo [$Z]", workspace.Command{}); out != "[]\n" {
		t.Errorf("an export outlived its command: %q", out)
	}
	if _, err := os.Lstat(filepath.Join(w.Dir(), "pwned")); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a value ran")
	}
}

func TestTooLongACommand(t *testing.T) {
	t.Parallel()
	w := open(t, workspace.Options{})
	_, err := w.Exec().Run(t.Context(), workspace.Command{Args: []string{"bash", "-c", ": " + strings.Repeat("x", 200_000)}})
	if err == nil || !strings.Contains(err.Error(), "too long") {
		t.Error(err)
	}
}

func TestTrust_T11_WhatHasNoContent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := open(t, workspace.Options{Dir: dir})
	fifo(t, dir)
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(socket) }()
	if err := unix.Bind(socket, &unix.SockaddrUnix{Name: filepath.Join(dir, "s")}); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/zero", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	cases := map[string]string{"fifo": "named pipe", "s": "socket", "/dev/zero": "device", "link": "device", "/dev/tty": "device"}
	if runtime.GOOS == "linux" {
		if os.Geteuid() == 0 { // others may not open it
			cases["/proc/kmsg"] = "kernel"
		}
		for _, name := range []string{"/proc/self/mem", "/proc/self/environ", "/proc/cpuinfo", "/sys/kernel/uevent_seqnum"} {
			cases[name] = "kernel"
		}
	}
	for name, want := range cases {
		if _, err := os.Lstat(name); filepath.IsAbs(name) && err != nil {
			continue // not on this machine
		}
		began := time.Now()
		_, err := w.FS().Open(name)
		if !errors.Is(err, workspace.ErrSpecial) || !strings.Contains(err.Error(), want) {
			t.Errorf("Open(%s) = %v, want %q in it", name, err, want)
		}
		if d := time.Since(began); d > time.Second { // 100 ms are promised
			t.Errorf("Open(%s) took %v", name, d)
		}
	}
}
