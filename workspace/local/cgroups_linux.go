package local

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dsh-harness/dsh/workspace/sandbox"
)

// cgroups are the control groups of one command. There are none where we may not make any: resource
// limits have to do then.
type cgroups struct {
	pids, memory string // folders, "" for none
	limits       sandbox.Limits
}

// groupPrefix begins the names of our groups; the id of the harness follows, so that those of one
// that died are found.
const groupPrefix = "dsh-"

func newCgroups(l sandbox.Limits) cgroups {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return cgroups{} // without /proc there are no groups for us
	}
	g := cgroups{limits: l}
	name := groupPrefix + strconv.Itoa(os.Getpid()) + "-" + rand.Text()[:10]
	for line := range strings.Lines(string(own)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		switch controllers, path := parts[1], parts[2]; controllers {
		case "": // version 2: a group with processes has no groups with limits below it, so that ours is beside our own
			for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
				dir := filepath.Join(root, filepath.Dir(path), name)
				if g.pids == "" && g.memory == "" && newGroup(dir, "pids.max", l.Processes) {
					g.pids = dir
					if setLimit(dir, "memory.max", l.Memory) {
						_ = setLimit(dir, "memory.swap.max", 0) // there need not be any swap
						g.memory = dir
					}
				}
			}
		case "pids":
			if dir := filepath.Join("/sys/fs/cgroup/pids", path, name); g.pids == "" && newGroup(dir, "pids.max", l.Processes) {
				g.pids = dir
			}
		case "memory":
			if dir := filepath.Join("/sys/fs/cgroup/memory", path, name); g.memory == "" && newGroup(dir, "memory.limit_in_bytes", l.Memory) {
				g.memory = dir
			}
		}
	}
	return g
}

// machineMemory is how much memory the machine has, in bytes.
func machineMemory() uint64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0
	}
	return uint64(info.Totalram) * uint64(info.Unit)
}

// newGroup makes a group with a limit, or nothing.
func newGroup(dir, file string, limit uint64) bool {
	if limit == 0 || os.Mkdir(dir, 0o755) != nil {
		return false
	}
	if !setLimit(dir, file, limit) {
		_ = os.Remove(dir) // it has no processes
		return false
	}
	tidy(filepath.Dir(dir))
	return true
}

func setLimit(dir, file string, limit uint64) bool {
	return os.WriteFile(filepath.Join(dir, file), []byte(strconv.FormatUint(limit, 10)), 0) == nil
}

// tidy removes the empty groups that a harness left which is gone.
func tidy(dir string) {
	left, err := filepath.Glob(filepath.Join(dir, groupPrefix+"*"))
	if err != nil {
		return
	}
	for _, group := range left {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(group), groupPrefix), "-")
		if _, err := strconv.Atoi(pid); err != nil {
			continue
		}
		if _, err := os.Stat("/proc/" + pid); os.IsNotExist(err) {
			_ = os.Remove(group) // one with processes stays
		}
	}
}

// relieve drops the limits of single processes that a group keeps for all of them.
func (g cgroups) relieve(l *sandbox.Limits) {
	if g.pids != "" {
		l.Processes = 0
	}
	if g.memory != "" {
		l.Memory = 0
	}
}

// add moves a process into the groups; what it starts is in them, too.
func (g cgroups) add(pid int) error {
	for _, dir := range g.dirs() {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
			return fmt.Errorf("put it into its control group: %w", err)
		}
	}
	return nil
}

func (g cgroups) dirs() (dirs []string) {
	if g.pids != "" {
		dirs = append(dirs, g.pids)
	}
	if g.memory != "" && g.memory != g.pids {
		dirs = append(dirs, g.memory)
	}
	return dirs
}

// hit names the limit that was reached, "" when none was.
func (g cgroups) hit() string {
	switch {
	case g.memory != "" && (count(g.memory, "memory.events", "oom_kill") > 0 || count(g.memory, "memory.oom_control", "oom_kill") > 0):
		return fmt.Sprintf("memory: %d bytes", g.limits.Memory)
	case g.pids != "" && count(g.pids, "pids.events", "max") > 0:
		return fmt.Sprintf("processes: %d", g.limits.Processes)
	}
	return ""
}

// count reads a number from a file of lines with a name and a number each.
func count(dir, file, name string) int {
	text, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(text) {
		fields := strings.Fields(string(line))
		if len(fields) == 2 && fields[0] == name {
			n, _ := strconv.Atoi(fields[1]) // what is no number counts as none
			return n
		}
	}
	return 0
}

// remove removes the groups. The kernel may need a moment after the last process.
func (g cgroups) remove() {
	for _, dir := range g.dirs() {
		for range 20 {
			if err := os.Remove(dir); err == nil || os.IsNotExist(err) {
				break
			}
			time.Sleep(time.Millisecond)
		}
	}
}
