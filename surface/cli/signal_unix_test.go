//go:build unix

package cli_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dsh-harness/dsh/internal/testllm"
)

// job is a run in the background.
type job struct {
	*exec.Cmd
	b              *box
	stdout, stderr bytes.Buffer
}

func (b *box) start(args ...string) *job {
	b.t.Helper()
	cmd, cancel := b.command(args...)
	j := &job{Cmd: cmd, b: b}
	cmd.Stdout, cmd.Stderr = &j.stdout, &j.stderr
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(cancel)
	return j
}

func (j *job) wait() outcome {
	j.b.t.Helper()
	err := j.Cmd.Wait()
	return j.b.outcome(j.Cmd, err, &j.stdout, &j.stderr)
}

func (j *job) signal(s os.Signal) {
	j.b.t.Helper()
	if err := j.Process.Signal(s); err != nil {
		j.b.t.Fatal(err)
	}
}

func TestSignalsCloseTheTurn(t *testing.T) {
	for _, test := range []struct {
		name   string
		signal os.Signal
		code   int
		reason string
		end    string
	}{
		{"SIGINT", os.Interrupt, 130, "aborted", `"reason":"aborted","cause":"user"`},
		{"SIGTERM", syscall.SIGTERM, 143, "disposed", `"reason":"disposed"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			b.llm.Script(testllm.Turn{Status: 200, End: testllm.Hold}, testllm.Text("ok"))
			j := b.start("run", "--output-format", "json", "--session-id", "s", "go")
			b.await(1)
			began := time.Now()
			j.signal(test.signal)
			o := j.wait()
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("it took %v", took)
			}
			if got := decode(t, o.stdout); o.code != test.code || got.Reason != test.reason {
				t.Errorf("%+v", o)
			}
			if log := string(b.read(b.log("s"))); !strings.Contains(last(log), test.end) {
				t.Errorf("the log ends with %s", last(log))
			}
			b.run("sessions", "verify", "s").want(t, 0, b.run("sessions", "verify", "s").stdout)
			b.run("-r", "s", "again").want(t, 0, "ok\n")
		})
	}
}

func TestASignalEndsWhatACommandRuns(t *testing.T) {
	b := newBox(t)
	ready := filepath.Join(b.dir, "ready")
	if err := syscall.Mkfifo(ready, 0o600); err != nil {
		t.Fatal(err)
	}
	b.llm.Script(testllm.Calls(testllm.Call{Name: "bash", Arguments: `{"command":"echo $$ > ready; exec sleep 60"}`}))
	j := b.start("run", "--permission-mode", "full-access", "--session-id", "s", "go")
	pid := strings.TrimSpace(string(b.read(ready))) // waits for the command
	j.signal(os.Interrupt)
	j.wait().want(t, 130, "", "aborted")
	if _, err := os.Stat("/proc/" + pid); err == nil {
		t.Errorf("the command %s still runs", pid)
	}
	if log := string(b.read(b.log("s"))); !strings.Contains(log, `"type":"tool/result"`) || !strings.Contains(last(log), `"turn/end"`) {
		t.Errorf("the log is not complete:\n%s", log)
	}
}

// A second signal does not wait for anything, and still leaves nothing running.
func TestASecondSignalEndsAtOnce(t *testing.T) {
	b := newBox(t)
	alive := filepath.Join(b.dir, "alive")
	if err := syscall.Mkfifo(alive, 0o600); err != nil {
		t.Fatal(err)
	}
	b.llm.Script(testllm.Calls(testllm.Call{Name: "bash", Arguments: `{"command":"trap '' TERM INT; exec 3>alive; echo ready >&3; sleep 60"}`}))
	j := b.start("run", "--permission-mode", "full-access", "--session-id", "s", "go")
	reader, err := os.Open(alive) // waits for the command
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if _, err := reader.Read(make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	j.signal(os.Interrupt)
	j.signal(syscall.SIGTERM)
	if o := j.wait(); o.code != 130 && o.code != 143 || o.stdout != "" {
		t.Errorf("%+v", o)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("it took %v", took)
	}
	if _, err := io.ReadAll(reader); err != nil { // ends when nobody has it open any more
		t.Error(err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the command lived on for %v", took)
	}
	b.llm.Script(testllm.Text("ok"))
	b.run("-r", "s", "again").want(t, 0, "ok\n", "turn 1 had been cut off", "1 calls")
}

func TestAnInterruptionCountsBeforeADenial(t *testing.T) {
	b := newBox(t)
	b.llm.Script(lookAtOutside, testllm.Turn{Status: 200, End: testllm.Hold})
	j := b.start("run", "--permission-mode", "ask", "go")
	b.await(2)
	j.signal(os.Interrupt)
	j.wait().want(t, 130, "", "aborted")
}

func TestReloadReachesARunningProcess(t *testing.T) {
	b := newBox(t)
	config := filepath.Join(b.home, "config", "cordis.yml")
	if err := os.MkdirAll(filepath.Dir(config), 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	hold := make(chan struct{})
	turn := testllm.Text("ok")
	turn.Wait = hold
	b.llm.Script(turn)
	b.run("config", "reload").want(t, 1, "", "no process is running")
	j := b.start("run", "--session-id", "s", "go")
	b.await(1)

	o := b.run("config", "reload")
	o.want(t, 0, o.stdout)
	if !strings.Contains(o.stdout, "session s: reloaded, nothing was different") {
		t.Error(o.stdout)
	}
	write("- id: repetition-guard\n  config: {limit: 9}\n")
	o = b.run("config", "reload")
	if o.code != 0 || !strings.Contains(o.stdout, "repetition-guard re") {
		t.Errorf("%+v", o)
	}
	write("- id: repetition-guard\n  config: {limt: 9}\n")
	o = b.run("config", "reload")
	if o.code != 1 || !strings.Contains(o.stdout, "nothing changed") || !strings.Contains(o.stdout, `cordis.yml:2:12: repetition-guard: unknown key "limt"; did you mean "limit"?`) {
		t.Errorf("%+v", o)
	}
	b.run("config", "reload", "1").want(t, 2, "", "no running process has the number 1")
	close(hold)
	j.wait().want(t, 0, "ok\n", "limt") // it said so, and went on
	b.run("config", "reload").want(t, 1, "", "no process is running")
}
