package escape

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// try is one attempt. It returns nil when it succeeded.
type try struct {
	name string
	run  func(w where) error
}

// attempt runs all tries and prints a line for each.
func attempt() {
	w := theJail()
	w.ninth, _ = os.Readlink("/proc/self/fd/9") // before a try opens one
	for _, t := range tries() {
		if len(os.Args) > 2 && os.Args[2] == "none" && strings.HasPrefix(t.name, "a bomb") {
			continue // it is none, and proves nothing
		}
		verdict, detail := "ALLOWED", ""
		if err := t.run(w); err != nil {
			verdict, detail = "DENIED", err.Error()
		}
		fmt.Printf("%s\t%s\t%s\n", t.name, verdict, strings.ReplaceAll(detail, "\n", " "))
	}
}

func tries() []try {
	var all []try
	for _, group := range [][]try{mustWork(), writing(), protected(), reading(), kernel(), mounting(), processes(), networking(), memory(), privileges()} {
		all = append(all, group...)
	}
	return all
}

var errNo = errors.New("it had no effect")

func ok(reached bool) error {
	if reached {
		return nil
	}
	return errNo
}

func call(number uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	if _, _, errno := unix.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5]); errno != 0 {
		return errno
	}
	return nil
}

func pointer(b []byte) uintptr { return uintptr(unsafe.Pointer(&b[0])) }

func text(s string) uintptr {
	b, _ := unix.BytePtrFromString(s)
	return uintptr(unsafe.Pointer(b))
}

func write(path string, flags int) error {
	f, err := os.OpenFile(path, flags, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString("x\n")
	return errors.Join(err, f.Close())
}

const (
	create  = os.O_CREATE | os.O_WRONLY
	appends = os.O_APPEND | os.O_WRONLY
)

func read(path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return ok(bytes.Contains(b, []byte(secret)))
}

func open(path string, flags int) error {
	f, err := os.OpenFile(path, flags, 0)
	if err == nil {
		_ = f.Close()
	}
	return err
}

func linked(target, name string, then func(string) error) error {
	_ = os.Remove(name)
	if err := os.Symlink(target, name); err != nil {
		return err
	}
	return then(name)
}

func run(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w %s", err, bytes.TrimSpace(out))
	}
	return nil
}

func mustWork() []try {
	return []try{
		{"ok: write in the folder", func(where) error { return write("inside", create) }},
		{"ok: write in /tmp", func(where) error { return write("/tmp/inside", create) }},
		{"ok: write in TMPDIR", func(where) error { return write(os.Getenv("TMPDIR")+"/inside", create) }},
		{"ok: rename across folders", func(where) error {
			_, _ = os.Mkdir("d1", 0o755), os.Mkdir("d2", 0o755)
			if err := write("d1/f", create); err != nil {
				return err
			}
			return os.Rename("d1/f", "d2/f")
		}},
		{"ok: link across folders", func(where) error { _ = os.Remove("d1/l"); return os.Link("d2/f", "d1/l") }},
		{"ok: run a program", func(where) error { return run("/bin/true") }},
		{"ok: read /etc/passwd", func(where) error { return open("/etc/passwd", os.O_RDONLY) }},
		{"ok: list /usr/bin", func(where) error { _, err := os.ReadDir("/usr/bin"); return err }},
		{"ok: list the home folder", func(w where) error { _, err := os.ReadDir(w.base + "/home"); return err }},
		{"ok: a server on localhost", func(where) error {
			l, err := net.Listen("tcp4", "127.0.0.1:0")
			if err != nil {
				return err
			}
			defer func() { _ = l.Close() }()
			go func() {
				if c, err := l.Accept(); err == nil {
					_, _ = c.Write([]byte(pwned))
					_ = c.Close()
				}
			}()
			return dial("tcp4", l.Addr().String())
		}},
		{"ok: a socket in the folder", func(where) error {
			_ = os.Remove("s")
			l, err := net.Listen("unix", "s")
			if err != nil {
				return err
			}
			defer func() { _ = l.Close() }()
			go func() {
				if c, err := l.Accept(); err == nil {
					_, _ = c.Write([]byte(pwned))
					_ = c.Close()
				}
			}()
			return dial("unix", "s")
		}},
		{"ok: a pair of sockets", func(where) error { _, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0); return err }},
		{"ok: run a program from memory", func(where) error {
			fd, err := unix.MemfdCreate("x", 0)
			if err != nil {
				return err
			}
			b, err := os.ReadFile("/bin/true")
			if err != nil {
				return err
			}
			if _, err := unix.Write(fd, b); err != nil {
				return err
			}
			return run(fmt.Sprintf("/proc/self/fd/%d", fd))
		}},
		{"ok: commit", func(where) error {
			return run("sh", "-c", "git init -q g && cd g && echo a > a && git add a && git -c user.name=a -c user.email=a@b.c commit -qm x")
		}},
		{"ok: write in .git", func(where) error { return write(".git/index", create) }},
		{"ok: a pseudo-terminal", func(where) error { return open("/dev/ptmx", os.O_RDWR) }},
		{"ok: signal a child", func(where) error {
			c := exec.Command("sleep", "5")
			if err := c.Start(); err != nil {
				return err
			}
			err := c.Process.Kill()
			_ = c.Wait()
			return err
		}},
		{"ok: shared memory of its own", func(where) error { return write("/dev/shm/own", create) }},
	}
}

func writing() []try {
	victim := func(w where) string { return w.out("victim") }
	return []try{
		{"create a file outside", func(w where) error { return write(w.out("new"), create) }},
		{"append outside", func(w where) error { return write(victim(w), appends) }},
		{"truncate outside", func(w where) error { return os.Truncate(victim(w), 0) }},
		{"unlink outside", func(w where) error { return os.Remove(w.out("victim3")) }},
		{"make a folder outside", func(w where) error { return os.Mkdir(w.out("dir"), 0o755) }},
		{"make a link outside", func(w where) error { return os.Symlink("/", w.out("link")) }},
		{"make a pipe outside", func(w where) error { return unix.Mkfifo(w.out("fifo"), 0o644) }},
		{"make a socket outside", func(w where) error { _, err := net.Listen("unix", w.out("sock")); return err }},
		{"write through a link", func(w where) error {
			return linked(victim(w), "sl", func(n string) error { return write(n, appends) })
		}},
		{"write through a link to a folder", func(w where) error {
			return linked(w.base+"/out", "sd", func(n string) error { return write(n+"/new2", create) })
		}},
		{"write through a chain of links", func(w where) error {
			_ = os.Remove("c1")
			_ = os.Symlink("c2", "c1")
			return linked(victim(w), "c2", func(string) error { return write("c1", appends) })
		}},
		{"write by dots", func(w where) error { return write("../out/new3", create) }},
		{"write by /proc/self/root", func(w where) error { return write("/proc/self/root"+victim(w), appends) }},
		{"write by /proc/self/cwd", func(w where) error { return write("/proc/self/cwd/../out/new4", create) }},
		{"write by /proc/1/root", func(w where) error { return write("/proc/1/root"+victim(w), appends) }},
		{"write by /proc/1/cwd", func(w where) error { return write("/proc/1/cwd/../out/new5", create) }},
		{"write by a read-only descriptor", func(w where) error {
			f, err := os.Open(victim(w))
			if err != nil {
				return err
			}
			defer func() { _ = f.Close() }()
			return write(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), appends)
		}},
		{"make a hard link", func(w where) error { return os.Link(victim(w), "hl") }},
		{"write through a hard link that was there", func(where) error { return write("pre_hl", appends) }},
		{"rename out", func(w where) error {
			if err := write("going", create); err != nil {
				return err
			}
			return os.Rename("going", w.out("stolen"))
		}},
		{"rename in", func(w where) error { return os.Rename(w.out("victim2"), "taken") }},
		{"exchange in and out", func(w where) error {
			return unix.Renameat2(unix.AT_FDCWD, "inside", unix.AT_FDCWD, victim(w), unix.RENAME_EXCHANGE)
		}},
		{"link a file without a name out", func(w where) error {
			fd, err := unix.Open(".", unix.O_TMPFILE|unix.O_WRONLY, 0o644)
			if err != nil {
				return err
			}
			return unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.AT_FDCWD, w.out("tmpfile"), unix.AT_SYMLINK_FOLLOW)
		}},
		{"chmod outside", func(w where) error { return os.Chmod(victim(w), 0o600) }},
		{"chown outside", func(w where) error { return os.Chown(victim(w), os.Getuid(), os.Getgid()) }},
		{"change times outside", func(w where) error { return os.Chtimes(victim(w), time.Unix(1, 0), time.Unix(1, 0)) }},
		{"set an attribute outside", func(w where) error { return unix.Setxattr(victim(w), "user.x", []byte("1"), 0) }},
		{"fchmod by a read-only descriptor", func(w where) error {
			f, err := os.Open(victim(w))
			if err != nil {
				return err
			}
			defer func() { _ = f.Close() }()
			return f.Chmod(0o666)
		}},
		{"write to a descriptor that was open", func(w where) error { return ok(w.ninth == victim(w)) }},
		{"find an open descriptor", func(where) error {
			for fd := 3; fd < 256; fd++ {
				target, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
				if err == nil && !strings.HasPrefix(target, "anon_inode:") && !strings.HasPrefix(target, "/proc/") && !strings.Contains(target, "memfd:") &&
					!strings.HasPrefix(target, "/dev/ptmx") && !strings.HasPrefix(target, "/dev/pts/") && !strings.HasPrefix(target, "socket:") && !strings.Contains(target, "cgroup") && !strings.Contains(target, "/project") {
					return nil
				}
			}
			return errNo
		}},
		{"write to /etc", func(where) error { return write("/etc/dsh-escape", create) }},
		{"write to /usr", func(where) error { return write("/usr/dsh-escape", create) }},
		{"write to the program of the launcher", func(where) error { return open("/proc/1/exe", os.O_WRONLY) }},
		{"write to the home folder", func(w where) error { return write(w.base+"/home/.bashrc", create) }},
		{"write to the harness's state", func(w where) error { return write(w.base+"/home/dsh/state/x", create) }},
		{"write into the layer of a cache", func(w where) error { return write(w.base+"/home/dsh/state/sandbox/0/x", create) }},
		{"poison a cache", func(w where) error {
			if err := write(w.base+"/home/.cache/tool/poison", create); err != nil {
				return err
			}
			return os.WriteFile("poisoned", nil, 0o644) // whether it came out the jail sees
		}},
	}
}

func protected() []try {
	return []try{
		{"write a hook", func(where) error { return write(".git/hooks/pre-commit", create) }},
		{"write git's configuration", func(where) error { return write(".git/config", appends) }},
		{"unlink git's configuration", func(where) error { return os.Remove(".git/config") }},
		{"rename over git's configuration", func(where) error {
			if err := write(".git/config.new", create); err != nil {
				return err
			}
			return os.Rename(".git/config.new", ".git/config")
		}},
		{"rename .git away", func(where) error {
			err := os.Rename(".git", ".git2")
			if err == nil {
				_ = os.Rename(".git2", ".git")
			}
			return err
		}},
		{"rename the hooks away", func(where) error {
			err := os.Rename(".git/hooks", ".git/hooks2")
			if err == nil {
				_ = os.Rename(".git/hooks2", ".git/hooks")
			}
			return err
		}},
		{"exchange the hooks", func(where) error {
			_ = os.Mkdir("evil", 0o755)
			return unix.Renameat2(unix.AT_FDCWD, "evil", unix.AT_FDCWD, ".git/hooks", unix.RENAME_EXCHANGE)
		}},
		{"change the mode of the hooks", func(where) error { return os.Chmod(".git/hooks", 0o777) }},
		{"make what is absent and reserved", func(where) error {
			if err := os.MkdirAll(".dsh", 0o755); err != nil {
				return err
			}
			return write(".dsh/cordis.yml", create)
		}},
		{"remove what is reserved", func(where) error { return os.Remove(".dsh") }},
		{"rename what is reserved", func(where) error { return os.Rename(".dsh", "x") }},
		{"rename the folder itself", func(w where) error { return os.Rename(w.base+"/project", w.base+"/project2") }},
		{"remove the folder itself", func(w where) error { return unix.Rmdir(w.base + "/project") }},
	}
}

func reading() []try {
	return []try{
		{"read a key", func(w where) error { return read(w.secret) }},
		{"read a key by /proc/self/root", func(w where) error { return read("/proc/self/root" + w.secret) }},
		{"read a key by /proc/1/root", func(w where) error { return read("/proc/1/root" + w.secret) }},
		{"read a key by the root of a process", func(w where) error { return read(fmt.Sprintf("/proc/%d/root%s", w.victim, w.secret)) }},
		{"read a key by the folder of a process", func(w where) error { return read(fmt.Sprintf("/proc/%d/cwd%s", w.victim, w.secret)) }},
		{"read a key through a link", func(w where) error { return linked(w.secret, "sk", read) }},
		{"read a key through a linked folder", func(w where) error {
			return linked(filepath.Dir(w.secret), "skd", func(n string) error { return read(n + "/id") })
		}},
		{"list the keys", func(w where) error {
			entries, err := os.ReadDir(filepath.Dir(w.secret))
			if err != nil {
				return err
			}
			return ok(len(entries) > 0)
		}},
		{"see that a key exists", func(w where) error { _, err := os.Stat(w.secret); return err }},
		{"make a hard link to a key", func(w where) error { return os.Link(w.secret, "k") }},
		{"open a key by a handle", func(where) error {
			handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, "/etc/passwd", 0)
			if err != nil {
				return err
			}
			root, err := unix.Open("/", unix.O_RDONLY, 0)
			if err != nil {
				return err
			}
			fd, err := unix.OpenByHandleAt(root, handle, unix.O_RDONLY)
			if err == nil {
				_ = unix.Close(fd)
			}
			return err
		}},
		{"read a masked file", func(w where) error { return read(w.base + "/home/.netrc") }},
		{"read the harness's state", func(w where) error { return read(w.base + "/home/dsh/state/trust.json") }},
		{"read the environment of a process", func(w where) error { return open(fmt.Sprintf("/proc/%d/environ", w.victim), os.O_RDONLY) }},
		{"read the memory of a process", func(w where) error { return open(fmt.Sprintf("/proc/%d/mem", w.victim), os.O_RDWR) }},
		{"read the environment of the launcher", func(where) error {
			b, err := os.ReadFile("/proc/1/environ")
			if err != nil {
				return err
			}
			return ok(len(b) > 0)
		}},
		{"write the memory of the launcher", func(where) error { return open("/proc/1/mem", os.O_RDWR) }},
		{"see the maps of the launcher", func(where) error {
			b, err := os.ReadFile("/proc/1/maps")
			if err != nil {
				return err
			}
			return ok(len(b) > 0)
		}},
		{"see where the descriptors of the launcher lead", func(where) error { _, err := os.Readlink("/proc/1/fd/3"); return err }},
		{"open a descriptor of the launcher", func(where) error { return open("/proc/1/fd/4", os.O_WRONLY) }},
		{"a key in the environment", func(where) error { return ok(os.Getenv("ANTHROPIC_API_KEY") != "") }},
		{"LD_PRELOAD in the environment", func(where) error { return ok(os.Getenv("LD_PRELOAD") != "") }},
		{"read a disk", func(where) error {
			for _, disk := range []string{"/dev/vda", "/dev/sda", "/dev/nvme0n1", "/dev/mem", "/dev/loop0"} {
				if open(disk, os.O_RDONLY) == nil {
					return nil
				}
			}
			return errNo
		}},
		{"read the kernel's messages", func(where) error { return open("/dev/kmsg", os.O_RDONLY) }},
		{"read memory that others share", func(where) error { return read(shmFile) }},
	}
}

func kernel() []try {
	params := make([]byte, 512)
	return []try{
		{"io_uring_setup", func(where) error { return call(unix.SYS_IO_URING_SETUP, 4, pointer(params)) }},
		{"io_uring_register", func(where) error {
			if err := call(unix.SYS_IO_URING_REGISTER, 0, 0, 0, 0); !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.EBADF) && !errors.Is(err, unix.EINVAL) {
				return err
			}
			return nil
		}},
		{"bpf", func(where) error { return call(unix.SYS_BPF, 0, pointer(params), 48) }},
		{"perf_event_open", func(where) error {
			a := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})), Bits: unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv}
			_, err := unix.PerfEventOpen(&a, 0, -1, -1, 0)
			return err
		}},
		{"userfaultfd", func(where) error { return call(unix.SYS_USERFAULTFD, 1) }},
		{"keyctl", func(where) error { return call(unix.SYS_KEYCTL, 0, ^uintptr(2), 0) }},
		{"add_key", func(where) error {
			return call(unix.SYS_ADD_KEY, text("user"), text("x"), text("y"), 1, ^uintptr(2))
		}},
		{"fanotify_init", func(where) error { return call(unix.SYS_FANOTIFY_INIT, 0, 0) }},
		{"init_module", func(where) error {
			err := call(unix.SYS_INIT_MODULE, pointer(params), 1, text(""))
			if errors.Is(err, unix.ENOEXEC) {
				return nil
			}
			return err
		}},
		{"kexec_load", func(where) error { return call(unix.SYS_KEXEC_LOAD, 0, 0, 0, 0) }},
		{"syslog", func(where) error { return call(unix.SYS_SYSLOG, 10, 0, 0) }},
		{"settimeofday", func(where) error { return call(unix.SYS_SETTIMEOFDAY, pointer(params), 0) }},
		{"sethostname", func(where) error { return unix.Sethostname([]byte("pwned")) }},
		{"swapon", func(where) error { return call(unix.SYS_SWAPON, text("/nothing"), 0) }},
		{"reboot", func(where) error { return call(unix.SYS_REBOOT, 0xfee1dead, 672274793, 0) }}, // a change of Ctrl-Alt-Del, at worst
		{"acct", func(where) error { return call(unix.SYS_ACCT, 0) }},
		{"quotactl", func(where) error { return call(unix.SYS_QUOTACTL, 0x800001<<8, 0, 0, 0) }},
		{"write /proc/sys", func(where) error { return open("/proc/sys/kernel/hostname", os.O_WRONLY) }},
		{"write core_pattern", func(where) error { return open("/proc/sys/kernel/core_pattern", os.O_WRONLY) }},
		{"write modprobe", func(where) error { return open("/proc/sys/kernel/modprobe", os.O_WRONLY) }},
		{"write sysrq", func(where) error { return open("/proc/sysrq-trigger", os.O_WRONLY) }},
		{"write /sys", func(where) error { return open("/sys/kernel/mm/transparent_hugepage/enabled", os.O_WRONLY) }},
		{"write uevent_helper", func(where) error { return open("/sys/kernel/uevent_helper", os.O_WRONLY) }},
		{"leave the control group", func(where) error {
			for _, path := range []string{"/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/pids/cgroup.procs", "/sys/fs/cgroup/memory/cgroup.procs"} {
				if os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())), 0) == nil {
					return nil
				}
			}
			return errNo
		}},
		{"write release_agent", func(where) error {
			for _, dir := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/pids", "/sys/fs/cgroup/devices"} {
				if open(dir+"/release_agent", os.O_WRONLY) == nil {
					return nil
				}
			}
			return errNo
		}},
		{"register a binary format", func(where) error { return open("/proc/sys/fs/binfmt_misc/register", os.O_WRONLY) }},
		{"modify_ldt", func(where) error { return modifyLDT(params) }},
		{"a system call of another interface", func(where) error {
			out, err := exec.Command("/proc/self/exe", "foreign").CombinedOutput()
			if err != nil {
				return err
			}
			return ok(bytes.Contains(out, []byte("reached")))
		}},
	}
}

func mounting() []try {
	return []try{
		{"mount a file system", func(where) error { _ = os.Mkdir("m", 0o755); return unix.Mount("tmpfs", "m", "tmpfs", 0, "") }},
		{"bind the root", func(where) error { return unix.Mount("/", "m", "", unix.MS_BIND|unix.MS_REC, "") }},
		{"unmount the mask of the keys", func(w where) error { return unix.Unmount(filepath.Dir(w.secret), unix.MNT_DETACH) }},
		{"unmount the folder", func(w where) error { return unix.Unmount(w.base+"/project", unix.MNT_DETACH) }},
		{"unmount /tmp", func(where) error { return unix.Unmount("/tmp", unix.MNT_DETACH) }},
		{"unmount the hooks", func(where) error { return unix.Unmount(".git/hooks", unix.MNT_DETACH) }},
		{"make the root writable", func(where) error { return unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND, "") }},
		{"mount_setattr", func(where) error {
			return unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY})
		}},
		{"open_tree", func(where) error {
			_, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE|unix.AT_RECURSIVE)
			return err
		}},
		{"move_mount", func(where) error { return unix.MoveMount(unix.AT_FDCWD, "/tmp", unix.AT_FDCWD, "m", 0) }},
		{"fsopen", func(where) error { _, err := unix.Fsopen("tmpfs", 0); return err }},
		{"fspick", func(where) error { _, err := unix.Fspick(unix.AT_FDCWD, "/", 0); return err }},
		{"unshare and read a key", func(w where) error {
			out, err := exec.Command("unshare", "-Urm", "sh", "-c", "umount "+filepath.Dir(w.secret)+" 2>/dev/null; cat "+w.secret).CombinedOutput()
			if err != nil {
				return fmt.Errorf("%w %s", err, bytes.TrimSpace(out))
			}
			return ok(bytes.Contains(out, []byte(secret)))
		}},
		{"clone a user namespace", func(where) error {
			c := exec.Command("/bin/true")
			c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER}
			return c.Run()
		}},
		{"clone3 a user namespace", func(where) error {
			args := [11]uint64{unix.CLONE_NEWUSER, 0, 0, 0, uint64(unix.SIGCHLD)}
			pid, _, errno := unix.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args), 0)
			if errno != 0 {
				return errno
			}
			if pid == 0 {
				unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
			}
			return nil
		}},
		{"unshare the mounts", func(where) error { return unix.Unshare(unix.CLONE_NEWNS) }},
		{"unshare the network", func(where) error { return unix.Unshare(unix.CLONE_NEWNET) }},
		{"join the namespace of the launcher", func(where) error {
			fd, err := unix.Open("/proc/1/ns/mnt", unix.O_RDONLY, 0)
			if err != nil {
				return err
			}
			return unix.Setns(fd, unix.CLONE_NEWNS)
		}},
		{"join the namespaces of a process", func(w where) error {
			fd, err := unix.PidfdOpen(w.victim, 0)
			if err != nil {
				return err
			}
			return unix.Setns(fd, unix.CLONE_NEWNS|unix.CLONE_NEWNET)
		}},
		{"chroot", func(where) error { return unix.Chroot("m") }},
		{"pivot_root", func(where) error { return unix.PivotRoot(".", ".") }},
		{"make a device", func(where) error { return unix.Mknod("blk", unix.S_IFBLK|0o600, int(unix.Mkdev(254, 0))) }},
		{"make a device in /dev", func(where) error { return unix.Mknod("/dev/blk", unix.S_IFBLK|0o600, int(unix.Mkdev(254, 0))) }},
		{"mount by fusermount", func(where) error { return open("/dev/fuse", os.O_RDWR) }},
	}
}

func processes() []try {
	return []try{
		{"trace a process", func(w where) error {
			runtime.LockOSThread() // the tracer is a thread
			defer runtime.UnlockOSThread()
			if err := call(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(w.victim), 0, 0); err != nil {
				return err
			}
			// Only what has stopped is let go of, and what is not would stop at its next signal.
			if err := unix.PtraceInterrupt(w.victim); err != nil {
				return err
			}
			if _, err := unix.Wait4(w.victim, nil, unix.WALL, nil); err != nil {
				return err
			}
			return unix.PtraceDetach(w.victim)
		}},
		{"trace the launcher", func(where) error { return call(unix.SYS_PTRACE, unix.PTRACE_SEIZE, 1, 0, 0) }},
		{"process_vm_readv", func(w where) error {
			b := make([]byte, 8)
			_, err := unix.ProcessVMReadv(w.victim, []unix.Iovec{{Base: &b[0], Len: 8}}, []unix.RemoteIovec{{Base: 0x400000, Len: 8}}, 0)
			return err
		}},
		{"process_vm_writev on the launcher", func(where) error {
			b := make([]byte, 8)
			_, err := unix.ProcessVMWritev(1, []unix.Iovec{{Base: &b[0], Len: 8}}, []unix.RemoteIovec{{Base: 0x400000, Len: 8}}, 0)
			return err
		}},
		{"signal a process", func(w where) error { return unix.Kill(w.victim, unix.SIGCONT) }},
		{"signal a process by pidfd", func(w where) error {
			fd, err := unix.PidfdOpen(w.victim, 0)
			if err != nil {
				return err
			}
			return unix.PidfdSendSignal(fd, unix.SIGCONT, nil, 0)
		}},
		{"take a descriptor of a process", func(w where) error {
			fd, err := unix.PidfdOpen(w.victim, 0)
			if err != nil {
				return err
			}
			_, err = unix.PidfdGetfd(fd, 0, 0)
			return err
		}},
		{"take a descriptor of the launcher", func(where) error {
			fd, err := unix.PidfdOpen(1, 0)
			if err != nil {
				return err
			}
			_, err = unix.PidfdGetfd(fd, 3, 0)
			return err
		}},
		{"see a process", func(w where) error {
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", w.victim))
			if err != nil {
				return err
			}
			return ok(bytes.Contains(b, []byte("bait")))
		}},
		{"change the priority of a process", func(w where) error { return unix.Setpriority(unix.PRIO_PROCESS, w.victim, 5) }},
		{"kcmp", func(w where) error { return call(unix.SYS_KCMP, uintptr(os.Getpid()), uintptr(w.victim), 0, 0, 0) }},
	}
}

func dial(network, address string) error {
	c, err := net.DialTimeout(network, address, 5*time.Second)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	b := make([]byte, len(pwned))
	n, err := c.Read(b)
	if err != nil {
		return err
	}
	return ok(string(b[:n]) == pwned)
}

func stream(protocol, port int, fastOpen bool) error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, protocol)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(s) }()
	_ = unix.SetsockoptTimeval(s, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5})
	to := &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}
	if fastOpen {
		err = unix.Sendto(s, []byte("x"), unix.MSG_FASTOPEN, to)
	} else {
		err = unix.Connect(s, to)
	}
	if err != nil {
		return err
	}
	b := make([]byte, len(pwned))
	n, err := unix.Read(s, b)
	if err != nil {
		return err
	}
	return ok(string(b[:n]) == pwned)
}

func socket(domain, kind, protocol int) error {
	s, err := unix.Socket(domain, kind, protocol)
	if err == nil {
		_ = unix.Close(s)
	}
	return err
}

func (w where) connect(host string) error {
	c, err := net.DialTimeout("tcp4", fmt.Sprintf("127.0.0.1:%d", w.proxy), 5*time.Second)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", host, host); err != nil {
		return err
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return err
	}
	if !strings.Contains(line, " 200 ") {
		return errors.New(strings.TrimSpace(line))
	}
	return nil
}

func networking() []try {
	local := func(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
	return []try{
		{"a socket in /run", func(w where) error { return dial("unix", w.runSocket) }},
		{"a socket in /tmp", func(w where) error { return dial("unix", w.tmpSocket) }},
		{"an abstract socket", func(where) error { return dial("unix", marker) }},
		{"TCP to another port", func(w where) error { return dial("tcp4", local(w.other)) }},
		{"TCP over IPv6", func(w where) error { return dial("tcp6", fmt.Sprintf("[::1]:%d", w.other6)) }},
		{"TCP to the proxy's port elsewhere", func(w where) error { return dial("tcp4", fmt.Sprintf("127.0.0.9:%d", w.proxy)) }},
		{"MPTCP", func(w where) error { return stream(262, w.other, false) }},
		{"TCP fast open", func(w where) error { return stream(0, w.other, true) }},
		{"UDP", func(w where) error {
			c, err := net.Dial("udp4", local(w.udp))
			if err != nil {
				return err
			}
			defer func() { _ = c.Close() }()
			_ = c.SetDeadline(time.Now().Add(5 * time.Second))
			if _, err := c.Write([]byte("leak")); err != nil {
				return err
			}
			_, err = c.Read(make([]byte, 9))
			return err
		}},
		{"a name", func(where) error { _, err := net.LookupHost("secret.canary.example"); return err }},
		{"the proxy", func(w where) error { return dialOnly("tcp4", local(w.proxy)) }},
		{"the proxy to an allowed host", func(w where) error { return w.connect(local(w.other)) }},
		{"the proxy to another host", func(w where) error { return w.connect(fmt.Sprintf("localhost:%d", w.other)) }},
		{"the proxy with a NUL in the host", func(w where) error { return w.connect("evil.example\x00" + local(w.other)) }},
		{"the proxy with a longer host", func(w where) error { return w.connect("evil" + local(w.other)) }},
		{"the proxy with a user in the host", func(w where) error { return w.connect(local(w.other) + "@evil.example:80") }},
		{"a raw socket", func(where) error { return socket(unix.AF_INET, unix.SOCK_RAW, 1) }},
		{"an ICMP socket", func(where) error {
			s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 1)
			if err != nil {
				return err
			}
			defer func() { _ = unix.Close(s) }()
			return unix.Sendto(s, []byte{8, 0, 0, 0, 0, 0, 0, 0}, 0, &unix.SockaddrInet4{Addr: [4]byte{10, 0, 0, 1}})
		}},
		{"a packet socket", func(where) error { return socket(unix.AF_PACKET, unix.SOCK_RAW, 0) }},
		{"a netlink socket", func(where) error { return socket(unix.AF_NETLINK, unix.SOCK_RAW, 0) }},
		{"add a route", func(where) error { return run("ip", "route", "add", "10.0.0.0/8", "dev", "lo") }},
		{"a vsock", func(where) error { return socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0) }},
		{"a socket of the kernel's ciphers", func(where) error { return socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0) }},
		{"a CAN socket", func(where) error { return socket(unix.AF_CAN, unix.SOCK_RAW, 1) }},
		{"a Bluetooth socket", func(where) error { return socket(unix.AF_BLUETOOTH, unix.SOCK_RAW, 1) }},
		{"an XDP socket", func(where) error { return socket(unix.AF_XDP, unix.SOCK_RAW, 0) }},
	}
}

func dialOnly(network, address string) error {
	c, err := net.DialTimeout(network, address, 5*time.Second)
	if err == nil {
		_ = c.Close()
	}
	return err
}

func memory() []try {
	return []try{
		{"shared memory of System V", func(w where) error { return call(unix.SYS_SHMAT, uintptr(w.shm), 0, unix.SHM_RDONLY) }},
		{"remove shared memory", func(w where) error { return call(unix.SYS_SHMCTL, uintptr(w.shm), 0, 0) }},
		{"a queue of POSIX", func(where) error {
			return call(unix.SYS_MQ_OPEN, text("dsh-bait"), uintptr(os.O_RDONLY), 0, 0)
		}},
	}
}

func privileges() []try {
	return []try{
		{"a program that becomes root", func(w where) error {
			out, err := exec.Command(w.base+"/bin/suid", "uid").Output()
			if err != nil {
				return err
			}
			return ok(strings.TrimSpace(string(out)) == "0" && os.Getuid() != 0)
		}},
		{"capset", func(where) error {
			h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
			d := [2]unix.CapUserData{{Effective: 1 << unix.CAP_SYS_ADMIN, Permitted: 1 << unix.CAP_SYS_ADMIN}}
			return unix.Capset(&h, &d[0])
		}},
		{"setuid", func(where) error { return unix.Setuid(os.Getuid() + 1) }},
		{"setgroups", func(where) error { return unix.Setgroups([]int{27}) }},
		{"have a capability", func(where) error {
			b, err := os.ReadFile("/proc/self/status")
			if err != nil {
				return err
			}
			for line := range strings.Lines(string(b)) {
				if name, value, ok := strings.Cut(line, ":"); ok && strings.HasPrefix(name, "Cap") && name != "CapBnd" && strings.Trim(value, "\t\n0") != "" {
					return nil
				}
			}
			return errNo
		}},
		{"be without no-new-privileges", func(where) error {
			b, err := os.ReadFile("/proc/self/status")
			if err != nil {
				return err
			}
			return ok(!bytes.Contains(b, []byte("NoNewPrivs:\t1\n")))
		}},
		{"type into the terminal", func(where) error {
			c := byte('#')
			fd, err := unix.Open("/dev/tty", unix.O_RDWR, 0)
			if err != nil {
				fd = 0
			}
			return call(unix.SYS_IOCTL, uintptr(fd), unix.TIOCSTI, uintptr(unsafe.Pointer(&c)))
		}},
		{"type into the terminal, with high bits", func(where) error {
			c := byte('#')
			fd, err := unix.Open("/dev/tty", unix.O_RDWR, 0)
			if err != nil {
				fd = 0
			}
			return call(unix.SYS_IOCTL, uintptr(fd), 0x1_0000_0000|unix.TIOCSTI, uintptr(unsafe.Pointer(&c)))
		}},
		{"raise a limit", func(where) error { return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1 << 20, Max: 1 << 20}) }},
		{"a bomb of 1000 processes", func(where) error {
			var all []*exec.Cmd
			defer func() {
				for _, c := range all {
					_ = c.Process.Kill()
					_ = c.Wait()
				}
			}()
			for range 1000 {
				c := exec.Command("/bin/sleep", "20")
				if err := c.Start(); err != nil {
					return fmt.Errorf("after %d: %w", len(all), err)
				}
				all = append(all, c)
			}
			return nil
		}},
	}
}
