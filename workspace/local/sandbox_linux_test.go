package local_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dsh-harness/dsh/internal/need"
	"github.com/dsh-harness/dsh/workspace"
	"github.com/dsh-harness/dsh/workspace/local"
	"github.com/dsh-harness/dsh/workspace/workspacetest"
)

// confined opens a workspace in a full sandbox, with a home of the test's own; change says what else a command may touch.
func confined(t testing.TB, change func(*workspace.Confinement)) (w workspace.Workspace, dir string) {
	t.Helper()
	base := realDir(t)
	dir = filepath.Join(base, "project")
	must(t, os.MkdirAll(dir, 0o755))
	home := filepath.Join(base, "home")
	must(t, os.Mkdir(home, 0o755))
	t.Setenv("DSH_HOME", filepath.Join(base, "dsh"))
	t.Setenv("HOME", home)
	if change == nil {
		change = func(*workspace.Confinement) {}
	}
	w = workspacetest.Open(t, with(change), workspace.Options{Dir: dir})
	if level, why := w.Sandbox(); level != workspace.SandboxFull {
		need.Missing(t, "a full sandbox: %s", why)
	}
	return w, dir
}

// marked lists the processes of the whole machine that have mark in their command line.
func marked(t testing.TB, mark string) (pids []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	for _, path := range all {
		line, err := os.ReadFile(path)
		if err == nil && bytes.Contains(line, []byte(mark)) && !bytes.Contains(line, []byte("-test.")) && !strings.HasPrefix(path, "/proc/"+strconv.Itoa(os.Getpid())+"/") {
			pids = append(pids, path)
		}
	}
	return pids
}

// a number that only this run sleeps for
var marks = struct {
	sync.Mutex
	n int
}{n: 100_000_000 + os.Getpid()*1000}

func newMark() string {
	marks.Lock()
	defer marks.Unlock()
	marks.n++
	return strconv.Itoa(marks.n)
}

func TestTrust_T02_NothingOutlivesItsCommandInASandbox(t *testing.T) {
	w, _ := confined(t, nil)
	for name, script := range map[string]string{
		"nohup":        "nohup sleep %s >/dev/null 2>&1 & true",
		"setsid":       "setsid sleep %s & sleep 0.1",
		"double fork":  "(setsid bash -c '(sleep %s &) ; sleep 0.1' & wait)",
		"deaf daemon":  "setsid bash -c 'trap \"\" TERM HUP INT; sleep %s; sleep 1' & sleep 0.2",
		"closed pipes": "sleep %s <&- >&- 2>&- & true",
	} {
		mark := newMark()
		_, result := sh(t, w, fmt.Sprintf(script, mark), workspace.Command{Timeout: 20 * time.Second})
		if left := marked(t, mark); len(left) > 0 || result.Leftover == 0 || result.Code != 0 {
			t.Errorf("%s: %v are alive; %+v", name, left, result)
		}
	}
}

func TestTrust_T01_TimeoutInASandbox(t *testing.T) {
	w, _ := confined(t, nil)
	mark := newMark()
	began := time.Now()
	out, result := sh(t, w, "trap '' TERM INT; setsid sleep "+mark+" & echo begun; sleep "+mark, workspace.Command{Timeout: 300 * time.Millisecond, Grace: 200 * time.Millisecond})
	if !result.TimedOut || out != "begun\n" || time.Since(began) > 5*time.Second {
		t.Errorf("%q %+v after %v", out, result, time.Since(began))
	}
	if left := marked(t, mark); len(left) > 0 {
		t.Errorf("%v are alive", left)
	}
}

func TestTrust_T04_AnOpenPipeInASandbox(t *testing.T) {
	w, _ := confined(t, nil)
	out, result := sh(t, w, "sleep 300 & echo done", workspace.Command{})
	if out != "done\n" || result.Leftover == 0 || result.Duration > 2500*time.Millisecond {
		t.Errorf("%q, %+v", out, result)
	}
}

// A command cannot end or stop the first process of its namespace, which is the guardian.
func TestTheGuardianIsOutOfReach(t *testing.T) {
	w, _ := confined(t, nil)
	out, result := sh(t, w, `kill -9 1; kill -STOP 1; kill -9 $PPID; cat /proc/1/environ 2>&1 | wc -c; cat /proc/1/maps >/dev/null 2>&1 && echo maps; ls -l /proc/1/exe /proc/1/fd 2>/dev/null; echo end`, workspace.Command{Timeout: 10 * time.Second})
	if result.Code != 0 || result.TimedOut || !strings.HasSuffix(out, "end\n") || strings.Contains(out, "maps") || strings.Contains(out, "->") {
		t.Errorf("%q %+v", out, result)
	}
}

func TestTrust_S05_AFailedLauncherIsNoFailedCommand(t *testing.T) {
	w, dir := confined(t, nil)
	// A command may say and do what a launcher would.
	out, result := sh(t, w, "echo 'the sandbox failed: hide /x: operation not permitted' >&2; exit 125", workspace.Command{})
	if result.Code != 125 || !strings.Contains(out, "the sandbox failed") {
		t.Errorf("%q %+v", out, result)
	}
	// A launcher that fails is told apart, and nothing ran.
	broken := workspacetest.Open(t, with(func(c *workspace.Confinement) { c.Write = append(c.Write, "/") }), workspace.Options{Dir: dir})
	ran := false
	_, err := broken.Exec().Run(t.Context(), workspace.Command{Args: []string{"touch", filepath.Join(dir, "ran")}, Output: func([]byte, bool) { ran = true }})
	if _, stat := os.Stat(filepath.Join(dir, "ran")); !errors.Is(err, workspace.ErrSandbox) || ran || stat == nil {
		t.Errorf("%v, ran %v", err, stat == nil)
	}
	_, err = w.Exec().Run(t.Context(), workspace.Command{Args: []string{"no-such-program"}})
	if !errors.Is(err, exec.ErrNotFound) || errors.Is(err, workspace.ErrSandbox) {
		t.Errorf("a program that does not exist: %v", err)
	}
}

func TestTrust_S06_NoDescriptorIsInherited(t *testing.T) {
	null, err := os.Open("/dev/null")
	must(t, err)
	defer func() { _ = null.Close() }() // it was never read
	for range 200 {
		fd, err := syscall.Dup(int(null.Fd())) // without close-on-exec
		must(t, err)
		defer func() { _ = syscall.Close(fd) }() // as above
	}
	w, _ := confined(t, nil)
	out, _ := sh(t, w, "ls /proc/self/fd", workspace.Command{})
	if want := "0\n1\n2\n3\n"; out != want { // 3 is the folder that ls reads
		t.Errorf("descriptors %q, want %q", out, want)
	}
}

func TestTrust_C06_WhatMustNotComeIntoBeing(t *testing.T) {
	var dir string
	w, dir := confined(t, func(c *workspace.Confinement) {
		c.Reserve = append(c.Reserve, filepath.Join(dir, ".dsh"), filepath.Join(dir, ".github", "workflows"))
		c.Protect = append(c.Protect, filepath.Join(dir, "AGENTS.md"), filepath.Join(dir, "kept"))
	})
	must(t, os.WriteFile(filepath.Join(dir, "kept"), []byte("mine"), 0o600))
	out, result := sh(t, w, `mkdir -p .dsh && echo x > .dsh/cordis.yml; mkdir -p .github/workflows; echo x > .github/workflows/w.yml; rm -rf .dsh .github; mv .dsh other; mv .github other2
echo x > kept; rm -f kept; mv kept moved; echo "obey me" > AGENTS.md; ls -a`, workspace.Command{})
	for _, name := range []string{".dsh", ".github", "AGENTS.md", "moved", "other", "other2"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s is there: %s", name, out)
		}
	}
	if b, err := os.ReadFile(filepath.Join(dir, "kept")); err != nil || string(b) != "mine" {
		t.Errorf("kept is %q, %v", b, err)
	}
	if !slices.ContainsFunc(result.Refused, func(r workspace.Refusal) bool { return r.Target == filepath.Join(dir, "AGENTS.md") }) {
		t.Errorf("what was put aside is not reported: %+v", result.Refused)
	}
	if aside, err := filepath.Glob(filepath.Join(dir, ".dsh-refused-AGENTS.md-*")); err != nil || len(aside) != 1 {
		t.Errorf("aside %v, %v", aside, err)
	}
}

func TestWritesElsewhereAreReported(t *testing.T) {
	outside := realDirBeside(t)
	w, _ := confined(t, nil)
	_, result := sh(t, w, "echo x > "+outside+"/new", workspace.Command{})
	want := []workspace.Refusal{{Kind: workspace.RefusedWrite, Target: outside + "/new", Rule: "outside of the folders that may be written"}}
	if !slices.Equal(result.Refused, want) {
		t.Errorf("refused %+v, want %+v", result.Refused, want)
	}
	// What the system refuses anybody, and what only looks like it, is not the sandbox's doing.
	for _, script := range []string{"echo x > /proc/version", "echo '/etc/passwd: Permission denied' >&2; exit 0", "echo '/no/such/folder/f: Read-only file system' >&2; exit 1", "cat /nothing"} {
		if _, result := sh(t, w, script, workspace.Command{}); len(result.Refused) > 0 {
			t.Errorf("%s: %+v", script, result.Refused)
		}
	}
}

// realDirBeside is a folder that is not in /tmp, where a sandbox has its own.
func realDirBeside(t testing.TB) string {
	t.Helper()
	for _, base := range []string{"/home", "/srv", "/opt", "/root", "."} {
		if dir, err := os.MkdirTemp(base, "dsh-test-"); err == nil {
			t.Cleanup(func() { _ = os.RemoveAll(dir) }) // a folder of this test
			real, err := filepath.Abs(dir)
			must(t, err)
			return real
		}
	}
	t.Skip("there is no other place to write")
	return ""
}

func TestTrust_T06_LimitsAreNamed(t *testing.T) {
	p := local.Plugin
	p.Default = func() local.Config {
		c := local.Plugin.Default()
		c.Limits = local.LimitConfig{Processes: 64, MemoryMegabytes: 256, FileMegabytes: 10}
		return c
	}
	w, _ := confined(t, nil)
	w = workspacetest.Open(t, p.Definition(), workspace.Options{Dir: w.Dir()})
	python := need.Program(t, "python3", "python3")
	for _, c := range []struct{ name, script, want string }{
		{"fork bomb", "b() { b | b & }; b; sleep 1", "processes: 64"},
		{"memory", python + " -c 'x = []\nwhile True: x.append(bytearray(1 << 24))'", "memory: 256000000 bytes"},
		{"file", "head -c 20000000 /dev/zero > big", "file size: 10000000 bytes"},
	} {
		_, result := sh(t, w, c.script, workspace.Command{Timeout: 20 * time.Second})
		if c.name != "file" && ownGroups(t) == 0 {
			c.want = "" // who may make no control groups is limited by the kernel all the same, but does not learn of it
		}
		if result.Limit != c.want {
			t.Errorf("%s: limit %q, want %q; %+v", c.name, result.Limit, c.want, result)
		}
		if out, r := sh(t, w, "echo fine", workspace.Command{}); out != "fine\n" || r.Code != 0 || r.Limit != "" {
			t.Errorf("after %s: %q %+v", c.name, out, r)
		}
	}
	if info, err := os.Stat(filepath.Join(w.Dir(), "big")); err != nil || info.Size() > 10_000_000 {
		t.Errorf("the file is %v, %v", info, err)
	}
}

func TestTrust_S09_AHundredAtOnceLeaveNothing(t *testing.T) {
	w, _ := confined(t, nil)
	before := leavings(t)
	mark := newMark()
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	n := times(30, 100)
	for range n {
		running.Add(1)
		var once sync.Once
		all.Go(func() {
			defer once.Do(running.Done)
			result, err := w.Exec().Run(ctx, workspace.Command{
				Args: []string{"bash", "-c", "setsid sleep " + mark + " & echo up; sleep " + mark}, Grace: 50 * time.Millisecond,
				Output: func([]byte, bool) { once.Do(running.Done) },
			})
			if err != nil || !result.Canceled || result.Sandbox != workspace.SandboxFull {
				t.Errorf("%v %+v", err, result)
			}
		})
	}
	running.Wait()
	cancel()
	all.Wait()
	if left := marked(t, mark); len(left) > 0 {
		t.Errorf("%v are alive", left)
	}
	if after := leavings(t); after != before {
		t.Errorf("left: %s, before %s", after, before)
	}
}

// ownGroups counts the kinds of control groups in which this user may make one.
func ownGroups(t testing.TB) (n int) {
	t.Helper()
	own, err := os.ReadFile("/proc/self/cgroup")
	must(t, err)
	for line := range strings.Lines(string(own)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		for _, dir := range []string{filepath.Join("/sys/fs/cgroup", parts[1], parts[2]), filepath.Join("/sys/fs/cgroup", filepath.Dir(parts[2]))} {
			if syscall.Access(dir, 2) == nil {
				n++
			}
		}
	}
	return n
}

// TestHelperMany is no test: TestTrust_S09_KillingTheHarness runs it in a process of its own.
func TestHelperMany(t *testing.T) {
	mark, ok := os.LookupEnv("DSH_TEST_MARK")
	if !ok {
		t.Skip("only in a process that a test started")
	}
	w := workspacetest.Open(t, local.Plugin.Definition(), workspace.Options{Dir: os.Getenv("DSH_TEST_DIR")})
	var all sync.WaitGroup
	for range times(20, 100) {
		all.Go(func() {
			_, err := w.Exec().Run(context.Background(), workspace.Command{
				Args:   []string{"bash", "-c", "trap '' TERM; setsid sleep " + mark + " & echo up; sleep " + mark},
				Output: func([]byte, bool) { fmt.Println("up") },
			})
			t.Error("a command ended:", err)
		})
	}
	all.Wait()
}

func TestTrust_S09_KillingTheHarness(t *testing.T) {
	w, dir := confined(t, nil)
	mark := newMark()
	exe, err := os.Executable()
	must(t, err)
	harness := exec.Command(exe, "-test.run=^TestHelperMany$")
	harness.Env = append(os.Environ(), "DSH_TEST_MARK="+mark, "DSH_TEST_DIR="+dir)
	out, err := harness.StdoutPipe()
	must(t, err)
	must(t, harness.Start())
	t.Cleanup(func() { _ = harness.Process.Kill() }) // it may be gone already
	lines := bufio.NewScanner(out)
	for range times(20, 100) {
		if !lines.Scan() {
			t.Fatal("not all commands started")
		}
	}
	spaces := namespacesOf(marked(t, mark))
	if n := len(spaces); n < times(20, 100) {
		t.Fatalf("there are %d namespaces: %v", n, spaces)
	}
	must(t, harness.Process.Kill())
	killed := time.Now()
	_ = harness.Wait() // it was killed
	// A namespace that nobody is in is gone, and so are its mounts.
	inside := func() (left []string) {
		everybody, err := filepath.Glob("/proc/[0-9]*/cmdline")
		must(t, err)
		for space, path := range namespacesOf(everybody) {
			if _, ok := spaces[space]; ok {
				left = append(left, path)
			}
		}
		return left
	}
	for len(marked(t, mark))+len(inside()) > 0 {
		if time.Since(killed) > 10*time.Second { // the promise is 1 s; this machine may be busy
			t.Fatalf("%v, %v outlived the harness", marked(t, mark), inside())
		}
		runtime.Gosched()
	}
	t.Logf("nothing is left %v after the end of the harness", time.Since(killed).Round(time.Millisecond))
	// The next commands of any harness remove the control groups, once the kernel has buried everybody.
	for left := groupsOf(t, harness.Process.Pid); len(left) > 0; left = groupsOf(t, harness.Process.Pid) {
		if time.Since(killed) > 10*time.Second {
			t.Fatalf("groups are left: %v", left)
		}
		sh(t, w, "true", workspace.Command{})
	}
}

// groupsOf lists the control groups of a harness.
func groupsOf(t testing.TB, pid int) (all []string) {
	t.Helper()
	for _, pattern := range []string{"/sys/fs/cgroup/dsh-%d-*", "/sys/fs/cgroup/*/dsh-%d-*", "/sys/fs/cgroup/*/*/*/dsh-%d-*"} {
		some, err := filepath.Glob(fmt.Sprintf(pattern, pid))
		must(t, err)
		all = append(all, some...)
	}
	return all
}

// namespacesOf maps the namespaces of mounts that processes are in, of which each sandbox has its own, to one of the processes.
func namespacesOf(paths []string) map[string]string {
	spaces := map[string]string{}
	for _, path := range paths {
		if space, err := os.Readlink(filepath.Join(filepath.Dir(path), "ns", "mnt")); err == nil { // else it has ended
			spaces[space] = path
		}
	}
	return spaces
}

func TestTrust_T07_TheFolderIsGoneInASandbox(t *testing.T) {
	w, dir := confined(t, nil)
	sub := filepath.Join(dir, "sub")
	must(t, os.Mkdir(sub, 0o755))
	for _, script := range []string{`rm -rf "$PWD"`, "mv ../sub ../moved", `cd ..; rm -rf sub; mkdir sub; rm -rf sub`} {
		must(t, os.MkdirAll(sub, 0o755))
		sh(t, w, script, workspace.Command{Dir: "sub"})
		if _, err := w.Exec().Run(t.Context(), workspace.Command{Args: []string{"true"}, Dir: "sub"}); !errors.Is(err, workspace.ErrNoFolder) {
			t.Errorf("%s: %v", script, err)
		}
		if out, result := sh(t, w, "echo hi", workspace.Command{}); out != "hi\n" || result.Code != 0 {
			t.Errorf("after %s: %q %+v", script, out, result)
		}
	}
	// The session's folder itself cannot go: it is mounted. What is in it can.
	out, result := sh(t, w, `touch f; rm -rf "$PWD"; mv "$PWD" ../away; chmod 000 .; pwd`, workspace.Command{})
	if _, err := os.Lstat(filepath.Join(dir, "f")); err == nil || result.Code != 0 || !strings.HasSuffix(out, dir+"\n") {
		t.Errorf("%q %+v %v", out, result, err)
	}
	must(t, os.Chmod(dir, 0o755))
	if out, result := sh(t, w, "echo hi", workspace.Command{}); out != "hi\n" || result.Code != 0 {
		t.Errorf("the next command: %q %+v", out, result)
	}
	must(t, os.RemoveAll(dir)) // somebody else can remove it
	if _, err := w.Exec().Run(t.Context(), workspace.Command{Args: []string{"true"}}); !errors.Is(err, workspace.ErrNoFolder) {
		t.Errorf("the session's folder is gone: %v", err)
	}
	must(t, os.Mkdir(dir, 0o755))
	if out, _ := sh(t, w, "echo hi", workspace.Command{}); out != "hi\n" {
		t.Errorf("after it was made again: %q", out)
	}
}

// leavings counts mounts and control groups of ours.
func leavings(t testing.TB) string {
	t.Helper()
	list, err := os.ReadFile("/proc/self/mountinfo")
	must(t, err)
	return fmt.Sprintf("%d mounts, %d groups", bytes.Count(list, []byte("\n")), len(groupsOf(t, os.Getpid())))
}

// echoNetwork says hello to whoever connects.
type echoNetwork struct{}

func (echoNetwork) Serve(_ context.Context, l net.Listener) (refused []workspace.Refusal) {
	for {
		c, err := l.Accept()
		if err != nil {
			return refused
		}
		_, _ = c.Write([]byte("hello from outside\n"))
		refused = append(refused, workspace.Refusal{Kind: workspace.RefusedNetwork, Target: "example.com:443", Rule: "none allows it"})
		_ = c.Close() // all was said
	}
}

func TestTheProxyIsReached(t *testing.T) {
	w, _ := confined(t, func(c *workspace.Confinement) { c.Network = echoNetwork{} })
	out, result := sh(t, w, `echo $https_proxy $NO_PROXY; exec 3<>/dev/tcp/127.0.0.1/3128; cat <&3`, workspace.Command{Timeout: 10 * time.Second})
	if out != "http://127.0.0.1:3128 localhost,127.0.0.1,::1\nhello from outside\n" || len(result.Refused) != 1 || result.Refused[0].Target != "example.com:443" {
		t.Errorf("%q %+v", out, result)
	}
	// Without one there is no way out.
	alone, _ := confined(t, nil)
	if out, _ := sh(t, alone, `(exec 3<>/dev/tcp/127.0.0.1/3128) 2>&1; echo $https_proxy`, workspace.Command{}); !strings.Contains(out, "refused") || strings.Contains(out, "http:") {
		t.Errorf("%q", out)
	}
}

// A program of the machine that listens in the file system is not reached, wherever its socket lies.
func TestSocketsOfTheMachineAreHidden(t *testing.T) {
	python := need.Program(t, "python3", "python3")
	w, dir := confined(t, nil)
	beside := realDirBeside(t)
	connect := func(path string) string {
		out, _ := sh(t, w, python+` -c 'import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); print("reached")' '`+path+`' 2>&1 | tail -1`, workspace.Command{})
		return out
	}
	for path, reached := range map[string]bool{filepath.Join(beside, "a socket"): false, filepath.Join(dir, "socket"): true} {
		l, err := net.Listen("unix", path)
		must(t, err)
		if out := connect(path); (out == "reached\n") != reached {
			t.Errorf("%s: %q", path, out)
		}
		must(t, l.Close())
	}
}

// The session's folder may lie where a sandbox hides everything.
func TestAFolderInWhatIsHidden(t *testing.T) {
	confined(t, nil)
	tested := 0
	for _, base := range []string{"/run", "/dev/shm", "/var/tmp", "/tmp"} {
		dir, err := os.MkdirTemp(base, "dsh-test-")
		if err != nil {
			continue
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) }) // a folder of this test
		tested++
		w := workspacetest.Open(t, local.Plugin.Definition(), workspace.Options{Dir: dir})
		out, result := sh(t, w, "echo x > f && cat f; ls "+base+"; echo y > "+base+"/dsh-test-planted", workspace.Command{})
		if !strings.HasPrefix(out, "x\n") || !strings.Contains(out, filepath.Base(dir)+"\n") {
			t.Errorf("%s: %q %+v", base, out, result)
		}
		if _, err := os.Lstat(base + "/dsh-test-planted"); err == nil {
			t.Errorf("%s was written", base)
		}
	}
	if tested < 2 {
		t.Errorf("only %d folders could be made", tested)
	}
}

func TestCachesAreKeptApart(t *testing.T) {
	w, dir := confined(t, nil)
	home := os.Getenv("HOME")
	must(t, os.MkdirAll(filepath.Join(home, ".cache", "tool"), 0o755))
	must(t, os.WriteFile(filepath.Join(home, ".cache", "tool", "a"), []byte("real"), 0o644))
	// The home has to be outside of what a sandbox hides.
	if strings.HasPrefix(home, "/tmp/") {
		home = realDirBeside(t)
		t.Setenv("HOME", home)
		must(t, os.MkdirAll(filepath.Join(home, ".cache", "tool"), 0o755))
		must(t, os.WriteFile(filepath.Join(home, ".cache", "tool", "a"), []byte("real"), 0o644))
		t.Setenv("DSH_HOME", filepath.Join(home, "dsh"))
		w = workspacetest.Open(t, local.Plugin.Definition(), workspace.Options{Dir: dir})
	}
	out, result := sh(t, w, `cat ~/.cache/tool/a; echo poisoned > ~/.cache/tool/a; echo new > ~/.cache/tool/b; cat ~/.cache/tool/*; touch ~/outside`, workspace.Command{})
	if !strings.HasPrefix(out, "realpoisoned\nnew\n") {
		t.Fatalf("%q %+v", out, result)
	}
	if b, err := os.ReadFile(filepath.Join(home, ".cache", "tool", "a")); err != nil || string(b) != "real" {
		t.Errorf("outside it is %q, %v", b, err)
	}
	if entries, err := os.ReadDir(filepath.Join(home, ".cache", "tool")); err != nil || len(entries) != 1 {
		t.Errorf("outside there are %v, %v", entries, err)
	}
	// The next command finds what the last one cached.
	if out, _ := sh(t, w, "cat ~/.cache/tool/b", workspace.Command{}); out != "new\n" {
		t.Errorf("the next command reads %q", out)
	}
}

func BenchmarkConfinedStart(b *testing.B) {
	w, _ := confined(b, nil)
	bare := workspacetest.Open(b, with(free), workspace.Options{Dir: w.Dir()})
	measure := func(w workspace.Workspace) []time.Duration {
		var all []time.Duration
		for range max(b.N, 50) {
			began := time.Now()
			if _, err := w.Exec().Run(b.Context(), workspace.Command{Args: []string{"true"}}); err != nil {
				b.Fatal(err)
			}
			all = append(all, time.Since(began))
		}
		slices.Sort(all)
		return all
	}
	free, all := measure(bare), measure(w)
	b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "ms-median")
	b.ReportMetric(float64(all[len(all)*95/100].Microseconds())/1000, "ms-p95")
	b.ReportMetric(float64(all[len(all)/2])/float64(free[len(free)/2]), "x-unconfined")
}

// A path that is not absolute would not be hidden: nothing runs then.
func TestARelativePathConfinesNothing(t *testing.T) {
	for name, change := range map[string]func(*workspace.Confinement){
		"mask":    func(c *workspace.Confinement) { c.Mask = append(c.Mask, ".env") },
		"protect": func(c *workspace.Confinement) { c.Protect = append(c.Protect, "x") },
		"reserve": func(c *workspace.Confinement) { c.Reserve = append(c.Reserve, "x") },
		"write":   func(c *workspace.Confinement) { c.Write = append(c.Write, "./x") },
	} {
		w, dir := confined(t, change)
		_, err := w.Exec().Run(t.Context(), workspace.Command{Args: []string{"touch", filepath.Join(dir, "ran")}, Timeout: 10 * time.Second})
		if _, stat := os.Lstat(filepath.Join(dir, "ran")); !errors.Is(err, workspace.ErrSandbox) || stat == nil {
			t.Errorf("%s: %v; it ran: %v", name, err, stat == nil)
		}
	}
}
