//go:build unix

package acceptance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dsh-harness/dsh/internal/testllm"
)

// binary is the dsh that all tests run, built once.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "dsh-acceptance-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binary = filepath.Join(dir, "dsh")
	build := exec.Command("go", "build", "-o", binary, "github.com/dsh-harness/dsh/cmd/dsh")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	code := 1
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build dsh: %v\n%s", err, out)
	} else {
		code = m.Run()
	}
	_ = os.RemoveAll(dir) // a temporary folder
	os.Exit(code)
}

// place is an empty home, a folder to work in, and a model server.
type place struct {
	t    *testing.T
	home string
	work string
	srv  *testllm.Server
}

func newPlace(t *testing.T) *place {
	t.Helper()
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	check(t, err)
	p := &place{t: t, home: filepath.Join(dir, "home"), work: filepath.Join(dir, "work"), srv: testllm.New(t)}
	check(t, errors.Join(os.Mkdir(p.home, 0o700), os.Mkdir(p.work, 0o700)))
	return p
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (p *place) file(name, content string) {
	p.t.Helper()
	check(p.t, os.WriteFile(filepath.Join(p.work, name), []byte(content), 0o600))
}

func (p *place) has(name string) bool {
	_, err := os.Lstat(filepath.Join(p.work, name))
	return err == nil
}

// command is dsh with these arguments, in the place; it is ended with the test.
func (p *place) command(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, binary, args...)
	c.Dir = p.work
	c.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + p.home, "DSH_HOME=" + filepath.Join(p.home, "dsh"),
		"DEEPSEEK_API_KEY=sk-test-0123456789", "DEEPSEEK_BASE_URL=" + p.srv.URL,
	}
	c.WaitDelay = time.Second
	return c
}

// outcome is what a run came to.
type outcome struct {
	Stdout, Stderr string
	Code           int
	Took           time.Duration
}

// dsh runs to the end, for at most 30 s.
func (p *place) dsh(args ...string) outcome {
	p.t.Helper()
	return p.dshWith(nil, args...)
}

func (p *place) dshWith(stdin io.Reader, args ...string) outcome {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 30*time.Second)
	defer cancel()
	c := p.command(ctx, args...)
	c.Stdin = stdin
	return p.finish(ctx, c, func() error { return c.Run() })
}

func (p *place) finish(ctx context.Context, c *exec.Cmd, run func() error) outcome {
	p.t.Helper()
	var stdout, stderr bytes.Buffer
	if c.Stdout == nil {
		c.Stdout = &stdout
	}
	c.Stderr = &stderr
	begun := time.Now()
	err := run()
	o := outcome{Stdout: stdout.String(), Stderr: stderr.String(), Took: time.Since(begun)}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		p.t.Fatalf("dsh %q did not end in time; stderr: %s", c.Args[1:], o.Stderr)
	case errors.As(err, &exit):
		o.Code = exit.ExitCode()
	case err != nil:
		p.t.Fatal(err)
	}
	return o
}

// run is a prompt with everything allowed.
func (p *place) run(args ...string) outcome {
	p.t.Helper()
	return p.dsh(append([]string{"run", "--permission-mode", "full-access"}, args...)...)
}

// ok fails the test unless the run completed with that text.
func (p *place) ok(o outcome, text string) {
	p.t.Helper()
	if o.Code != 0 || o.Stdout != text+"\n" {
		p.t.Errorf("exit %d, stdout %q, stderr %q; want exit 0 and %q", o.Code, o.Stdout, o.Stderr, text)
	}
}

func (p *place) play(name string) {
	p.t.Helper()
	c, err := testllm.LoadCase(name)
	check(p.t, err)
	p.srv.Play(c)
}

// requests returns what the model was sent, and fails unless it was that many times.
func (p *place) requests(n int) []testllm.Request {
	p.t.Helper()
	all := p.srv.Requests()
	if len(all) != n {
		p.t.Fatalf("the model got %d requests, want %d", len(all), n)
	}
	return all
}

// results are the tool messages of a request, by call id.
func results(r testllm.Request) map[string]string {
	all := map[string]string{}
	for _, m := range r.Chat.Messages {
		if m.Role == "tool" {
			all[m.ToolCallID] = m.Text()
		}
	}
	return all
}

// calls are the tool calls of a request, in order.
func calls(r testllm.Request) (all []testllm.ToolCall) {
	for _, m := range r.Chat.Messages {
		all = append(all, m.ToolCalls...)
	}
	return all
}

// event is a line of stream-json.
type event struct {
	Seq  *int64
	Type string
	Data struct {
		Reason string
		Cause  string
		Budget string
		Error  *struct{ Code, Message string }
		Usage  *struct{ Input, Output, CacheRead int64 }
	}
}

// atRequest stands for the first request of a run, where no event tells that it has arrived.
const atRequest = "request"

// interrupted starts a run, sends it the signal once an event of that type was
// seen, and returns how it ended, with the events.
func (p *place) interrupted(signal os.Signal, at string, args ...string) (outcome, []event) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 30*time.Second)
	defer cancel()
	c := p.command(ctx, append([]string{"run", "--permission-mode", "full-access", "--output-format", "stream-json"}, args...)...)
	out, w := io.Pipe()
	c.Stdout = w
	var events []event
	read, started := make(chan struct{}), make(chan struct{})
	strike := func() {
		<-started
		_ = c.Process.Signal(signal) // it may have ended by itself; the test sees that
	}
	if at == atRequest {
		go func() {
			if p.srv.Await(ctx, 1) == nil {
				strike()
			}
		}()
	}
	go func() {
		defer close(read)
		lines := bufio.NewReader(out)
		sent := false
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			var e event
			if json.Unmarshal(line, &e) != nil {
				continue
			}
			events = append(events, e)
			if e.Type == at && !sent {
				sent = true
				strike()
			}
		}
	}()
	o := p.finish(ctx, c, func() error {
		check(p.t, c.Start())
		close(started)
		err := c.Wait()
		_ = w.Close() // never fails
		return err
	})
	<-read
	return o, events
}

// logs are the logs of all sessions of the place.
func (p *place) logs() []string {
	p.t.Helper()
	found, err := filepath.Glob(filepath.Join(p.home, "dsh", "state", "sessions", "*", "log.jsonl"))
	check(p.t, err)
	return found
}

// log is the text of the one session's log.
func (p *place) log() string {
	p.t.Helper()
	all := p.logs()
	if len(all) != 1 {
		p.t.Fatalf("%d sessions are stored, want one", len(all))
	}
	text, err := os.ReadFile(all[0])
	check(p.t, err)
	return string(text)
}

// lastEnd is the last turn/end of the one session.
func (p *place) lastEnd() event {
	p.t.Helper()
	var end event
	for line := range strings.Lines(p.log()) {
		if strings.Contains(line, `"type":"turn/end"`) {
			check(p.t, json.Unmarshal([]byte(line), &end))
		}
	}
	return end
}
