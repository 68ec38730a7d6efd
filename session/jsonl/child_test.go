package jsonl

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/session/sessiontest"
)

// childMode makes the test binary behave as another process of ours.
const childMode = "DSH_TEST_JSONL_CHILD"

func TestMain(m *testing.M) {
	switch mode := os.Getenv(childMode); mode {
	case "":
		goleak.VerifyTestMain(m)
	case "write":
		os.Exit(childWrites(os.Args[1], os.Args[2]))
	case "hold":
		os.Exit(childHolds(os.Args[1]))
	default:
		fmt.Fprintf(os.Stderr, "%s=%s is not known\n", childMode, mode)
		os.Exit(2)
	}
}

// child returns the command that runs the test binary in a mode. It does not
// outlive the test.
func child(t testing.TB, mode string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), childMode+"="+mode, "GOCOVERDIR="+t.TempDir(), "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	return cmd
}

// childLog is what the writing children write: n turns.
func childLog(n int) []session.Draft {
	var drafts []session.Draft
	for i := range n {
		drafts = append(drafts, sessiontest.Turn(i+1)...)
	}
	return drafts
}

// childWrites goes on with the session s in dir up to count turns, and prints the number of
// durable events after each batch. It ends with 0 when all is written, with 3 when the
// log could not be written, and says what failed.
func childWrites(dir, count string) int {
	// One thread does all system calls, so that the k-th one is the same in each run.
	runtime.LockOSThread()
	n, err := strconv.Atoi(count)
	if err != nil {
		return 2
	}
	if err := writeTurns(dir, n, func(next int64) { fmt.Println("durable", next) }); err != nil {
		fmt.Println("failed", err)
		return 3
	}
	return 0
}

// writeTurns goes on with the session s in dir up to n turns.
func writeTurns(dir string, n int, durable func(next int64)) error {
	ctx := context.Background()
	b := newBackend(dir, system{}, time.Now)
	l, _, err := b.Open(ctx, "s", nil)
	if errors.Is(err, session.ErrNotFound) {
		l, err = b.Create(ctx, sessiontest.Header("s"), nil)
	}
	drafts := childLog(n)
	for err == nil && l.Next() < int64(len(drafts)) {
		from := l.Next()
		var batch []session.Event
		for _, d := range drafts[from:min(from+4, int64(len(drafts)))] {
			e, failed := d.Event(from+int64(len(batch)), 1_764_540_000_200)
			if failed != nil {
				return failed
			}
			batch = append(batch, e)
		}
		if err = l.Append(ctx, batch); err == nil {
			durable(l.Next())
		}
	}
	if l != nil {
		err = errors.Join(err, l.Close())
	}
	return err
}

// childHolds opens the session s in dir, says how that went and how long it took, and waits
// for its input to end.
func childHolds(dir string) int {
	b := newBackend(dir, system{}, time.Now)
	began := time.Now()
	_, _, err := b.Open(context.Background(), "s", nil)
	took := time.Since(began)
	var locked *session.LockedError
	switch {
	case err == nil:
		fmt.Println("held by", os.Getpid(), took.Milliseconds())
	case errors.As(err, &locked):
		fmt.Println("locked by", locked.Owner.PID, took.Milliseconds())
		return 0
	default:
		fmt.Println("failed", err)
		return 3
	}
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err == nil {
		return 0
	}
	return 0
}

// durable returns the last number of durable events that a child printed.
func durable(output string) (n int64) {
	for line := range strings.Lines(output) {
		if number, ok := strings.CutPrefix(strings.TrimSpace(line), "durable "); ok {
			if v, err := strconv.ParseInt(number, 10, 64); err == nil {
				n = v
			}
		}
	}
	return n
}

// checkChildLog checks that a child's log has what it said, and that another
// life completes it.
func checkChildLog(t testing.TB, dir string, acked int64, turns int) {
	t.Helper()
	want := sessiontest.Events(t, 0, childLog(turns)...)
	for i := range want {
		want[i].Time = 1_764_540_000_200
		want[i] = withoutLine(want[i])
	}
	check := func(least int64) {
		t.Helper()
		v, err := newBackend(dir, system{}, time.Now).Load(t.Context(), "s")
		if errors.Is(err, session.ErrNotFound) && least == 0 {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		var n int64
		for e, err := range v.Events(t.Context(), 0) {
			if err != nil {
				break
			}
			if string(e.Line()) != string(want[n].Line()) {
				t.Fatalf("event %d is %s, want %s", n, e.Line(), want[n].Line())
			}
			n++
		}
		if n < least {
			t.Fatalf("%d events were acknowledged and %d are there", least, n)
		}
	}
	check(acked)
	if err := writeTurns(dir, turns, func(int64) {}); err != nil {
		t.Fatalf("the next start ends with %v", err)
	}
	check(int64(len(want)))
}

func TestTrust_L08_OfEightProcessesOneWrites(t *testing.T) {
	rounds := 3
	if full() {
		rounds = 20
	}
	dir := t.TempDir()
	if err := writeTurns(dir, 1, func(int64) {}); err != nil {
		t.Fatal(err)
	}
	for range rounds {
		type outcome struct {
			cmd  *exec.Cmd
			line string
		}
		outcomes := make(chan outcome, 8)
		for range 8 {
			cmd := child(t, "hold", dir)
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = in.Close() }() // it keeps the winner waiting
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			go func() {
				line, _ := bufio.NewReader(out).ReadString('\n')
				outcomes <- outcome{cmd, strings.TrimSpace(line)}
			}()
		}
		var winner *exec.Cmd
		var owners []string
		for range 8 {
			o := <-outcomes
			what, by, took := "", "", 0
			if _, err := fmt.Sscanf(strings.Replace(o.line, " by", "", 1), "%s %s %d", &what, &by, &took); err != nil {
				t.Fatalf("a process says %q", o.line)
			}
			if took > 100 {
				t.Errorf("a process was told %q only after %d ms", what, took)
			}
			if what == "held" {
				if winner != nil {
					t.Fatal("two processes hold the log")
				}
				winner = o.cmd
				continue
			}
			owners = append(owners, by)
			if err := o.cmd.Wait(); err != nil {
				t.Error(err)
			}
		}
		if winner == nil || len(owners) != 7 {
			t.Fatalf("%d processes were refused and one held the log: %v", len(owners), winner != nil)
		}
		// A process that came in the instant between the lock and its content
		// does not know the owner yet; one that comes now does.
		out, err := child(t, "hold", dir).Output()
		if want := fmt.Sprintf("locked by %d", winner.Process.Pid); err != nil || !strings.HasPrefix(string(out), want) {
			t.Errorf("a latecomer is told %q, %v; want %q", out, err, want)
		}
		// Nothing but the end of its process frees the lock.
		if err := winner.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = winner.Wait() // it was killed
		b := newBackend(dir, system{}, time.Now)
		l, _, err := b.Open(t.Context(), "s", nil)
		if err != nil {
			t.Fatalf("after the writer was killed: %v", err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "s", lockName)); err != nil {
		t.Errorf("the lock's file is gone: %v", err)
	}
}

func TestTrust_L04_RandomKillsLoseNothingThatWasAcknowledged(t *testing.T) {
	kills := 20
	if full() {
		kills = 200
	}
	midway := 0
	for i := range kills {
		dir := t.TempDir()
		const turns = 12
		cmd := child(t, "write", dir, strconv.Itoa(turns))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// It is killed after some number of acknowledgements, wherever it then is.
		var output strings.Builder
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			output.WriteString(lines.Text() + "\n")
			if n == i*5%27 {
				if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
					t.Fatal(err)
				}
			}
		}
		if err := cmd.Wait(); err != nil {
			midway++
		}
		checkChildLog(t, dir, durable(output.String()), turns)
	}
	if midway == 0 {
		t.Error("no process was killed midway")
	}
	t.Logf("%d kills, %d of them midway", kills, midway)
}
