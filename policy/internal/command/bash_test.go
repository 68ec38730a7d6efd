//go:build unix

package command

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dsh-harness/dsh/internal/need"
)

// stubs is a folder with programs that note how they were called and do nothing.
type stubs struct{ dir, logs, work, bash string }

func newStubs(t *testing.T) stubs {
	t.Helper()
	s := stubs{dir: t.TempDir(), work: t.TempDir(), bash: need.Program(t, "bash", "bash")}
	s.logs = t.TempDir()
	for _, name := range []string{"p", "q", "r"} {
		// One write per call, as those of a pipeline note at the same time.
		script := "#!/bin/sh\ns=${0##*/}\nfor a; do s=\"$s\x1f$a\"; done\nprintf '%s\\036' \"$s\" >> \"$LOG\"\n"
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// run lets bash execute a script in which nothing can be found but the stubs, and returns how they were called.
func (s stubs) run(t interface{ Fatal(...any) }, script string) (calls [][]string) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	// Each has a log of its own: what a script started may go on when bash has ended.
	log, err := os.CreateTemp(s.logs, "")
	if err != nil {
		t.Fatal(err)
	}
	_ = log.Close() // it is only read
	c := exec.CommandContext(ctx, s.bash, "--norc", "--noprofile", "-c", script)
	c.Dir, c.Env, c.WaitDelay = s.work, []string{"PATH=" + s.dir, "HOME=" + s.work, "LOG=" + log.Name()}, time.Second
	_ = c.Run() // whatever it makes of the script
	text, err := os.ReadFile(log.Name())
	if err != nil || len(text) == 0 {
		return nil
	}
	for call := range bytes.SplitSeq(bytes.TrimSuffix(text, []byte{0x1e}), []byte{0x1e}) {
		calls = append(calls, strings.Split(string(call), "\x1f"))
	}
	return calls
}

// covers reports whether what bash ran is in the analysis.
func covers(l Line, call []string) bool {
	return slices.ContainsFunc(l.Commands, func(c Command) bool {
		return slices.Equal(c.Words, call) || c.Words == nil && program(c.args) == call[0]
	})
}

// TestTrust_P03_BashRunsNothingThatWeDoNotSee: of random scripts that count as understood, bash runs no command
// that is not listed.
func TestTrust_P03_BashRunsNothingThatWeDoNotSee(t *testing.T) {
	s := newStubs(t)
	pieces := []string{
		"p", "q", "r", "p a", "q 'a b'", "r \"a;q\"", " ", " ", " a", " 'q'", " \"p\"", "\\p", "p\\\n", "\n", ";", "; ", " && ", " || ", " | ", "|& ", "!", "! ", "# q\n", "#", "$(q)", "`r`", "\"$(p b)\"", "<(q)", "(", ")", "{ ", "; }", "if p; then ", "; fi",
		"else ", "while p; do ", "break; done", "for i in a b; do ", "; done", "case a in a) ", ";; esac", "'", "\"", "\\", "\\'", "\\\"", "$", "$x", "${x}", "${x:-$(q)}", "${x:-r}", " >out", " 2>&1", " <<E\nq\nE\n", " <<'E'\n$(q)\nE\n", "<<<r", "a=b ", "x=p;", "$'\\x70'", "''", "{p,q}",
		"[ a ] && ", "test a;", "time ", "~", "*", "?", "=", "\t", "then", "do", "fi", "esac", "in", "eval q", "command p", "exec r", "bash -c q", ":", "true", "false",
	}
	for _, piece := range pieces {
		if strings.Contains(piece, "/") {
			t.Fatalf("%q has a slash: a script could reach what is outside of its folder", piece)
		}
	}
	piece := rapid.SampledFrom(pieces)
	ran, understood := 0, 0
	checks := 0
	rapid.Check(t, func(t *rapid.T) {
		script := strings.Join(rapid.SliceOfN(piece, 1, 9).Draw(t, "script"), "")
		checks++
		l := Parse(script)
		if l.Unclear != "" || l.background {
			return // it is asked about
		}
		understood++
		for _, call := range s.run(t, script) {
			ran++
			if !covers(l, call) {
				t.Fatalf("%q: bash runs %q, which is not among %+v", script, call, l.Commands)
			}
		}
	})
	t.Logf("%d scripts, %d understood, %d calls", checks, understood, ran)
	if ran == 0 {
		t.Error("bash ran nothing: the test shows nothing")
	}
	// The stubs work.
	if calls := s.run(t, "p 'a b' && q"); len(calls) != 2 || !slices.Equal(calls[0], []string{"p", "a b"}) {
		t.Errorf("the stubs noted %q", calls)
	}
}

// TestTrust_P03_WhatWeUnderstandBashParses goes through the corpus: what bash does not even parse may be anything to
// us, and what we understand bash must parse.
func TestTrust_P03_WhatWeUnderstandBashParses(t *testing.T) {
	bash := need.Program(t, "bash", "bash")
	for _, file := range []string{"bypass.txt", "reads.txt"} {
		lines, _ := corpus(t, file)
		for i, line := range lines {
			if testing.Short() && i%5 > 0 || Parse(line).Unclear != "" {
				continue
			}
			c := exec.Command(bash, "--norc", "-n", "-c", line)
			if out, err := c.CombinedOutput(); err != nil {
				t.Errorf("%q is understood, but bash says %s", line, out)
			}
		}
	}
}
