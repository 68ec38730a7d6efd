//go:build unix

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/tool"
)

// typist is the other side of a terminal: what is shown, and who types.
type typist struct {
	t    *testing.T
	tty  *os.File
	mu   sync.Mutex
	text string
	more chan struct{}
}

func newDesk(t *testing.T) (*desk, *typist) {
	t.Helper()
	tty, theirs, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	y := &typist{t: t, tty: tty, more: make(chan struct{}, 1)}
	over := make(chan struct{})
	go func() {
		defer close(over)
		buffer := make([]byte, 4096)
		for {
			n, err := tty.Read(buffer)
			y.mu.Lock()
			y.text += string(buffer[:n])
			y.mu.Unlock()
			select {
			case y.more <- struct{}{}:
			default:
			}
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = theirs.Close() // the reader sees the end
		<-over
		_ = tty.Close()
	})
	w := &progress{painter: painter{out: stream{theirs, true}}, width: 80, calls: map[string]call{}}
	return &desk{
		painter: w.painter, in: theirs, lookup: func(string) (string, bool) { return "", false }, progress: w, turn: make(chan struct{}, 1),
	}, y
}

func (y *typist) shown() string {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.text
}

// await waits until text is shown that many times.
func (y *typist) await(text string, times int) {
	y.t.Helper()
	late := time.After(20 * time.Second)
	for strings.Count(y.shown(), text) < times {
		select {
		case <-y.more:
		case <-late:
			y.t.Fatalf("not shown %d times: %q in\n%s", times, text, y.shown())
		}
	}
}

func (y *typist) types(text string) {
	y.t.Helper()
	if _, err := io.WriteString(y.tty, text); err != nil {
		y.t.Fatal(err)
	}
}

func question(command string) policy.Request {
	arguments, _ := json.Marshal(map[string]string{"command": command}) // strings can be encoded
	return policy.Request{
		Call:     &tool.Call{Name: "bash", Arguments: arguments},
		Accesses: []tool.Access{{Kind: tool.AccessExecute, Target: command}}, Reason: "the mode asks",
		Rules: []string{"Bash(" + command + ")", "Bash(make:*)"},
	}
}

type answered struct {
	answer policy.Answer
	err    error
}

func (d *desk) asked(ctx context.Context, r policy.Request) chan answered {
	done := make(chan answered, 1)
	go func() {
		answer, err := d.Answer(ctx, r)
		done <- answered{answer, err}
	}()
	return done
}

const prompt = "no, because …:"

// What was typed before a question is no answer to it, and questions come one after another.
func TestTheDeskTakesOneQuestionAfterAnother(t *testing.T) {
	d, y := newDesk(t)
	y.types("y\ny\ny\n")
	y.await("y\r\ny\r\ny\r\n", 1) // the terminal has it
	first := d.asked(t.Context(), question("make one"))
	y.await(prompt, 1)
	second := d.asked(t.Context(), question("make two"))
	y.types("a2\n")
	got := <-first
	if got.err != nil || got.answer.Remember != policy.ForUser || got.answer.Rule != "Bash(make:*)" || !got.answer.Allow {
		t.Errorf("the first got %+v", got)
	}
	y.await(prompt, 2)
	if strings.Contains(strings.SplitN(y.shown(), prompt, 2)[0], "make two") {
		t.Errorf("both questions stand at once:\n%s", y.shown())
	}
	y.types("n\n")
	if got := <-second; got.err != nil || got.answer.Allow {
		t.Errorf("the second got %+v", got)
	}
}

// A question that is answered elsewhere, or withdrawn, leaves the terminal, and what is typed then is nobody's answer.
func TestAQuestionThatIsOverLeavesTheTerminal(t *testing.T) {
	d, y := newDesk(t)
	for i, c := range []struct {
		cause error
		shown string
	}{
		{&policy.AnsweredError{By: "the editor"}, "(answered by the editor)"},
		{errors.New("the turn is over"), "(the question is withdrawn)"},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		done := d.asked(ctx, question("make"))
		y.await(prompt, i+1)
		cancel(c.cause)
		if got := <-done; got.answer.Allow || !errors.Is(got.err, c.cause) {
			t.Errorf("got %+v", got)
		}
		y.await(c.shown, 1)
	}
	// One that waits for its turn is withdrawn as well.
	first := d.asked(t.Context(), question("make"))
	y.await(prompt, 3)
	ctx, cancel := context.WithCancel(t.Context())
	second := d.asked(ctx, question("make"))
	cancel()
	if got := <-second; got.answer.Allow || got.err == nil {
		t.Errorf("the waiting one got %+v", got)
	}
	y.types("y\n")
	if got := <-first; !got.answer.Allow || got.err != nil {
		t.Errorf("the first got %+v", got)
	}
}

// What happens meanwhile is shown behind the question.
func TestProgressWaitsForTheQuestion(t *testing.T) {
	d, y := newDesk(t)
	done := d.asked(t.Context(), question("make"))
	y.await(prompt, 1)
	data, err := json.Marshal(session.ToolCallData{CallID: "c1_1_1", Name: "read", Arguments: `{"file_path":"a.txt"}`})
	if err != nil {
		t.Fatal(err)
	}
	d.progress.event(session.Event{Type: session.ToolCall, Data: data})
	y.types("v\n")
	y.await(prompt, 2)
	if strings.Contains(y.shown(), "→ read") {
		t.Errorf("progress is written into the question:\n%s", y.shown())
	}
	y.types("y\n")
	<-done
	y.await("→ read a.txt", 1)
}

func TestTheEndOfTheInputIsNoAnswer(t *testing.T) {
	d, y := newDesk(t)
	done := d.asked(t.Context(), question("make"))
	y.await(prompt, 1)
	y.types("\x04") // the end of the input
	if got := <-done; got.answer.Allow || !errors.Is(got.err, io.EOF) {
		t.Errorf("got %+v", got)
	}
}
