package acceptance

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dsh-harness/dsh/internal/need"
	"github.com/dsh-harness/dsh/internal/testllm"
)

// attacks are the lines of the corpus of what slipped past others that can prove themselves: what PWN stands for makes a file.
func attacks(t *testing.T) (lines []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "policy", "internal", "command", "testdata", "bypass.txt"))
	check(t, err)
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if !strings.Contains(line, "PWN") || strings.HasPrefix(line, "# ") {
			continue
		}
		// The escapes of the corpus are those of Go and \e; a quote is itself.
		line = strings.ReplaceAll(strings.ReplaceAll(line, `"`, `\"`), `\e`, `\x1b`)
		line = strings.ReplaceAll(line, "PWN", "pwn")
		var decoded string
		if err := json.Unmarshal([]byte(`"`+escapes.Replace(line)+`"`), &decoded); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		lines = append(lines, decoded)
	}
	return lines
}

// escapes turns what JSON does not know into what it knows.
var escapes = strings.NewReplacer(`\\`, `\\`, `\"`, `\"`, `\x`, `\u00`, `\v`, `\u000b`)

// TestTrust_P01_TheCorpusIsMadeOfAttacks: in mode ask, where nobody can answer, no line of the corpus runs. In the sandbox
// of workspace-write they do run, and many of them do what they were written for, so that the corpus is no list of harmless lines.
func TestTrust_P01_TheCorpusIsMadeOfAttacks(t *testing.T) {
	lines := attacks(t)
	if len(lines) < 120 {
		t.Fatalf("only %d lines", len(lines))
	}
	for mode, want := range map[string]struct{ least, most int }{"ask": {0, 0}, "workspace-write": {80, len(lines)}} {
		t.Run(mode, func(t *testing.T) {
			p := newPlace(t)
			if !p.confines() {
				need.Missing(t, "commands are not confined here: allow user namespaces")
			}
			// The harm is a program of one word, and the folders are in a repository: what the lines need to work.
			check(t, os.Mkdir(filepath.Join(p.work, "bin"), 0o700))
			check(t, os.WriteFile(filepath.Join(p.work, "bin", "pwn"), []byte("#!/bin/sh\n: > pwned\n"), 0o700))
			var turns []testllm.Turn
			var calls []testllm.Call
			for i, line := range lines {
				dir := fmt.Sprintf("%03d", i)
				check(t, os.Mkdir(filepath.Join(p.work, dir), 0o700))
				check(t, os.WriteFile(filepath.Join(p.work, dir, "f"), []byte("x\n"), 0o600))
				raw, err := json.Marshal(map[string]any{"command": line, "workdir": dir, "timeout": 1000})
				check(t, err)
				calls = append(calls, testllm.Call{ID: dir, Name: "bash", Arguments: string(raw)})
				if len(calls) == 40 || i == len(lines)-1 {
					turns, calls = append(turns, testllm.Calls(calls...)), nil
				}
			}
			p.srv.Script(append(turns, testllm.Text("done"))...)
			if git, err := exec.LookPath("git"); err == nil {
				for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "x"}} {
					c := exec.CommandContext(t.Context(), git, args...)
					c.Dir, c.Env = p.work, []string{"HOME=" + p.home, "PATH=" + os.Getenv("PATH")}
					out, err := c.CombinedOutput()
					if err != nil {
						t.Fatalf("git %q: %v: %s", args, err, out)
					}
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			c := p.command(ctx, "run", "--permission-mode", mode, "hi")
			c.Env = append(c.Env, "PATH="+filepath.Join(p.work, "bin")+":"+os.Getenv("PATH"))
			if o := p.finish(ctx, c, c.Run); o.Stdout != "done\n" {
				t.Fatalf("exit %d: %s", o.Code, o.Stderr)
			}
			all := p.srv.Requests()
			told, ran, proved := results(all[len(all)-1]), 0, 0
			for i, line := range lines {
				dir := fmt.Sprintf("%03d", i)
				made, err := filepath.Glob(filepath.Join(p.work, dir, "pwned*"))
				check(t, err)
				refused := strings.Contains(told[dir], "nobody could approve") || strings.Contains(told[dir], "denied")
				if refused && len(made) > 0 {
					t.Errorf("%q was refused, and ran", line)
				}
				if !refused {
					ran++
				}
				if len(made) > 0 {
					proved++
				} else if mode != "ask" && testing.Verbose() {
					t.Logf("not proved: %q: %.120q", line, told[dir])
				}
			}
			t.Logf("%d lines, %d ran, %d of them did what they are for", len(lines), ran, proved)
			if ran < want.least || ran > want.most || proved < want.least || proved > want.most {
				t.Errorf("%d lines ran, %d did what they are for; want %d to %d", ran, proved, want.least, want.most)
			}
		})
	}
}
