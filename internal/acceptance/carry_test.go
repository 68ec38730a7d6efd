//go:build unix

package acceptance

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/dsh-harness/dsh/internal/need"
	"github.com/dsh-harness/dsh/internal/testllm"
)

// TestTrust_P04_NoCallPreparesTheNext: what a call does to its shell is gone in the next call, in each mode that runs commands; in mode ask it is asked about first.
func TestTrust_P04_NoCallPreparesTheNext(t *testing.T) {
	poison := []string{
		"export PAGER=evil; export GIT_SSH_COMMAND=evil", "declare -x GIT_EXTERNAL_DIFF=evil", "PATH=.:$PATH; export PATH", "alias ls=evil", "git() { evil; }; export -f git",
		"export LD_PRELOAD=evil.so BASH_ENV=evil ENV=evil PROMPT_COMMAND=evil", "umask 0", "cd /", "set -o allexport; A_CANARY=evil", "hash -p /evil git", "ulimit -f 0", "trap 'echo evil' EXIT",
		"exec 3> evil", "(while :; do sleep 1; done) & echo $! > pid",
	}
	const look = "env | grep -v '^_='; type git ls; alias; declare -F; umask; pwd; trap; { echo > /dev/fd/3; } 2>/dev/null && echo evil; ps -A 2>/dev/null | grep -c 'sleep$'"
	seen := map[string]string{}
	for _, mode := range []string{"ask", "workspace-write"} {
		t.Run(mode, func(t *testing.T) {
			p := newPlace(t)
			if !p.confines() {
				need.Missing(t, "commands are not confined here: allow user namespaces")
			}
			turns := []testllm.Turn{testllm.Calls(shell("before", look))}
			for i, line := range poison {
				turns = append(turns, testllm.Calls(shell(fmt.Sprintf("poison-%d", i), line)), testllm.Calls(shell(fmt.Sprintf("after-%d", i), look)))
			}
			p.srv.Script(append(turns, testllm.Text("done"))...)
			// What is looked at is allowed, and what poisons is not.
			if o := p.dsh("run", "--permission-mode", mode, "--allow", "Bash("+look+")", "hi"); o.Stdout != "done\n" {
				t.Fatalf("exit %d: %s", o.Code, o.Stderr)
			}
			all := p.srv.Requests()
			got := results(all[len(all)-1])
			for i, line := range poison {
				asked := strings.Contains(got[fmt.Sprintf("poison-%d", i)], "nobody could approve")
				if asked != (mode == "ask") {
					t.Errorf("%q: %s", line, got[fmt.Sprintf("poison-%d", i)])
				}
				if after := got[fmt.Sprintf("after-%d", i)]; mode != "ask" && (after != got["before"] || strings.Contains(after, "evil")) {
					t.Errorf("after %q a call sees\n%s\nbefore it\n%s", line, after, got["before"])
				}
			}
			seen[mode] = got["before"]
			if mode == "workspace-write" && !strings.Contains(got["before"], "PATH=") {
				t.Errorf("the look sees %q", got["before"])
			}
		})
	}
}

// TestTrust_P05_AYesIsForOneCall: a person allows a call once. The same call with one byte more, in another folder, in another environment and under another
// policy is asked about again; so is the same call itself, since the yes was for once.
func TestTrust_P05_AYesIsForOneCall(t *testing.T) {
	p := newPlace(t)
	check(t, os.Mkdir(filepath.Join(p.work, "sub"), 0o700))
	in := testllm.Call{ID: "folder", Name: "bash", Arguments: `{"command":"echo x >> log","workdir":"sub"}`}
	p.srv.Script(
		testllm.Calls(shell("one", "echo x >> log")), testllm.Calls(shell("byte", "echo x >> log ")), testllm.Calls(in), testllm.Calls(shell("same", "echo x >> log")), testllm.Text("done"),
	)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	s := p.screen(ctx, nil, "run", "--session-id", "bound", "--permission-mode", "ask", "hi")
	for _, key := range []string{"y", "n", "n", "n"} {
		s.key(key)
	}
	if code := s.end(); code != 0 {
		t.Errorf("exit %d; the screen:\n%s", code, s.all())
	}
	// Resumed in another environment, and with another rule, nothing is remembered of the yes.
	for _, more := range [][]string{{"PATH=" + os.Getenv("PATH") + ":/nowhere"}, nil} {
		p.srv.Script(testllm.Calls(shell("again", "echo x >> log")), testllm.Text("done"))
		args := []string{"run", "-r", "bound", "--permission-mode", "ask", "hi"}
		if more == nil {
			args = append(args, "--deny", "Bash(nothing)")
		}
		s := p.screen(ctx, more, args...)
		s.key("n")
		if code := s.end(); code != 0 {
			t.Errorf("exit %d; the screen:\n%s", code, s.all())
		}
	}
	if got, err := os.ReadFile(filepath.Join(p.work, "log")); err != nil || string(got) != "x\n" {
		t.Errorf("what ran left %q, %v", got, err)
	}
	digests := map[string]int{}
	for line := range strings.Lines(p.log()) {
		if _, rest, ok := strings.Cut(line, `"digest":"`); ok && strings.Contains(line, "approval/asked") {
			digest, _, _ := strings.Cut(rest, `"`)
			digests[digest]++
		}
	}
	if len(digests) != 5 { // the first call and its repetition are one
		t.Errorf("the log has %d digests, want 5: %v", len(digests), digests)
	}
}

// TestApproval_TheTerminalGoesAway: the person's terminal is closed in the middle of a question. Nothing runs, and dsh does not wait for ever.
func TestApproval_TheTerminalGoesAway(t *testing.T) {
	p := newPlace(t)
	p.srv.Script(testllm.Calls(shell("one", "echo x > made")), testllm.Text("done"))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tty, theirs, err := pty.Open()
	check(t, err)
	c := p.command(ctx, "run", "--permission-mode", "ask", "hi")
	c.Stdin, c.Stderr, c.SysProcAttr = theirs, theirs, &syscall.SysProcAttr{Setsid: true, Setctty: true}
	check(t, c.Start())
	check(t, theirs.Close())
	var shown []byte
	for buffer := make([]byte, 4096); !bytes.Contains(shown, []byte("no, because …:")); {
		n, err := tty.Read(buffer)
		check(t, err)
		shown = append(shown, buffer[:n]...)
	}
	check(t, tty.Close())
	_ = c.Wait() // the exit code tells
	if code := c.ProcessState.ExitCode(); code != 3 {
		t.Errorf("exit %d, want 3", code)
	}
	if got, want := audited(p.log()), []string{"asked c1_1_0", "decided unavailable"}; !slices.Equal(got, want) {
		t.Errorf("the log has %q, want %q", got, want)
	}
	if p.has("made") {
		t.Error("the command ran")
	}
}

// TestTrust_F07_WhateverTheUmask: with a umask of 0, everything that dsh keeps is its owner's alone: after questions, remembered rules, hooks,
// trust, deleted files, large output, and commands in a sandbox.
func TestTrust_F07_WhateverTheUmask(t *testing.T) {
	p := newPlace(t)
	old := syscall.Umask(0) // of this process, as a child cannot be started with another
	defer syscall.Umask(old)
	config := filepath.Join(p.home, "dsh", "config")
	check(t, os.MkdirAll(config, 0o700))
	check(t, os.WriteFile(filepath.Join(config, "hooks.json"), []byte(`{"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"true"}]}]}}`), 0o600))
	check(t, os.MkdirAll(filepath.Join(p.work, ".dsh"), 0o700))
	p.file(".dsh/hooks.json", `{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"true"}]}]}}`)
	p.file("old", "deleted")
	check(t, os.MkdirAll(filepath.Join(p.home, ".cache"), 0o755))
	p.srv.Script(testllm.Calls(
		shell("one", "mkdir made"),
	), testllm.Calls(
		testllm.Call{ID: "two", Name: "delete", Arguments: `{"file_path":"old"}`},
	), testllm.Calls(shell("three", "seq 100000; echo x > ~/.cache/x; echo x > $TMPDIR/x; stat -c %a $TMPDIR")), testllm.Text("done"))
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	if o := p.dsh("trust", "add"); o.Code != 0 {
		t.Fatalf("exit %d: %s", o.Code, o.Stderr)
	}
	s := p.screen(ctx, nil, "run", "--log-file", filepath.Join(p.home, "dsh", "log"), "--permission-mode", "ask", "--deny", "Bash(nothing)", "hi")
	s.key("a")
	s.key("y")
	s.key("y")
	if code := s.end(); code != 0 {
		t.Fatalf("exit %d; the screen:\n%s", code, s.all())
	}
	if info, err := os.Stat(filepath.Join(p.work, "made")); err != nil || info.Mode().Perm() != 0o777 {
		t.Errorf("commands have another umask: %v, %v", info, err)
	}
	seen := map[string]bool{}
	check(t, filepath.WalkDir(filepath.Join(p.home, "dsh"), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(p.home, path)
		check(t, err)
		seen[rel] = true
		for _, kind := range []string{"log.jsonl", "rules.json", "trust.json", "spill", "trash", "sandbox"} {
			if strings.Contains(rel, kind) {
				seen[kind] = true
			}
		}
		// What commands leave in the layers of caches is theirs; the folder that holds the layers is closed.
		if d.IsDir() && d.Name() == "sandbox" && info.Mode().Perm() == 0o700 {
			return filepath.SkipDir
		}
		if info.Mode().Perm()&0o077 != 0 && info.Mode()&fs.ModeSymlink == 0 {
			t.Errorf("%s: %v", rel, info.Mode())
		}
		return nil
	}))
	for _, kind := range []string{"log.jsonl", "rules.json", "trust.json", "spill", "trash", "dsh/log"} {
		if !seen[kind] {
			t.Errorf("there is no %s: %v", kind, seen)
		}
	}
	t.Logf("%d entries", len(seen))
}
