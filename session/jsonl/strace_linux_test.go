package jsonl

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dsh-harness/dsh/internal/need"
)

// strace runs a writing child under strace, which does inject at the k-th call
// of a system call, and returns the child's output and whether it was done.
func strace(t *testing.T, dir, call, inject string, k, turns int) (output string, injected bool) {
	t.Helper()
	program := need.Program(t, "strace", "strace")
	trace := filepath.Join(t.TempDir(), "trace")
	write := child(t, "write", dir, strconv.Itoa(turns))
	args := []string{"-f", "-o", trace, "-e", "trace=" + call, "-e", fmt.Sprintf("inject=%s:%s:when=%d", call, inject, k)}
	// Only calls on the session's own files count: the runtime makes others.
	for _, name := range []string{"s/" + newName, "s/" + logName, "s", "s/" + lockName, "."} {
		args = append(args, "-P", filepath.Join(dir, name))
	}
	cmd := exec.CommandContext(t.Context(), program, append(args, write.Args...)...)
	cmd.Args = append(append([]string{program}, args...), append([]string{write.Path}, write.Args[1:]...)...)
	cmd.Env, cmd.Stderr = write.Env, os.Stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	log, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	return string(out), strings.Contains(string(log), "INJECTED") || strings.Contains(string(log), "killed by SIGKILL")
}

// TestTrust_L01_L02_L03_WithARealKernel is what the tests with a disk in memory
// do, with real system calls.
func TestTrust_L01_L02_L03_WithARealKernel(t *testing.T) {
	const turns = 2
	most := 2 // places each
	if full() {
		most = 1000 // all there are
	}
	total := 0
	for _, fault := range []struct{ call, inject string }{
		{"write", "error=ENOSPC"}, {"write", "error=EIO"}, {"write", "error=EDQUOT"},
		{"fdatasync", "error=EIO"},
		{"write", "signal=KILL"}, {"fdatasync", "signal=KILL"}, {"renameat", "signal=KILL"}, {"renameat", "error=EIO"},
		{"fsync", "signal=KILL"}, {"fsync", "error=EIO"}, {"openat", "signal=KILL"}, {"flock", "signal=KILL"},
	} {
		places := 0
		for k := 1; k <= most; k++ {
			dir := t.TempDir()
			out, injected := strace(t, dir, fault.call, fault.inject, k, turns)
			if !injected {
				break
			}
			places++
			acked := durable(out)
			if fault.call == "fdatasync" && fault.inject == "error=EIO" && !strings.Contains(out, "failed") {
				t.Errorf("%s %s at %d: the writer did not notice: %s", fault.call, fault.inject, k, out)
			}
			checkChildLog(t, dir, acked, turns)
		}
		if places == 0 {
			t.Errorf("%s %s was never injected", fault.call, fault.inject)
		}
		total += places
	}
	t.Logf("%d cases", total)
}

func TestTrust_L01_AFileSizeLimitCutsNoAcknowledgedEvent(t *testing.T) {
	// The limit is the whole process's, so a child has it; a shell sets it.
	sh := need.Program(t, "sh", "dash")
	for _, blocks := range []int{1, 2, 3} { // of 512 bytes, or 1,024, as the shell has it
		dir := t.TempDir()
		write := child(t, "write", dir, "4")
		cmd := exec.CommandContext(t.Context(), sh, "-c", fmt.Sprintf(`ulimit -f %d; exec "$0" "$@"`, blocks), write.Path, dir, "4")
		cmd.Env, cmd.Stderr = write.Env, os.Stderr
		out, err := cmd.Output()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 3 || !strings.Contains(string(out), unix.EFBIG.Error()) {
			t.Fatalf("with a limit of %d blocks the writer ends with %v: %s", blocks, err, out)
		}
		checkChildLog(t, dir, durable(string(out)), 4)
	}
}
