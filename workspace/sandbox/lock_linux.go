//go:build amd64 || arm64

package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/dsh-harness/dsh/workspace"
)

// Lock confines the calling thread, which must be locked to its goroutine, and every process that it starts
// from then on: no new privileges, no capabilities, limits, one Landlock ruleset, seccomp. It
// cannot be undone.
func Lock(s Spec) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("forbid new privileges: %w", err)
	}
	if err := dropCapabilities(s.Level); err != nil {
		return err
	}
	if err := limit(s.Limits, s.Level); err != nil {
		return err
	}
	if !s.WithoutLandlock {
		if err := restrict(s.grants()); err != nil {
			return err
		}
	}
	return filter(s.Level)
}

// dropCapabilities leaves none, and none to be regained. The bounding set can only be emptied by who has a
// capability for it; no-new-privileges holds without.
func dropCapabilities(level workspace.SandboxLevel) error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("drop ambient capabilities: %w", err)
	}
	for c := uintptr(0); c < 64; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			break // the kernel has no more
		}
		if err != nil && (level == workspace.SandboxFull || !errors.Is(err, unix.EPERM)) {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	return nil
}

// limit sets resource limits, no higher than those that there are.
func limit(l Limits, level workspace.SandboxLevel) error {
	if level == workspace.SandboxPartial && l.Processes > 0 {
		l.Processes += threads() // without a namespace the kernel counts all of the user's
	}
	for _, r := range []struct {
		name string
		of   int
		max  uint64
		set  bool
	}{
		{"core dumps", unix.RLIMIT_CORE, 0, true},
		{"processes", unix.RLIMIT_NPROC, l.Processes, l.Processes > 0},
		{"memory", unix.RLIMIT_DATA, l.Memory, l.Memory > 0},
		{"file size", unix.RLIMIT_FSIZE, l.FileSize, l.FileSize > 0},
	} {
		if !r.set {
			continue
		}
		var old unix.Rlimit
		if err := unix.Getrlimit(r.of, &old); err != nil {
			return fmt.Errorf("read the limit of %s: %w", r.name, err)
		}
		max := min(r.max, old.Max)
		if err := unix.Setrlimit(r.of, &unix.Rlimit{Cur: max, Max: max}); err != nil {
			return fmt.Errorf("limit %s: %w", r.name, err)
		}
	}
	return nil
}

// threads counts the threads of this user on the machine.
func threads() (n uint64) {
	all, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	for _, e := range all {
		var st unix.Stat_t
		if e.Name()[0] < '1' || e.Name()[0] > '9' || unix.Stat("/proc/"+e.Name(), &st) != nil || int(st.Uid) != os.Getuid() {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // it has ended
		}
		// The name in brackets may hold anything; the number of threads is the 18th field after it.
		if fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]); len(fields) > 17 {
			more, _ := strconv.ParseUint(string(fields[17]), 10, 64) // the kernel writes numbers
			n += more
		}
	}
	return n
}

// grants is the one Landlock ruleset. In a full sandbox the mounts have hidden what is masked; in a partial
// one everything beside it is granted.
func (s Spec) grants() []grant {
	var all []grant
	add := func(rights uint64, paths ...string) {
		for _, p := range paths {
			all = append(all, grant{p, rights})
		}
	}
	if s.Level == workspace.SandboxFull {
		add(reading|canResolve, "/")
		add(writing, "/tmp", "/dev/shm")
		for _, l := range s.Layers {
			add(writing, l.Target)
		}
	} else {
		// The machine's own /dev has its disks.
		add(reading, beside(append([]string{"/dev"}, s.Mask...))...)
	}
	add(writing, s.Write...)
	add(ofDevices, "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
	if s.Level == workspace.SandboxFull { // the pseudo-terminals are its own
		add(ofDevices|canIoctl, "/dev/tty", "/dev/ptmx")
		add(reading|ofDevices|canIoctl, "/dev/pts")
	}
	return all
}

// beside lists what is beside each part of the paths: Landlock only allows, so a hole is made by
// allowing everything around it. A folder on the way cannot be listed then.
func beside(masked []string) []string {
	if len(masked) == 0 {
		return []string{"/"}
	}
	onTheWay, holes := map[string]bool{"/": true}, map[string]bool{}
	for _, m := range masked {
		if _, err := os.Lstat(m); err != nil {
			continue
		}
		holes[m] = true
		for p := filepath.Dir(m); p != "/"; p = filepath.Dir(p) {
			onTheWay[p] = true
		}
	}
	var open []string
	for dir := range onTheWay {
		if underAny(dir, holes) {
			continue
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // who cannot list it gets nothing below it
		}
		for _, e := range entries {
			p := filepath.Join(dir, e.Name())
			// A link is followed where it leads, and that has rights or not.
			if !onTheWay[p] && !holes[p] && e.Type()&os.ModeSymlink == 0 {
				open = append(open, p)
			}
		}
	}
	return open
}

func underAny(path string, holes map[string]bool) bool {
	for ; path != "/"; path = filepath.Dir(path) {
		if holes[path] {
			return true
		}
	}
	return false
}
