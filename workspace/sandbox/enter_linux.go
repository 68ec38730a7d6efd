//go:build amd64 || arm64

package sandbox

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/dsh-harness/dsh/workspace"
)

// Enter makes the calling process, the first of namespaces that [Attr] made, see what a command may
// see. It returns the descriptor of a listener for the proxy, -1 when the Spec wants none. A partial
// sandbox has no view of its own, so that Enter does nothing for it.
func Enter(s Spec) (listener int, err error) {
	if err := s.Check(); err != nil {
		return -1, err
	}
	if s.Level != workspace.SandboxFull {
		return -1, nil
	}
	// Nobody inside may look into or stop the process in between.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return -1, fmt.Errorf("hide the launcher: %w", err)
	}
	v := &view{spec: s}
	if err := v.build(); err != nil {
		return -1, err
	}
	if err := unix.Chdir(s.Dir); err != nil {
		return -1, fmt.Errorf("enter %s: %w", s.Dir, err)
	}
	if err := loopback(); err != nil {
		return -1, fmt.Errorf("bring up the loopback: %w", err)
	}
	if s.ProxyPort == 0 {
		return -1, nil
	}
	listener, err = listen(s.ProxyPort)
	if err != nil {
		return -1, fmt.Errorf("listen for the proxy: %w", err)
	}
	return listener, nil
}

const (
	readOnly = uint64(unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV)
	harmless = uint64(unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV)
)

// view is the tree of mounts that a command sees. What stays reachable is taken before the root
// becomes read-only and put back after.
type view struct{ spec Spec }

// tree is a part of the file system that hangs nowhere, and where it belongs.
type tree struct {
	fd   int
	path string
}

func (v *view) build() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make the mounts private: %w", err)
	}
	devices, err := takeAll("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")
	if err != nil {
		return err
	}
	layers, err := v.layers()
	if err != nil {
		return err
	}
	writable, err := takeAll(outermostFirst(v.spec.Write)...)
	if err != nil {
		return err
	}
	if err := change("/", readOnly, true); err != nil {
		return err
	}
	for _, step := range []func() error{
		func() error { return newDevices(devices) },
		newKernelFiles,
		newRun,
		func() error { return putAll(layers, harmless) },
		func() error { return putAll(writable, harmless) },
		closeRun,
		v.pin,
		v.protect,
		v.mask,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// outermostFirst leaves out what does not exist.
func outermostFirst(paths []string) []string {
	paths = slices.DeleteFunc(slices.Clone(paths), func(p string) bool {
		_, err := os.Lstat(p)
		return err != nil
	})
	slices.SortFunc(paths, func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) })
	return slices.Compact(paths)
}

// take copies a part of the file system, with what is mounted in it.
func take(path string) (tree, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return tree{}, fmt.Errorf("take %s: %w", path, err)
	}
	return tree{fd, path}, nil
}

func takeAll(paths ...string) (all []tree, err error) {
	for _, p := range paths {
		t, err := take(p)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

// put hangs t where it belongs.
func (t tree) put() error {
	err := unix.MoveMount(t.fd, "", unix.AT_FDCWD, t.path, unix.MOVE_MOUNT_F_EMPTY_PATH)
	_ = unix.Close(t.fd) // it hangs, or is dropped
	if err != nil {
		return fmt.Errorf("put %s in its place: %w", t.path, err)
	}
	return nil
}

// putAll also makes what they hang on, where a new file system hides it.
func putAll(all []tree, attributes uint64) error {
	for _, t := range all {
		if _, err := os.Lstat(t.path); err != nil {
			if err := os.MkdirAll(t.path, 0o755); err != nil {
				return fmt.Errorf("make a place for %s: %w", t.path, err)
			}
		}
		if err := t.put(); err != nil {
			return err
		}
		if err := change(t.path, attributes, true); err != nil {
			return err
		}
	}
	return nil
}

func change(path string, attributes uint64, recursive bool) error {
	flags := uint(0)
	if recursive {
		flags = unix.AT_RECURSIVE
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, path, flags, &unix.MountAttr{Attr_set: attributes}); err != nil {
		return fmt.Errorf("change how %s is mounted: %w", path, err)
	}
	return nil
}

// layers makes a file system for each layer. Extended attributes of users are all that somebody without
// rights may use for them.
func (v *view) layers() (all []tree, err error) {
	for _, l := range v.spec.Layers {
		fd, err := layer(l)
		if err != nil {
			return nil, fmt.Errorf("lay a layer over %s: %w", l.Target, err)
		}
		all = append(all, tree{fd, l.Target})
	}
	return all, nil
}

func layer(l Layer) (mount int, err error) {
	fs, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer func() { _ = unix.Close(fs) }() // the mount holds what it needs
	escape := strings.NewReplacer(`\`, `\\`, `:`, `\:`).Replace
	for _, option := range [][2]string{{"lowerdir", escape(l.Target)}, {"upperdir", l.Upper}, {"workdir", l.Work}} {
		if err := unix.FsconfigSetString(fs, option[0], option[1]); err != nil {
			return -1, fmt.Errorf("%s: %w", option[0], err)
		}
	}
	if err := unix.FsconfigSetFlag(fs, "userxattr"); err != nil {
		return -1, fmt.Errorf("userxattr: %w", err)
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, err
	}
	return unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, int(harmless))
}

// newDevices puts a /dev in place that has nothing of the machine.
func newDevices(devices []tree) error {
	if err := unix.Mount("tmpfs", "/dev", "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "mode=755,size=1m"); err != nil {
		return fmt.Errorf("mount /dev: %w", err)
	}
	for _, d := range devices {
		if err := os.WriteFile(d.path, nil, 0o666); err != nil {
			return fmt.Errorf("make a place for %s: %w", d.path, err)
		}
		if err := d.put(); err != nil {
			return err
		}
	}
	for _, dir := range []string{"/dev/pts", "/dev/shm"} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return fmt.Errorf("make %s: %w", dir, err)
		}
	}
	if err := unix.Mount("devpts", "/dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620"); err != nil {
		return fmt.Errorf("mount /dev/pts: %w", err)
	}
	for name, target := range map[string]string{
		"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
	} {
		if err := os.Symlink(target, "/dev/"+name); err != nil {
			return fmt.Errorf("make /dev/%s: %w", name, err)
		}
	}
	return nil
}

// newKernelFiles puts file systems in place that show nothing of other processes, and folders for temporary
// files that nobody else has.
func newKernelFiles() error {
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	for _, m := range []struct{ path, data string }{{"/dev/shm", "mode=1777,size=25%"}, {"/tmp", "mode=1777,size=50%"}, {"/var/tmp", "mode=1777,size=50%"}} {
		if !isDir(m.path) {
			continue // a link leads to another of them
		}
		if err := unix.Mount("tmpfs", m.path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, m.data); err != nil {
			return fmt.Errorf("mount %s: %w", m.path, err)
		}
	}
	return nil
}

// newRun hides the sockets of the machine's services. Of what else is there one link is kept, which the programs of NixOS
// are found through. It is closed later, when what lies in it and may be written hangs there.
func newRun() error {
	if !isDir("/run") {
		return nil
	}
	system, noLink := os.Readlink("/run/current-system")
	if err := unix.Mount("tmpfs", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=755,size=1m"); err != nil {
		return fmt.Errorf("mount /run: %w", err)
	}
	if noLink == nil {
		if err := os.Symlink(system, "/run/current-system"); err != nil {
			return fmt.Errorf("make /run/current-system: %w", err)
		}
	}
	return nil
}

func closeRun() error {
	if !isDir("/run") {
		return nil
	}
	return change("/run", readOnly, false)
}

func isDir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

// cover hides what is at a path.
func cover(path string) error {
	info, err := os.Lstat(path)
	if err != nil || info.Mode()&os.ModeSymlink != 0 {
		return nil // there is nothing, or it is elsewhere
	}
	if info.IsDir() {
		err = unix.Mount("tmpfs", path, "tmpfs", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "size=4k,mode=000")
	} else {
		var null tree
		if null, err = take("/dev/null"); err == nil {
			null.path = path
			err = null.put()
		}
	}
	if err != nil {
		return fmt.Errorf("hide %s: %w", path, err)
	}
	return nil
}

func (v *view) mask() error {
	for _, path := range v.spec.Mask {
		if err := cover(path); err != nil {
			return err
		}
	}
	return nil
}

// pin binds every folder above what is protected or masked onto itself, up to the outermost writable one: what is
// mounted on cannot be renamed, so that nothing can be put in its place.
func (v *view) pin() error {
	pinned := map[string]bool{}
	for _, path := range outermostFirst(slices.Concat(v.spec.Protect, v.spec.Mask)) {
		for _, dir := range v.above(path) {
			if pinned[dir] {
				continue
			}
			pinned[dir] = true
			if err := bind(dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// above lists the folders between a path and the outermost writable one that it lies in, from there on. The writable ones
// are mounted anyway.
func (v *view) above(path string) (dirs []string) {
	outermost := 0
	for dir := filepath.Dir(path); dir != "/"; dir = filepath.Dir(dir) {
		if slices.Contains(v.spec.Write, dir) {
			outermost = len(dirs)
		} else {
			dirs = append(dirs, dir)
		}
	}
	dirs = dirs[:outermost] // none where it lies in no writable one: it is read-only there
	slices.Reverse(dirs)
	return dirs
}

// protect makes paths read-only.
func (v *view) protect() error {
	for _, path := range outermostFirst(v.spec.Protect) {
		if err := bind(path); err != nil {
			return err
		}
		if err := change(path, readOnly, true); err != nil {
			return err
		}
	}
	return nil
}

// bind hangs what is at a path there once more.
func bind(path string) error {
	t, err := take(path)
	if err == nil {
		err = t.put()
	}
	return err
}

func loopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }() // nothing was written to it
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
}

// listen returns a listener on the loopback.
func listen(port int) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	err = unix.Bind(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
	if err == nil {
		err = unix.Listen(fd, 128)
	}
	if err != nil {
		_ = unix.Close(fd) // it is of no use
		return -1, err
	}
	return fd, nil
}
