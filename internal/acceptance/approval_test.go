//go:build unix

package acceptance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/dsh-harness/dsh/internal/need"
	"github.com/dsh-harness/dsh/internal/testllm"
)

// screen is dsh on a terminal: standard input and standard error are the terminal, standard output is a file.
type screen struct {
	t      *testing.T
	cmd    *exec.Cmd
	tty    *os.File
	stdout bytes.Buffer

	mu   sync.Mutex
	text string
	more chan struct{} // has a value when text has grown
	over chan struct{} // the terminal was read to its end
	seen int           // how much of the text was waited for
}

// screen starts dsh on a terminal.
func (p *place) screen(ctx context.Context, env []string, args ...string) *screen {
	p.t.Helper()
	tty, theirs, err := pty.Open()
	check(p.t, err)
	check(p.t, pty.Setsize(tty, &pty.Winsize{Rows: 40, Cols: 100}))
	s := &screen{t: p.t, cmd: p.command(ctx, args...), tty: tty, more: make(chan struct{}, 1), over: make(chan struct{})}
	s.cmd.Env = append(s.cmd.Env, append([]string{"NO_COLOR=1"}, env...)...)
	s.cmd.Stdin, s.cmd.Stderr, s.cmd.Stdout = theirs, theirs, &s.stdout
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	check(p.t, s.cmd.Start())
	check(p.t, theirs.Close())
	go s.read()
	p.t.Cleanup(func() { _ = tty.Close() }) // closed already, as a rule
	return s
}

func (s *screen) read() {
	defer close(s.over)
	buffer := make([]byte, 4096)
	for {
		n, err := s.tty.Read(buffer)
		s.mu.Lock()
		s.text += string(buffer[:n])
		s.mu.Unlock()
		select {
		case s.more <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

func (s *screen) all() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.ReplaceAll(s.text, "\r\n", "\n")
}

// await waits until the screen shows text that it has not shown when the last wait ended.
func (s *screen) await(text string) {
	s.t.Helper()
	late := time.After(20 * time.Second)
	for {
		all := s.all()
		if i := strings.Index(all[s.seen:], text); i >= 0 {
			s.seen += i + len(text)
			return
		}
		select {
		case <-s.more:
		case <-s.over:
			if !strings.Contains(s.all()[s.seen:], text) {
				s.t.Fatalf("dsh ended, and the screen does not show %q:\n%s", text, s.all())
			}
		case <-late:
			s.t.Fatalf("the screen does not show %q:\n%s", text, s.all())
		}
	}
}

// key waits for the question and types an answer.
func (s *screen) key(line string) {
	s.t.Helper()
	s.await("no, because …:")
	s.types(line + "\n")
}

func (s *screen) types(text string) {
	s.t.Helper()
	_, err := io.WriteString(s.tty, text)
	check(s.t, err)
}

// end waits for the end of dsh and returns its exit code. What runs on is killed by the context of the screen.
func (s *screen) end() int {
	s.t.Helper()
	err := s.cmd.Wait()
	<-s.over
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.t.Fatal(err)
	}
	return s.cmd.ProcessState.ExitCode()
}

func shell(id, command string) testllm.Call {
	arguments, _ := json.Marshal(map[string]string{"command": command}) // strings can be encoded
	return testllm.Call{ID: id, Name: "bash", Arguments: string(arguments)}
}

// audited are the types and outcomes of the questions in a log.
func audited(log string) []string {
	var all []string
	for _, m := range regexp.MustCompile(`"type":"approval/(asked|decided)".*?"(?:callId|outcome)":"([^"]*)"`).FindAllStringSubmatch(log, -1) {
		all = append(all, m[1]+" "+m[2])
	}
	return all
}

// Each key at the question does what it says, and the turn goes on.
func TestApproval_TheTerminal(t *testing.T) {
	for _, c := range []struct {
		name    string
		command string
		env     []string
		answer  func(*testing.T, *screen)
		made    string // the file that is there afterwards
		result  string // what the model is told
		audit   string
	}{
		{"yes", "echo x > made", nil, func(_ *testing.T, s *screen) { s.key("y") }, "made", "exit code 0", "decided allowed"},
		{"no", "echo x > made", nil, func(_ *testing.T, s *screen) { s.key("n") }, "", "denied: the user did not allow it", "decided rejected"},
		{"no, and why", "echo x > made", nil, func(_ *testing.T, s *screen) { s.key("r use make instead") }, "", "denied: use make instead", "decided rejected"},
		{"no, and why on a line of its own", "echo x > made", nil, func(_ *testing.T, s *screen) {
			s.key("r")
			s.await("why not:")
			s.types("not today\n")
		}, "", "denied: not today", "decided rejected"},
		{"anything else asks again", "echo x > made", nil, func(_ *testing.T, s *screen) {
			for _, line := range []string{"", "yes please", "Y!", "a9", "\x1b[A"} {
				s.key(line)
			}
			s.key("Y")
		}, "made", "exit code 0", "decided allowed"},
		{"another command on a line", "echo x > made", nil, func(_ *testing.T, s *screen) {
			s.key("e")
			s.await("instead:")
			s.types("echo y > other\n")
		}, "other", "exit code 0", "decided allowed"},
		{"another command in an editor", "echo x > made", []string{"EDITOR=sed -i s/made/other/"}, func(_ *testing.T, s *screen) { s.key("e") }, "other", "exit code 0", "decided allowed"},
		{"an editor that fails asks again", "echo x > made", []string{"VISUAL=false"}, func(_ *testing.T, s *screen) {
			s.key("e")
			s.await("edit with false")
			s.key("n")
		}, "", "denied: the user did not allow it", "decided rejected"},
		{"the end of the input", "echo x > made", nil, func(_ *testing.T, s *screen) {
			s.await("no, because …:")
			s.types("\x04")
		}, "", "nobody could approve", "decided unavailable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlace(t)
			p.srv.Script(testllm.Calls(shell("one", c.command)), testllm.Text("done"))
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			s := p.screen(ctx, c.env, "run", "--permission-mode", "ask", "hi")
			c.answer(t, s)
			want := map[bool]int{true: 3}[c.audit == "decided unavailable"]
			if code := s.end(); code != want || s.stdout.String() != "done\n" {
				t.Errorf("exit %d, want %d; stdout %q; the screen:\n%s", code, want, s.stdout.String(), s.all())
			}
			for _, name := range []string{"made", "other"} {
				if p.has(name) != (name == c.made) {
					t.Errorf("%s is there: %v; the screen:\n%s", name, p.has(name), s.all())
				}
			}
			if got := results(p.requests(2)[1])["one"]; !strings.Contains(got, c.result) {
				t.Errorf("the model was told %q, want …%s…", got, c.result)
			}
			if got := audited(p.log()); len(got) != 2 || !strings.HasPrefix(got[0], "asked c") || got[1] != c.audit {
				t.Errorf("the log has %q, want asked and %s", got, c.audit)
			}
		})
	}
}

// What is to be approved is on the screen as a whole, and nothing in it acts on the screen.
func TestTrust_P10_TheScreenShowsAllOfACommand(t *testing.T) {
	p := newPlace(t)
	command := "echo " + strings.Repeat("a", 300) + strings.Repeat(" ", 2000) + "; touch made \x1b[2J\r# p\u0430ypal \u202etxt"
	p.srv.Script(testllm.Calls(shell("one", command)), testllm.Text("done"))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	s := p.screen(ctx, nil, "run", "--permission-mode", "ask", "hi")
	s.key("n")
	if code := s.end(); code != 0 {
		t.Errorf("exit %d:\n%s", code, s.all())
	}
	_, question, _ := strings.Cut(s.all(), "? bash wants to run")
	question, _, _ = strings.Cut(question, "because:")
	if strings.ContainsAny(question, "\x1b\r") {
		t.Errorf("the screen was controlled: %q", question)
	}
	one := regexp.MustCompile(`\n\s*┆ `).ReplaceAllString(question, "")
	if want := "echo " + strings.Repeat("a", 300) + "⟨2000 blanks⟩; touch made ⟨ESC⟩[2J⟨CR⟩# p⟨Cyrillic а⟩ypal ⟨U+202E⟩txt"; !strings.Contains(one, want) {
		t.Errorf("the screen shows\n%s\nwant\n%s", one, want)
	}
}

// What is always allowed is not asked about in the next run, and what is allowed for the session not in this one.
func TestApproval_ARuleIsRemembered(t *testing.T) {
	p := newPlace(t)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	p.srv.Script(testllm.Calls(shell("one", "mkdir one")), testllm.Calls(shell("two", "mkdir one")), testllm.Text("done"))
	s := p.screen(ctx, nil, "run", "--permission-mode", "ask", "hi")
	s.await("Bash(mkdir one)")
	s.key("s")
	if code := s.end(); code != 0 || strings.Count(s.all(), "no, because …:") != 1 {
		t.Errorf("exit %d; the screen:\n%s", code, s.all())
	}
	p.srv.Script(testllm.Calls(shell("one", "mkdir two")), testllm.Text("done"))
	s = p.screen(ctx, nil, "run", "--permission-mode", "ask", "hi")
	s.key("a")
	if code := s.end(); code != 0 {
		t.Errorf("exit %d; the screen:\n%s", code, s.all())
	}
	p.srv.Script(testllm.Calls(shell("one", "mkdir two")), testllm.Calls(shell("two", "mkdir one")), testllm.Text("done"))
	o := p.dsh("run", "--permission-mode", "ask", "hi")
	if o.Code != 3 || !strings.Contains(o.Stderr, "nobody could approve bash (c1_2_0)") {
		t.Errorf("exit %d, want 3 for the second call alone; stderr: %s", o.Code, o.Stderr)
	}
}

// What the sandbox refused is asked about, and exactly that command runs once more with it; a control file that
// was approved can be written in the sandbox.
func TestApproval_WhatTheSandboxRefuses(t *testing.T) {
	for _, c := range []struct {
		name, command string
		questions     []string // what each shows
		key           string
		made          []string
		result        string
	}{
		{"allowed", "echo x >> twice; echo x > ELSEWHERE", []string{"could then write"}, "y", []string{"twice", "ELSEWHERE"}, "this is the second run, after the user allowed writing "},
		{"denied", "echo x >> twice; echo x > ELSEWHERE", []string{"could then write"}, "r no", []string{"twice"}, "the user was asked to allow it: no]"},
		{"a control file", "echo x > AGENTS.md", []string{"is a control file"}, "y", []string{"AGENTS.md"}, "exit code 0"},
		{"a control file that is not named", "f=AGENTS; echo x > $f.md", []string{"could then write"}, "y", []string{"AGENTS.md"}, "this is the second run"},
		{"a folder of control files", "mkdir -p .vscode && echo x > .vscode/settings.json", []string{"is a control file"}, "y", []string{".vscode/settings.json"}, "exit code 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlace(t)
			if !p.confines() {
				need.Missing(t, "commands are not confined here: allow user namespaces")
			}
			made := filepath.Join(elsewhere(t), "made")
			c.command = strings.ReplaceAll(c.command, "ELSEWHERE", made)
			p.srv.Script(testllm.Calls(shell("one", c.command)), testllm.Text("done"))
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			s := p.screen(ctx, nil, "run", "hi")
			for _, question := range c.questions {
				s.await(question)
				s.key(c.key)
			}
			if code := s.end(); code != 0 {
				t.Errorf("exit %d; the screen:\n%s", code, s.all())
			}
			if _, err := os.Lstat(made); (err == nil) != slices.Contains(c.made, "ELSEWHERE") {
				t.Errorf("%s: %v; the screen:\n%s", made, err, s.all())
			}
			for _, name := range []string{"twice", "AGENTS.md", ".vscode/settings.json"} {
				if p.has(name) != slices.Contains(c.made, name) {
					t.Errorf("%s is there: %v; the screen:\n%s", name, p.has(name), s.all())
				}
			}
			if got := results(p.requests(2)[1])["one"]; !strings.Contains(got, c.result) {
				t.Errorf("the model was told %q, want …%s…", got, c.result)
			}
			if got := audited(p.log()); len(got) != 2*len(c.questions) {
				t.Errorf("the log has %q", got)
			}
		})
	}
}

// elsewhere is a folder that a command sees and may not write. Temporary folders are none: commands have their own.
func elsewhere(t *testing.T) string {
	t.Helper()
	var dir string
	var err error
	for _, base := range []string{"/srv", "/opt", "/var/lib", "."} {
		if dir, err = os.MkdirTemp(base, "dsh-elsewhere-"); err == nil {
			break
		}
	}
	check(t, err)
	t.Cleanup(func() { check(t, os.RemoveAll(dir)) }) // it holds one file at most
	dir, err = filepath.Abs(dir)
	check(t, err)
	return dir
}

// Where nobody is there, what the sandbox refused is a result like any other, and no call that was left unanswered.
func TestApproval_ARefusalWithoutAnybody(t *testing.T) {
	p := newPlace(t)
	if !p.confines() {
		need.Missing(t, "commands are not confined here: allow user namespaces")
	}
	made := filepath.Join(elsewhere(t), "made")
	p.srv.Script(testllm.Calls(shell("one", "echo x > "+made)), testllm.Text("done"))
	p.ok(p.dsh("run", "hi"), "done")
	if got := results(p.requests(2)[1])["one"]; !strings.Contains(got, "nobody could be asked to allow it; the user can allow folders with --add-dir") {
		t.Errorf("the model was told %q", got)
	}
	if _, err := os.Lstat(made); err == nil || len(audited(p.log())) > 0 {
		t.Errorf("the log has %q; made: %v", audited(p.log()), err == nil)
	}
}

// Ctrl-C at a question ends the turn like anywhere else, and nothing runs.
func TestApproval_CtrlCAtAQuestion(t *testing.T) {
	p := newPlace(t)
	p.srv.Script(testllm.Calls(shell("one", "echo x > made")))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	s := p.screen(ctx, nil, "run", "--permission-mode", "ask", "hi")
	s.await("no, because …:")
	begun := time.Now()
	s.types("\x03")
	if code := s.end(); code != 130 {
		t.Errorf("exit %d, want 130; the screen:\n%s", code, s.all())
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	if p.has("made") {
		t.Error("the command ran")
	}
	if got, want := audited(p.log()), []string{"asked c1_1_0", "decided withdrawn"}; !slices.Equal(got, want) {
		t.Errorf("the log has %q, want %q", got, want)
	}
	if end := p.lastEnd(); end.Data.Reason != "aborted" {
		t.Errorf("the turn ended as %q", end.Data.Reason)
	}
}

// Two calls ask at once: one question after the other is on the screen, and each answer goes to its call.
func TestCase_o_apr_04_TwoQuestionsAtOnce(t *testing.T) {
	p := newPlace(t)
	p.srv.Script(testllm.Calls(shell("one", "echo x > first"), shell("two", "echo x > second")), testllm.Text("done"))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	s := p.screen(ctx, nil, "run", "--permission-mode", "ask", "hi")
	for range 2 {
		from := s.seen
		s.await("because:")
		if strings.Contains(s.all()[from:s.seen], "> first") {
			s.key("n")
		} else {
			s.key("y")
		}
	}
	if code := s.end(); code != 0 {
		t.Errorf("exit %d; the screen:\n%s", code, s.all())
	}
	if p.has("first") || !p.has("second") {
		t.Errorf("first is there: %v, second: %v", p.has("first"), p.has("second"))
	}
	res := results(p.requests(2)[1])
	if !strings.Contains(res["one"], "denied") || !strings.Contains(res["two"], "exit code 0") {
		t.Errorf("the model was told %q", res)
	}
	if got := audited(p.log()); len(got) != 4 {
		t.Errorf("the log has %q", got)
	}
}

// Without a terminal nobody is waited for, nor with --no-ask: what would ask does not run, and the exit code tells.
func TestTrust_P08_WhereNobodyIsAskedNothingRuns(t *testing.T) {
	for name, terminal := range map[string]bool{"no terminal": false, "--no-ask": true} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.srv.Script(testllm.Calls(shell("one", "echo x > made"), testllm.Call{ID: "two", Name: "write", Arguments: `{"file_path":"made","content":"x"}`}), testllm.Text("done"))
			args := []string{"run", "--permission-mode", "ask", "hi"}
			var code int
			var told string
			if terminal {
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				s := p.screen(ctx, nil, append(args, "--no-ask")...)
				code, told = s.end(), s.all()
			} else {
				o := p.dsh(args...)
				code, told = o.Code, o.Stderr
			}
			if code != 3 || !strings.Contains(told, "dsh: nobody could approve ") || !strings.Contains(told, "bash (c1_1_0)") || !strings.Contains(told, "write (c1_1_1)") || p.has("made") {
				t.Errorf("exit %d, want 3; made: %v; told: %s", code, p.has("made"), told)
			}
			got := audited(p.log())
			slices.Sort(got) // they are asked at once
			if want := []string{"asked c1_1_0", "asked c1_1_1", "decided unavailable", "decided unavailable"}; !slices.Equal(got, want) {
				t.Errorf("the log has %q, want %q", got, want)
			}
		})
	}
}
