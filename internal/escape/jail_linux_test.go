package escape

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/workspace"
	"github.com/dsh-harness/dsh/workspace/local"
	"github.com/dsh-harness/dsh/workspace/workspacetest"
)

// The test binary is also what runs in the jail; the first argument says as what.
func TestMain(m *testing.M) {
	local.Guard()
	role := ""
	if len(os.Args) > 1 {
		role = os.Args[1]
	}
	var err error
	switch role {
	case "jail":
		err = jail(os.Args[2], os.Args[3])
	case "bait":
		err = bait(os.Args[2])
	case "crippled":
		err = crippled()
	case "try":
		attempt()
	case "uid":
		fmt.Println(os.Geteuid())
	case "foreign":
		if _, _, errno := unix.RawSyscall(foreignCall, 0, 0, 0); errno == 0 {
			fmt.Println("reached")
		}
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, role+":", err)
		os.Exit(1)
	}
}

const base = "/mnt/dsh-jail"

// jail turns the process, which must be the first of new namespaces, into a jail with bait, and runs the tries in it as the
// user uid in a sandbox of a level.
func jail(level, uid string) error {
	if os.Getpid() != 1 {
		return errors.New("this is no process of a jail")
	}
	exe, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return err
	}
	id, err := strconv.Atoi(uid)
	if err != nil {
		return err
	}
	if level == string(workspace.SandboxNone) && id == 0 {
		return errors.New("nothing is tried as root without a sandbox")
	}
	if err := walls(); err != nil {
		return err
	}
	if err := furnish(exe, id); err != nil {
		return err
	}
	victim := exec.Command(base+"/bin/escape", "bait", base)
	in, err := victim.StdinPipe()
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := victim.StdoutPipe()
	if err != nil {
		return err
	}
	victim.Stderr, victim.Dir, victim.SysProcAttr = os.Stderr, "/", as(id)
	// Its number must be one that no process has in a sandbox, whose numbers begin at 1 again.
	if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte("20000"), 0); err != nil {
		return err
	}
	if err := victim.Start(); err != nil {
		return err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return fmt.Errorf("the bait does not answer: %w", err)
	}
	open9, err := os.OpenFile(base+"/out/victim", os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	args := []string{"-test.run=^TestHarness$", "-test.v"}
	if level == string(workspace.SandboxPartial) {
		args = append([]string{"crippled"}, args...)
	}
	harness := exec.Command(base+"/bin/escape", args...)
	harness.Env = append(strings.Fields(line), "PATH="+os.Getenv("PATH"), "HOME="+base+"/home", "DSH_HOME="+base+"/home/dsh", "TMPDIR=/tmp", "ESCAPE_LEVEL="+level,
		"ANTHROPIC_API_KEY=sk-test", "LD_PRELOAD=/nothing.so")
	harness.Dir, harness.SysProcAttr, harness.Stdout, harness.Stderr = base+"/project", as(id), os.Stdout, os.Stderr
	harness.ExtraFiles = []*os.File{nil, nil, nil, nil, nil, nil, open9} // descriptor 9
	if err := harness.Run(); err != nil {
		return fmt.Errorf("the harness: %w", err)
	}
	// What a try cannot see for itself.
	hits, err := os.ReadDir(base + "/hits")
	if err != nil {
		return err
	}
	for _, h := range hits {
		from, err := os.ReadFile(base + "/hits/" + h.Name())
		if err != nil {
			return err
		}
		fmt.Printf("hit\t%s\n", from)
	}
	verdict := "DENIED"
	if _, err := os.Lstat(base + "/home/.cache/tool/poison"); err == nil {
		verdict = "ALLOWED"
	}
	fmt.Printf("the poison reached the cache\t%s\t\n", verdict)
	return nil
}

func as(uid int) *syscall.SysProcAttr {
	if uid == os.Getuid() {
		return &syscall.SysProcAttr{}
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
}

// walls makes everything read-only, and makes sure.
func walls() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make the mounts private: %w", err)
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return fmt.Errorf("make the root read-only: %w", err)
	}
	for _, dir := range []string{"/", "/usr", "/etc", "/root", "/home", "/var", "/opt", "/tmp"} {
		path := filepath.Join(dir, ".dsh-jail-probe")
		if f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err == nil {
			_ = f.Close()
			_ = os.Remove(path)
			return fmt.Errorf("%s can be written: this is no jail", dir)
		}
	}
	for _, m := range []struct{ path, data string }{{"/mnt", "mode=755"}, {"/run", "mode=1777"}, {"/tmp", "mode=1777"}, {"/var/tmp", "mode=1777"}, {"/dev/shm", "mode=1777"}} {
		if err := unix.Mount("tmpfs", m.path, "tmpfs", 0, m.data); err != nil {
			return fmt.Errorf("mount %s: %w", m.path, err)
		}
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	return loopback()
}

func loopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
}

// furnish lays out the bait.
func furnish(exe []byte, uid int) error {
	for path, content := range map[string]string{
		"project/.git/config": "[core]\n", "project/.git/hooks/keep": "", "out/victim": "v\n", "out/victim2": "v\n", "out/victim3": "v\n",
		"home/.ssh/id": secret, "home/.netrc": secret, "home/.cache/tool/a": "real", "home/dsh/state/trust.json": secret, "hits/.keep": "", "bin/escape": string(exe), "bin/suid": string(exe),
	} {
		path = filepath.Join(base, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return err
		}
	}
	if err := os.Remove(base + "/hits/.keep"); err != nil {
		return err
	}
	if err := os.Link(base+"/out/victim2", base+"/project/pre_hl"); err != nil {
		return err
	}
	err := filepath.WalkDir(base, func(path string, _ os.DirEntry, err error) error {
		if err == nil && !strings.HasPrefix(path, base+"/bin") {
			err = os.Lchown(path, uid, uid)
		}
		return err
	})
	if err != nil {
		return err
	}
	return errors.Join(os.Chmod(base+"/home/.ssh/id", 0o600), os.Chmod(base+"/bin/escape", 0o755), os.Chmod(base+"/bin/suid", 0o755|os.ModeSetuid))
}

// crippled runs the harness where no user namespace can be made.
func crippled() error {
	runtime.LockOSThread()
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_CLONE, Jf: 3},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 16},
		{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: unix.CLONE_NEWUSER, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})), 0, 0); err != nil {
		return err
	}
	return syscall.Exec("/proc/self/exe", append([]string{"escape"}, os.Args[2:]...), os.Environ())
}

// proxy lets commands reach one host.
type proxy struct{ allowed string }

func (p proxy) Serve(ctx context.Context, l net.Listener) (refused []workspace.Refusal) {
	for {
		c, err := l.Accept()
		if err != nil {
			return refused
		}
		_ = c.SetDeadline(time.Now().Add(time.Second))
		line, err := bufio.NewReader(c).ReadString('\n')
		fields := strings.Fields(line)
		answer := "HTTP/1.1 403 Forbidden\r\n\r\n"
		if err == nil && len(fields) == 3 && fields[0] == "CONNECT" && fields[1] == p.allowed {
			answer = "HTTP/1.1 200 ok\r\n\r\n"
		} else if ctx.Err() == nil {
			refused = append(refused, workspace.Refusal{Kind: workspace.RefusedNetwork, Target: strconv.Quote(line)})
		}
		_, _ = io.WriteString(c, answer)
		_ = c.Close()
	}
}

// TestHarness is no test: it is the harness in the jail, whose command runs the tries.
func TestHarness(t *testing.T) {
	level := os.Getenv("ESCAPE_LEVEL")
	if level == "" {
		t.Skip("only in a jail")
	}
	w := theJail()
	p := local.Plugin
	p.Start = func(ctx context.Context, s *plugin.Scope, c local.Config) error {
		_, err := workspace.Confining.On(s, func(ctx context.Context, c *workspace.Confinement, next plugin.Next[*workspace.Confinement, *workspace.Confinement]) (*workspace.Confinement, error) {
			c.Mask = append(c.Mask, filepath.Dir(w.secret), w.base+"/home/.netrc", w.base+"/home/dsh/state")
			c.Reserve = append(c.Reserve, w.base+"/project/.dsh")
			c.Network = proxy{fmt.Sprintf("127.0.0.1:%d", w.other)}
			if level == string(workspace.SandboxNone) {
				c.Unconfined = "the control"
			}
			return next(ctx, c)
		})
		return errors.Join(err, local.Plugin.Start(ctx, s, c))
	}
	space := workspacetest.Open(t, p.Definition(), workspace.Options{Dir: w.base + "/project"})
	if got, why := space.Sandbox(); string(got) != level && level != string(workspace.SandboxNone) {
		t.Fatalf("the sandbox is %s, not %s: %s", got, level, why)
	}
	var env []string
	for _, e := range os.Environ() {
		if strings.HasPrefix(e, "BAIT_") {
			env = append(env, e)
		}
	}
	result, err := space.Exec().Run(t.Context(), workspace.Command{
		Args: []string{base + "/bin/escape", "try", level}, Env: env, Timeout: time.Minute,
		Output: func(b []byte, stderr bool) {
			if stderr {
				_, _ = os.Stderr.Write(b)
				return
			}
			_, _ = os.Stdout.Write(b)
		},
	})
	if err != nil || result.TimedOut {
		t.Fatalf("%v %+v", err, result)
	}
}

// results is what came of each try.
type results struct {
	verdicts map[string]string // ALLOWED or DENIED
	details  map[string]string
	order    []string
	hits     []string
}

// inJail runs all tries; ok is false where no jail can be made.
func inJail(t *testing.T, level workspace.SandboxLevel, uid int) (r results, ok bool) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, exe, "jail", string(level), strconv.Itoa(uid))
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC}
	if os.Getuid() != 0 {
		c.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return r, false
	}
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, stderr.String())
	}
	r = results{verdicts: map[string]string{}, details: map[string]string{}}
	for line := range strings.Lines(string(out)) {
		fields := strings.Split(strings.TrimRight(line, "\n"), "\t")
		switch {
		case len(fields) == 2 && fields[0] == "hit":
			r.hits = append(r.hits, fields[1])
		case len(fields) == 3:
			r.verdicts[fields[0]], r.details[fields[0]] = fields[1], fields[2]
			r.order = append(r.order, fields[0])
		}
	}
	return r, true
}
