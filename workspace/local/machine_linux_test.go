package local_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/dsh-harness/dsh/internal/need"
	"github.com/dsh-harness/dsh/workspace"
	"github.com/dsh-harness/dsh/workspace/local"
	"github.com/dsh-harness/dsh/workspace/workspacetest"
)

// observed is what a harness on a lesser machine says and does.
type observed struct {
	Level, Ran workspace.SandboxLevel
	Why, Out   string
}

// TestHelperMachine is no test: others run it in a process that takes something from itself, and then
// starts itself again to be a harness without it.
func TestHelperMachine(t *testing.T) {
	lacks, ok := os.LookupEnv("DSH_TEST_LACKS")
	if !ok {
		t.Skip("only in a process that a test started")
	}
	if lacks != "" {
		runtime.LockOSThread() // what is taken from a thread is taken from what it executes
		for _, what := range strings.Split(lacks, "+") {
			take(t, what)
		}
		t.Setenv("DSH_TEST_LACKS", "")
		exe, err := os.Executable()
		must(t, err)
		t.Fatal(syscall.Exec(exe, os.Args, os.Environ()))
	}
	provider := local.Plugin.Definition()
	if os.Getenv("DSH_TEST_UNCHANGED") != "" {
		provider = with(func(c *workspace.Confinement) { c.Protect = append(c.Protect, c.Write[0]) })
	}
	w := workspacetest.Open(t, provider, workspace.Options{Dir: os.Getenv("DSH_TEST_DIR")})
	var seen observed
	seen.Level, seen.Why = w.Sandbox()
	var out strings.Builder
	result, err := w.Exec().Run(context.Background(), workspace.Command{
		Args: []string{"bash", "-c", `echo x > in && echo wrote in; echo x > ../out && echo wrote out; (exec 3<>/dev/tcp/127.0.0.1/9) 2>&1 | grep -o 'not supported'; unshare -U true && echo namespace`}, Merged: true,
		Output: func(p []byte, _ bool) { out.Write(p) },
	})
	must(t, err)
	seen.Ran, seen.Out = result.Sandbox, out.String()
	text, err := json.Marshal(seen)
	must(t, err)
	must(t, os.WriteFile(os.Getenv("DSH_TEST_REPORT"), text, 0o600))
}

func take(t *testing.T, what string) {
	switch what {
	case "namespaces":
		must(t, os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0))
	case "proc": // as containers do it: a part of /proc is hidden, so that no new one may be mounted
		must(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
		must(t, unix.Mount("/dev/null", "/proc/version", "", unix.MS_BIND, ""))
	case "landlock": // as if the kernel had never heard of it
		filter := []unix.SockFilter{
			{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0},
			{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_LANDLOCK_CREATE_RULESET, Jf: 1},
			{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
			{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		}
		must(t, unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		must(t, unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})), 0, 0))
	default:
		t.Fatalf("nothing is called %q", what)
	}
}

// onAMachineWithout runs a harness that lacks something, in throw-away namespaces, and returns what it saw.
func onAMachineWithout(t *testing.T, what string) (observed, string) {
	t.Helper()
	base := realDirBeside(t)
	dir := filepath.Join(base, "project")
	must(t, os.Mkdir(dir, 0o755))
	exe, err := os.Executable()
	must(t, err)
	reportFile := filepath.Join(base, "report")
	cmd := exec.Command(exe, "-test.run=^TestHelperMachine$", "-test.v")
	cmd.Env = append(os.Environ(), "DSH_TEST_LACKS="+what, "DSH_TEST_DIR="+dir, "DSH_TEST_REPORT="+reportFile, "HOME="+base, "DSH_HOME="+filepath.Join(base, "dsh"), "TMPDIR="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if err != nil && !strings.Contains(string(out), "TestHelperMachine") {
		need.Missing(t, "user namespaces are refused here: %v", err)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(reportFile)
	must(t, err)
	var seen observed
	must(t, json.Unmarshal(text, &seen))
	if _, err := os.Lstat(filepath.Join(dir, "in")); (err != nil) != (os.Getenv("DSH_TEST_UNCHANGED") != "") {
		t.Errorf("what a command writes into its folder: %v; %q", err, seen.Out)
	}
	_, err = os.Lstat(filepath.Join(base, "out"))
	return seen, map[bool]string{true: "out", false: ""}[err == nil]
}

// What a machine lacks makes the level partial, and then it holds what partial says; only where there is neither
// namespaces nor Landlock the level is none, which the policy asks about.
func TestTrust_S04_LesserMachines(t *testing.T) {
	confined(t, nil) // this machine has it all
	for _, c := range []struct {
		lacks string
		level workspace.SandboxLevel
		why   string // in the reason
		inet  bool   // there are internet sockets, of the command's own
	}{
		{"namespaces", workspace.SandboxPartial, "a full sandbox is refused here: ", false},
		{"proc", workspace.SandboxPartial, "mount /proc", false},
		{"landlock", workspace.SandboxPartial, "the kernel has no Landlock", true},
		{"namespaces+landlock", workspace.SandboxNone, "without namespaces: the kernel has no Landlock", true},
	} {
		t.Run(c.lacks, func(t *testing.T) {
			seen, out := onAMachineWithout(t, c.lacks)
			if seen.Level != c.level || seen.Ran != c.level || !strings.Contains(seen.Why, c.why) {
				t.Errorf("%+v, want %s because of %q", seen, c.level, c.why)
			}
			if c.level == workspace.SandboxNone {
				return
			}
			if out != "" || strings.Contains(seen.Out, "wrote out") || strings.Contains(seen.Out, "\nnamespace") {
				t.Errorf("not confined: %q, wrote %q", seen.Out, out)
			}
			if got := !strings.Contains(seen.Out, "not supported"); got != c.inet {
				t.Errorf("internet sockets: %v; %q", got, seen.Out)
			}
		})
	}
}

// A session that changes nothing does so in each sandbox.
func TestAFolderThatIsProtectedAsAWhole(t *testing.T) {
	confined(t, nil)
	t.Setenv("DSH_TEST_UNCHANGED", "1")
	for _, lacks := range []string{"", "namespaces", "landlock"} {
		if seen, out := onAMachineWithout(t, lacks); out != "" || strings.Contains(seen.Out, "wrote in") {
			t.Errorf("without %q: %+v, wrote %q", lacks, seen, out)
		}
	}
}
